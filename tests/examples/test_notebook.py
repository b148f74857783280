"""The notebook runs from its top to its end, and shows what is saved in it."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "examples" / "spark_notebook.ipynb"


@pytest.mark.usefixtures("spark")  # the notebook's own getOrCreate finds that session
def test_the_notebook_shows_what_is_saved_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    try:
        for cell in cells:
            with redirect_stdout(io.StringIO()) as printed:
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # noqa: S102 - our own notebook
            saved = "".join("".join(output["text"]) for output in cell["outputs"])
            assert printed.getvalue() == saved, cell["id"]
    finally:
        SparkSession.active().sql("DROP VIEW IF EXISTS alerts")
    assert len(cells) == 5
