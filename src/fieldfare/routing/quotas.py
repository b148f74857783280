"""Quotas: how much one tenant may use of a broker that others use too.

What is beyond a quota is refused with the reason; nothing of it happens. Bytes count from the moment an event is
stored until it expires, in steps of a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from fieldfare.messages import KeptBytes
from fieldfare.routing.refusal import Refusal

EVERY_TENANT = "*"  # the quota of tenants that have none of their own
_STEP_SECONDS = 60.0
_BURST_SECONDS = 2.0  # so much of a rate may be used at once


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tenant may use; None: as much as there is."""

    events_per_second: float | None = None
    subscriptions_max: int | None = None
    connections_max: int | None = None
    kept_bytes_max: int | None = None


class Usage(NamedTuple):
    """What a tenant uses now, and its quota."""

    subscriptions: int
    connections: int
    kept_bytes: int
    quota: Quota


@dataclass(slots=True)
class _Tenant:
    quota: Quota
    allowance: float = 0.0  # events that may be published at once
    counted_at: float | None = None
    connections: int = 0
    kept_bytes: dict[int, int] = field(default_factory=dict)  # by the step of time in which they expire


class Quotas:
    """The quotas of a broker's tenants, and what they use of them."""

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._quotas = quotas
        self._tenants: dict[str, _Tenant] = {}

    def _tenant(self, name: str) -> _Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            quota = self._quotas.get(name) or self._quotas.get(EVERY_TENANT) or Quota()
            tenant = self._tenants[name] = _Tenant(quota)
        return tenant

    # Events

    def check_events(self, name: str, count: int, now: float) -> None:
        """Refuse events that come too fast, or for which there is no room."""
        tenant = self._tenant(name)
        if (most := tenant.quota.kept_bytes_max) is not None and _kept_bytes(tenant, now) >= most:
            raise Refusal(
                "limit", f"this tenant keeps {most:,} bytes of events already, its quota: wait until some expire"
            )
        if (rate := tenant.quota.events_per_second) is None:
            return
        burst = max(rate * _BURST_SECONDS, 1.0)
        since = burst / rate if tenant.counted_at is None else now - tenant.counted_at
        tenant.allowance, tenant.counted_at = min(burst, tenant.allowance + since * rate), now
        if tenant.allowance <= 0:
            wait_seconds = -tenant.allowance / rate
            raise Refusal(
                "busy", f"this tenant's quota is {rate:g} events a second: try again in {max(wait_seconds, 0.1):.1f} s"
            )
        tenant.allowance -= count  # below zero: a large publication is taken, and paid for by waiting

    def keep(self, name: str, size_bytes: int, expires_at: float) -> None:
        """Events were stored."""
        tenant = self._tenant(name)
        if tenant.quota.kept_bytes_max is not None:
            step = int(expires_at // _STEP_SECONDS)
            tenant.kept_bytes[step] = tenant.kept_bytes.get(step, 0) + size_bytes

    # Connections and subscriptions

    def connect(self, name: str) -> str | None:
        """A client connects; why it may not, if it may not."""
        tenant = self._tenant(name)
        if (most := tenant.quota.connections_max) is not None and tenant.connections >= most:
            return f"this tenant has {most:,} connections already, its quota: close one first"
        tenant.connections += 1
        return None

    def disconnect(self, name: str) -> None:
        """A client is gone."""
        self._tenant(name).connections -= 1

    def check_subscriptions(self, name: str, count: int) -> None:
        """Refuse a subscription of a tenant that has so many."""
        most = self._tenant(name).quota.subscriptions_max
        if most is not None and count >= most:
            raise Refusal("limit", f"this tenant has {most:,} subscriptions already, its quota: end some first")

    # For those who watch, and for the log

    def usage(self, name: str, subscriptions: int, now: float) -> Usage:
        """What a tenant uses now."""
        tenant = self._tenant(name)
        return Usage(subscriptions, tenant.connections, _kept_bytes(tenant, now), tenant.quota)

    def state(self) -> Iterator[KeptBytes]:
        """What a checkpoint has to hold: the events that it stands for are not read again."""
        for name, tenant in self._tenants.items():
            if tenant.kept_bytes:
                yield KeptBytes(name, dict(tenant.kept_bytes))

    def recover(self, record: KeptBytes) -> None:
        """What a checkpoint holds."""
        self._tenant(record.tenant).kept_bytes = dict(record.bytes_by_step)


def _kept_bytes(tenant: _Tenant, now: float) -> int:
    step = int(now // _STEP_SECONDS)
    for gone in [each for each in tenant.kept_bytes if each < step]:
        del tenant.kept_bytes[gone]
    return sum(tenant.kept_bytes.values())
