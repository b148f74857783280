"""The public names are few, and a change of them is a decision."""

from __future__ import annotations

import fieldfare
import fieldfare.pipeline
from fieldfare.cli import app


def test_the_library() -> None:
    assert sorted(fieldfare.__all__) == [
        "App",
        "FieldfareError",
        "Index",
        "Range",
        "compile",
        "connect",
        "connect_sync",
        "embedded",
        "explain",
        "peer",
    ]
    assert all(hasattr(fieldfare, name) for name in fieldfare.__all__)


def test_an_index() -> None:
    assert sorted(name for name in vars(fieldfare.Index) if not name.startswith("_")) == [
        "asks_now",
        "attributes",
        "check_schema",
        "compacted",
        "extended",
        "from_boxes",
        "ids",
        "joined",
        "load",
        "match",
        "match_rows",
        "match_table",
        "nbytes",
        "of_compiled",
        "save",
        "updated",
        "without",
    ]


def test_the_pipeline() -> None:
    assert fieldfare.pipeline.__all__ == [
        "Bucket",
        "FolderSource",
        "KafkaSink",
        "KafkaSource",
        "KafkaTopic",
        "LakeTableSink",
        "Outcome",
        "Pipeline",
        "PipelineOptions",
        "Pipelines",
        "PostgresSink",
        "SchemaRegistry",
        "Watcher",
        "WriteOptions",
        "committed_files",
        "match",
        "read_output",
    ]
    assert all(hasattr(fieldfare.pipeline, name) for name in fieldfare.pipeline.__all__)


def test_the_commands() -> None:
    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    assert sorted(names) == [
        "admit",
        "broker",
        "dds-bridge",
        "explain",
        "match",
        "peer",
        "peer-bridge",
        "peers",
        "placement",
        "plan",
        "publish",
        "run",
        "serve",
        "subscribe",
        "unsubscribe",
    ]
    assert sorted(group.name or "" for group in app.registered_groups) == [
        "bench",
        "brokers",
        "config",
        "demo",
        "experiments",
        "pipeline",
        "subscriptions",
        "tokens",
        "topics",
    ]
