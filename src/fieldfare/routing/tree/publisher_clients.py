"""What placement asks of the clients whose publishers are connected here, and what it tells those who watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fieldfare.messages import Candidate, List, Listed, Refused, Send
from fieldfare.placement.passages import MeasureDelays
from fieldfare.placement.placement_frames import BrokerName, PublisherName, TraceId
from fieldfare.routing.asked_publishers import PingsAnswered
from fieldfare.routing.edge import Edge
from fieldfare.routing.ports import Emit
from fieldfare.routing.tree.presence import Presence
from fieldfare.routing.tree.publisher_placement import publisher_key, publisher_name


@dataclass(frozen=True, slots=True)
class ClientPorts:
    """What asking clients needs of the tree broker."""

    emit: Emit
    presence: Presence
    measured: Callable[[TraceId, Mapping[BrokerName, float]], None]  # how far brokers are, one way
    listed: Callable[[str], list[dict[str, Any]]]  # what is known of a tenant's publishers


class PublisherClients:
    """The clients of one edge, as far as placement needs them."""

    def __init__(self, edge: Edge, ports: ClientPorts) -> None:
        self._edge, self._ports = edge, ports
        self._measuring: dict[PublisherName, MeasureDelays] = {}  # those that were asked to ping brokers
        edge.parts.asked.on_pinged = self._pinged

    def name_of(self, link: str, publisher: str) -> PublisherName | None:
        """How brokers name the publisher of a client."""
        identity = self._edge.parts.links.identity(link)
        return None if identity is None else publisher_name(identity.tenant, publisher)

    # Asking

    def can_move(self, publisher: PublisherName) -> bool:
        """Whether a publisher's client is there, and able to move it."""
        return self._edge.parts.advertisements.link_of(publisher_key(publisher)) is not None

    def measure(self, asked: MeasureDelays) -> None:
        """Have a publisher's client find out how far it is from some brokers."""
        effects = self._edge.ask_to_ping(publisher_key(asked.publisher), self._candidates(asked.brokers))
        if effects:
            self._measuring[asked.publisher] = asked
            for effect in effects:
                self._ports.emit(effect)

    def _pinged(self, answer: PingsAnswered) -> None:
        asked = self._measuring.pop(publisher_name(*answer.publisher), None)
        if asked is not None:
            found = answer.round_trip_seconds.items()
            one_way = {name: seconds / 2 for name, seconds in found if seconds is not None}
            self._ports.measured(asked.session, one_way)

    def move(self, publisher: PublisherName, target: BrokerName) -> bool:
        """Ask a publisher's client to move it. False: it cannot be asked."""
        candidates = self._candidates([target])
        effects = self._edge.ask_to_move(publisher_key(publisher), candidates[0]) if candidates else ()
        for effect in effects:
            self._ports.emit(effect)
        return bool(effects)

    def _candidates(self, names: Iterable[BrokerName]) -> list[Candidate]:
        """Brokers that clients can reach."""
        found = [self._ports.presence.get(name) for name in names]
        return [Candidate(each.member.name, each.member.url) for each in found if each is not None and each.member.url]

    # Telling

    def list_publishers(self, link: str, frame: List) -> None:
        """Tell a client of its tenant's publishers that are placed here; it needs the right to manage all topics."""
        identity = self._edge.parts.links.identity(link)
        if identity is None:
            return
        if identity.may("manage", "*"):
            self._ports.emit(Send(link, Listed(frame.ref, self._ports.listed(identity.tenant))))
        else:
            reason = "to see where publishers are needs the right to manage all topics"
            self._ports.emit(Send(link, Refused(frame.ref, "forbidden", reason)))
