"""Real clients at the edges of a deployment: traffic while something goes wrong, and a history that is judged."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, Self

from tests.overlay_live.deployment import TENANT, EdgeProcess
from tests.scenarios.live import wait_until
from tests.scenarios.live_client import LiveClient

from fieldfare.client.websocket import WebSocketTransport
from fieldfare.errors import BrokenPromiseError
from fieldfare.qos import Requested
from fieldfare.simulation.checkers import check_liveness, check_safety, check_standing
from fieldfare.simulation.gap_checker import check_gaps
from fieldfare.simulation.history import History, Reception, Standing

PATIENCE_SECONDS = 60.0
_PACE_SECONDS = 0.03  # between publications of one publisher
_CALM_SECONDS = 0.4  # of traffic before and after a fault
_LONGER_SECONDS = 0.3  # for what must not come
_ROADS = ("A1", "A2", "B3")


class HasEdges(Protocol):
    """A deployment of any kind."""

    edges: dict[str, EdgeProcess]


class OverlayStage:
    """Clients of one topic. At each edge one publishes and follows, and another has a durable subscription."""

    def __init__(self, deployment: HasEdges, topic: str) -> None:
        self.deployment, self.topic = deployment, topic
        self.history = History()
        self.clients: dict[str, LiveClient] = {}
        self.waits: dict[str, list[float]] = {edge: [] for edge in deployment.edges}  # of events from other edges
        self._numbers = itertools.count()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients.values():
            await client.close()

    @property
    def now(self) -> float:
        """The time by which the history is written."""
        return asyncio.get_running_loop().time()

    # Who is there

    async def begin(self) -> None:
        """Have clients at all edges, with subscriptions that are acknowledged."""
        for edge in self.deployment.edges.values():
            app, desk = self._client(f"{edge.name}-app", edge), self._client(f"{edge.name}-desk", edge)
            app.on_event = functools.partial(self._arrived, edge.name)
            app.subscribe(self.topic, "speed < 70")
            desk.subscribe(
                self.topic, "speed BETWEEN 20 AND 90 AND road IN ('A1', 'B3')", name=f"{self.topic}.{edge.name}"
            )
        assert await wait_until(self._is_settled, self.history, PATIENCE_SECONDS), "something is not answered"

    def _client(self, name: str, edge: EdgeProcess) -> LiveClient:
        transport = WebSocketTransport(edge.url, edge.token)
        made = self.clients[name] = LiveClient(name, TENANT, transport, self.history, edge.name)
        return made

    def subscribe_later(self, edge: str, **options: Any) -> Reception:
        """Somebody comes to an edge who was not there at the beginning."""
        client = self._client(f"{edge}-late{len(self.clients)}", self.deployment.edges[edge])
        return client.subscribe(self.topic, "road = 'A1' OR speed > 80", **options)

    def _is_settled(self) -> bool:
        return all(each.confirmed_at is not None for each in self.history.receptions)

    # What they do

    @contextlib.asynccontextmanager
    async def traffic(self) -> AsyncIterator[None]:
        """Meanwhile somebody publishes at every edge."""
        is_over = asyncio.Event()
        tasks = [asyncio.create_task(self._publish(edge, is_over)) for edge in self.deployment.edges]
        try:
            await asyncio.sleep(_CALM_SECONDS)
            yield
            await asyncio.sleep(_CALM_SECONDS)
        finally:
            is_over.set()
            await asyncio.gather(*tasks)

    async def _publish(self, edge: str, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            self.clients[f"{edge}-app"].publish(self.topic, *(self._event(edge) for _ in range(2)))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), _PACE_SECONDS)

    def _event(self, edge: str) -> dict[str, Any]:
        number = next(self._numbers)
        speed, road = number * 37 % 100, _ROADS[number % 3]
        return {"number": number, "edge": edge, "speed": speed, "road": road, "sent_at": self.now}

    def _arrived(self, edge: str, event: dict[str, Any]) -> None:
        if event["edge"] != edge:
            self.waits[edge].append(self.now - event["sent_at"])

    def tell_waits(self, when: str) -> None:
        """Print how long events took from edge to edge since the beginning; `pytest -s` shows it."""
        waits = sorted(itertools.chain(*self.waits.values()))
        median, longest = waits[len(waits) // 2], waits[-1]
        line = f"{self.topic}, {when}: {len(waits)} events, half in {median * 1000:.1f} ms, all in {longest:.3f} s"
        print(line)  # noqa: T201

    # What became of it

    async def judge(self) -> None:
        """Wait for all that is promised, and a little longer, for what is not; then hold it against the promises."""
        history = self.history
        await wait_until(self._is_fulfilled, history, PATIENCE_SECONDS)
        await asyncio.sleep(_LONGER_SECONDS)
        history.standing = [
            Standing(TENANT, self.topic, item["subscription"], item["is_durable"])
            for edge in self.deployment.edges
            for item in await self.clients[f"{edge}-app"].living.subscriptions()
            if item["topic"] == self.topic
        ]
        check_safety(history)
        check_liveness(history, self.now)
        check_gaps(history, self.now)
        check_standing(history)
        assert all(each.outcome == "accepted" for each in history.publications), "something was refused"
        assert all(self.waits.values()), "nothing came from another edge"

    def _is_fulfilled(self) -> bool:
        try:
            check_liveness(self.history, self.now)
        except BrokenPromiseError:
            return False
        return True


async def play(deployment: HasEdges, topic: str, go_wrong: Callable[[OverlayStage], Awaitable[None]]) -> OverlayStage:
    """Let something go wrong during traffic, and judge what became of it. In the end some come who want all of it."""
    async with OverlayStage(deployment, topic) as stage:
        await stage.begin()
        async with stage.traffic():
            await go_wrong(stage)
        for edge in deployment.edges:
            stage.subscribe_later(edge, qos=Requested(durability="transient"))
        await stage.judge()
        stage.tell_waits("in all")
    return stage
