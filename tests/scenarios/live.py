"""The live stage: a real `fieldfare serve` on loopback, the real client library, and real faults."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from tests.faults.live import Service
from tests.scenarios.live_client import LiveClient
from tests.scenarios.live_webhooks import LiveWebhooks
from tests.scenarios.scenario import Mood

from fieldfare.client.websocket import WebSocketTransport
from fieldfare.runtime.tokens import EVERYBODY, TokenFile
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
    """A service with a token for each tenant, which scenarios may share, one after the other.

    `disk` is a file system of its own on which the data are, if it is to be filled.
    """

    def __init__(self, data: Path, *, prefix: tuple[str, ...] = (), disk: Path | None = None) -> None:
        self.disk = disk
        tokens = TokenFile(data)
        self.tokens = {tenant: tokens.create(tenant, EVERYBODY.rights, time.time())[1] for tenant in TENANTS}
        self.process = Service(data, prefix=prefix, variables=SETTINGS)


@contextlib.contextmanager
def running(service: LiveService) -> Iterator[LiveService]:
    """Inside it runs, afterwards it is gone. It outlives the event loops of those who use it."""
    asyncio.run(service.process.start())
    try:
        yield service
    finally:
        asyncio.run(service.process.__aexit__())


class LiveStage:
    """What a scenario needs of a service. It fails when a promise is open and nothing has come for a while."""

    def __init__(self, service: LiveService, name: str, patience_seconds: float = 20.0) -> None:
        self.prefix = f"{name}."
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

    def add_client(self, name: str, tenant: str) -> None:
        transport = WebSocketTransport(self._service.process.url, self._service.tokens[tenant])
        self.clients[name] = LiveClient(name, tenant, transport, self.history)

    def webhook(self, name: str) -> str:
        return self._webhooks.add(name)

    async def set_mood(self, webhook: str, mood: Mood) -> None:
        await self._webhooks.set_mood(webhook, mood)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds * SCALE)

    async def wait_until(self, is_so: Callable[[], bool]) -> bool:
        known, changed_at = self._progress(), self.now
        while not is_so():
            await asyncio.sleep(_LOOK_SECONDS)
            if (progress := self._progress()) != known:
                known, changed_at = progress, self.now
            elif self.now > changed_at + self._patience_seconds:
                return False
        return True

    def _progress(self) -> tuple[int, ...]:
        """A number for each sort of thing that may still happen."""
        history = self.history
        taken = [*history.called.values(), *history.refused.values(), *(each.events for each in history.receptions)]
        return (
            sum(map(len, taken)),
            sum(each.outcome == "waiting" for each in history.publications),
            sum(each.confirmed_at is None for each in history.receptions),
            sum(each.unsubscription == "waiting" for each in history.receptions),
        )

    async def crash_edge(self) -> None:
        await self._service.process.kill()

    async def restart_edge(self) -> None:
        await self._service.process.start()

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
