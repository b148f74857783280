"""Stores to test with: a SQLite file, and a schema of its own in a real PostgreSQL server."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.installing import install_in_ci, missing

from fieldfare.store import SubscriptionStore, open_store

POSTGRES_MISSING = "no PostgreSQL server is installed (Debian, Ubuntu: apt install postgresql)"
_schemas = itertools.count(1)


class PostgresServer:
    """A server of our own: a folder, a socket in it, and no port."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)
        command = [str(programs / "initdb"), "-D", "data", "-U", "fieldfare", "-A", "trust", "-E", "UTF8", "-N"]
        subprocess.run(command, user=self._user, cwd=folder, check=True, capture_output=True)

    def start(self) -> None:
        command = [str(self._programs / "postgres"), "-D", "data", "-k", str(self.folder), "-c", "listen_addresses="]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, user=self._user, cwd=self.folder, stdout=log, stderr=log)
        ready = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder)]
        while subprocess.run(ready, check=False).returncode:
            if self._process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """At once, as if the machine had failed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def address(self, schema: str | None = None) -> str:
        path = f"&options={quote(f'-csearch_path={schema}')}" if schema else ""
        return f"postgresql://fieldfare@/postgres?host={quote(str(self.folder), safe='')}{path}"

    def new_address(self) -> str:
        """The address of a schema without tables."""
        import psycopg

        schema = f"test_{next(_schemas)}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return self.address(schema)


def _programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian keeps them off the PATH."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    programs = _programs()
    if programs is None:
        install_in_ci("postgresql")
        programs = _programs() or missing(POSTGRES_MISSING)
    folder = Path(tempfile.mkdtemp(prefix="fieldfare-pg-"))  # pytest's own are closed to other users
    server = PostgresServer(programs, folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store may be created."""
    if request.param == "sqlite":
        return str(tmp_path / "subscriptions.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_address()


@pytest.fixture
def opened(address: str) -> Iterator[Callable[[], SubscriptionStore]]:
    """Opens the same store again and again, and closes all in the end."""
    stores: list[SubscriptionStore] = []

    def open_one() -> SubscriptionStore:
        stores.append(open_store(address, timeout_seconds=0.2))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], SubscriptionStore]) -> SubscriptionStore:
    return opened()
