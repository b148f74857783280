"""`fieldfare brokers` and `fieldfare brokers remove` for real processes that find each other by gossip."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from tests.runtime.processes import COMMAND, READY, ReadyProcess, environment

_PATIENCE_SECONDS = 60.0


class Brokers:
    """A routing broker and two edges."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        secret = folder / "secret"
        secret.write_text("a secret of tests, which is long enough")
        secret.chmod(0o600)
        self._variables = {"FIELDFARE_BROKER_SECRET_FILE": str(secret)}
        routes = r"Fieldfare routes at \S+ --gossip (\S+)"
        hub = self._start("hub", "routing", routes, "--gossip-listen", "127.0.0.1:0")
        self.gossip = str(hub.said[0])
        self.edges = [
            self._start(name, "edge", READY, "--port", "0", "--gossip", self.gossip) for name in ("edge-a", "edge-b")
        ]
        self.urls = [str(edge.said[0]) for edge in self.edges]

    def _start(self, name: str, role: str, ready: str, *arguments: str) -> ReadyProcess:
        made = ReadyProcess(
            ["broker", "--role", role, "--name", name, "--data", str(self._folder / name), *arguments],
            ready,
            self._folder / f"{name}.stderr",
            **self._variables,
        )
        return self._stack.enter_context(made)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`fieldfare brokers`, as a user has it."""
        return subprocess.run(
            [*COMMAND, "brokers", *arguments, "--gossip", self.gossip],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
            cwd=self._folder,
            env=environment(**self._variables, COLUMNS="200"),
        )

    def shown(self, *texts: str) -> str:
        """What is shown as soon as these texts stand in it."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            shown = self.command()
            assert shown.returncode == 0, shown.stderr
            if all(text in shown.stdout for text in texts):
                return shown.stdout
            time.sleep(0.5)  # a process for each look would starve those that it looks at
        raise AssertionError(f"never shown: {texts}\n{shown.stdout}")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with ExitStack() as stack:
        yield Brokers(tmp_path_factory.mktemp("gossip"), stack)


def test_they_are_shown_and_one_whose_disk_is_gone_is_retired(brokers: Brokers) -> None:
    body = {"topic": "news", "condition": "n >= 0", "name": "mine"}

    async def subscribe(url: str) -> int:
        async with httpx.AsyncClient(timeout=30) as http:
            return (await http.post(f"{url}/v1/subscriptions", json=body)).status_code

    assert asyncio.run(subscribe(brokers.urls[0])) == 201
    shown = brokers.shown("edge-a", "edge-b", "hub", "news", "Leader: hub")
    assert "Away" not in shown
    refused = brokers.command("remove", "edge-a")
    assert refused.returncode != 0
    assert "stop it first" in refused.stderr
    brokers.edges[0].kill()
    brokers.shown("Away, and owed events: edge-a")
    assert asyncio.run(subscribe(brokers.urls[1])) == 503  # edge-a may have it
    removed = brokers.command("remove", "edge-a")
    assert (removed.returncode, removed.stdout) == (0, "edge-a is retired: 1 topics no longer wait for it\n")

    async def made() -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while (status := await subscribe(brokers.urls[1])) != 201:
                assert status == 503
                await asyncio.sleep(0.1)

    asyncio.run(made())
    assert "Away" not in brokers.shown("edge-b")


def test_without_the_secret_nobody_answers(brokers: Brokers, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("the secret of another deployment")
    other.chmod(0o600)
    refused = brokers.command("--secret-file", str(other))
    assert refused.returncode != 0
    assert "has it the same secret?" in refused.stderr


def test_zookeeper_and_gossip_are_not_asked_both(brokers: Brokers) -> None:
    assert "not both" in brokers.command("--zookeeper", "127.0.0.1:1").stderr
