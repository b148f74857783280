"""Fixtures that several test folders share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A machine's run must not depend on luck: new examples are for people to find.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")


# Files that take longest, the longest first: whoever runs files side by side is to end with short ones.
_LONG = (
    "test_driver",
    "test_cluster",
    "test_local",
    "test_spark",
    "test_pipeline",
    "test_demo",
    "test_live",
    "test_edge",
    "test_service",
    "test_broker",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest."""
    places = {name: place for place, name in enumerate(_LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


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
    session = (
        SparkSession.builder.master("local[2,4]")  # a failed task is tried up to 4 times, as on a cluster
        .appName("fieldfare tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", f"-Duser.timezone=UTC -Dderby.system.home={folder}")
        .config("spark.log.level", "ERROR")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.unix.domain.socket.dir", str(folder))
        .getOrCreate()
    )
    yield session
    session.stop()
