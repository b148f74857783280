"""The work of a way for an application: the stations that events pass, and the memory and traffic of its members."""

from __future__ import annotations

import msgspec

from fieldfare.planning.stations import Station


class Path(msgspec.Struct, frozen=True):
    """A part of the deliveries, the stations that they pass one after the other, and what the way itself takes."""

    share: float
    stations: tuple[Station, ...]
    delay_seconds: float = 0.0


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. Members are the processes that take part: each uses a core of a node."""

    paths: tuple[Path, ...]
    members: int
    helpers: int = 0  # processes beside the members, such as a routing broker
    member_bytes: float  # of memory
    helper_bytes: float = 0.0
    node_bytes: float = 0.0  # for each node, however many members it has
    member_network: float = 0.0  # bytes in or out of a member, whichever is more, for an event of the application
    helper_network: float = 0.0
    average_hops: float = 1.0  # that an event takes, of the paper's H
    notes: tuple[str, ...] = ()

    @property
    def stations(self) -> tuple[Station, ...]:
        """Every station once."""
        return tuple({station.name: station for path in self.paths for station in path.stations}.values())
