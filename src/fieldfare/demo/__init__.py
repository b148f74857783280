"""A story to watch: drivers subscribe to trouble on their ways, and traffic sensors report.

Tens of thousands of SQL conditions are matched against a stream of sensor events on local Spark.
"""

from __future__ import annotations

from fieldfare.demo.run import DemoOptions, run

__all__ = ["DemoOptions", "run"]
