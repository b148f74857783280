"""The audit log: every change is in it once, with who made it; it is bounded, and never holds a secret or a payload."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.runtime.processes import ServiceProcess, run
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.routing.auditing import Auditing
from fieldfare.runtime.audit import AuditEntry, AuditLog

CANARY = "canary4711"
runner = CliRunner()


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def entry(number: int) -> AuditEntry:
    return AuditEntry("2026-03-01T12:00:00.000+00:00", "created", "topic", f"topic{number}", "acme")


def all_lines(path: Path) -> list[dict[str, Any]]:
    """Those of all files, the oldest first."""
    older = sorted(path.parent.glob(f"{path.name}.[0-9]*"), key=lambda each: -int(each.suffix[1:]))
    return [line for file in (*older, path) for line in entries(file)]


def test_it_grows_up_to_a_size_and_then_the_oldest_file_goes(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", file_bytes_max=4096, files_max=3)
    for number in range(200):
        log.write([entry(number)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.lock"]
    assert all(path.stat().st_size <= 4096 for path in tmp_path.iterdir())
    left = [line["name"] for line in all_lines(log.path)]
    assert left == [f"topic{number}" for number in range(200 - len(left), 200)]
    assert log.path.stat().st_mode & 0o077 == 0


def _write_some(path: Path, first: int) -> None:
    log = AuditLog(path, file_bytes_max=4096, files_max=100)
    for number in range(first, first + 100):
        log.write([entry(number)])


def test_several_processes_write_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_some, args=(path, first)) for first in (0, 100)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(line["name"] for line in all_lines(path)) == sorted(f"topic{number}" for number in range(200))


def test_a_service_notes_who_did_what_and_nothing_else(tmp_path: Path) -> None:
    data, path = tmp_path / "data", tmp_path / "log" / "who.jsonl"
    path.parent.mkdir()
    where = {"FIELDFARE_AUDIT_PATH": str(path), "FIELDFARE_WEBHOOKS_SECRET": f"{CANARY}-secret-of-webhooks"}
    made = run("tokens", "create", "--data", str(data), "--manage", "*", "--publish", "*", "--subscribe", "*", **where)
    secret = made.stdout.strip()
    token = made.stderr.split()[1]
    with (
        ServiceProcess(data, **where) as service,
        httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {secret}"}, timeout=30) as http,
    ):
        assert http.post("/v1/topics/roads/events", json={"n": CANARY}).status_code == 404, "it is not made by use"
        assert http.put("/v1/topics/roads", json={}).status_code == 200
        body = {"topic": "roads", "condition": f"n = '{CANARY}'", "name": "all"}
        assert http.post("/v1/subscriptions", json=body).status_code == 201
        assert http.post("/v1/topics/roads/events", json={"n": CANARY}).status_code == 200
        one = "/v1/subscriptions/all"
        assert http.post(f"{one}/change", json={"condition": f"n <> '{CANARY}'"}).status_code == 204
        assert http.post(f"{one}/pause").status_code == 204
        assert http.post(f"{one}/resume").status_code == 204
        assert http.post(f"{one}/seek", json={"start": {"beginning": True}}).status_code == 204
        assert http.delete(one).status_code == 204
        assert http.delete(one).status_code == 404
        assert http.delete("/v1/topics/roads").status_code == 204
        assert service.stop() == 0
    assert run("tokens", "revoke", token, "--data", str(data), **where).returncode == 0
    assert [(line["kind"], line["name"], line["action"], line.get("token")) for line in entries(path)] == [
        ("token", token, "created", None),
        ("topic", "roads", "created", token),
        ("subscription", "all", "created", token),
        ("subscription", "all", "changed", token),
        ("subscription", "all", "paused", token),
        ("subscription", "all", "resumed", token),
        ("subscription", "all", "moved", token),
        ("subscription", "all", "deleted", token),
        ("topic", "roads", "deleted", token),
        ("token", token, "deleted", None),
    ]
    text = path.read_text()
    assert CANARY not in text
    assert secret not in text
    assert secret[3:] not in text


def test_a_missing_line_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.routing import test_topic_lives

    noted = Auditing._noted
    monkeypatch.setattr(
        Auditing,
        "_noted",
        lambda self, identity, frame: None if type(frame).__name__ == "Unsubscribe" else noted(self, identity, frame),
    )
    with pytest.raises(AssertionError):
        test_topic_lives.test_every_change_is_told_once_with_who_made_it()


def test_tokens_that_cannot_be_noted_are_made_all_the_same(tmp_path: Path) -> None:
    ended = runner.invoke(
        app,
        ["tokens", "create", "--data", str(tmp_path / "data"), "--publish", "*"],
        env={"FIELDFARE_AUDIT_PATH": str(tmp_path / "nowhere" / "audit.jsonl")},
    )
    assert ended.exit_code == 0
    assert "not written" in ended.stderr
    assert ended.stdout.startswith("ff_")
