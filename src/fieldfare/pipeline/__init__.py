"""Fieldfare on Apache Spark: functions from DataFrame to DataFrame, through public APIs only.

This is the only package that imports PySpark, and it can be imported only where PySpark is installed.
"""

from __future__ import annotations

from fieldfare.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingDependencyError("PySpark is missing: pip install 'fieldfare[spark]'") from error

from fieldfare.pipeline.match import match

__all__ = ["match"]
