"""The simulated stage: a world with one edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.scenarios.scenario import Mood

from fieldfare.routing.options import EdgeOptions
from fieldfare.simulation import Failure, Hang, World
from fieldfare.simulation.client import ListedKind, SimulatedClient
from fieldfare.simulation.history import History
from fieldfare.simulation.webhooks import Endpoint

PATIENCE_SECONDS = 120.0  # longer than any wait and backoff
_LOOK_SECONDS = 0.5
OPTIONS = EdgeOptions(waiting_max=64, webhook_attempts_max=1_000_000, webhook_backoff_seconds_max=5.0)

_OUTCOMES: dict[Mood, Failure | Hang | None] = {
    "takes": None,
    "fails": Failure("error"),
    "hangs": Hang(),
    "refuses": Failure("refused", is_permanent=True),
}


class SimulatedStage:
    """One edge in a world of its own. Seconds of a scenario are those of the world."""

    prefix = ""

    def __init__(self, seed: int = 0) -> None:
        self._world = World(seed)
        self._edge = self._world.edge("edge", OPTIONS)
        self._edge.checkpoint_records = 100
        self.clients: dict[str, SimulatedClient] = {}
        self._moods: dict[str, Mood] = {}
        self.history: History = self._world.history

    @property
    def now(self) -> float:
        return self._world.clock.now

    def add_client(self, name: str, tenant: str) -> SimulatedClient:
        client = self.clients[name] = self._world.client(name, self._edge, tenant)
        return client

    def webhook(self, name: str) -> str:
        self._moods.setdefault(name, "takes")
        url = f"https://{name}.example"
        self._world.webhook(url, self._endpoint(name))
        return url

    def _endpoint(self, name: str) -> Endpoint:
        return lambda _events: _OUTCOMES[self._moods[name]]

    async def set_mood(self, webhook: str, mood: Mood) -> None:
        self._moods[webhook] = mood

    async def pass_time(self, seconds: float) -> None:
        self._world.run_for(seconds)

    async def wait_until(self, is_so: Callable[[], bool]) -> bool:
        ends_at = self.now + PATIENCE_SECONDS
        while not is_so():
            if self.now > ends_at:
                return False
            self._world.run_for(_LOOK_SECONDS)
        return True

    async def crash_edge(self) -> None:
        self._world.crash(self._edge)

    async def restart_edge(self) -> None:
        self._world.restart(self._edge)

    def fill_disk(self) -> None:
        self._edge.log.failure = "the disk is full"

    def free_disk(self) -> None:
        self._edge.log.failure = None

    async def ask_list(self, tenant: str, what: ListedKind, subscription: str | None = None) -> list[dict[str, Any]]:
        client = next(client for client in self.clients.values() if client.tenant == tenant)
        listing = client.ask_list(what, subscription)
        await self.wait_until(lambda: listing.items is not None)
        assert listing.items is not None, "the edge does not answer"
        return listing.items
