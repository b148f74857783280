"""Events of a Kafka topic, read range by range into Arrow batches, in the worker that needs them.

A worker keeps its consumer for the next batches. A range is finished by position: a message at its end or beyond, or
the end of what is stable there, says so; the ends of transactions and the gaps of compaction bring no message.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from fieldfare.errors import KafkaUnavailableError
from fieldfare.files.quarantine import excerpt
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import ANSWER_SECONDS, consumer, explained, kafka_errors
from fieldfare.kafka.schema_registry import SchemaRegistry
from fieldfare.pipeline.json_events import FaultValue, JsonEvents
from fieldfare.pipeline.kafka.range_consumer import RangeConsumer
from fieldfare.pipeline.kafka.ranges import Range
from fieldfare.pipeline.system_columns import APPENDED_AT, FAULT

_MESSAGES_TOGETHER = 8_192
_POLL_SECONDS = 0.02  # where a gap makes fewer messages come than there are offsets
_STALLED_SECONDS = 15.0
_QUICK = {  # a worker is given small ranges again and again, and must not wait for more than they have
    "fetch.wait.max.ms": 10,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 20_000,
    "fetch.message.max.bytes": 4 << 20,
}
_RANGE_LEFT = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_PASSING = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE}


class MessageDecoder(Protocol):
    """Makes events of messages."""

    def decoded(self, messages: Sequence[bytes], /) -> tuple[list[pa.Array], list[str | None]]:
        """The columns of messages, and for each message the reason why it is bad, or None."""
        ...


@dataclass(frozen=True)
class RangeReader:
    """Makes events of ranges. The schema is that of its batches, with the pipeline's own columns."""

    topic: KafkaTopic
    group: str
    schema: pa.Schema
    format: str = "json"
    registry: SchemaRegistry | None = None  # where the schemas of other formats are
    topic_id: str = ""  # what a worker has of a topic that was deleted and made anew is of no use

    def read(self, parts: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """The events of some ranges, of which no two are of one partition."""
        for part in parts:
            if part.lost:
                yield self._lost(part.partition, part.first - part.lost, part.first)
        positions = {part.partition: part.first for part in parts if part.first < part.end}
        ends = {part.partition: part.end for part in parts}
        while positions:
            yield from self._read(positions, ends)
            positions = {place: position for place, position in positions.items() if position < ends[place]}

    def read_assigned(self, assignment: str) -> Iterator[pa.RecordBatch]:
        """The events of the ranges that a task was assigned."""
        yield from self.read(msgspec.json.decode(assignment, type=list[Range]))

    def _read(self, positions: dict[int, int], ends: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        """Read until all positions are at their ends, and gone; or until one has to be assigned anew."""
        consumer = _consumer(self.topic, self.group, self.topic_id)
        consumer.begin(positions, ends)
        is_read = False
        try:
            yield from self._read_on(consumer, positions, ends)
            is_read = not positions
        finally:
            if is_read:
                consumer.finish()
            else:
                consumer.give_up()

    def _read_on(
        self, consumer: RangeConsumer, positions: dict[int, int], ends: Mapping[int, int]
    ) -> Iterator[pa.RecordBatch]:
        heard_at = time.monotonic()
        while positions:
            left = sum(ends[partition] - position for partition, position in positions.items())
            arrived = consumer.consume(min(left, _MESSAGES_TOGETHER), _POLL_SECONDS)
            if arrived.is_any:
                heard_at = time.monotonic()
            for partition, offset in arrived.reached.items():
                if offset > positions.get(partition, offset):
                    positions[partition] = offset
            yield from self._batches(arrived.messages)
            for event in arrived.faults:
                if _is_out_of_range(event) and not consumer.is_fresh:
                    return  # it was on its way to what others have read, and retention removed that
                if gap := self._left(consumer.client, event, positions):
                    partition, first, low = gap
                    yield self._lost(partition, first, min(low, ends[partition]))
                    return
            for partition in [place for place, position in positions.items() if position >= ends[place]]:
                del positions[partition]
            if positions and time.monotonic() - heard_at > _STALLED_SECONDS:
                raise KafkaUnavailableError(
                    f"{self.topic}: nothing came for {_STALLED_SECONDS:.0f} s, though it is there"
                )

    def _left(self, client: Consumer, event: Message, positions: dict[int, int]) -> tuple[int, int, int] | None:
        """Take what is no message; return the partition and the offsets that retention has just removed."""
        error, partition = event.error(), event.partition()
        if error is None or error.code() in _PASSING or partition not in positions:
            return None
        if not _is_out_of_range(event):
            raise explained(error, self.topic)
        with kafka_errors(self.topic):
            place = TopicPartition(self.topic.name, partition)
            low, _ = client.get_watermark_offsets(place, timeout=ANSWER_SECONDS)
        first, positions[partition] = positions[partition], max(low, positions[partition])
        if low <= first:
            raise KafkaUnavailableError(f"{self.topic}: partition {partition} does not have offset {first:,} now")
        return partition, first, low

    def _batches(self, messages: Sequence[Message]) -> Iterator[pa.RecordBatch]:
        values = [message.value() for message in messages]
        if None in values:  # such a message says that a key is deleted
            messages = [message for message in messages if message.value() is not None]
            values = [value for value in values if value is not None]
        if not messages:
            return
        columns, reasons = self.decoder.decoded(values)
        faults: list[FaultValue | None] = []
        if any(reasons):
            pairs = zip(messages, reasons, strict=True)
            faults = [None if reason is None else self._fault(message, reason) for message, reason in pairs]
        yield self._batch(columns, [message.timestamp()[1] for message in messages], faults)

    def _fault(self, message: Message, reason: str) -> FaultValue:
        place = f"{self.topic.name}/{message.partition()}:{message.offset()}"
        return {"place": place, "reason": reason, "raw": excerpt(message.value() or b"")}

    def _lost(self, partition: int, first: int, end: int) -> pa.RecordBatch:
        """One row that tells what retention took away before it was read."""
        place = f"{self.topic.name}/{partition}:{first}-{end - 1}"
        fault: FaultValue = {"place": place, "reason": f"retention removed {end - first:,} offsets", "raw": None}
        nulls = [pa.nulls(1, field.type) for field in self.events]
        return self._batch(nulls, [int(time.time() * 1000)], [fault])

    def _batch(
        self, columns: Sequence[pa.Array], moments: Sequence[int], faults: Sequence[FaultValue | None]
    ) -> pa.RecordBatch:
        appended_at = pa.array(moments, pa.timestamp("ms", "UTC")).cast(self.schema.field(APPENDED_AT).type)
        kind = self.schema.field(FAULT).type
        fault = pa.array(faults, kind) if any(faults) else pa.nulls(len(moments), kind)
        return pa.record_batch([*columns, appended_at, fault], schema=self.schema)

    @property
    def decoder(self) -> MessageDecoder:
        """What makes columns of messages; an error if they cannot hold values of a column's type."""
        if self.registry is None:
            return JsonEvents.of(self.events)
        from fieldfare.pipeline.kafka.registered_events import RegisteredEvents  # Avro's package is not everybody's

        return RegisteredEvents(self.events, self.format, self.registry)

    @property
    def events(self) -> pa.Schema:
        """The events' own columns."""
        return pa.schema([field for field in self.schema if field.name not in {APPENDED_AT, FAULT}])


def _is_out_of_range(event: Message) -> bool:
    error = event.error()
    return error is not None and error.code() in _RANGE_LEFT


_KEPT_MAX = 8
_KEPT: dict[tuple[str, ...], RangeConsumer] = {}  # of the topics that this worker read last


def _consumer(topic: KafkaTopic, group: str, topic_id: str) -> RangeConsumer:
    """The worker's consumer for a topic, which is connected already if it was used before."""
    key = (str(topic), topic_id, group, repr(sorted(topic.settings.items())))
    kept = _KEPT.pop(key, None) or RangeConsumer(consumer(topic, group, **_QUICK), topic.name)
    _KEPT[key] = kept
    if len(_KEPT) > _KEPT_MAX:
        _KEPT.pop(next(iter(_KEPT))).client.close()
    return kept
