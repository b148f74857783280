"""A service, two DDS networks that do not see each other, and a bridge from each to the service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.dds.networks import BridgeProcess, DdsApplication, Network, can_make_namespaces, domains, namespaces
from tests.runtime.processes import ServiceProcess, run

from fieldfare import connect, connect_sync
from fieldfare.client.sync import SyncClient

LEASE = ("--lease-seconds", "1")
_DECLARED_SECONDS = 30.0


@dataclass(frozen=True)
class Laboratory:
    """What the tests share. Each test has topics of its own."""

    networks: list[Network]
    service: ServiceProcess
    folder: Path

    @property
    def port(self) -> int:
        return urlsplit(self.service.url).port or 0

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text().strip()

    def client(self) -> SyncClient:
        return connect_sync(f"http://127.0.0.1:{self.port}", token=self.token)

    def offered(self, topic: str) -> dict[str, Any]:
        """What a topic at the service offers."""
        (offered,) = (item["offered"] for item in self._topics() if item["topic"] == topic)
        return dict(offered)

    def until_declared(self, topic: str) -> None:
        """Wait until a topic is known at the service."""
        deadline = time.monotonic() + _DECLARED_SECONDS
        while all(item["topic"] != topic for item in self._topics()):
            assert time.monotonic() < deadline, f"{topic} was not declared"
            time.sleep(0.1)

    def _topics(self) -> list[dict[str, Any]]:
        async def ask() -> list[dict[str, Any]]:
            async with connect(f"http://127.0.0.1:{self.port}", token=self.token) as client:
                return await client.topics()

        return asyncio.run(ask())

    def bridge(self, network: Network, name: str, *options: str) -> BridgeProcess:
        return BridgeProcess(network, self.port, name, self.folder, *LEASE, *options)


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    folder = tmp_path_factory.mktemp("dds")
    data = folder / "data"
    rights = [
        f"--{right}={topic}" for right in ("publish", "subscribe", "manage") for topic in ("dds.*", "dds-writers")
    ]
    made = run("tokens", "create", *rights, "--data", str(data))
    assert made.returncode == 0, made.stderr
    (folder / "token").write_text(made.stdout)
    with ExitStack() as stack:
        networks = stack.enter_context(namespaces()) if can_make_namespaces() else domains()
        service = stack.enter_context(ServiceProcess(data, "--host", "0.0.0.0", "--insecure"))  # noqa: S104
        yield Laboratory(networks, service, folder)


@pytest.fixture(scope="session")
def bridges(laboratory: Laboratory) -> Iterator[list[BridgeProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(laboratory.bridge(each, f"bridge-{each.name}")) for each in laboratory.networks]


@pytest.fixture(scope="session")
def applications(laboratory: Laboratory, bridges: list[BridgeProcess]) -> Iterator[list[DdsApplication]]:
    assert all(bridge.process.poll() is None for bridge in bridges)
    with ExitStack() as stack:
        yield [stack.enter_context(DdsApplication(network)) for network in laboratory.networks]
