"""Workers that keep what has arrived, held against a topic that is made up: any ranges, gaps, and turns of workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, TopicPartition

from fieldfare.errors import KafkaUnavailableError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.pipeline.kafka import range_consumer, reader
from fieldfare.pipeline.kafka.ranges import Range
from fieldfare.pipeline.kafka.reader import RangeReader

FAULT = pa.struct([("place", pa.string()), ("reason", pa.string()), ("raw", pa.string())])
SCHEMA = pa.schema([("n", pa.int64()), ("_appended_at", pa.timestamp("us", "UTC")), ("_fault", FAULT)])
PARTITIONS = 2


@dataclass(frozen=True)
class Event:
    """A message, or the end of a partition, as a client gives it."""

    place: tuple[int, int]
    is_end: bool = False

    def partition(self) -> int:
        return self.place[0]

    def offset(self) -> int:
        return self.place[1]

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None

    def value(self) -> bytes:
        return json.dumps({"n": number(self.place)}).encode()

    def timestamp(self) -> tuple[int, int]:
        return 0, 0


def number(place: tuple[int, int]) -> int:
    return 1_000_000 * place[0] + place[1]


@dataclass
class Topic:
    """Which offsets of each partition hold a message."""

    there: list[list[bool]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])

    def within(self, part: Range) -> list[int]:
        found = range(part.first, part.end)
        return [number((part.partition, place)) for place in found if self.there[part.partition][place]]


@dataclass
class Client:
    """A client of the topic. It takes from one partition after the other, and tells of an end once."""

    topic: Topic
    positions: dict[int, int] = field(default_factory=dict)
    told: dict[int, int] = field(default_factory=dict)
    assigned: int = 0
    silent: int = 0  # times in a row that nothing came

    def assign(self, places: list[TopicPartition]) -> None:
        self.positions = {place.partition: place.offset for place in places}
        self.told = {}
        self.assigned += 1

    def unassign(self) -> None:
        self.positions = {}

    def consume(self, count: int, timeout: float) -> list[Event]:  # noqa: ARG002 - nothing is waited for
        found: list[Event] = []
        for partition in self.positions:
            there, position = self.topic.there[partition], self.positions[partition]
            while position < len(there) and len(found) < count:
                if there[position]:
                    found.append(Event((partition, position)))
                position += 1
            self.positions[partition] = position
            if position == len(there) and self.told.get(partition) != position and len(found) < count:
                self.told[partition] = position
                found.append(Event((partition, position), is_end=True))
        self.silent = 0 if found else self.silent + 1
        assert self.silent < 10, "somebody waits for what does not come"
        return found

    def close(self) -> None:
        pass


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Topic]:
    made = Topic()
    monkeypatch.setattr(reader, "_KEPT", {})
    monkeypatch.setattr(reader, "consumer", lambda *_, **__: Client(made))
    yield made
    made.there = []


def read(parts: list[Range], worker: str = "worker") -> list[int]:
    topic = KafkaTopic("nowhere:9092", "made-up")
    rows = RangeReader(topic, worker, SCHEMA).read(parts)
    return [row["n"] for batch in rows for row in batch.to_pylist()]


def assignments(worker: str = "worker") -> int:
    (client,) = [kept.client for key, kept in reader._KEPT.items() if worker in key]
    assert isinstance(client, Client)
    return client.assigned


STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.lists(st.booleans(), max_size=12)), max_size=4),
        st.tuples(*[st.integers(0, 15)] * PARTITIONS),  # offsets that the next ranges have, at most
        st.integers(0, 2),  # the worker that reads them
        st.sampled_from(["next", "again", "lost"]),
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from([0, 4, 10_000]), st.sampled_from([0, 3, 20_000]))
def test_every_range_has_its_messages_and_no_others(steps: list, left_out_max: int, held_max: int) -> None:  # type: ignore[type-arg]
    with pytest.MonkeyPatch.context() as patch:
        made = Topic()
        patch.setattr(reader, "_KEPT", {})
        patch.setattr(reader, "consumer", lambda *_, **__: Client(made))
        patch.setattr(range_consumer, "_LEFT_OUT_MAX", left_out_max)
        patch.setattr(range_consumer, "_HELD_MAX", held_max)
        position = [0] * PARTITIONS
        parts: list[Range] = []
        for appended, sizes, worker, kind in steps:
            for partition, some in appended:
                made.there[partition] += some
            if kind != "again":
                parts = []
                for partition, size in enumerate(sizes):
                    end = min(len(made.there[partition]), position[partition] + size)
                    if end > position[partition]:
                        parts.append(Range(partition, position[partition], end, 0, 0))
                    position[partition] = max(position[partition], end)
            wanted = sorted(each for part in parts for each in made.within(part))
            if kind == "lost":  # a task that is killed in the middle
                next(iter(RangeReader(KafkaTopic("h:1", "t"), str(worker), SCHEMA).read(parts)), None)
            assert sorted(read(parts, str(worker))) == wanted


def test_ranges_that_follow_each_other_are_assigned_once(topic: Topic) -> None:
    topic.there = [[True] * 100, [True] * 100]
    for first in range(0, 100, 10):
        parts = [Range(partition, first, first + 10, 0, 0) for partition in range(PARTITIONS)]
        assert len(read(parts)) == 20
    assert assignments() == 1
    assert len(read([Range(0, 50, 60, 0, 0)])) == 10  # what was read already, of one partition
    assert assignments() == 2


def test_a_topic_of_another_id_is_read_anew(topic: Topic) -> None:
    topic.there = [[True] * 10, []]
    place = KafkaTopic("nowhere:9092", "made-up")
    for topic_id in ("old", "new"):
        rows = RangeReader(place, "worker", SCHEMA, topic_id=topic_id).read([Range(0, 0, 5, 0, 0)])
        assert sum(batch.num_rows for batch in rows) == 5
    assert len(reader._KEPT) == 2


def test_only_some_topics_are_kept(topic: Topic) -> None:
    topic.there = [[True] * 10, []]
    for number_ in range(20):
        read([Range(0, 0, 5, 0, 0)], f"worker-{number_}")
    assert len(reader._KEPT) == reader._KEPT_MAX


def test_a_range_of_which_nothing_comes_is_told(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.there = [[True] * 10, []]
    with monkeypatch.context() as patch:
        patch.setattr(reader, "_STALLED_SECONDS", 0)
        with pytest.raises(KafkaUnavailableError, match="nothing came"):
            read([Range(0, 5, 20, 0, 0)])  # the topic ends before that
    topic.there[0] += [True] * 10
    assert len(read([Range(0, 5, 20, 0, 0)])) == 15
