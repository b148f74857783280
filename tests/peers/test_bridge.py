"""A bridge between an edge and a ring of peers: both sides get what the other publishes, also after a crash."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.peers.processes import PATIENCE_SECONDS, PeerProcess, PeerProcesses
from tests.peers.test_library import FAST, ring, run, until

import fieldfare
from fieldfare.client.subscription import Subscription
from fieldfare.errors import ConfigError
from fieldfare.qos import Offered
from fieldfare.runtime.embedded import Embedded, HostTransport
from fieldfare.runtime.peers.bridge import BridgedTopics, PeerBridge
from fieldfare.runtime.peers.peer import Peer


class Meeting:
    """An edge and a ring of two, and what came to whom."""

    def __init__(self, folder: Path, edge: Embedded, peers: list[Peer]) -> None:
        self.edge, self.peers, self._folder = edge, peers, folder
        self.at_edge: Counter[int] = Counter()
        self.at_peer: Counter[int] = Counter()

    async def listen(self) -> asyncio.Task[None]:
        """Count what comes to a client of the edge, and to a peer."""
        await self.peers[0].subscribe("t", "a > 0", lambda event: self.at_peer.update([event.attributes["a"]]))
        at_edge = await self.edge.subscribe("t", "a > 0")

        async def count() -> None:
            async for event in at_edge:
                self.at_edge[event.attributes["a"]] += 1

        return asyncio.create_task(count())

    def bridge(self, *topics: str) -> PeerBridge:
        peer = fieldfare.peer(self.peers[0].address, folder=self._folder, options=FAST)
        return PeerBridge(HostTransport(self.edge._host), peer, BridgedTopics(topics))


@asynccontextmanager
async def meeting(folder: Path) -> AsyncIterator[Meeting]:
    async with Embedded(folder / "edge") as edge, ring(2) as peers:
        met = Meeting(folder / "bridge", edge, peers)
        counting = await met.listen()
        yield met
        counting.cancel()


def play(folder: Path, story: Callable[[Meeting], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with meeting(folder) as met:
            await story(met)

    run(whole)


def test_each_side_gets_what_the_other_publishes_once(tmp_path: Path) -> None:
    async def story(met: Meeting) -> None:
        await met.edge.declare_topic("loose", Offered(reliability="best_effort"))
        async with met.bridge("t", "loose") as bridge:
            await met.edge.publish("t", [{"a": 1}, {"a": 2}])
            await met.peers[1].publish("t", [{"a": 3}, {"a": 4}])
            await until(lambda: met.at_edge.total() == 4 and met.at_peer.total() == 4)
            await met.edge.publish("t", {"a": 5})
            await until(lambda: met.at_edge[5] == 1 and met.at_peer[5] == 1)
            assert met.at_edge == met.at_peer == Counter([1, 2, 3, 4, 5])  # and no echo
            await until(lambda: bridge.counts == {"to_edge": 2, "to_ring": 3})

    play(tmp_path, story)


def test_what_is_published_while_the_bridge_is_away_is_carried_later(tmp_path: Path) -> None:
    async def story(met: Meeting) -> None:
        async with met.bridge("t"):
            pass
        for a in (1, 2):
            await met.edge.publish("t", {"a": a})
        for a in (3, 4):
            await met.peers[1].publish_soon("t", {"a": a})
        async with met.bridge("t"):
            await until(lambda: met.at_edge.total() == 4 and met.at_peer.total() == 4)
            assert met.at_edge == met.at_peer == Counter([1, 2, 3, 4])

    play(tmp_path, story)


def test_an_event_that_was_carried_and_not_noted_comes_to_the_edge_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bridge stops in the worst moment: the edge has an event of the ring, and the ring does not know it yet."""

    async def story(met: Meeting) -> None:
        bridge = met.bridge("t")
        carried = asyncio.Event()
        publish_once = bridge._client.publish_once

        async def and_stop(topic: str, event: Any) -> Any:
            answer = await publish_once(topic, event)
            carried.set()
            await asyncio.sleep(PATIENCE_SECONDS)
            return answer

        monkeypatch.setattr(bridge._client, "publish_once", and_stop)
        async with bridge:
            await met.peers[1].publish_soon("t", {"a": 1})
            await carried.wait()
        async with met.bridge("t") as again:
            await until(lambda: again.counts == {"repeated": 1})
            await met.peers[1].publish("t", {"a": 2})
            await until(lambda: met.at_edge[2] == 1)
            assert met.at_edge == Counter([1, 2])

    play(tmp_path, story)


def test_a_bridge_needs_topics_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name one at least"):
        BridgedTopics(())
    for bad in ("no name", "x" * 121):
        with pytest.raises(ConfigError, match="t"):
            BridgedTopics((bad,))

    async def story(met: Meeting) -> None:
        transport = HostTransport(met.edge._host)
        with pytest.raises(ConfigError, match="folder"):
            PeerBridge(transport, fieldfare.peer(), BridgedTopics(("t",)))

    play(tmp_path, story)


def test_an_edge_is_a_peer_and_a_bridge_stands_between(tmp_path: Path) -> None:
    """Two services, one with a bridge inside and one with a bridge beside it, and a peer: all three hear each other."""

    async def story(processes: PeerProcesses) -> None:
        peer = await processes.peer("--subscribe", "t", "TRUE", "--publish", "t").ready("subscribed")
        settings = [
            "FIELDFARE_PEERS_LISTEN=127.0.0.1:0",
            f"FIELDFARE_PEERS_JOIN={peer.address}",
            "FIELDFARE_PEERS_TOPICS=t",
        ]
        serve = ("serve", "--port", "0", "--data")
        inside = processes.start(*serve, str(tmp_path / "inside"), environment=settings)
        beside = processes.start(*serve, str(tmp_path / "beside"))
        urls = [await _url(service) for service in (inside, beside)]
        joins = ("--join", peer.address, "--listen", "127.0.0.1:0", "--folder", str(tmp_path / "bridge"))
        bridge = processes.start("peer-bridge", "--topic", "t", *joins, "--url", urls[1])
        await bridge.until(lambda: "Carrying t" in bridge.text)
        heard: Counter[tuple[int, int]] = Counter()
        async with fieldfare.connect(urls[0]) as one, fieldfare.connect(urls[1]) as two:
            clients = (one, two)
            wanted = [await client.subscribe("t", "TRUE") for client in clients]
            hearing = [asyncio.create_task(_hear(number, events, heard)) for number, events in enumerate(wanted)]
            await _until_bridged(one)
            for a, client in enumerate(clients):
                await client.publish("t", {"a": a})
            peer.say({"a": 2})
            await until(lambda: len(heard) == 6 and len(peer.said("event")) == 3)
            assert set(heard.values()) == {1}
            for task in hearing:
                task.cancel()
        for process in (bridge, inside, beside, peer):
            assert await process.terminate() == 0, process.complaints

    with PeerProcesses() as processes:
        processes.run(story(processes))


async def _url(service: PeerProcess) -> str:
    await service.until(lambda: "http://" in service.text)
    return "http://" + service.text.partition("http://")[2].split()[0].rstrip(".,")


async def _hear(number: int, events: Subscription[Any], heard: Counter[tuple[int, int]]) -> None:
    async for event in events:
        heard[number, event.attributes["a"]] += 1


async def _until_bridged(client: Any) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "peers.t" not in [each["subscription"] for each in await client.subscriptions()]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # nobody tells when the edge has joined the ring
