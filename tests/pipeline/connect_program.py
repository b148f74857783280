"""A user's program on Spark Connect: it matches a batch and a stream, and prints what it found as JSON.

A program of its own, because a process has either classic Spark or Spark Connect. PySpark starts the server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fieldfare.errors import FieldfareError
from fieldfare.pipeline import Pipeline, PipelineOptions, match


def _found(matches: DataFrame) -> dict[int, Any]:
    return {row.event_id: sorted(row.subscription_ids) for row in matches.collect()}


def _streamed(stream: DataFrame, checkpoint: Path) -> DataFrame:
    """What is in the stream now, matched."""
    writer = stream.writeStream.format("memory").queryName("matched").option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(300)
    return stream.sparkSession.table("matched")


def _refused(use: Callable[[], object]) -> str:
    try:
        use()
    except FieldfareError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was refused"


def _main(folder: Path) -> None:
    builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    schema = "event_id BIGINT, price DOUBLE, place STRUCT<city: STRING>"
    events = spark.read.schema(schema).json(str(folder / "events"))
    stream = spark.readStream.schema(schema).json(str(folder / "events"))
    subscriptions = spark.read.option("header", "true").csv(str(folder / "subscriptions.csv"))
    wrong = spark.createDataFrame([(1, "price = 'x'")], "subscription_id INT, condition STRING")
    options = PipelineOptions(str(folder / "none.db"), folder / "out", folder / "state")
    found = {
        "session": type(spark).__module__,
        "batch": _found(match(events, subscriptions)),
        "stream": _found(_streamed(match(stream, subscriptions), folder / "checkpoint")),
        "types": _refused(lambda: match(events, wrong)),
        "pipeline": _refused(lambda: Pipeline(spark, options).run(stream)),
    }
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
