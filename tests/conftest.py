"""Fixtures that several test folders share, which tests are slow, and in which order they run."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fieldfare.runtime.zookeeper_server import ZooKeeperServer

# Thousands of tests are a heap that stays: looking at it again and again would take a good part of the time.
gc.set_threshold(20_000, 20, 20)

# No test asserts a time, so Hypothesis must not either: a machine may be busy.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A machine's run must not depend on luck: new examples are for people to find.
settings.register_profile("ci", settings.get_profile("patient"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "patient")

# Some tests interrupt what they started. A shell that runs the tests in the background has them ignore interrupts, and
# so would their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# For all processes that tests start: a JVM that lives for a minute does best without its second compiler, and Spark's
# Python processes without compiling PySpark.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
if "SPARK_CLASSES" in os.environ:  # an archive that spark_classes.py has written
    _JAVA_OPTIONS += f" -Xlog:disable -XX:SharedArchiveFile={Path(os.environ['SPARK_CLASSES']).absolute()}"
os.environ.setdefault("JDK_JAVA_OPTIONS", _JAVA_OPTIONS)
NO_SPARK_SETTINGS = str(Path(__file__).with_name("no_spark_settings"))  # a folder that is not there
os.environ["SPARK_CONF_DIR"] = NO_SPARK_SETTINGS
SPARK_PYTHON = str(Path(__file__).with_name("spark_python"))
_PYTHON_PATH = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if SPARK_PYTHON not in _PYTHON_PATH:  # pytest-xdist's workers have it from their parent
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [SPARK_PYTHON, *_PYTHON_PATH]))

# What starts processes or a JVM, or lasts for long, is marked `slow`, and `make check` leaves it out: these files, and
# every test that uses one of these fixtures; where one test of a file does, it has the mark itself. Files are named by
# their folder and name, the longest first, which is the order in which they run, so that workers side by side end at
# about the same time.
_SLOW_FILES = (
    "faults/test_driver",
    "pipeline/test_pipeline",
    "kafka/test_pipeline",
    "kafka/test_faults",
    "kafka/test_edge_faults",
    "kafka/test_output",
    "kafka/test_reader",
    "bucket/test_faults",
    "faults/test_cluster",
    "bench/test_overlay",
    "bench/test_broker",
    "pastry/test_ring",
    "docs/test_docs",
    "faults/test_local",
    "dds/test_networks",
    "dds/test_edges",
    "tests/test_demo",
    "bench/test_pipeline",
    "runtime/test_real_pipeline",
    "overlay_live/test_faults",
    "overlay/test_live_spark",
    "scenarios/test_live",
    "scenarios/test_planted_bugs",
    "overlay_live/test_wan",
    "peers/test_networks",
    "overlay_live/test_handover",
    "overlay_live/test_publisher_moves",
    "overlay_live/test_tree",
    "overlay_live/test_gossip_brokers",
    "faults/test_edge",
    "faults/test_consumers",
    "commands/test_service",
    "runtime/test_schemathesis",
    "examples/test_browser",
    "examples/test_node",
    "handlers/test_service",
    "commands/test_operating",
    "runtime/test_monitoring",
    "peers/test_commands",
    "peers/test_examples",
    "peers/test_library",
    "peers/test_bridge",
    "faults/test_security",
    "runtime/test_service",
    "pipeline/test_spark_session",
    "runtime/test_bad_input",
    "store/test_faults",
    "pipeline/test_connect",
    "coordination/test_gossip",
    "dmm/test_peers",
    "experiments/test_pubsubcoord_live",
    "experiments/test_placement_live",
    "experiments/test_pubsubcoord_joining",
    "experiments/test_gossip",
    "pastry/test_ring_faults",
    "pastry/test_live_ring",
    "runtime/test_gossip",
    "pipeline/test_worker_python",
    "matching/test_kernel_cache",
    "overlay_live/test_moving_clients",
    "pipeline/test_control",
    "experiments/test_bluedove",
    "runtime/test_link_silence",
    "experiments/test_wan",
    "store/test_catalog",
    "pipeline/test_output_faults",
    "dds/test_bridge",
    "runtime/test_gateway_sockets",
    "runtime/test_gateway_limits",
    "runtime/test_spark",
    "coordination/test_zookeeper",
    "coordination/test_zookeeper_server",
    "overlay/test_overlay_seeds",
    "experiments/test_pubsubcoord",
    "overlay/test_moving_clients",
    "store/test_journal_crash",
    "tables/test_lake_tables",
    "scenarios/test_simulated",
    "bench/test_engine",
    "bench/test_pastry",
    "bench/test_simulation",
    "experiments/test_dmm",
    "runtime/test_audit",
    "runtime/test_telemetry",
    "runtime/test_payloads",
    "runtime/test_tickets",
    "store/test_journal_faults",
    "simulation/test_peer_recovery",
)
_SLOW_FIXTURES = {"broker", "object_store", "spark", "postgres", "zookeeper"}
_SLOW_PARAMETERS = {"postgresql"}
# Files that share what takes long to start: one worker starts it and runs them all.
_SHARED = {
    "spark": {
        "bucket/test_pipeline",
        "examples/test_notebook",
        "kafka/test_pipeline",
        "language/test_names",
        "language/test_rlike",
        "matching/test_equality",
        "matching/test_expressions",
        "matching/test_more_functions",
        "pipeline/test_first_file",
        "pipeline/test_join",
        "pipeline/test_output",
        "pipeline/test_output_rows",
        "pipeline/test_pipeline",
        "pipeline/test_several",
        "pipeline/test_source",
        "tables/test_tables_from_spark",
    },
    "kafka": {
        "kafka/test_edge_links",
        "kafka/test_output",
        "kafka/test_protobuf",
        "kafka/test_reader",
        "kafka/test_security",
    },
    "object store": {
        "bucket/test_faults",
        "bucket/test_files",
        "bucket/test_lake_tables",
        "bucket/test_output",
    },
    "zookeeper": {
        "coordination/test_both_zookeepers",
        "coordination/test_zookeeper",
        "coordination/test_zookeeper_server",
    },
}
_SHARES = {file: name for name, files in _SHARED.items() for file in files}
_SPARK_PAGES = ("[README]", "[pipeline]")  # pages of the documentation that use that session, too
_DIVISIBLE_FILES = {  # their tests share nothing: any worker may take one
    "docs/test_docs",
    "faults/test_edge",
    "overlay/test_overlay_seeds",
    "runtime/test_service",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and begin with what takes longest."""
    turns = {file: turn for turn, file in enumerate(_SLOW_FILES)} | dict.fromkeys(_SHARED["spark"], 1)
    for item in items:
        if _is_slow(item):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: turns.get(_file(item.nodeid), len(turns)))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of all later looks for garbage."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let go of it, too: some libraries tell of what is left at the end."""
    gc.unfreeze()


def _is_slow(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return (
        _file(item.nodeid) in _SLOW_FILES
        or not _SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        or (call is not None and not _SLOW_PARAMETERS.isdisjoint(map(str, call.params.values())))
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give workers whole files, or all that share a server or a session, or single tests where these share nothing."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = _file(nodeid)
            if file == "docs/test_docs" and nodeid.endswith(_SPARK_PAGES):
                return "spark"
            return nodeid if file in _DIVISIBLE_FILES else _SHARES.get(file, file)

    return Scheduling(config, log)


def _file(nodeid: str) -> str:
    path = Path(nodeid.partition("::")[0])
    return f"{path.parent.name}/{path.stem}"


JAVA_MISSING = (
    "Spark and ZooKeeper need Java 17 or later: install a JRE (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
)


def check_java() -> None:
    """Skip a test that needs Java on a machine that has none, and say what to install; CI must have it."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        if os.environ.get("CI") == "true":
            pytest.fail(JAVA_MISSING)
        pytest.skip(JAVA_MISSING)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for all tests, in UTC, that leaves nothing behind."""
    check_java()
    from pyspark.sql import SparkSession  # the other tests run without Spark installed

    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise the first python3 on the PATH
    folder = tmp_path_factory.mktemp("spark")
    java = {"user.timezone": "UTC", "derby.system.home": folder, "java.io.tmpdir": folder}
    session = (
        SparkSession.builder.master("local[2,4]")  # a failed task is tried up to 4 times, as on a cluster
        .appName("fieldfare tests")
        .config("spark.scheduler.mode", "FAIR")  # among the pools of several pipelines
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


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One ZooKeeper server for all tests, each of which uses a path of its own below its root."""
    check_java()
    from fieldfare.runtime.zookeeper_server import ServerOptions, ZooKeeperServer

    options = ServerOptions(tick_seconds=0.2, session_seconds_min=0.5)
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), options) as server:
        yield server
