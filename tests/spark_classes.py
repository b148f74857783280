"""Writes an archive of the classes that Spark loads, by which the tests' many JVMs start in half the time.

`python tests/spark_classes.py FILE`; then `SPARK_CLASSES=FILE pytest` uses it. A JVM that cannot, since it is another
one or has other jars, does as if there was none.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tests import conftest  # sets what all JVMs of the tests have in common


def write(archive: Path) -> None:
    """Do a little of everything that the tests do with Spark, and keep the classes that it took."""
    assert os.environ["SPARK_CONF_DIR"] == conftest.NO_SPARK_SETTINGS  # it is on the class path, which has to be equal
    partial = archive.with_suffix(".partial")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", folder)
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.extraJavaOptions", f"-Xlog:disable -XX:ArchiveClassesAtExit={partial}")
            .getOrCreate()
        )
        spark.range(1000).write.parquet(f"{folder}/events")
        events = spark.readStream.schema("id BIGINT").parquet(f"{folder}/events").mapInArrow(_same, "id BIGINT")
        query = events.repartition(2, "id").writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        query.trigger(availableNow=True).foreachBatch(_collect).start().awaitTermination()
        system = spark.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
        gateway = spark.sparkContext._gateway
        spark.stop()
        with suppress(Py4JError, ConnectionError):
            system.exit(0)  # it writes the archive when it ends by itself
        gateway.proc.wait()  # type: ignore[union-attr]
    partial.rename(archive)


def _same(batches):  # type: ignore[no-untyped-def]
    yield from batches


def _collect(rows, _):  # type: ignore[no-untyped-def]
    assert pa.table(rows.toArrow()).num_rows
    rows.groupBy("id").count().join(rows, "id").collect()


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
