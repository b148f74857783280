from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fieldfare.errors import MissingDependencyError
from fieldfare.pipeline.session import spark_session


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="openjdk-17"), spark_session("test", tmp_path / "spark.log"):
        pass


def test_without_pyspark_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import fieldfare.pipeline"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "MissingDependencyError: PySpark is missing: pip install 'fieldfare[spark]'" in ended.stderr
