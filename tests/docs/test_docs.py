"""Every code block of README.md and docs/*.md, read as a newcomer would: in order, and what is shown is seen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.dds.networks import ON_LOOPBACK
from tests.docs.pages import PAGES, Block, Command, blocks, is_shown
from tests.docs.reader import Reader

_NOT_RUN_MAX = 10
_TOOLS = {"curl": "$ curl ", "openssl": "$ openssl ", "java": "$ fieldfare pipeline run"}  # by what needs them
_LANGUAGES = {"console", "python", "toml", "json", ""}  # a block without a language is a drawing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_is_seen(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    missing = [tool for tool, use in _TOOLS.items() if use in page.read_text() and shutil.which(tool) is None]
    if missing and os.environ.get("CI") != "true":
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CYCLONEDDS_URI", ON_LOOPBACK)
    with Reader(folder, lambda: request.getfixturevalue("spark")) as reader:
        for block in blocks(page):
            if block.not_run is None:
                try:
                    reader.read(block)
                except Exception as error:
                    error.add_note(f"{page.name}, line {block.line}")
                    raise
        reader.finish()


def test_languages_are_known() -> None:
    found = {(page.name, block.line): block.language for page in PAGES for block in blocks(page)}
    assert {place: language for place, language in found.items() if language not in _LANGUAGES} == {}
    assert len(found) == sum(page.read_text().count("\n```") for page in PAGES) / 2


def test_few_blocks_are_not_run_and_each_has_a_reason() -> None:
    reasons = [block.not_run for page in PAGES for block in blocks(page) if block.not_run is not None]
    assert len(reasons) <= _NOT_RUN_MAX
    assert [reason for reason in reasons if len(reason.split()) < 3] == []
    assert sum(page.read_text().count("<!-- not run") for page in PAGES) == len(reasons)


def test_blocks_are_read_as_they_are_written() -> None:
    block = Block("console", "$ one \\\n    two   # why\nout\n  more\n$ fieldfare serve\n", 1, None)
    assert list(block.commands) == [
        Command("one \\\n    two   # why", ("out", "  more")),
        Command("fieldfare serve", ()),
    ]
    assert [command.goes_on for command in block.commands] == [False, True]
    assert Block("python", "print(1)  # prints 1\n", 1, None).prints == ["1"]
    assert Block("toml", "# fieldfare.toml\n[server]\n", 1, None).file_name == "fieldfare.toml"


def test_what_is_shown_is_compared() -> None:
    assert is_shown(("a", "...", "b ... d"), "a\nx\ny\nb c d\n")
    assert is_shown(("a", "...", "b"), "a\nb")
    assert not is_shown(("a",), "a\nb\n")
    assert not is_shown(("a", "..."), "b\na\n")


@pytest.mark.parametrize(
    "block",
    [
        Block("console", "$ echo 1\n2\n", 1, None),
        Block("console", "$ false\n", 1, None),
        Block("console", "$ true\nError: it fails\n", 1, None),
        Block("python", ">>> 1 + 1\n3\n", 1, None),
        Block("python", "print(1)  # prints 2\n", 1, None),
    ],
)
def test_a_wrong_page_is_noticed(block: Block, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    with Reader(folder, lambda: None) as reader, pytest.raises(AssertionError):
        reader.read(block)


def test_what_is_exported_stays(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    with Reader(folder, lambda: None) as reader:
        reader.read(Block("console", "$ export NAME='a b'\n$ echo $NAME\na b\n", 1, None))
