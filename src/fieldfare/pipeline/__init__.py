"""Fieldfare on Apache Spark, through public APIs only: a join of DataFrames, and the long-running pipeline.

This is the only package that imports PySpark, and it can be imported only where PySpark is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fieldfare.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("PySpark is missing: pip install 'fieldfare[spark]'") from error

if TYPE_CHECKING:
    from fieldfare.pipeline.join import match
    from fieldfare.pipeline.kafka.address import KafkaSink, KafkaTopic
    from fieldfare.pipeline.kafka.schema_registry import SchemaRegistry
    from fieldfare.pipeline.kafka.source import KafkaSource
    from fieldfare.pipeline.run import Pipeline, PipelineOptions
    from fieldfare.pipeline.source import FolderSource
    from fieldfare.pipeline.tables.address import LakeTableSink, PostgresSink
    from fieldfare.pipeline.watching import Watcher

__all__ = [
    "FolderSource",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopic",
    "LakeTableSink",
    "Pipeline",
    "PipelineOptions",
    "PostgresSink",
    "SchemaRegistry",
    "Watcher",
    "match",
]

_MODULES = {
    "FolderSource": "source",
    "KafkaSink": "kafka.address",
    "KafkaSource": "kafka.source",
    "KafkaTopic": "kafka.address",
    "LakeTableSink": "tables.address",
    "Pipeline": "run",
    "PipelineOptions": "run",
    "PostgresSink": "tables.address",
    "SchemaRegistry": "kafka.schema_registry",
    "Watcher": "watching",
    "match": "join",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: Spark's many Python processes each need few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
