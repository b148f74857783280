"""Finding the application that `fieldfare run` names, and seeing that its files have changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fieldfare.cli import app as commands
from fieldfare.errors import AppImportError
from fieldfare.handlers.loading import load_app
from fieldfare.handlers.reloading import changed, snapshot

_MODULE = """
import fieldfare
app = fieldfare.App()
app.on("traffic")(lambda event: None)
empty = fieldfare.App()
other = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    modules, path = set(sys.modules), list(sys.path)
    (tmp_path / "loaded_one.py").write_text(_MODULE)
    (tmp_path / "loaded_bad.py").write_text("1 / 0")
    (tmp_path / "loaded_needy.py").write_text("import no_such_package")
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("loaded_"):
            del sys.modules[name]


def test_an_application_is_found(folder: Path) -> None:
    assert len(load_app("loaded_one:app", folder).handlers) == 1


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("loaded_one", "module:name"),
        (":app", "module:name"),
        ("loaded_one:", "module:name"),
        ("loaded_one.py:app", "say `loaded_one:app`"),
        ("./some/loaded.py:app", "say `some.loaded:app`"),
        ("loaded_none:app", "no module 'loaded_none'"),
        ("loaded_one:missing", "has no 'missing'"),
        ("loaded_one:other", "is a int, not a fieldfare.App"),
        ("loaded_one:empty", "has no handlers"),
        ("loaded_bad:app", "fails: ZeroDivisionError"),
        ("loaded_needy:app", "needs 'no_such_package'"),
    ],
)
def test_a_wrong_path_is_explained(folder: Path, path: str, reason: str) -> None:
    with pytest.raises(AppImportError) as caught:
        load_app(path, folder)
    assert reason in str(caught.value)
    assert caught.value.path == path


def test_the_command_says_it_without_a_traceback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(commands, ["run", "loaded_none:app"])
    assert result.exit_code == 2
    assert "no module 'loaded_none'" in result.output
    assert "Traceback" not in result.output


def test_changes_of_files_are_seen(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "two.py").write_text("2")
    (tmp_path / "notes.txt").write_text("not watched")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "three.py").write_text("3")
    before = snapshot(tmp_path)
    assert sorted(Path(path).name for path in before) == ["one.py", "two.py"]
    assert changed(before, snapshot(tmp_path)) == []
    os.utime(tmp_path / "one.py", (1, 1))
    (tmp_path / "inner" / "two.py").unlink()
    (tmp_path / "four.py").write_text("4")
    (tmp_path / "notes.txt").write_text("still not")
    assert [Path(path).name for path in changed(before, snapshot(tmp_path))] == ["four.py", "two.py", "one.py"]
