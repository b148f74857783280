"""Edges that are linked with Kafka, in this process; as a program, edges that are killed in a phase of carrying.

What is carried is known from its numbers, so that everything can be compared with what was sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from msgspec import Raw
from tests.kafka.output_runs import Doomed, die

from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.decoding import MessageFormat
from fieldfare.kafka.schema_registry import SchemaRegistry
from fieldfare.messages import EventsStored, Publish, Start
from fieldfare.runtime.embedded import Embedded, HostTransport
from fieldfare.runtime.kafka import topic_reader
from fieldfare.runtime.kafka.bridge import KafkaBridge
from fieldfare.runtime.kafka.client import CarrierClient
from fieldfare.runtime.kafka.options import EdgeView, InflowOptions, OutflowOptions
from fieldfare.runtime.kafka.sender import Sender
from fieldfare.runtime.kafka.status import CarrierState, LinkStatus
from fieldfare.store.journal import Journal

IN_PHASES = ("read", "appending", "stored", "accepted")
OUT_PHASES = ("begin", "sending", "sent", "committing", "committed")
EVENTS = 200
WAIT_SECONDS = 240.0
Link = InflowOptions | OutflowOptions


def inflow(
    topic: KafkaTopic,
    starting: str = "earliest",
    message_format: MessageFormat = "json",
    registry: SchemaRegistry | None = None,
    group: str = "edge",
) -> InflowOptions:
    return InflowOptions("default", "news", topic, starting, group, message_format, registry, "news-quarantine")


def outflow(topic: KafkaTopic, condition: str = "TRUE", key: str | None = None) -> OutflowOptions:
    return OutflowOptions(
        "default", "news", topic, "kafka.news", condition, key, begins_with_alive=True, transactional_id=topic.name
    )


@asynccontextmanager
async def linked(folder: Path, *links: Link) -> AsyncIterator[tuple[Embedded, KafkaBridge]]:
    """An edge with its log in a folder."""
    async with Embedded(folder) as edge:
        bridge = KafkaBridge(links, lambda _: HostTransport(edge._host), EdgeView.of(edge.edge))
        await bridge.open()
        try:
            yield edge, bridge
        finally:
            await bridge.close()


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that needs an event loop."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


async def until(is_so: Callable[[], object], bridge: KafkaBridge) -> None:
    """Wait; fail when some link has stopped."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not is_so():
            assert all(status.state is not CarrierState.STOPPED for status in bridge.statuses()), bridge.statuses()
            await asyncio.sleep(0.02)


async def until_state(status: LinkStatus, state: CarrierState) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while status.state is not state:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.02)


async def events_of(edge: Embedded, topic: str) -> list[dict[str, Any]]:
    """All events of a topic, in the order of the log."""
    subscription = edge.subscribe(topic, "TRUE", start=Start(beginning=True), wants_mark=True)
    return [event.attributes async for event in subscription]


async def publish(edge: Embedded, count: int = EVENTS, first: int = 0) -> None:
    """Publish numbered events. Those that came before are known by their numbers."""
    for number in range(first, first + count, 20):
        events = [Raw(b'{"n": %d}' % each) for each in range(number, min(number + 20, first + count))]
        await edge._runner.request(Publish(0, "news", events, f"counter-{first}", number - first))


def all_read(bridge: KafkaBridge) -> bool:
    """Whether the edge has read all messages that an inflow knows of."""
    status = bridge.statuses()[0]
    return status.behind == 0 and bool(status.positions)


def all_sent(edge: Embedded, bridge: KafkaBridge) -> bool:
    """Whether Kafka has all events of the edge."""
    topic = next(each for each in edge.edge.parts.topics if each.name == "news")
    sender: Sender = bridge._carriers[0]._sender  # type: ignore[union-attr]
    return sender.sent >= topic.stored


def doom_inflow(phase: str) -> None:
    """Have this process end in a phase of the third publication that is not empty."""
    topic_reader._MESSAGES_MAX = 20  # or else all are read at once
    count = 0
    append, publish_range = Journal.append, CarrierClient.publish_range

    def dying_append(self: Any, records: Any, *, sync: bool) -> None:
        nonlocal count
        is_fed = any(isinstance(record, EventsStored) and record.upto for record in records)
        count += is_fed
        if phase == "appending" and is_fed and count == 3:
            die()
        append(self, records, sync=sync)
        if phase == "stored" and is_fed and count == 3:
            die()

    async def dying_publish(self: Any, topic: str, events: Any, *arguments: Any) -> None:
        nonlocal count
        if phase == "read" and events and (count := count + 1) == 3:
            die()
        await publish_range(self, topic, events, *arguments)
        if phase == "accepted" and count >= 3:
            die()

    Journal.append, CarrierClient.publish_range = dying_append, dying_publish  # type: ignore[method-assign,assignment]


def doom_outflow(phase: str) -> None:
    """Have this process end in a phase of the first transaction with events."""
    opened = Sender.open

    def doomed(self: Sender) -> None:
        opened(self)
        self._producer = Doomed(self._producer, phase, 20)

    Sender.open = doomed  # type: ignore[method-assign]


async def run_in(topic: KafkaTopic, folder: Path) -> None:
    async with linked(folder, inflow(topic, group=folder.name)) as (edge, bridge):
        await until(lambda: all_read(bridge), bridge)
        told = {name: await events_of(edge, name) for name in ("news", "news-quarantine")}
    (folder / "told.json").write_text(json.dumps(told))


async def run_out(topic: KafkaTopic, folder: Path) -> None:
    async with linked(folder, outflow(topic)) as (edge, bridge):
        await publish(edge)
        await until(lambda: all_sent(edge, bridge), bridge)


def main(brokers: str, folder: Path, names: list[str]) -> None:
    """For each phase a topic: edges that are killed, and then edges that finish. Prints the signals that ended them."""
    phases = [("in", phase) for phase in IN_PHASES] + [("out", phase) for phase in OUT_PHASES]
    for is_doomed in (True, False):
        children = []
        for name, (direction, phase) in zip(names, phases, strict=True):
            child = os.fork()  # what they import is imported once
            if child == 0:
                if is_doomed:
                    (doom_inflow if direction == "in" else doom_outflow)(phase)
                run = run_in if direction == "in" else run_out
                asyncio.run(run(KafkaTopic(brokers, name), folder / f"{direction}-{phase}"))
                os._exit(0)
            children.append(child)
        print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
