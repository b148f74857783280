"""Measures the pipeline with Kafka beside a folder of the same events, and beside the same job written by hand."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from fieldfare.bench.kafka import faststream_peer
from fieldfare.bench.kafka.load import Latency
from fieldfare.bench.kafka.ours import SCHEMA, Job
from fieldfare.bench.kafka.peers import by_hand, measured, with_duckdb
from fieldfare.bench.kafka.server import KafkaServer
from fieldfare.bench.kafka.topics import fill, make_topics, values_of
from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.spatial import bluedove
from fieldfare.bench.streaming import conditions_of
from fieldfare.bench.workload import Size, Workload
from fieldfare.errors import InputError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.pipeline.kafka.sink import KafkaSink
from fieldfare.pipeline.kafka.source import KafkaSource
from fieldfare.pipeline.source import FolderSource
from fieldfare.pipeline.spark_session import spark_session
from fieldfare.store.subscription_store import open_store

_FILES = 8
_BATCHES = 6
_VERIFIED_EVENTS = 200
_COUNTED_EVENTS = 20_000  # whose matches are counted
_TOPICS = ("in", "out", "by-hand", "duckdb", "faststream", "latency-in", "latency-out")


@dataclass(frozen=True, slots=True)
class KafkaBenchOptions:
    """How large the workload is. The default width makes about 5 matches for each event."""

    subscriptions: int = 40_000
    width: float = 106.0
    events: int = 600_000
    peer_seconds: float = 5.0
    stream_seconds: float = 15.0
    stream_rate: int = 20_000
    broker: str | None = None  # None: one that is started for the measurement
    seed: int = 1

    def __post_init__(self) -> None:
        if (
            min(self.subscriptions, self.events, self.stream_rate) < 1
            or min(self.peer_seconds, self.stream_seconds) < 0
        ):
            raise InputError("numbers of subscriptions and events must be above 0, and times not below")


@dataclass(frozen=True, slots=True)
class KafkaResult:
    """Events per second by what was run, and the latency from Kafka to Kafka."""

    subscriptions: int
    matches_per_event: float
    rates: dict[str, float]
    latency: Latency | None

    @property
    def ratios(self) -> dict[str, float]:
        """What the aims are stated in."""
        rates = self.rates
        return {
            "kafka_to_folder": rates["kafka_to_parquet"] / rates["folder_to_parquet"],
            "ours_to_by_hand": rates["kafka_to_kafka"] / rates["by_hand"],
            "ours_to_duckdb": rates["kafka_to_kafka"] / rates["duckdb"],
            "ours_to_faststream": rates["kafka_to_kafka"] / rates["faststream"],
        }


def run(options: KafkaBenchOptions, progress: Callable[[str], None]) -> KafkaResult:
    """Measure everything; `progress` is told what is being done."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldfare-bench-")))
        address = options.broker
        if address is None:
            progress("starting a broker")
            address = stack.enter_context(KafkaServer(folder / "kafka")).address
        progress("generating the workload")
        size = Size(options.subscriptions, options.width, options.events)
        workload = bluedove("bluedove", size, np.random.default_rng(options.seed))
        events = _messages(workload)
        run_id = f"fieldfare-bench-{time.time_ns()}-"
        make_topics(address, [run_id + name for name in _TOPICS])
        topics = {name: KafkaTopic(address, run_id + name) for name in _TOPICS}
        fill(address, topics["in"].name, events)
        _write_files(events, folder / "in")
        store = str(folder / "store.db")
        with open_store(store) as opened:
            opened.add(conditions_of(workload), now_seconds=time.time())
        rates = {}
        for name, peer in (("by_hand", by_hand(workload)), ("duckdb", with_duckdb(workload))):
            progress(f"measuring {name}")
            target = topics[name.replace("_", "-")].name
            rates[name] = measured(peer, address, topics["in"].name, target, options.peer_seconds)
            _verified(name, workload, list(values_of(address, target)))
        progress("measuring faststream")
        place = address, topics["in"].name, topics["faststream"].name
        rates["faststream"] = faststream_peer.measured(workload, *place, options.peer_seconds)
        _verified("faststream", workload, list(values_of(address, topics["faststream"].name)))
        spark = stack.enter_context(spark_session("fieldfare-bench", folder / "spark.log"))
        job = Job(spark, store, folder)
        batch = max(1, options.events // _BATCHES)

        def from_kafka(name: str) -> KafkaSource:
            return KafkaSource(topics["in"], folder / name / "ledger", SCHEMA, events_per_batch_max=batch)

        progress("measuring a folder into Parquet")
        files = FolderSource(folder / "in", folder / "files" / "ledger", "json", SCHEMA, events_per_batch_max=batch)
        rates["folder_to_parquet"] = job.throughput("files", files, folder / "files-out")
        progress("measuring Kafka into Parquet")
        rates["kafka_to_parquet"] = job.throughput("parquet", from_kafka("parquet"), folder / "parquet-out")
        progress("measuring Kafka to Kafka")
        rates["kafka_to_kafka"] = job.throughput("kafka-out", from_kafka("kafka-out"), KafkaSink(topics["out"]))
        matches = _verified("ours", workload, list(values_of(address, topics["out"].name)), whole=True)
        latency = None
        if options.stream_seconds:
            progress("measuring latency")
            pair = topics["latency-in"], topics["latency-out"]
            latency = job.latency("latency", pair, options.stream_rate, options.stream_seconds)
        return KafkaResult(options.subscriptions, matches, rates, latency)


def _messages(workload: Workload) -> list[bytes]:
    columns = [workload.events[name].to_pylist() for name in ("a0", "a1", "a2", "a3")]
    text = '{"event_id":%d,"a0":%r,"a1":%r,"a2":%r,"a3":%r}'
    return [(text % (number, *values)).encode() for number, values in enumerate(zip(*columns, strict=True))]


def _write_files(events: list[bytes], folder: Path) -> None:
    folder.mkdir()
    bounds = np.linspace(0, len(events), _FILES + 1).astype(int).tolist()
    for number in range(_FILES):
        (folder / f"{number}.jsonl").write_bytes(b"\n".join(events[bounds[number] : bounds[number + 1]]) + b"\n")


def _verified(name: str, workload: Workload, values: list[bytes], *, whole: bool = False) -> float:
    """Compare a sample with brute force, and the number of events if all should be there; return matches per event."""
    if whole and len(values) != len(workload.events):
        raise BenchVerificationError(name, workload.name, 0, f"{len(values):,} messages are there")
    step = max(1, len(values) // _VERIFIED_EVENTS)
    sample = [json.loads(value) for value in values[::step]]
    for message in sample:
        event = message["event_id"]
        if sorted(message["subscription_ids"]) != workload.brute_force(event).tolist():
            raise BenchVerificationError(name, workload.name, event, "other subscriptions than brute force finds")
    counted = [json.loads(value) for value in values[:: max(1, len(values) // _COUNTED_EVENTS)]]
    return sum(len(message["subscription_ids"]) for message in counted) / max(1, len(counted))


def to_json(result: KafkaResult) -> str:
    """One object."""
    return json.dumps({**asdict(result), "ratios": result.ratios}, indent=2)


_TITLES = {
    "folder_to_parquet": "ours, a folder of JSON lines into Parquet",
    "kafka_to_parquet": "ours, Kafka into Parquet",
    "kafka_to_kafka": "ours, Kafka to Kafka, exactly once",
    "by_hand": "by hand: every condition in Python",
    "duckdb": "by hand: DuckDB",
    "faststream": "FastStream: every condition in Python",
}


def render(result: KafkaResult) -> Table:
    """A table of events per second."""
    title = f"Kafka: {result.subscriptions:,} subscriptions, {result.matches_per_event:.1f} matches per event"
    table = Table(title=title)
    table.add_column("what")
    table.add_column("events/s", justify="right")
    for name, text in _TITLES.items():
        table.add_row(text, f"{result.rates[name]:,.0f}")
    rows: dict[str, Any] = {name.replace("_", " "): f"{ratio:,.2f} x" for name, ratio in result.ratios.items()}
    if result.latency is not None:
        rate = f"at {result.latency.events_per_second:,.0f} events/s, from produce to consume"
        rows[f"p50 {rate}"] = f"{result.latency.p50_seconds:.3f} s"
        rows[f"p99 {rate}"] = f"{result.latency.p99_seconds:.3f} s"
    for text, value in rows.items():
        table.add_row(text, value)
    return table
