from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from fieldfare.errors import MissingDependencyError
from fieldfare.pipeline.spark_session import spark_session


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="openjdk-17"), spark_session("test", tmp_path / "spark.log"):
        pass


def test_without_pyspark_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import fieldfare.pipeline"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "MissingDependencyError: PySpark is missing: pip install 'fieldfare[spark]'" in ended.stderr


def test_what_spark_submit_was_told_counts(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from pathlib import Path\n"
        "from fieldfare.pipeline.spark_session import spark_session\n"
        f"with spark_session('test', Path({str(tmp_path / 'spark.log')!r})) as spark:\n"
        "    print(spark.conf.get('spark.shuffle.io.retryWait'), spark.sparkContext.master)\n"
    )
    spark_submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    command = [spark_submit, "--master", "local[1]", "--conf", "spark.shuffle.io.retryWait=7s", str(program)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.stdout == "7s local[1]\n", ended.stderr
