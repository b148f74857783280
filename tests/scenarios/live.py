"""The live stage: a real `fieldfare serve` on loopback, the real client library, and real faults."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.runtime.processes import ServiceProcess
from tests.scenarios.live_client import LiveClient
from tests.scenarios.live_webhooks import LiveWebhooks
from tests.scenarios.scenario import Mood

from fieldfare.client.websocket import WebSocketTransport
from fieldfare.runtime.tokens import BRIDGE_RIGHTS, TokenFile
from fieldfare.simulation.client import ListedKind
from fieldfare.simulation.history import History

SCALE = 0.1  # so many real seconds are a second of a scenario
TENANTS = ("one", "two")
_LOOK_SECONDS = 0.02
_FREE_BYTES = 4096  # that a full disk still has
SETTINGS = {
    "FIELDFARE_LIMITS_WAITING_MAX": "64",
    "FIELDFARE_WEBHOOKS_ALLOW": "127.0.0.1",
    "FIELDFARE_WEBHOOKS_ATTEMPTS_MAX": "1000",
    "FIELDFARE_WEBHOOKS_BACKOFF_SECONDS": "0.05",
    "FIELDFARE_WEBHOOKS_BACKOFF_SECONDS_MAX": "0.2",
}


class LiveService:
    """A service on one data folder, which may be killed and started again on the same port.

    It has a token for each tenant. `prefix` is a command that runs it, such as strace. `disk` is the file system of its
    own on which the data are, if it is to be filled. Scenarios may share a service, one after the other.
    """

    def __init__(
        self,
        data: Path,
        *,
        prefix: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        disk: Path | None = None,
    ) -> None:
        self.prefix = list(prefix)
        self.disk = disk
        tokens = TokenFile(data)
        self.tokens = {tenant: tokens.create(tenant, BRIDGE_RIGHTS, time.time())[1] for tenant in TENANTS}
        self._data, self._variables = data, {**SETTINGS, **(variables or {})}
        self._port = 0
        self._stack = contextlib.ExitStack()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        self._process = ServiceProcess(self._data, "--port", str(self._port), **self._variables)
        self._process.prefix = self.prefix
        await asyncio.to_thread(self._stack.enter_context, self._process)
        self._port = int(self._process.url.rpartition(":")[2])

    async def kill(self) -> None:
        await asyncio.to_thread(self._process.kill)

    def close(self) -> None:
        """Kill what runs of it."""
        self._stack.close()


@contextlib.contextmanager
def running(service: LiveService) -> Iterator[LiveService]:
    """Inside it runs, afterwards it is gone. It outlives the event loops of those who use it."""
    asyncio.run(service.start())
    try:
        yield service
    finally:
        service.close()


class LiveStage:
    """What a scenario needs of a service. It fails when a promise is open and nothing has come for a while."""

    def __init__(self, service: LiveService, name: str, patience_seconds: float = 20.0) -> None:
        self.prefix = f"{name}." if name else ""
        self.history = History()
        self._service = service
        self._patience_seconds = patience_seconds
        self.clients: dict[str, LiveClient] = {}

    async def __aenter__(self) -> Self:
        self._stack = contextlib.AsyncExitStack()
        self._webhooks = await self._stack.enter_async_context(LiveWebhooks(self.history))
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients.values():
            await client.close()
        await self._stack.aclose()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def add_client(self, name: str, tenant: str) -> LiveClient:
        transport = WebSocketTransport(self._service.url, self._service.tokens[tenant])
        client = self.clients[name] = LiveClient(name, tenant, transport, self.history)
        return client

    def webhook(self, name: str) -> str:
        return self._webhooks.add(name)

    async def set_mood(self, webhook: str, mood: Mood) -> None:
        await self._webhooks.set_mood(webhook, mood)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds * SCALE)

    async def wait_until(self, is_so: Callable[[], bool]) -> bool:
        return await wait_until(is_so, self.history, self._patience_seconds)

    async def crash_edge(self) -> None:
        await self._service.kill()

    async def restart_edge(self) -> None:
        await self._service.start()

    def fill_disk(self) -> None:
        disk = self._service.disk
        assert disk is not None, "this service has no disk of its own"
        (disk / "ballast").write_bytes(b"x" * (shutil.disk_usage(disk).free - _FREE_BYTES))

    def free_disk(self) -> None:
        assert self._service.disk is not None
        (self._service.disk / "ballast").unlink()

    async def ask_list(self, tenant: str, what: ListedKind, subscription: str | None = None) -> list[dict[str, Any]]:
        client = next(client for client in self.clients.values() if client.tenant == tenant).living
        return await (client.subscriptions() if what == "subscriptions" else client.dead_letters(subscription or ""))


async def wait_until(is_so: Callable[[], bool], history: History, patience_seconds: float) -> bool:
    """Wait until something is so; False if nothing has come into the history for a while, and it is not."""
    known, changed_at = _progress(history), time.monotonic()
    while not is_so():
        await asyncio.sleep(_LOOK_SECONDS)
        if (progress := _progress(history)) != known:
            known, changed_at = progress, time.monotonic()
        elif time.monotonic() > changed_at + patience_seconds:
            return False
    return True


def _progress(history: History) -> tuple[int, ...]:
    """A number for each sort of thing that may still happen."""
    taken = [*history.called.values(), *history.refused.values(), *(each.events for each in history.receptions)]
    return (
        sum(map(len, taken)),
        sum(each.outcome == "waiting" for each in history.publications),
        sum(each.confirmed_at is None for each in history.receptions),
        sum(each.unsubscription == "waiting" for each in history.receptions),
    )
