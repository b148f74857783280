"""The systems that are measured: each starts a hub and edges around it, every one a process, and says how to connect.

A system is to have the same form everywhere: edges know only the hub, so that an event from an edge to another travels
two hops. Clients connect to edges only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fieldfare.bench.broker.connections import Connect
from fieldfare.bench.broker.servers import Running
from fieldfare.bench.overlay.link_bytes import connection_bytes


@dataclass(frozen=True, slots=True)
class Deployment:
    """A hub and its edges, which take connections."""

    hub: Running  # its port is that to which the edges connect
    edges: tuple[Running, ...]

    def cpu_seconds(self) -> float | None:
        """What all of them have used of the processors so far, where the platform tells."""
        return _total(broker.cpu_seconds() for broker in (self.hub, *self.edges))

    def memory_bytes(self) -> int | None:
        """What all of them have in memory, where the platform tells."""
        bytes_ = _total(broker.memory_bytes() for broker in (self.hub, *self.edges))
        return None if bytes_ is None else int(bytes_)

    def link_bytes(self) -> int | None:
        """What went over the links between the hub and its edges so far, where the platform tells."""
        return connection_bytes(self.hub.port)


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


@dataclass(frozen=True, slots=True)
class System:
    """Brokers of a kind, and their clients."""

    name: str
    filters: bool  # by content, so that its clients need not
    start: Callable[[int, Path], AbstractContextManager[Deployment]]  # given how many edges, and a folder
    connect: Connect
    note: str
