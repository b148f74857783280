"""The asyncio host with a real edge and a real log."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from msgspec import Raw

from fieldfare.messages import (
    Accepted,
    Ack,
    Deliver,
    EdgeFrame,
    Identity,
    Publish,
    Subscribe,
)
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.runtime.host import Connection, Host
from fieldfare.store.journal import Journal

EVERYTHING = Identity("acme", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
OLD_EVENTS = 200
PUBLICATIONS_MAX = 5_000
PATIENCE_SECONDS = 60.0


class Publisher:
    """Publishes again and again, as soon as it is answered."""

    def __init__(self, host: Host, publications: int) -> None:
        self.left = publications
        self.is_finished = asyncio.Event()
        self._connection: Connection = host.connect(EVERYTHING, self._take, lambda _: None)
        self._publish()

    def _publish(self) -> None:
        self.left -= 1
        self._connection.send(Publish(self.left, "news", [Raw(b'{"n": 1}')]))

    def _take(self, frames: list[EdgeFrame]) -> None:
        for frame in frames:
            if isinstance(frame, Accepted) and self.left > 0:
                self._publish()
            elif isinstance(frame, Accepted):
                self.is_finished.set()


class Latecomer:
    """Begins with the first event, and acknowledges what it gets."""

    def __init__(self, host: Host) -> None:
        self.count = 0
        self.has_caught_up = asyncio.Event()
        self._connection = host.connect(EVERYTHING, self._take, lambda _: None)
        self._connection.send(Subscribe(1, "news", "n = 0", name="late", after=-1, window=1))

    def _take(self, frames: list[EdgeFrame]) -> None:
        for frame in frames:
            if isinstance(frame, Deliver):
                self.count += len(frame.events)
                self._connection.send(Ack("late", 1 << 60))
                if self.count == OLD_EVENTS:
                    self.has_caught_up.set()


def test_who_reads_the_log_gets_its_turn_though_others_publish_without_a_pause(tmp_path: Path) -> None:
    async def run() -> None:
        with Journal(tmp_path / "log") as journal:
            host = Host(Edge("edge", random.Random(1), EdgeOptions(waiting_max=8)), journal)
            await host.start()
            old = Publisher(host, 0)
            for _ in range(OLD_EVENTS):
                old._connection.send(Publish(1, "news", [Raw(b'{"n": 0}')]))
            await asyncio.sleep(0)
            publishers = [Publisher(host, PUBLICATIONS_MAX) for _ in range(3)]
            late = Latecomer(host)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await late.has_caught_up.wait()
            assert all(publisher.left > 0 for publisher in publishers)
            for publisher in publishers:
                publisher.left = 0
            await host.stop()

    asyncio.run(run())
