"""Spark sessions: on this machine, all cores, quiet, with the log in a file; or on a cluster, as that is set up."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fieldfare.errors import MissingDependencyError, PipelineError

_JAVA_MISSING = (
    "Java 17 or later is missing, and Spark needs it: install openjdk-17-jre-headless (Debian, Ubuntu), "
    "or 'brew install openjdk@17', and set JAVA_HOME"
)


@contextmanager
def spark_session(name: str, log: Path, master: str | None = None) -> Iterator[SparkSession]:
    """A Spark session, stopped at the end. What Spark has to say goes to `log`.

    Without a master it runs on all cores of this machine, unless spark-submit started this program and decides.
    """
    _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise the first python3 on the PATH, without us
    with tempfile.TemporaryDirectory(prefix="fieldfare-spark-", ignore_cleanup_errors=True) as scratch:
        builder = SparkSession.builder.appName(name)
        if master is not None:
            builder = builder.master(master)
        elif _SUBMITTED not in os.environ:
            builder = builder.master("local[*,4]")  # 4: a failed task is tried again
        for key, value in _settings(master, scratch).items():
            builder = builder.config(key, value)
        with _stderr_to(log):
            try:
                spark = builder.getOrCreate()
            except (PySparkException, OSError) as error:
                raise MissingDependencyError(f"Spark did not start; {log} says why. {_JAVA_MISSING}") from error
            except Py4JJavaError as error:
                raise PipelineError(f"Spark did not start: {error.java_exception.getMessage()}") from error
        try:
            yield spark
        finally:
            with suppress(Py4JError, ConnectionError):  # a JVM that was killed has stopped already
                spark.stop()


_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit
_SOCKET_FOLDER_CHARACTERS_MAX = 60  # a socket's whole path may have about 100


def _settings(master: str | None, scratch: str) -> dict[str, str]:
    settings = {
        "spark.scheduler.mode": "FAIR",  # among pipelines that share the session; one alone does not notice
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }
    if _SUBMITTED in os.environ:
        return settings  # spark-submit's own options decide the rest
    # A batch waits 3 times so long for data that a lost executor had; by default 5 s.
    settings["spark.shuffle.io.retryWait"] = "1s"
    return settings | (_local_settings(scratch) if (master or "local").startswith("local") else {})


def _local_settings(scratch: str) -> dict[str, str]:
    return {
        **_sockets(scratch),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": scratch,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.ui.enabled": "false",
    }


def _sockets(folder: str) -> dict[str, str]:
    """Sockets of the file system, which move rows to Python and back more than twice as fast as TCP does."""
    if len(folder) > _SOCKET_FOLDER_CHARACTERS_MAX:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java", path=f"{home}/bin" if home else None):
        raise MissingDependencyError(_JAVA_MISSING)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Send what this process writes to standard error to a file. A JVM that starts meanwhile keeps writing there."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with log.open("wb") as stream:
            os.dup2(stream.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
