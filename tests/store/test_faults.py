"""What must hold when processes die, databases are locked, servers go and files are damaged."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fieldfare.errors import MissingDependencyError, StoreError, StoreUnavailableError
from fieldfare.store import SubscriptionStore, open_store

if TYPE_CHECKING:
    from tests.store.conftest import PostgresServer

NOW = 1_800_000_000.0
ADDER = """
import sys
from fieldfare.store import open_store
address, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open_store(address, timeout_seconds=30) as store:
    for number in range(count):
        version = store.add({f"{name}-{number}-{at}": "x = 1" for at in range(3)}, now_seconds=0.0)
        print(version, f"{name}-{number}", flush=True)
"""


def adder(address: str, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ADDER, address, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_what_was_acknowledged_survives_a_kill(address: str) -> None:
    process = adder(address, "a", 1_000_000)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().split() for _ in range(20)]
    process.kill()
    acknowledged += [line.split() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    with open_store(address, create=False) as store:
        ids = store.active().table["subscription_id"].to_pylist()
        assert {f"{name}-{at}" for _, name in acknowledged for at in range(3)} <= set(ids)
        assert len(ids) % 3 == 0, "a change is there as a whole or not at all"
        assert store.version() == len(ids) >= int(acknowledged[-1][0])


def test_processes_that_add_at_the_same_time(address: str) -> None:
    processes = [adder(address, name, 20) for name in "ab"]
    lines = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    versions = [[int(line.split()[0]) for line in own] for own in lines]
    assert all(own == sorted(own) for own in versions)
    assert sorted(versions[0] + versions[1]) == list(range(3, 121, 3))
    with open_store(address) as store:
        for own in lines:
            for line in own:
                version, name = line.split()
                newest = store.active(int(version)).table["subscription_id"].to_pylist()[-3:]
                assert newest == [f"{name}-{at}" for at in range(3)]


def test_a_store_that_is_locked_for_a_while(address: str, store: SubscriptionStore) -> None:
    store.add({"a": "x = 1"}, now_seconds=NOW)
    with open_store(address) as other:
        with other._writing(0), pytest.raises(StoreUnavailableError):
            store.add({"b": "x = 1"}, now_seconds=NOW)
        with other._writing(0):
            assert store.version() == store.active().table.num_rows == 1, "readers do not wait"
    assert store.add({"b": "x = 1"}, now_seconds=NOW) == 2


def test_a_server_that_is_gone_for_a_while(postgres: PostgresServer) -> None:
    with open_store(postgres.new_address(), timeout_seconds=1) as store:
        store.add({"a": "x = 1"}, now_seconds=NOW)
        postgres.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailableError):
                    store.add({"b": "x = 1"}, now_seconds=NOW)
        finally:
            postgres.start()
        assert store.active().table["subscription_id"].to_pylist() == ["a"]
        assert store.add({"b": "x = 1"}, now_seconds=NOW) == 2


def test_a_file_that_is_gone_for_a_while(tmp_path: Path) -> None:
    path, aside = tmp_path / "subscriptions.db", tmp_path / "aside.db"
    with open_store(path) as store:
        store.add({"a": "x = 1"}, now_seconds=NOW)
        store.version()
        path.rename(aside)
        with pytest.raises(StoreUnavailableError, match="put it back"):
            store.add({"b": "x = 1"}, now_seconds=NOW)
        assert not path.exists()
        aside.rename(path)
        assert store.add({"b": "x = 1"}, now_seconds=NOW) == 2


def test_a_file_that_was_replaced_by_another(tmp_path: Path) -> None:
    path, another = tmp_path / "subscriptions.db", tmp_path / "another.db"
    with open_store(another) as store:
        store.add({"a": "x = 1"}, now_seconds=NOW)
    with open_store(path) as store:
        another.replace(path)
        with pytest.raises(StoreError, match="another file"):
            store.add({"b": "x = 1"}, now_seconds=NOW)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.db"
    with open_store(path) as store:
        store.add({f"id-{number}": "x = 1" for number in range(5_000)}, now_seconds=NOW)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])
    with pytest.raises(StoreError, match="backup"), open_store(path) as store:
        store.active()
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StoreError, match="not a Fieldfare store"):
        open_store(path)
    path.write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    with pytest.raises(StoreError, match="damaged"), open_store(path) as store:
        store.active()


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="something else"):
        open_store(path)


def test_a_schema_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.db"
    open_store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE fieldfare_store SET schema_version = 2")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="schema 2"):
        open_store(path)


def test_a_store_that_is_not_there(tmp_path: Path, postgres: PostgresServer) -> None:
    with pytest.raises(StoreUnavailableError, match="no such store"):
        open_store(tmp_path / "subscriptions.db", create=False)
    with pytest.raises(StoreError, match="there is no store"):
        open_store(postgres.new_address(), create=False)
    with pytest.raises(StoreUnavailableError):
        open_store(tmp_path / "no folder" / "subscriptions.db")
    assert list(tmp_path.iterdir()) == []


def test_addresses_of_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    identities = set()
    for address in ("a?b #1.db", "sqlite:///a?b #1.db", f"sqlite:///{tmp_path}/a?b #1.db", tmp_path / "a?b #1.db"):
        with open_store(address) as store:
            identities.add(store.identity)
            with open_store(store.address, create=False) as same:
                assert same.identity == store.identity
    assert len(identities) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a?b #1.db"]


def test_no_password_in_an_error(tmp_path: Path) -> None:
    for address in (f"postgresql://me:canary@/db?host={tmp_path}", f"postgresql:///db?password=canary&host={tmp_path}"):
        with pytest.raises(StoreUnavailableError) as raised:
            open_store(address, timeout_seconds=0.1)
        assert "canary" not in f"{raised.value!r} {raised.value}"
    with pytest.raises(StoreError) as refused:
        open_store("postgresql://me:canary@host:port:port/db?nonsense=1")
    assert "canary" not in str(refused.value)


def test_postgres_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fieldfare.store.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependencyError, match=r"fieldfare\[postgres\]"):
        open_store("postgresql:///db")


def test_no_space(tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.db"
    with open_store(path) as store:
        store.add({"a": "x = 1"}, now_seconds=NOW)
        with store._reading() as (session, _):
            session.rows("PRAGMA max_page_count = 20")
        with pytest.raises(StoreUnavailableError, match="space"):
            store.add({f"id-{number}": "x = 1" for number in range(5_000)}, now_seconds=NOW)
        with store._reading() as (session, _):
            session.rows("PRAGMA max_page_count = 100000")
        assert store.version() == 1
        assert store.add({"b": "x = 1"}, now_seconds=NOW) == 2


def test_a_commit_is_synced_to_the_disk(tmp_path: Path, postgres: PostgresServer) -> None:
    with open_store(tmp_path / "subscriptions.db") as store, store._reading() as (session, _):
        assert session.rows("PRAGMA journal_mode") == [("wal",)]
        assert session.rows("PRAGMA synchronous") == [(2,)]
    address = f"{postgres.new_address()}%20-csynchronous_commit%3Doff"
    with open_store(address) as store, store._reading() as (session, _):
        assert session.rows("SHOW synchronous_commit") == [("on",)]
