"""Ranges of a real topic, planned and read without Spark. What a range should have is known from what was sent."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql.types import StructType
from tests.kafka.conftest import Broker

from fieldfare.errors import InputError, KafkaTopicError, KafkaUnavailableError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.watching import TopicWatch
from fieldfare.pipeline.kafka.planner import TopicPlanner
from fieldfare.pipeline.kafka.ranges import Range
from fieldfare.pipeline.kafka.reader import RangeReader
from fieldfare.pipeline.kafka.sampling import first_messages, schema_of
from fieldfare.pipeline.kafka.saved_start import saved
from fieldfare.pipeline.kafka.source import KafkaSource

FAULT = pa.struct([("place", pa.string()), ("reason", pa.string()), ("raw", pa.string())])
SCHEMA = pa.schema([("n", pa.int64()), ("_appended_at", pa.timestamp("us", "UTC")), ("_fault", FAULT)])


def events(*numbers: int) -> list[bytes]:
    return [json.dumps({"n": number}).encode() for number in numbers]


@dataclass
class Plan:
    """What the pipeline does with a topic, without Spark: ask for the next batch, again and again."""

    topic: KafkaTopic
    batch_max: int = 100
    starting: str = "earliest"

    def __post_init__(self) -> None:
        self.beginning = TopicWatch(self.topic).beginning(self.starting)
        self.source = self.started()
        self.place = self.source.beginning()

    def started(self) -> TopicPlanner:
        return TopicPlanner(RangeReader(self.topic, "plan", SCHEMA), StructType(), self.beginning, self.batch_max, 1)

    def next(self) -> list[Range]:
        start, self.place = self.place, self.source.end_after(self.place)
        return self.source.ranges(start, self.place)

    def read(self) -> list[int]:
        """The numbers of the events of the next batch."""
        return numbers(self.topic, self.next())


def batches(topic: KafkaTopic, parts: Sequence[Range], group: str = "readers") -> list[dict[str, Any]]:
    reader = RangeReader(topic, group, SCHEMA)
    return [row for batch in reader.read(parts) for row in batch.to_pylist()]


def numbers(topic: KafkaTopic, parts: Sequence[Range], group: str = "readers") -> list[int]:
    return [row["n"] for row in batches(topic, parts, group) if row["_fault"] is None]


def test_transactions_end_ranges_at_what_is_stable_and_leave_no_trace(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, events(0, 1))
    broker.transaction(topic, events(2, 3))
    broker.transaction(topic, events(-1, -2), commit=False)
    broker.send(topic, events(4))
    is_open = Producer({**broker.settings, "transactional.id": "open"})
    is_open.init_transactions(30)
    is_open.begin_transaction()
    is_open.produce(topic.name, events(6)[0], partition=0)
    is_open.flush(30)
    broker.send(topic, events(5))
    plan = Plan(topic)
    assert plan.read() == [0, 1, 2, 3, 4]
    assert plan.read() == []
    is_open.commit_transaction(30)
    assert plan.read() == [6, 5]
    broker.transaction(topic, events(-3), commit=False)
    assert plan.read() == []  # a range without a message ends too
    assert plan.read() == []
    broker.send(topic, events(7))
    assert plan.read() == [7]


def test_ranges_that_cut_through_transactions_and_gaps_read_all_once(broker: Broker) -> None:
    topic = broker.topic(2)
    wanted: list[int] = []
    for number in range(12):
        some = [10 * number, 10 * number + 1]
        broker.transaction(topic, events(*some), commit=number % 3 != 1, partition=number % 2)
        wanted += some if number % 3 != 1 else []
    plan = Plan(topic, batch_max=3)
    found: list[int] = []
    while parts := plan.next():
        found += numbers(topic, parts)
    assert sorted(found) == wanted


def test_a_short_range_beside_a_long_one_gets_no_more_than_it_should(broker: Broker) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.send(topic, events(*range(10_000 * partition, 10_000 * partition + 6_000)), partition)
    found = numbers(topic, [Range(0, 3, 10, 0, 0), Range(1, 0, 5_000, 0, 0)])
    assert sorted(found) == [*range(3, 10), *range(10_000, 15_000)]


def test_workers_that_take_turns_read_every_range_whole(broker: Broker) -> None:
    """Each goes on with what has come to it meanwhile; one that is new at every range is the measure."""
    rng = random.Random(7)
    topic = broker.topic(2)
    sent = 0
    committed: list[int] = []
    found: list[int] = []
    plan, parts = Plan(topic), list[Range]()
    for step in range(40):
        for partition in range(2):
            some, commit = list(range(sent, sent + rng.randrange(60))), rng.random() < 0.7
            sent += len(some)
            committed += some if commit else []
            broker.transaction(topic, events(*some), commit=commit, partition=partition)
        if rng.random() < 0.8:  # else the same ranges again, as after a crash
            plan.source._offsets_max = rng.choice([10, 50, 1_000])
            parts = plan.next()
            found += numbers(topic, parts, f"new-{step}")
        assert sorted(numbers(topic, parts, rng.choice("abc"))) == sorted(numbers(topic, parts, f"other-{step}"))
    plan.source._offsets_max = 1_000_000
    found += numbers(topic, plan.next(), "a")
    assert sorted(found) == committed


def test_what_retention_took_from_a_worker_that_others_outran_is_no_loss(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, events(*range(100)))
    assert numbers(topic, [Range(0, 0, 100, 0, 0)], "slow") == list(range(100))
    broker.send(topic, events(*range(100, 5_000)))
    broker.remove_before(topic, 0, 4_000)
    assert numbers(topic, [Range(0, 4_500, 4_600, 0, 0)], "slow") == list(range(4_500, 4_600))
    assert numbers(topic, [Range(0, 4_600, 5_000, 0, 0)], "slow") == list(range(4_600, 5_000))


def test_compaction_gaps_do_no_harm(broker: Broker) -> None:
    topic = broker.topic(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01", max_compaction_lag_ms="100"
    )
    last = 50
    broker.send(topic, events(*range(last)), key=b"same")
    deadline = time.monotonic() + 60
    while len(broker.read(topic.name)) == last:  # of a key, compaction keeps the last, but of whole segments only
        time.sleep(0.2)
        broker.send(topic, events(last), key=b"same")
        last += 1
        assert time.monotonic() < deadline
    before = {message.offset() for message in broker.read(topic.name)}
    found = [numbers(topic, [Range(0, first, end, 0, 0)]) for first, end in ((0, 20), (20, 49), (49, last))]
    after = {message.offset() for message in broker.read(topic.name)}
    read = [number for some in found for number in some]
    assert len(set(read)) == len(read)
    assert after <= set(read) <= before < set(range(last))


def test_what_is_no_event_is_set_aside_with_its_place(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, [b"junk", *events(1), None, b'{"n": "one"}', b"[1]", b'{"n": 1, "n": 2}', *events(2)])
    rows = batches(topic, [Range(0, 0, 7, 0, 0)])
    faults = {row["_fault"]["place"]: row["_fault"]["raw"] for row in rows if row["_fault"]}
    assert [row["n"] for row in rows if not row["_fault"]] == [1, 2]
    assert sorted(faults) == [f"{topic.name}/0:{offset}" for offset in (0, 3, 4, 5)]  # 2 says that a key is deleted
    assert faults[f"{topic.name}/0:0"] == "junk"


def test_an_event_has_the_time_of_its_message(broker: Broker) -> None:
    topic = broker.topic()
    client = Producer(broker.settings)
    client.produce(topic.name, events(1)[0], timestamp=1_700_000_000_123)
    client.flush(30)
    (row,) = batches(topic, [Range(0, 0, 1, 0, 0)])
    assert row["_appended_at"] == datetime.fromtimestamp(1_700_000_000.123, UTC)


def test_retention_that_was_faster_is_told_and_the_rest_is_read(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, events(*range(20)))
    plan = Plan(topic, batch_max=5)
    assert plan.read() == [0, 1, 2, 3, 4]
    broker.remove_before(topic, 0, 9)
    (part,) = plan.next()
    assert part == Range(0, 9, 14, lost=4, behind=6)
    lost, *rest = batches(topic, [part])
    assert lost["_fault"]["place"] == f"{topic.name}/0:5-8"
    assert "4" in lost["_fault"]["reason"]
    assert [row["n"] for row in rest] == [9, 10, 11, 12, 13]
    broker.remove_before(topic, 0, 16)  # this one after the range was planned, or even while it is read
    lost, *rest = batches(topic, [Range(0, 14, 18, 0, 0)], "others")  # the first reader may have read ahead
    assert lost["_fault"]["place"] == f"{topic.name}/0:14-15"
    assert [row["n"] for row in rest] == [16, 17]


def test_all_that_was_planned_may_be_gone(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, events(*range(8)))
    plan = Plan(topic)
    broker.remove_before(topic, 0, 8)
    (lost,) = batches(topic, plan.next())
    assert lost["_fault"]["place"] == f"{topic.name}/0:0-7"
    (lost,) = batches(topic, [Range(0, 2, 6, 0, 0)])
    assert lost["_fault"]["place"] == f"{topic.name}/0:2-5"


def test_a_new_partition_is_read_from_its_first_message(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, events(1))
    plan = Plan(topic, starting="latest")
    assert plan.next() == []
    broker.grow(topic, 3)
    broker.send(topic, events(2), partition=2)
    broker.send(topic, events(3), partition=0)
    assert sorted(plan.read()) == [2, 3]
    assert plan.place == {"0": 2, "1": 0, "2": 1}


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, events(1, 2))
    plan = Plan(topic)
    assert plan.read() == [1, 2]
    broker.delete(topic)
    with pytest.raises(KafkaTopicError, match="no such topic"):
        plan.next()
    broker.topic(name=topic.name)
    broker.send(topic, events(3, 4, 5))
    with pytest.raises(KafkaTopicError, match="made anew"):
        plan.next()
    with pytest.raises(KafkaTopicError):
        plan.started().ranges({"0": 0}, {"0": 2})


def test_a_starting_point_is_resolved_once(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.send(topic, events(1, 2, 3))
    plan = Plan(topic, starting="latest")
    broker.send(topic, events(4))
    assert plan.started().beginning() == {"0": 3, "1": 0}  # also when batch 0 is run again
    assert plan.read() == [4]


def test_a_starting_point_is_saved_before_anything_is_read(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(2)
    broker.send(topic, events(1, 2, 3))
    source = KafkaSource(topic, tmp_path / "state", "n BIGINT", starting="latest")
    assert source.is_ready()
    broker.send(topic, events(4))
    assert KafkaSource(topic, tmp_path / "state", "n BIGINT", starting="latest").is_ready()  # a run that was killed
    beginning = saved(tmp_path / "state")
    assert beginning is not None
    assert beginning.offsets == {0: 3, 1: 0}
    assert beginning.topic_id == TopicWatch(topic).partitions()[0]
    (tmp_path / "state" / "kafka_start.json").write_text('{"topic"')
    with pytest.raises(InputError, match="damaged"):
        source.is_ready()


def test_starting_points_of_all_kinds(broker: Broker) -> None:
    topic = broker.topic()
    client = Producer(broker.settings)
    for number, at in enumerate((1000, 2000, 3000)):
        client.produce(topic.name, events(number)[0], timestamp=1_700_000_000_000 + at)
    client.flush(30)
    broker.remove_before(topic, 0, 1)
    watch = TopicWatch(topic)
    assert watch.beginning("earliest").offsets == {0: 1}
    assert watch.beginning("latest").offsets == {0: 3}
    assert watch.beginning("0:2").offsets == {0: 2}
    moment = datetime.fromtimestamp(1_700_000_002.5, UTC)
    assert watch.beginning(moment.isoformat()).offsets == {0: 2}
    assert watch.beginning("2100-01-01").offsets == {0: 3}
    with pytest.raises(InputError, match="name an offset for each"):
        watch.beginning("1:2")


def test_a_batch_that_is_run_again_has_the_same_ranges(broker: Broker) -> None:
    topic = broker.topic(3)
    for partition in range(3):
        broker.send(topic, events(*range(20)), partition)
    plan = Plan(topic, batch_max=30)
    start = plan.place
    first = plan.next()
    again = plan.started().ranges(start, plan.place)
    assert [(part.partition, part.first, part.end) for part in again] == [(p.partition, p.first, p.end) for p in first]


def test_all_that_is_there_now_is_bounded_by_now(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, events(1, 2))
    plan = Plan(topic)
    plan.source.stop_at_latest()
    broker.send(topic, events(3))
    assert plan.read() == [1, 2]
    assert plan.next() == []


def test_kafkas_own_tools_see_how_far_it_is(broker: Broker) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    topic = broker.topic()
    broker.send(topic, events(1, 2))
    plan = Plan(topic)
    plan.next()
    plan.source.show(plan.place)
    deadline = time.monotonic() + 60
    while True:
        asked = broker.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("plan")])
        places = asked["plan"].result(30).topic_partitions
        if any(place.topic == topic.name and place.offset == 2 for place in places):
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_schema_is_that_of_the_first_messages(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.send(topic, [b'{"n": 1, "kind": null}', b"junk", b'{"n": 2.5, "kind": "a"}'], partition=1)
    watch = TopicWatch(topic)
    values = first_messages(topic, "g", {0: 0, 1: 0}, watch.bounds())
    assert len(values) == 3
    assert schema_of(values, topic) == pa.schema([("n", pa.float64()), ("kind", pa.string())])
    with pytest.raises(InputError, match="cannot tell the events' schema"):
        schema_of([b"junk"], topic)


def test_brokers_that_do_not_answer_may_answer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldfare.kafka.watching.ANSWER_SECONDS", 0.5)
    with pytest.raises(KafkaUnavailableError):
        TopicWatch(KafkaTopic("127.0.0.1:1", "t")).bounds()


def test_settings_that_kafka_does_not_know_are_refused() -> None:
    with pytest.raises(InputError, match=r"no\.such\.setting"):
        TopicWatch(KafkaTopic("127.0.0.1:1", "t", {"no.such.setting": "1"}))
