"""Zenoh: a router in the middle, and routers that connect to it. Clients use eclipse-zenoh, its own Python library."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fieldfare.bench.broker.connections import Take
from fieldfare.bench.broker.load import Wanted
from fieldfare.bench.broker.servers import Program, free_port, started
from fieldfare.bench.broker.wires import TOPIC, decoded
from fieldfare.bench.overlay import zenoh_router
from fieldfare.bench.overlay.systems import Deployment, System
from fieldfare.errors import MissingDependencyError

if TYPE_CHECKING:
    import zenoh


@contextmanager
def _start(edge_count: int, folder: Path) -> Iterator[Deployment]:
    if importlib.util.find_spec("zenoh") is None:
        raise MissingDependencyError("eclipse-zenoh is not installed: pip install 'fieldfare[bench]'")

    def program(*more: int) -> Program:
        port = free_port()
        command = [sys.executable, "-m", zenoh_router.__name__, str(port), *map(str, more)]
        return Program(command, port, folder / f"router-{port}.log")

    with started([program()]) as (hub,), started([program(hub.port) for _ in range(edge_count)]) as edges:
        yield Deployment(hub, tuple(edges))


class _ZenohConnection:
    """A session. Its library calls back for every event, in a thread; events are taken in the loop, in bulk."""

    def __init__(self, session: zenoh.Session, take: Take) -> None:
        import zenoh

        self.failure: Exception | None = None
        self._session = session
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._came: deque[zenoh.Sample] = deque()
        self._is_loop_told = False
        # Its default would drop what a queue has no room for. Blocking, it waits, as TCP does for the others.
        self._publisher = session.declare_publisher(TOPIC, congestion_control=zenoh.CongestionControl.BLOCK)

    def subscribe(self) -> None:
        self._session.declare_subscriber(TOPIC, self._called)

    def _called(self, sample: zenoh.Sample) -> None:
        self._came.append(sample)
        if not self._is_loop_told:
            self._is_loop_told = True
            self._loop.call_soon_threadsafe(self._take_all)

    def _take_all(self) -> None:
        self._is_loop_told = False  # before looking: what comes from now on tells it again
        came = self._came
        self._take(decoded([came.popleft().payload.to_bytes() for _ in range(len(came))]))

    def publish(self, events: Sequence[bytes]) -> None:
        for event in events:
            self._publisher.put(event)

    def close(self) -> None:
        self._session.close()  # type: ignore[no-untyped-call]


async def _connect(host: str, port: int, squares: Sequence[Wanted], take: Take) -> _ZenohConnection:
    import zenoh

    opening = asyncio.to_thread(zenoh.open, zenoh_router.settings("client", connect=zenoh_router.endpoint(host, port)))
    connection = _ZenohConnection(await opening, take)
    if squares:
        connection.subscribe()
    return connection


ZENOH = System("zenoh", filters=False, start=_start, connect=_connect, note="routers, reliable; clients filter")
