"""Fixtures that several test folders share, which tests are slow, and in which order they run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No test asserts a time, so Hypothesis must not either: a machine may be busy.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A machine's run must not depend on luck: new examples are for people to find.
settings.register_profile("ci", settings.get_profile("patient"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "patient")

# For all processes that tests start: a JVM that lives for a minute does best without its second compiler, and Spark's
# Python processes without compiling PySpark.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
_SPARK_PYTHON = str(Path(__file__).with_name("spark_python"))
_PYTHON_PATH = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if _SPARK_PYTHON not in _PYTHON_PATH:  # pytest-xdist's workers have it from their parent
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SPARK_PYTHON, *_PYTHON_PATH]))

# What starts processes or a JVM, or lasts for long: marked `slow`, which `make check` leaves out. They run first, in
# this order, the longest first, so that workers side by side end at about the same time. Each is a file, by its folder
# and name, or all tests that use a fixture, wherever they are: those stay on one worker, which then has it once.
_SLOW = (
    "faults/test_driver",
    "spark",
    "faults/test_cluster",
    "faults/test_local",
    "tests/test_demo",
    "bench/test_pipeline",
    "runtime/test_real_pipeline",
    "faults/test_edge",
    "commands/test_service",
    "faults/test_security",
    "runtime/test_service",
    "pipeline/test_spark_session",
    "pipeline/test_connect",
    "pipeline/test_worker_python",
    "postgres",
    "matching/test_kernel_cache",
    "bench/test_broker",
    "pipeline/test_control",
    "experiments/test_bluedove",
    "store/test_catalog",
    "pipeline/test_output_faults",
)
_DIVISIBLE = {"faults/test_edge", "commands/test_service", "runtime/test_service"}  # tests that share no fixture


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, keep on one worker what belongs together, and begin with the longest."""
    turns = {unit: turn for turn, unit in enumerate(_SLOW)}
    for item in items:
        unit = _unit(item)
        if unit in turns:
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.xdist_group(item.nodeid if unit in _DIVISIBLE else unit))
    items.sort(key=lambda item: turns.get(_unit(item), len(turns)))


def _unit(item: pytest.Item) -> str:
    """What a test belongs to: a fixture that is shared by several files, or its file."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    parameters = getattr(item, "callspec", None)
    if "postgres" in fixtures or (parameters and "postgresql" in parameters.params.values()):
        return "postgres"
    return "spark" if "spark" in fixtures else f"{item.path.parent.name}/{item.path.stem}"


JAVA_MISSING = "Spark needs Java 17 or later: install a JRE (Debian, Ubuntu: apt install openjdk-17-jre-headless)"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for all tests, in UTC, that leaves nothing behind."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        if os.environ.get("CI") == "true":
            pytest.fail(JAVA_MISSING)
        pytest.skip(JAVA_MISSING)
    from pyspark.sql import SparkSession  # the other tests run without Spark installed

    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise the first python3 on the PATH
    folder = tmp_path_factory.mktemp("spark")
    java = {"user.timezone": "UTC", "derby.system.home": folder, "java.io.tmpdir": folder}
    session = (
        SparkSession.builder.master("local[2,4]")  # a failed task is tried up to 4 times, as on a cluster
        .appName("fieldfare tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", " ".join(f"-D{name}={value}" for name, value in java.items()))
        .config("spark.log.level", "ERROR")
        .config("spark.python.authenticate.socketTimeout", "300s")  # on a busy machine 15 s are over soon
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.unix.domain.socket.dir", str(folder))
        .getOrCreate()
    )
    yield session
    session.stop()
