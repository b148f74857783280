"""The pipeline on Spark from Kafka into Parquet, and from Kafka to Kafka, held against what plain Python says."""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from tests.kafka.conftest import Broker
from tests.kafka.registry import RegistryServer
from tests.kafka.registry import message as avro_message

from fieldfare.errors import FencedError, InputError, MissingDependencyError, PipelineError
from fieldfare.pipeline import KafkaSink, KafkaSource, KafkaTopic, Pipeline, PipelineOptions, Watcher
from fieldfare.pipeline.kafka.output import KafkaOutput
from fieldfare.pipeline.metrics import PipelineMetrics
from fieldfare.pipeline.output import WriteOptions
from fieldfare.pipeline.output_places import opened_output
from fieldfare.pipeline.remedies import Remedy, remedy_for
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.store.subscription_store import open_store

CONDITIONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "low": ("x < 10", lambda x, _: x < 10),
    "middle": ("x >= 5 AND x < 20 AND kind = 'a'", lambda x, kind: 5 <= x < 20 and kind == "a"),
    "kinds": ("kind IN ('b', 'c')", lambda _, kind: kind in {"b", "c"}),
    "none": ("kind IS NULL", lambda _, kind: kind is None),
}


def made(first: int, count: int) -> list[dict[str, Any]]:
    rng = random.Random(first)
    return [
        {"event_id": first + place, "x": rng.uniform(0, 100), "kind": rng.choice(["a", "b", "c", "d", None])}
        for place in range(count)
    ]


def wanted(events: list[dict[str, Any]]) -> dict[int, list[str]]:
    return {
        event["event_id"]: sorted(name for name, (_, holds) in CONDITIONS.items() if holds(event["x"], event["kind"]))
        for event in events
    }


class Kept(Watcher):
    def __init__(self) -> None:
        self.batches: list[BatchSummary] = []
        self.notices: list[str] = []

    def batch(self, summary: BatchSummary) -> None:
        self.batches.append(summary)

    def notice(self, text: str) -> None:
        self.notices.append(text)


@dataclass
class Place:
    """A topic of events, a store, and how to run a pipeline between them."""

    spark: SparkSession
    broker: Broker
    folder: Path
    topic: KafkaTopic

    @property
    def options(self) -> PipelineOptions:
        store, state = str(self.folder / "s.db"), self.folder / "state"
        return PipelineOptions(store, self.folder / "out", state, layout="replicated", until_idle=True)

    @property
    def source(self) -> KafkaSource:
        return KafkaSource(self.topic, self.folder / "state" / "ledger", events_per_batch_max=1_500)

    def send(self, events: list[dict[str, Any]]) -> None:
        for partition in range(3):
            self.broker.send(self.topic, [json.dumps(event).encode() for event in events[partition::3]], partition)

    def run(self, options: PipelineOptions | None = None, source: KafkaSource | None = None) -> Kept:
        kept = Kept()
        Pipeline(self.spark, options or self.options, watcher=kept).run(source or self.source)
        return kept


@pytest.fixture
def place(spark: SparkSession, broker: Broker, tmp_path: Path) -> Place:
    with open_store(str(tmp_path / "s.db")) as store:
        store.add({name: condition for name, (condition, _) in CONDITIONS.items()}, now_seconds=time.time())
    return Place(spark, broker, tmp_path, broker.topic(3))


def test_kafka_into_parquet(place: Place) -> None:
    first, second = made(0, 3_000), made(3_000, 300)
    place.send(first)
    place.broker.send(place.topic, [b"junk"], 1)
    kept = place.run()
    assert [batch.behind for batch in kept.batches] == [1_501, 1, 0]
    assert sum(batch.events for batch in kept.batches) == 3_000
    assert sum(batch.quarantined for batch in kept.batches) == 1
    place.broker.remove_before(place.topic, 0, 1_000)  # what is read already is no loss
    place.broker.transaction(place.topic, [b'{"event_id": -1, "x": 1}'], commit=False)
    place.send(second)
    place.broker.remove_before(place.topic, 1, 1_011)  # 10 of them are, though
    lost = {event["event_id"] for event in second[1::3][:10]}
    kept = place.run()  # a second run goes on where the first was
    assert any("lost 10 events" in notice for notice in kept.notices)
    metrics = PipelineMetrics()
    for batch in kept.batches:
        metrics.batch(batch)
    told = {sample.name: sample.value for metric in metrics.collect() for sample in metric.samples}
    assert (told["fieldfare_lost_events_total"], told["fieldfare_lag_events"]) == (10, 0)
    table = ds.dataset(place.folder / "out", partitioning="hive").to_table()
    pairs = list(zip(table["event_id"].to_pylist(), table["subscription_ids"].to_pylist(), strict=True))
    expected = {event: ids for event, ids in wanted(first + second).items() if event not in lost}
    assert len(pairs) == len(expected)
    assert {event: sorted(ids) for event, ids in pairs} == expected
    quarantine = [
        json.loads(line)["place"]
        for file in (place.folder / "out").glob("*/_quarantine.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted(quarantine) == [f"{place.topic.name}/1:1000", f"{place.topic.name}/1:1001-1010"]


def test_messages_in_avro(place: Place) -> None:
    fields = [{"name": "event_id", "type": "long"}, {"name": "x", "type": "double"}]
    schema = {"type": "record", "name": "E", "fields": [*fields, {"name": "kind", "type": ["null", "string"]}]}
    events = made(0, 600)
    with RegistryServer() as server:
        source = replace(place.source, format="avro", registry=server.registry)
        assert not source.is_ready()
        schema_id = server.add(schema, place.topic.name)
        for partition in range(3):
            values = [avro_message(schema_id, schema, event) for event in events[partition::3]]
            place.broker.send(place.topic, [*values, b"junk"], partition)
        kept = place.run(source=source)
    assert sum(batch.quarantined for batch in kept.batches) == 3
    table = ds.dataset(place.folder / "out", partitioning="hive").to_table()
    pairs = zip(table["event_id"].to_pylist(), table["subscription_ids"].to_pylist(), strict=True)
    assert {event: sorted(ids) for event, ids in pairs} == wanted(events)


def test_kafka_to_kafka(place: Place) -> None:
    events = made(0, 2_500)
    place.send(events)
    place.broker.send(place.topic, [b"junk"], 1)
    output = place.broker.topic(2)
    options = replace(place.options, output=KafkaSink(output, key="kind"), layout="multi")
    place.run(options)
    place.run(options)  # nothing is new
    messages = place.broker.read(output.name)
    found = [json.loads(message.value() or b"") for message in messages]
    assert Counter(message["event_id"] for message in found) == Counter(range(2_500))
    assert {message["event_id"]: sorted(message["subscription_ids"]) for message in found} == wanted(events)
    by_id = {event["event_id"]: event for event in events}
    for message, content in zip(messages, found, strict=True):
        event = by_id[content["event_id"]]
        assert content["x"] == event["x"]
        assert message.key() == (None if event["kind"] is None else event["kind"].encode())
    (letter,) = place.broker.read(f"{output.name}-dead-letters")
    assert json.loads(letter.value() or b"")["place"].startswith(f"{place.topic.name}/1:")


def test_a_message_for_each_pair(place: Place) -> None:
    events = made(0, 300)
    place.send(events)
    output = place.broker.topic(3)
    secret = {"sasl.password": "canary-3f9a"}  # which is not asked for here
    topic = replace(place.topic, settings=secret)
    source = replace(place.source, topic=topic, schema="event_id BIGINT, x DOUBLE, kind STRING")
    sink = KafkaSink(replace(output, settings=secret))
    place.run(replace(place.options, output=sink, write=WriteOptions(explode=True)), source)
    files = [file for file in place.folder.rglob("*") if file.is_file()]
    assert [file for file in files if b"canary-3f9a" in file.read_bytes()] == []
    found = [(message.key(), json.loads(message.value() or b"")) for message in place.broker.read(output.name)]
    pairs = Counter((content["event_id"], content["subscription_id"]) for _, content in found)
    assert pairs == Counter((event, name) for event, names in wanted(events).items() for name in names)
    assert all(key == content["subscription_id"].encode() for key, content in found)


def test_an_empty_topic_says_nothing_of_its_events(place: Place) -> None:
    assert place.run().notices[-1] == f"{place.topic} is empty: there is nothing to match"


def test_a_driver_that_was_fenced_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.send(made(0, 2_000))
    output = place.broker.topic()
    send = KafkaOutput._send

    def send_beside_another(self: KafkaOutput, files: Any, quarantine: Any, marker: Any) -> None:
        if marker.batch_id == 1:
            monkeypatch.setattr(KafkaOutput, "_send", send)
            KafkaOutput(self._sink, self._owner, self._state).prepare()  # the second driver
        send(self, files, quarantine, marker)

    monkeypatch.setattr(KafkaOutput, "_send", send_beside_another)
    with pytest.raises(FencedError):
        place.run(replace(place.options, output=KafkaSink(output)))
    assert len(place.broker.read(output.name)) == 1_500  # batch 0 only
    assert remedy_for(FencedError("")) is Remedy.NONE
    place.run(replace(place.options, output=KafkaSink(output)))
    assert len(place.broker.read(output.name)) == 2_000


def test_what_cannot_be_done_is_refused(place: Place) -> None:
    options = replace(place.options, output=KafkaSink(place.topic))
    with pytest.raises(PipelineError, match="on_batch needs a folder"):
        Pipeline(place.spark, options, on_batch=lambda batch: None)  # noqa: ARG005
    with pytest.raises(InputError, match="csv"):
        replace(place.source, format="csv")
    for name in ("avro", "protobuf"):
        with pytest.raises(InputError, match="schema registry"):
            replace(place.source, format=name)
    place.send(made(0, 1))
    place.run()
    with pytest.raises(InputError, match="the checkpoint has read the topic"):
        place.run(source=replace(place.source, topic=place.broker.topic()))


def test_without_the_extra_an_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for name in [name for name in sys.modules if name.startswith(("fieldfare.pipeline.kafka.", "fieldfare.kafka."))]:
        if not name.endswith((".address", ".sink")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("fieldfare.kafka.clients", raising=False)
    with pytest.raises(MissingDependencyError, match=r"fieldfare\[kafka\]"):
        importlib.import_module("fieldfare.pipeline.kafka.source")
    with pytest.raises(MissingDependencyError, match=r"fieldfare\[kafka\]"):
        opened_output(KafkaSink(KafkaTopic("h:1", "t")), tmp_path, "owner", WriteOptions())
