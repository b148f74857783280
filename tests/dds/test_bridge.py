"""A bridge in this process, to an edge in this process: what it does while the edge does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.dds.networks import ON_LOOPBACK, DdsApplication, domains

from fieldfare.client.subscription import Subscription
from fieldfare.errors import NotConnectedError, RefusedError
from fieldfare.messages import Accepted
from fieldfare.qos import Published
from fieldfare.runtime.dds import DdsBridge, DdsOptions
from fieldfare.runtime.dds.carrying import Duty
from fieldfare.runtime.dds.context import BridgeClient
from fieldfare.runtime.dds.discovery import IntakeKey, Taken
from fieldfare.runtime.embedded import Embedded, HostTransport

_WAITING_MAX = 200
_WAIT_SECONDS = 60.0


class _CountingBridge(DdsBridge):
    """It counts what it takes from DDS."""

    taken_count = most_waiting = 0

    def taken(self, key: IntakeKey, samples: Sequence[Taken]) -> None:
        self.taken_count += len(samples)
        self.most_waiting = max(self.most_waiting, self.taken_count - self.counts.get("published", 0))
        super().taken(key, samples)


async def _until(is_so: Any) -> None:
    async with asyncio.timeout(_WAIT_SECONDS):
        while not is_so():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> DdsOptions:
    monkeypatch.setenv("CYCLONEDDS_URI", ON_LOOPBACK)
    return DdsOptions(domains()[0].domain, "bridge", settle_seconds=0.1, waiting_max=_WAITING_MAX)


class _GatedClient(BridgeClient):
    """It publishes only when it may; and first it is told that there is no room."""

    is_open: asyncio.Event
    refusals: list[str]

    async def publish_once(self, topic: str, events: Sequence[bytes], ids: Sequence[str], qos: Published) -> Accepted:
        await self.is_open.wait()
        if self.refusals:
            raise RefusedError("limit", self.refusals.pop())
        return await super().publish_once(topic, events, ids, qos)


def test_samples_wait_in_dds_while_the_edge_does_not_answer(
    options: DdsOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 1500
    monkeypatch.setattr("fieldfare.runtime.dds.bridge.BridgeClient", _GatedClient)

    async def main() -> None:
        _GatedClient.is_open, _GatedClient.refusals = asyncio.Event(), ["no room"]
        async with Embedded(tmp_path) as edge:
            bridge = _CountingBridge(HostTransport(edge._host), options)
            async with bridge:
                await _until(lambda: bridge.is_carrying)
                counts = await edge.subscribe("dds.stalled", "TRUE")
                application.make("writer", "out", "stalled", "Count")
                await asyncio.to_thread(application.until_matched, "out")
                application.ask("count_up", name="out", count=count, every_seconds=0)
                await _until(lambda: bridge.taken_count == _WAITING_MAX)
                _GatedClient.is_open.set()
                numbers = [(await anext(counts)).attributes["number"] for _ in range(count)]
            assert numbers == list(range(count))
            assert bridge.most_waiting == _WAITING_MAX
            assert bridge.counts == {"published": count, "repeated": 0}
            assert bridge.failure is None

    with DdsApplication(domains()[0]) as application:
        asyncio.run(main())


def test_a_writer_that_leaves_at_once_has_its_samples_published(options: DdsOptions, tmp_path: Path) -> None:
    count = 1000

    async def main() -> None:
        async with Embedded(tmp_path) as edge, DdsBridge(HostTransport(edge._host), options) as bridge:
            counts = await edge.subscribe("dds.brief", "TRUE")
            for turn in range(2):  # the second time the topic is there no longer, and comes into being again
                application.make("writer", "out", "brief", "Count")
                await asyncio.to_thread(application.until_matched, "out")
                values = [[number, str(turn)] for number in range(count)]
                await asyncio.to_thread(application.ask, "write", name="out", type="Count", values=values)
                await asyncio.to_thread(application.ask, "end", name="out")
                numbers = [(await anext(counts)).attributes["number"] for _ in range(count)]
                assert numbers == list(range(count))
                await _until(lambda: not bridge._topics)

    with DdsApplication(domains()[0]) as application:
        asyncio.run(main())


def test_a_writer_that_leaves_while_a_bridge_listens_has_its_samples_published(
    options: DdsOptions, tmp_path: Path
) -> None:
    async def main() -> None:
        listening = replace(options, settle_seconds=3600.0)
        async with Embedded(tmp_path) as edge, DdsBridge(HostTransport(edge._host), listening) as bridge:
            counts = await edge.subscribe("dds.early", "TRUE")
            application.make("writer", "out", "early", "Count")
            await asyncio.to_thread(application.until_matched, "out")
            await asyncio.to_thread(application.ask, "write", name="out", type="Count", values=[[1, ""], [2, ""]])
            await asyncio.to_thread(application.ask, "end", name="out")
            await _until(lambda: not bridge._topics["early"].writers and not bridge._topics["early"]._intakes)
            bridge._settle()
            assert [(await anext(counts)).attributes["number"] for _ in range(2)] == [1, 2]

    with DdsApplication(domains()[0]) as application:
        asyncio.run(main())


def test_bridges_of_two_edges_in_one_domain_do_not_read_each_other(options: DdsOptions, tmp_path: Path) -> None:
    """Of two deployments both edges get a DDS writer's samples; of one, one of them. What bridges write, none does."""

    async def main(deployment: str) -> list[list[int]]:
        async with AsyncExitStack() as stack:
            edges, seen = [], []
            for number, name in enumerate(("fieldfare", deployment)):
                edge = await stack.enter_async_context(Embedded(tmp_path / f"{deployment}-{number}"))
                other = replace(options, deployment=name, name=f"{number}")
                bridge = await stack.enter_async_context(DdsBridge(HostTransport(edge._host), other))
                await _until(lambda bridge=bridge: bridge._context.duty is not Duty.LISTENING)
                edges.append(edge)
                seen.append(await edge.subscribe("dds.both", "TRUE"))
            await edges[0].publish("dds-writers", {"topic": "both"})
            reader, writer = f"in {deployment}", f"out {deployment}"
            application.make("reader", reader, "both", "Count")
            await asyncio.to_thread(application.until_matched, reader)
            application.make("writer", writer, "both", "Count")
            await asyncio.to_thread(application.until_matched, writer, 3)  # the reader, and both bridges
            await edges[0].publish("dds.both", {"number": 1, "text": "by a client of the first edge"})
            await asyncio.to_thread(application.numbers, reader, 1)
            await asyncio.to_thread(application.ask, "write", name=writer, type="Count", values=[[2, ""]])
            assert await asyncio.to_thread(application.numbers, reader, 2) == [1, 2]
            carried = [await _numbers_until(each, 2) for each in seen[: 1 if deployment == "fieldfare" else 2]]
            for edge in edges:
                await edge.publish("dds.both", {"number": 3, "text": "a mark"})
            marked = [await _numbers_until(each, 3) for each in seen]
            return [*carried, *marked]

    with DdsApplication(domains()[0]) as application:
        assert asyncio.run(main("other")) == [[1, 2], [2], [3], [3]]
        assert asyncio.run(main("fieldfare")) == [[1, 2], [3], [3]]


async def _numbers_until(events: Subscription[Any], last: int) -> list[int]:
    numbers: list[int] = []
    while last not in numbers:
        numbers.append((await anext(events)).attributes["number"])
    return numbers


def test_a_bridge_without_an_edge_says_so(options: DdsOptions) -> None:
    class Nowhere:
        async def connect(self) -> Any:
            raise RefusedError("forbidden", "not for you")

    async def main() -> None:
        bridge = DdsBridge(Nowhere(), options)
        with pytest.raises((RefusedError, NotConnectedError), match="not for you"):
            await bridge.open()
        await bridge.close()

    asyncio.run(main())
