"""From Kafka to the edge: the messages of a topic, published as events, each partition's in their order.

A partition is a publisher that reads another log: the edge stores the next offset in one record with the events, and
that is where reading goes on, whatever was killed. Numbers are offsets plus one, so that 0 says that reading has not
begun. One publication of a partition is under way at a time; while the edge takes none, none are read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TypeVar

import msgspec

from fieldfare.errors import InputError, RefusedError
from fieldfare.kafka.decoding import JsonOfMessages
from fieldfare.kafka.offsets import Offsets
from fieldfare.qos import Offered
from fieldfare.routing.published_events import why_no_event
from fieldfare.runtime.kafka.client import CarrierClient
from fieldfare.runtime.kafka.options import EdgeView, InflowOptions
from fieldfare.runtime.kafka.status import LinkStatus
from fieldfare.runtime.kafka.topic_reader import Piece, TopicReader

_SHOW_SECONDS = 1.0
_RAW_BYTES_MAX = 200_000  # of a quarantined message
_PASSING = {"busy", "storage", "limit", "full"}
_RETRY_SECONDS = 0.5
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Inflow:
    """One topic of Kafka on its way to the edge."""

    def __init__(self, options: InflowOptions, client: CarrierClient, edge: EdgeView) -> None:
        self.status = LinkStatus(options.tenant, options.topic, "in", str(options.source))
        self._options, self._client, self._edge = options, client, edge
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fieldfare-kafka-in")
        self._decoder = JsonOfMessages(options.format, options.registry)
        self._numbers: dict[int, int] = {}  # of each partition the number to go on with
        self._publishers = ""
        self._shown_at = 0.0

    async def run(self) -> None:
        """Carry until it is cancelled, or an error says that it has to begin again."""
        reader = await self._in_thread(lambda: TopicReader(self._options.source, self._options.group, self._decoder))
        try:
            await self._begin(reader)
            self.status.runs()
            reading = self._reading(reader)
            while True:
                pieces, behind = await reading
                reading = self._reading(reader)  # meanwhile
                by_partition = groupby(sorted(pieces, key=lambda piece: piece.partition), lambda piece: piece.partition)
                await asyncio.gather(*[self._take(list(group)) for _, group in by_partition])
                self.status.behind = behind
                self.status.runs()
                await self._show(reader)
        finally:
            self._thread.submit(reader.close)

    def _reading(self, reader: TopicReader) -> asyncio.Task[tuple[list[Piece], int | None]]:
        task = asyncio.create_task(self._in_thread(lambda: (reader.read(), reader.behind())))
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may come when nobody waits
        return task

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # Where reading goes on

    async def _begin(self, reader: TopicReader) -> None:
        options = self._options
        await self._in_thread(lambda: reader.require_alone(self._edge.log_id()))
        await self._client.declare_topic(options.quarantine, Offered())
        family = f"kafka/{options.group}/{options.source.name}/"
        self._publishers = f"{family}{reader.topic_id}/"
        known = [name for name in self._edge.readers(options.tenant, options.topic) if name.startswith(family)]
        if any(not name.startswith(self._publishers) for name in known):
            raise InputError(
                f"{options.source}: the topic was deleted and made anew, so the offsets that the edge has mean nothing "
                "in it: to read the new one, name another group"
            )
        self._numbers = {
            partition: self._edge.last_number(options.tenant, options.topic, f"{self._publishers}{partition}") + 1
            for partition in reader.partitions
        }
        new = [partition for partition, number in self._numbers.items() if number == 0]
        if new:
            start = {} if known else await self._in_thread(lambda: reader.beginning(options.starting))
            await asyncio.gather(*[self._publish(Piece(partition, start.get(partition, 0))) for partition in new])
        await self._in_thread(lambda: reader.assign(self._offsets()))

    def _offsets(self) -> Offsets:
        return {partition: number - 1 for partition, number in self._numbers.items()}

    async def _show(self, reader: TopicReader) -> None:
        self.status.positions = self._offsets()
        if time.monotonic() > self._shown_at + _SHOW_SECONDS:
            self._shown_at = time.monotonic()
            offsets, log_id = self._offsets(), self._edge.log_id()

            def show() -> None:
                reader.require_alone(log_id)
                reader.show(offsets, log_id)

            await self._in_thread(show)

    # Messages

    async def _take(self, pieces: list[Piece]) -> None:
        """The pieces of one partition."""
        for piece in pieces:
            if piece.lost:
                place = f"{self._options.source.name}/{piece.partition}:{piece.upto - piece.lost}-{piece.upto - 1}"
                reason = f"retention removed {piece.lost:,} offsets before they were read"
                await self._quarantine([(place, b"", reason)])
                self.status.lost += piece.lost
                _log.warning("Kafka: %s: retention removed %s before they were read", self.status, place)
            await self._take_bad(piece)
            await self._publish(piece)
            self.status.events += len(piece.events)

    async def _publish(self, piece: Piece) -> None:
        """Publish a piece; what the edge does not take for events is quarantined."""
        number = self._numbers[piece.partition]
        piece.events = [event for event in piece.events if event[0] + 1 >= number]  # it may have been read twice
        while piece.upto + 1 > number:
            publisher = f"{self._publishers}{piece.partition}"
            events = [event for _, event in piece.events]
            ids = [self._place(piece, offset) for offset, _ in piece.events]
            try:
                await self._client.publish_range(self._options.topic, events, ids, publisher, number, piece.upto + 1)
                break
            except RefusedError as error:
                if error.code == "invalid" and self._sort_out(piece):
                    await self._take_bad(piece)
                elif error.code in _PASSING:
                    self.status.waits(f"the edge does not take more now: {error}")
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    raise
        self._numbers[piece.partition] = piece.upto + 1

    def _sort_out(self, piece: Piece) -> bool:
        """Find the messages of a piece that are no events. Whether there are any."""
        bad = [(offset, event, reason) for offset, event in piece.events if (reason := why_no_event(event))]
        offsets = {offset for offset, _, _ in bad}
        piece.events = [event for event in piece.events if event[0] not in offsets]
        piece.bad += bad
        return bool(bad)

    async def _take_bad(self, piece: Piece) -> None:
        if piece.bad:
            await self._quarantine([(self._place(piece, offset), raw, reason) for offset, raw, reason in piece.bad])
            self.status.quarantined += len(piece.bad)
            piece.bad = []

    def _place(self, piece: Piece, offset: int) -> str:
        return f"{self._options.source.name}/{piece.partition}:{offset}"

    async def _quarantine(self, bad: list[tuple[str, bytes, str]]) -> None:
        """Keep messages that are no events, once each: a repetition is known by its place."""
        for place, raw, reason in bad:
            event = msgspec.json.encode({"place": place, "reason": reason, "topic": self._options.topic})
            while True:
                try:
                    await self._client.publish_once(
                        self._options.quarantine, event, place, self._publishers, raw[:_RAW_BYTES_MAX]
                    )
                    break
                except RefusedError as error:
                    if error.code not in _PASSING:
                        raise
                    self.status.waits(f"the edge does not take more now: {error}")
                    await asyncio.sleep(_RETRY_SECONDS)
