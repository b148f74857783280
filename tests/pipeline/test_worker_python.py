"""What a user is told whose Spark workers run another Python: that of a virtual environment that is not activated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from fieldfare.errors import MissingDependencyError
from fieldfare.pipeline.remedies import Remedy, reason_of, remedy_for
from fieldfare.pipeline.worker_python import check_worker_python

PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from fieldfare.errors import MissingDependencyError
from fieldfare.pipeline import FolderSource, Pipeline, PipelineOptions, match

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
subscriptions = spark.sql("SELECT 1 subscription_id, 'id < 5' condition")
options = PipelineOptions("nowhere.db", Path("out"), Path("state"))
for use in (
    lambda: match(spark.range(9), subscriptions),
    lambda: Pipeline(spark, options).run(FolderSource(Path("in"), Path("ledger"))),
):
    try:
        use()
    except MissingDependencyError as error:
        print(error)
"""


def bare_python(folder: Path) -> Path:
    """A Python of our version without any package."""
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    return python


def spark(python: str | Path, master: str = "local[2]", **settings: str) -> Any:
    context = SimpleNamespace(pythonExec=str(python), master=master, getConf=lambda: settings)
    return SimpleNamespace(sparkContext=context)


def test_a_plain_script_is_told_what_to_do(tmp_path: Path) -> None:
    bare_python(tmp_path / "bin")
    environment = os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYSPARK_PYTHON", None)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    for line in (told := ended.stdout.splitlines()):
        assert line.startswith("Spark's workers run 'python3', which does not have fieldfare, msgspec")
        assert 'os.environ["PYSPARK_PYTHON"] = sys.executable before the Spark session is made' in line
    assert len(told) == 2


def test_a_python_that_is_as_ours_or_that_cannot_be_judged_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = bare_python(tmp_path / "bin")
    with pytest.raises(MissingDependencyError, match="does not have fieldfare"):
        check_worker_python(spark(bare))
    check_worker_python(spark(sys.executable))
    check_worker_python(spark(bare, "spark://host:7077"))  # there it names a file of other machines
    check_worker_python(spark(bare, **{"spark.submit.pyFiles": "packages.zip"}))
    odd = tmp_path / "odd"
    odd.write_text("#!/bin/sh\nexit 1\n")
    odd.chmod(0o755)
    check_worker_python(spark(odd))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"'python3\.99', which is not there"):
        check_worker_python(spark("python3.99"))


def test_another_version_of_python_is_named(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 2.7\n")
    old.chmod(0o755)
    with pytest.raises(MissingDependencyError, match=r"which is Python 2\.7, but this program runs 3"):
        check_worker_python(spark(old))


def test_spark_connect_on_this_machine_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare_python(tmp_path / "bin")))
    check_worker_python(SimpleNamespace())  # type: ignore[arg-type]  # a server somewhere
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    with pytest.raises(MissingDependencyError, match="does not have fieldfare"):
        check_worker_python(SimpleNamespace())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "Job aborted\nTraceback\nModuleNotFoundError: No module named 'fieldfare'\n\n\tat org.apache.spark",
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11",
    ],
)
def test_a_task_that_fails_for_its_python_says_what_to_do_and_is_not_tried_again(text: str) -> None:
    error = PySparkException(text)
    assert remedy_for(error) is Remedy.NONE
    assert "PYSPARK_PYTHON" in reason_of(error)
    assert reason_of(error).startswith(("ModuleNotFoundError", "[PYTHON_VERSION_MISMATCH]"))
    assert remedy_for(PySparkException("a worker was killed")) is Remedy.RETRY
    assert "PYSPARK_PYTHON" not in reason_of(PySparkException("a worker was killed"))
