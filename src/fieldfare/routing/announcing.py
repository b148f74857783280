"""What an edge tells the other brokers of itself, and which of them serve the same network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fieldfare.messages import Announce, LogId, Member
from fieldfare.routing.broker_links import BrokerLinks
from fieldfare.routing.exporting import Exports
from fieldfare.routing.ports import Emit

_LOAD_STEP = 0.1  # a change of the load by more is told to the other brokers
_BEHIND_SECONDS = 2.0  # how often is looked how far other edges are behind


@dataclass(frozen=True, slots=True)
class AnnouncingPorts:
    """What announcing needs of the overlay."""

    emit: Emit
    links: BrokerLinks
    exports: Exports
    load: Callable[[], float]  # the share of this edge's places for clients that are taken


class Announcing:
    """An edge as the others know it. `member` is what does not change."""

    def __init__(self, member: Member, ports: AnnouncingPorts) -> None:
        self.log_id: LogId = ""  # set when it is known
        self._fixed, self._ports = member, ports
        self._told: Member | None = None
        self._look_behind_at = 0.0

    def announce(self, now: float) -> None:
        """Tell the others of this edge, when it begins and when its load, or how far others are behind, has changed."""
        told, load = self._told, round(self._ports.load(), 2)
        is_load_other = told is None or abs(load - told.load) > _LOAD_STEP or (load >= 1.0) != (told.load >= 1.0)
        if is_load_other or now >= self._look_behind_at:
            self._look_behind_at = now + _BEHIND_SECONDS
            member = self._member(load)
            if is_load_other or told is None or bool(told.behind) != bool(member.behind):
                self._told = member
                self._ports.emit(Announce(member))

    def _member(self, load: float) -> Member:
        behind = max(self._ports.exports.behind().values(), default=0)
        return msgspec.structs.replace(self._fixed, log=self.log_id, load=load, behind=behind)

    def edges_of_network(self) -> list[Member]:
        """Those that serve the same network: this edge first, then those with most room."""
        own = self._member(self._ports.load())
        others = [
            member
            for member in self._ports.links.members.values()
            if member.role == own.role and member.network == own.network and member.name != own.name
        ]
        return [own, *sorted(others, key=lambda member: (member.load, member.name))]
