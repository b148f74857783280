"""The asyncio host with a real edge and a real log."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from msgspec import Raw
from msgspec.json import decode

from fieldfare.messages import EDGE_RECORDS, Accepted, Ack, Deliver, Delivery, EdgeFrame, Identity, Publish, Subscribe
from fieldfare.routing.edge import Edge
from fieldfare.routing.options import EdgeOptions
from fieldfare.runtime.absent import NoPipeline, NoWebhooks
from fieldfare.runtime.compiling import Compiling
from fieldfare.runtime.host import Host
from fieldfare.runtime.links import Connection
from fieldfare.runtime.log_thread import LogThread
from fieldfare.store.journal import Journal

EVERYTHING = Identity("acme", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
OLD_EVENTS = 200
PUBLICATIONS_MAX = 3_000
PATIENCE_SECONDS = 60.0


class Publisher:
    """Publishes again and again, as soon as it is answered."""

    def __init__(self, host: Host, number: int, publications: int) -> None:
        self.left = publications
        self.is_finished = asyncio.Event()
        self._event = Raw(b'{"n": %d}' % number)
        self._connection: Connection = host.connect(EVERYTHING, self._take, lambda _: None)
        self._publish()

    def _publish(self) -> None:
        self._connection.send(Publish(self.left, "news", [self._event]))

    def _take(self, frames: list[EdgeFrame]) -> None:
        self.left -= sum(isinstance(frame, Accepted) for frame in frames)
        if self.left > 0:
            self._publish()
        else:
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
                self._connection.send(Ack("late", decode(frame.events[-1], type=Delivery).position))
                if self.count == OLD_EVENTS:
                    self.has_caught_up.set()


def test_who_reads_the_log_gets_its_turn_though_others_publish_without_a_pause(tmp_path: Path) -> None:
    async def run() -> None:
        with Journal(tmp_path / "log", EDGE_RECORDS) as journal:
            edge = Edge("edge", random.Random(1), EdgeOptions(waiting_max=8))
            host = Host(edge, LogThread(journal), Compiling(), NoWebhooks(), NoPipeline())
            await host.start()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await Publisher(host, 0, OLD_EVENTS).is_finished.wait()
                publishers = []
                for _ in range(3):
                    publishers.append(Publisher(host, 1, PUBLICATIONS_MAX))
                    await asyncio.sleep(0.0005)  # so that one publishes while another's event is being flushed
                late = Latecomer(host)
                await late.has_caught_up.wait()
            assert all(publisher.left > 0 for publisher in publishers)
            for publisher in publishers:
                publisher.left = 0
            await host.stop()

    asyncio.run(run())
