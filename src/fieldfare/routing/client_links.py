"""The clients that are connected to a broker, by link, and the subscriptions that are delivered to each."""

from __future__ import annotations

from dataclasses import dataclass, field

from fieldfare.messages import Identity
from fieldfare.routing.taker import Taker


@dataclass(slots=True)
class _ClientLink:
    identity: Identity
    takers: dict[int, Taker] = field(default_factory=dict)  # by handle
    pending_count: int = 0  # subscriptions that are just being made


class ClientLinks:
    """Who is connected."""

    def __init__(self) -> None:
        self._links: dict[str, _ClientLink] = {}

    def __contains__(self, link: str) -> bool:
        return link in self._links

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: str, identity: Identity) -> None:
        """A client has connected."""
        self._links[link] = _ClientLink(identity)

    def identity(self, link: str) -> Identity | None:
        """Who it is; None if it is gone."""
        client = self._links.get(link)
        return None if client is None else client.identity

    def remove(self, link: str) -> list[Taker]:
        """A client is gone. Returns the takers that it served."""
        client = self._links.pop(link, None)
        return [] if client is None else list(client.takers.values())

    def subscription_count(self, link: str) -> int:
        """How many subscriptions it has, those that are just being made included."""
        client = self._links[link]
        return len(client.takers) + client.pending_count

    def add_pending(self, link: str, change: int) -> None:
        """More or fewer of its subscriptions are just being made."""
        if client := self._links.get(link):
            client.pending_count += change

    def serve(self, link: str, taker: Taker) -> None:
        """A taker is delivered to this client."""
        self._links[link].takers[taker.handle] = taker

    def release_from(self, link: str, taker: Taker) -> None:
        """A client is no longer one of the consumers of a taker."""
        if client := self._links.get(link):
            client.takers.pop(taker.handle, None)

    def release(self, taker: Taker) -> None:
        """A taker is no longer delivered to any client."""
        for link in taker.links:
            self.release_from(link, taker)
