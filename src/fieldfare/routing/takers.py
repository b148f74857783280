"""All subscriptions of a broker that are in force, by tenant and id."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from fieldfare.routing.taker import Taker


class Takers:
    """The takers of a broker. A handle is a small number that stands for one of them in indexes and timers."""

    def __init__(self) -> None:
        self._takers: dict[tuple[str, str], Taker] = {}
        self._counts: dict[str, int] = {}  # of each tenant, those that are just being made included
        self._handles = count(1)

    def __len__(self) -> int:
        return len(self._takers)

    def __iter__(self) -> Iterator[Taker]:
        return iter(list(self._takers.values()))

    def new_handle(self) -> int:
        """A handle that was never used."""
        return next(self._handles)

    def get(self, tenant: str, subscription_id: str) -> Taker | None:
        """The taker of a subscription, if it is in force."""
        return self._takers.get((tenant, subscription_id))

    def of_handle(self, tenant: str, subscription_id: str, handle: int) -> Taker | None:
        """The same, if it is still that one, and not a later one of the same name."""
        taker = self._takers.get((tenant, subscription_id))
        return taker if taker is not None and taker.handle == handle else None

    def of_tenant(self, tenant: str) -> Iterator[Taker]:
        """Those of one tenant."""
        return (taker for (owner, _), taker in self._takers.items() if owner == tenant)

    def count_of(self, tenant: str) -> int:
        """How many a tenant has, those that are just being made included."""
        return self._counts.get(tenant, 0)

    def reserve(self, tenant: str) -> None:
        """A subscription is being made."""
        self._counts[tenant] = self._counts.get(tenant, 0) + 1

    def release(self, tenant: str) -> None:
        """A subscription that was being made comes to nothing."""
        self._counts[tenant] -= 1

    def insert(self, taker: Taker) -> None:
        """A subscription, for which a place was reserved, is in force."""
        self._takers[taker.subscription.key] = taker

    def remove(self, taker: Taker) -> None:
        """A subscription has ended."""
        del self._takers[taker.subscription.key]
        self._counts[taker.subscription.tenant] -= 1
