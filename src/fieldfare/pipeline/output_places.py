"""Where a pipeline's output can go, and what writes it there. What a place needs is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from fieldfare.pipeline.batch_output import BatchOutput
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.kafka.sink import KafkaSink
from fieldfare.pipeline.output import OutputFolder
from fieldfare.pipeline.tables.address import LakeTableSink, PostgresSink
from fieldfare.pipeline.tables.gathering import GatheredOutput, LakeTable
from fieldfare.pipeline.writer import WriteOptions

OutputPlace: TypeAlias = Path | Bucket | KafkaSink | LakeTableSink | PostgresSink


def opened_output(
    place: OutputPlace, state: Path, owner: str, write: WriteOptions, tell: Callable[[str], None] | None = None
) -> BatchOutput:
    """The output at a place. `state` is the checkpoint's folder, and `owner` its id. `tell` is told of what waits."""
    match place:
        case KafkaSink():
            from fieldfare.kafka import clients  # noqa: F401 - it says which extra is missing
            from fieldfare.pipeline.kafka.output import KafkaOutput

            return KafkaOutput(place, owner, state, explode=write.explode)
        case PostgresSink():
            from fieldfare.pipeline.tables.postgres import PostgresOutput

            return PostgresOutput(place, owner, state)
        case LakeTableSink():
            table = _lake_table(place, owner)
            return GatheredOutput(table, state, owner, place.commit_seconds, explode=write.explode, tell=tell)
        case Bucket():
            from fieldfare.pipeline.bucket.output import BucketOutput

            return BucketOutput(place, owner, state, explode=write.explode)
        case _:
            return OutputFolder(place, owner, explode=write.explode)


def _lake_table(sink: LakeTableSink, owner: str) -> LakeTable:
    if sink.format == "delta":
        from fieldfare.pipeline.tables.delta import DeltaLakeTable

        return DeltaLakeTable(sink, owner)
    from fieldfare.pipeline.tables.iceberg import IcebergLakeTable

    return IcebergLakeTable(sink, owner)
