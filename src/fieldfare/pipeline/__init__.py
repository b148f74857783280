"""Fieldfare on Apache Spark, through public APIs only: a join of DataFrames, and the long-running pipeline.

This is the only package that imports PySpark, and it can be imported only where PySpark is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldfare.deferred import deferred_names
from fieldfare.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("PySpark is missing: pip install 'fieldfare[spark]'") from error

if TYPE_CHECKING:
    from fieldfare.kafka.address import KafkaTopic
    from fieldfare.kafka.schema_registry import SchemaRegistry
    from fieldfare.pipeline.bucket.address import Bucket
    from fieldfare.pipeline.committed import committed_files, read_output
    from fieldfare.pipeline.join import match
    from fieldfare.pipeline.kafka.sink import KafkaSink
    from fieldfare.pipeline.kafka.source import KafkaSource
    from fieldfare.pipeline.run import Pipeline, PipelineOptions
    from fieldfare.pipeline.several import Outcome, Pipelines
    from fieldfare.pipeline.source import FolderSource
    from fieldfare.pipeline.tables.address import LakeTableSink, PostgresSink
    from fieldfare.pipeline.watching import Watcher
    from fieldfare.pipeline.writer import WriteOptions

__all__ = [
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

# Spark starts many Python processes, each of which needs few of them.
__getattr__ = deferred_names(
    __name__,
    {
        "Bucket": "bucket.address",
        "FolderSource": "source",
        "KafkaSink": "kafka.sink",
        "KafkaSource": "kafka.source",
        "KafkaTopic": "fieldfare.kafka.address",
        "LakeTableSink": "tables.address",
        "Outcome": "several",
        "Pipeline": "run",
        "PipelineOptions": "run",
        "Pipelines": "several",
        "PostgresSink": "tables.address",
        "SchemaRegistry": "fieldfare.kafka.schema_registry",
        "Watcher": "watching",
        "WriteOptions": "writer",
        "committed_files": "committed",
        "match": "join",
        "read_output": "committed",
    },
)
