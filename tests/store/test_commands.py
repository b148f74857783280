"""`fieldfare subscriptions`: every command, and imports with bad rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from fieldfare.commands.subscriptions import app
from fieldfare.errors import (
    ConditionError,
    DuplicateIdError,
    InputError,
    InvalidIdError,
    StoreUnavailableError,
    UnknownIdError,
)
from fieldfare.files import importing
from fieldfare.store import open_store

runner = CliRunner()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIELDFARE_STORE", raising=False)
    return tmp_path


def run(*arguments: str, exit_code: int = 0) -> Result:
    ended = runner.invoke(app, arguments)
    assert ended.exit_code == exit_code, ended.output
    return ended


def failure(*arguments: str) -> BaseException | None:
    return runner.invoke(app, arguments).exception


def conditions(store: str = "fieldfare.db") -> dict[object, str]:
    with open_store(store, create=False) as log:
        table = log.active().table
    return dict(zip(table["subscription_id"].to_pylist(), table["condition"].to_pylist(), strict=True))


def quarantined(path: str) -> list[tuple[int, str]]:
    bad = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [(row.get("line") or row["row"], row["reason"]) for row in bad]


@pytest.mark.parametrize("command", ["add", "import", "delete", "list", "show"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: fieldfare subscriptions {command}" in run(command, "--help").output.replace("\n", " ")


def test_a_subscription_from_its_beginning_to_its_end() -> None:
    assert "from version 1 on" in run("add", "cheap", "price < 10", "--topic", "quotes", "--lifetime", "3600").output
    assert isinstance(failure("add", "cheap", "price < 11"), DuplicateIdError)
    assert isinstance(failure("add", "dear", "price >"), ConditionError)
    run("add", "dear", "price > 90", "--tenant", "me")
    run("add", "dear", "price > 99", "--tenant", "me", "--replace")
    shown = run("show", "cheap").output
    assert "topic: quotes\n" in shown
    assert "box 1:\n  price: price < 10\n" in shown
    assert "expires_at: never\n" not in shown
    assert "expires_at: never\n" in run("show", "dear").output
    (found,) = [json.loads(line) for line in run("list", "--tenant", "me", "--json").output.splitlines()]
    assert (found["subscription_id"], found["condition"], found["expires_at"]) == ("dear", "price > 99", None)
    assert "price < 10" in run("list").output
    first = run("list", "--limit", "1")
    assert "There are more: --after 1" in first.stderr
    assert "price > 99" in run("list", "--limit", "1", "--after", "1").stdout
    assert isinstance(failure("remove", "cheap", "other"), UnknownIdError)
    run("remove", "cheap", "dear")
    assert conditions() == {}
    assert isinstance(failure("show", "cheap"), UnknownIdError)


def test_an_expired_subscription_is_not_shown() -> None:
    with open_store("fieldfare.db") as log:
        log.add({"old": "x = 1"}, lifetime_seconds=1, now_seconds=0)
        log.add({"new": "x = 1"}, now_seconds=0)
    assert [json.loads(line)["subscription_id"] for line in run("list", "--json").output.splitlines()] == ["new"]
    assert isinstance(failure("show", "old"), UnknownIdError)


def test_the_store_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("FIELDFARE_STORE", str(folder / "team.db"))
    run("add", "a", "x = 1")
    run("add", "b", "x = 1", "--store", "mine.db")
    assert (list(conditions("team.db")), list(conditions("mine.db"))) == (["a"], ["b"])


def test_what_only_reads_makes_no_store(folder: Path) -> None:
    for arguments in (["list"], ["show", "a"], ["remove", "a"]):
        assert isinstance(failure(*arguments), StoreUnavailableError)
    assert list(folder.iterdir()) == []


def test_import_with_bad_rows(address: str) -> None:
    rows = [
        "subscription_id,condition,topic,lifetime_seconds",
        'a,"x IN (1, 2)",quotes,',
        "b,x >,,",
        "a,x = 3,,",
        ",x = 4,,",
        "c,x = 5,,-1",
        "d,x = 6,,soon",
        "e,x = 7,,3600",
        f"{'long' * 300},x = 8,,",
        "f",
        "g,x = 'a\0b',,",
    ]
    Path("s.csv").write_text("\n".join(rows) + "\n")
    ended = run("import", "s.csv", "--store", address, "--topic", "other", exit_code=1)
    assert "2 subscriptions added" in ended.stderr
    assert "8 bad rows are in s.csv.quarantine.jsonl" in ended.stderr
    assert conditions(address) == {"a": "x IN (1, 2)", "e": "x = 7"}
    reasons = dict(quarantined("s.csv.quarantine.jsonl"))
    assert set(reasons) == {3, 4, 5, 6, 7, 9, 10, 11}
    assert "first given at 2" in reasons[4]
    assert "lifetime" in reasons[6]
    assert "lifetime" in reasons[7]
    with open_store(address) as log:
        assert (log.get("a").topic, log.get("e").topic) == ("quotes", "other")
        assert log.get("a").expires_at is None
        assert log.get("e").expires_at is not None


def test_import_again(address: str) -> None:
    Path("s.jsonl").write_text('{"id": 1, "condition": "x = 1"}\n{"id": 2, "condition": "x = 2"}\n')
    run("import", "s.jsonl", "--store", address)
    Path("s.jsonl").write_text('{"id": 2, "condition": "x = 22"}\n{"id": "3", "condition": "x = 3"}\n')
    assert (
        "1 subscriptions added, of which 0 replaced others; 1 were"
        in run("import", "s.jsonl", "--store", address).stderr
    )
    assert conditions(address) == {1: "x = 1", 2: "x = 2", 3: "x = 3"}
    assert (
        "2 subscriptions added, of which 2 replaced" in run("import", "s.jsonl", "--store", address, "--replace").stderr
    )
    assert conditions(address) == {1: "x = 1", 2: "x = 22", 3: "x = 3"}
    assert not Path("s.jsonl.quarantine.jsonl").exists()
    run("add", "4", "x = 4", "--store", address)
    assert 4 in conditions(address)
    assert isinstance(failure("add", "four", "x = 4", "--store", address), InvalidIdError)


def test_import_in_chunks(address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_CHUNK_ROWS", 7)
    for part in range(2):
        numbers = range(part * 50, part * 50 + 51)  # 50 stands in both parts
        texts = [f"x = {number}" if number % 10 else "x =" for number in numbers]
        table = {"subscription_id": list(numbers), "condition": texts, "tenant": [None] * 50 + ["last"]}
        (folder / "parts").mkdir(exist_ok=True)
        pq.write_table(pa.table(table), f"parts/{part}.parquet")
    run("import", "parts", "--store", address, "--quarantine", "bad.jsonl", exit_code=1)
    assert conditions(address) == {number: f"x = {number}" for number in range(101) if number % 10}
    assert len(quarantined("bad.jsonl")) == 12


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("s.csv", "id,condition\na,x <\n", "none of its rows"),
        ("s.csv", "id,text\na,x < 1\n", "needs columns"),
        ("s.txt", "", "cannot tell its format"),
    ],
)
def test_files_that_cannot_be_imported(name: str, content: str, reason: str) -> None:
    Path(name).write_text(content)
    error = failure("import", name)
    assert isinstance(error, InputError)
    assert reason in str(error)


def test_the_quarantine_never_replaces_the_input() -> None:
    Path("s.csv").write_text("id,condition\na,x < 1\n")
    assert isinstance(failure("import", "s.csv", "--quarantine", "./s.csv"), InputError)
    assert Path("s.csv").read_text() == "id,condition\na,x < 1\n"


def test_an_id_in_csv_that_looks_like_a_huge_number() -> None:
    Path("s.csv").write_text("id,condition\n1e999,x < 1\n")
    run("import", "s.csv")
    assert conditions() == {"1e999": "x < 1"}
