"""The Python that Spark's workers run. It must have Fieldfare, or every task fails, pages of Java around the reason.

Spark takes the first `python3` on the PATH, unless PYSPARK_PYTHON names another one before the session is made. For a
program of a virtual environment that is not activated, that is a Python without its packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from fieldfare.errors import MissingDependencyError

ADVICE = (
    'set os.environ["PYSPARK_PYTHON"] = sys.executable before the Spark session is made, or activate the virtual '
    "environment; on a cluster, install fieldfare in the Python of the executors, and let PYSPARK_PYTHON name that one"
)
_NEEDED = ("fieldfare", "msgspec", "numba", "numpy", "pyarrow", "sqlglot")
_PROBE = """
import sys
from importlib.util import find_spec
print("%d.%d" % sys.version_info[:2], *[name for name in sys.argv[1:] if find_spec(name) is None])
"""
_PROBE_SECONDS_MAX = 60.0


def check_worker_python(spark: SparkSession) -> None:
    """Raise a MissingDependencyError if workers on this machine cannot run Fieldfare. Other machines cannot be seen."""
    python = _local_worker_python(spark)
    if python is not None and (fault := _fault(python)):
        raise MissingDependencyError(f"Spark's workers run {python!r}, {fault}: {ADVICE}")


def _local_worker_python(spark: SparkSession) -> str | None:
    """The command that starts a worker; None where workers are on other machines, or get packages sent."""
    if is_remote():
        # The server of a `local` session was started by this process, and reads the same variables.
        named = os.environ.get("PYSPARK_PYTHON") or os.environ.get("PYSPARK_DRIVER_PYTHON") or "python3"
        return named if "SPARK_LOCAL_REMOTE" in os.environ else None
    context = spark.sparkContext
    sends_packages = any(context.getConf().get(key) for key in ("spark.submit.pyFiles", "spark.archives"))
    return context.pythonExec if (context.master or "").startswith("local") and not sends_packages else None


@cache
def _fault(python: str) -> str | None:
    """What is wrong with a Python, for us; None if nothing is known to be."""
    path = shutil.which(python)
    if path == sys.executable:
        return None
    if path is None:
        return "which is not there"
    command = [path, "-c", _PROBE, *_NEEDED]
    try:
        said = subprocess.run(  # noqa: S603 - it is the program that Spark would run
            command, capture_output=True, text=True, check=True, timeout=_PROBE_SECONDS_MAX
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None  # a command of another kind: the tasks will show what it is
    version, *missing = said.split()
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version != ours:
        return f"which is Python {version}, but this program runs {ours}"
    return f"which does not have {', '.join(missing)}" if missing else None
