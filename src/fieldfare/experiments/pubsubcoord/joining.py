"""Section 3.3.2: thousands of endpoints join at once, at a real ZooKeeper (figures 6c and 6f).

Every edge has a session of its own, and one request under way. Ours counts the endpoints of each topic at each edge;
the paper has a znode for each endpoint (`endpoint_znodes.py`).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fieldfare.coordination.leading import Leading
from fieldfare.coordination.zookeeper import MemberOptions, ZooKeeperMember
from fieldfare.coordination.zookeeper.znodes import Answer, AnyRequest
from fieldfare.experiments.pubsubcoord.endpoint_znodes import EdgeOfThePaper, JoinEndpoint, RoutingOfThePaper
from fieldfare.experiments.pubsubcoord.laboratory import Laboratory
from fieldfare.experiments.pubsubcoord.settings import JoiningScale
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.messages import (
    Announce,
    CountEndpoints,
    Effect,
    Input,
    Member,
    Node,
    Started,
    TimerDue,
    TopicKey,
    TopicSeen,
)
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.runtime.host import Host
from fieldfare.runtime.zookeeper import ZooKeeper, ZooKeeperOptions
from fieldfare.runtime.zookeeper_server import ServerOptions, ZooKeeperServer, read_mntr

_TENANT = "default"
_JOIN = "join"  # the timer key by which edges are told to begin
_ROUTING_COUNT = 10
_OPTIONS = MemberOptions(writes_max=1, reads_max=1)
_SERVER = ServerOptions(heap_megabytes=512, session_seconds_max=120.0)
_SESSION_SECONDS = 60.0  # a busy machine is no dead one
_QUIET_SECONDS = 0.5  # nothing is under way for so long: all is done
_PATIENCE_SECONDS = 600.0
PAPER, PAPER_MS = "a znode for each, own topics", {2000: 10.0, 10_000: 20.0}
SHARED_TOPICS = 20  # of an edge, where its endpoints share topics


class OneRequestZooKeeper(ZooKeeper):
    """ZooKeeper with one request of a broker under way at a time."""

    def __init__(self, options: ZooKeeperOptions, make_member: Callable[..., Any] = ZooKeeperMember) -> None:
        self._waiting: deque[tuple[AnyRequest, Callable[[Answer], None]]] = deque()
        self.is_under_way = False
        self.request_count = 0
        super().__init__(options, make_member)

    def submit(self, request: AnyRequest, then: Callable[[Answer], None]) -> None:
        """Give a request to kazoo when those before it have been answered."""
        self._waiting.append((request, then))
        self._next()

    def _next(self) -> None:
        if self._waiting and not self.is_under_way:
            request, then = self._waiting.popleft()
            self.is_under_way = True
            self.request_count += 1
            super().submit(request, partial(self._answered, then))

    def _answered(self, then: Callable[[Answer], None], answer: Answer) -> None:
        self.is_under_way = False
        then(answer)
        self._next()


class _Edge:
    """A node that joins endpoints when it is told to, all at once."""

    def __init__(self, name: str, join: Sequence[Effect]) -> None:
        self._name, self._join = name, join
        self.unowned: set[TopicKey] = set()  # its topics that have no routing broker yet

    def handle(self, message: Input, _: float) -> Sequence[Effect]:
        """What to do."""
        match message:
            case Started():
                is_ours = any(isinstance(effect, CountEndpoints) for effect in self._join)
                return [Announce(Member(self._name, "edge", self._name))] if is_ours else []
            case TimerDue(key) if key == _JOIN:
                self.unowned = {effect.topic for effect in self._join if isinstance(effect, CountEndpoints)}
                return self._join
            case TopicSeen(topic, owner) if owner:
                self.unowned.discard(topic)
        return []


class _Idle:
    """A node that does nothing: its coordination does it all."""

    def handle(self, _message: Input, _: float) -> Sequence[Effect]:
        """Nothing."""
        return []


@dataclass(frozen=True, slots=True)
class Joined:
    """What the server said of itself when all had joined."""

    write_ms: float  # on average, while they joined
    request_ms: float
    longest_ms: float  # since the server's start
    znodes: int
    watches: int
    requests: int  # while they joined


def endpoints_at(edge: int, count: int, topics: int, topics_per_edge: int) -> list[str]:
    """The topics of the endpoints at an edge, one for each."""
    return [f"t{(edge * topics_per_edge + number % topics_per_edge) % topics}" for number in range(count)]


def _counts(topics: Sequence[str]) -> list[Effect]:
    """What an edge of ours says as endpoints join one after the other."""
    totals: dict[str, int] = {}
    effects: list[Effect] = []
    for topic in topics:
        totals[topic] = totals.get(topic, 0) + 1
        effects.append(CountEndpoints((_TENANT, topic), 0, totals[topic]))
    return effects


def join(scale: JoiningScale, endpoints: int, topics_per_edge: int | None, *, is_ours: bool) -> Joined:
    """Let endpoints join at once at a server of its own; `topics_per_edge`, None: a topic for each endpoint."""
    each = endpoints // scale.edges
    places = [endpoints_at(edge, each, scale.topics, topics_per_edge or each) for edge in range(scale.edges)]
    with tempfile.TemporaryDirectory() as folder, ZooKeeperServer(Path(folder), _SERVER) as server:
        return asyncio.run(_join(server, places, is_ours=is_ours))


async def _join(server: ZooKeeperServer, places: Sequence[Sequence[str]], *, is_ours: bool) -> Joined:
    options = ZooKeeperOptions(f"{server.hosts}/fieldfare", session_seconds=_SESSION_SECONDS, member=_OPTIONS)
    brokers = (_ours if is_ours else _of_the_paper)(options, places)
    hosts = [Host(node, zookeeper) for node, zookeeper in brokers]
    try:
        for host in hosts:
            await host.start()
        await _until_quiet(brokers)
        before = await asyncio.to_thread(read_mntr, server.port)
        for host, (node, _) in zip(hosts, brokers, strict=True):
            if isinstance(node, _Edge):
                host.tell(TimerDue(_JOIN))
        await _until_quiet(brokers)
        return _joined(before, await asyncio.to_thread(read_mntr, server.port))
    finally:
        await asyncio.gather(*(host.stop() for host in hosts))


def _ours(options: ZooKeeperOptions, places: Sequence[Sequence[str]]) -> list[tuple[Node, OneRequestZooKeeper]]:
    routing = [f"routing-{number}" for number in range(_ROUTING_COUNT)]
    nodes: list[Node] = [RoutingBroker(Member(name, "routing", name), Leading(name)) for name in routing]
    nodes += [_Edge(f"edge-{number}", _counts(topics)) for number, topics in enumerate(places)]
    return [(node, OneRequestZooKeeper(options)) for node in nodes]


def _of_the_paper(options: ZooKeeperOptions, places: Sequence[Sequence[str]]) -> list[tuple[Node, OneRequestZooKeeper]]:
    routing = tuple(f"routing-{number}" for number in range(_ROUTING_COUNT))
    brokers: list[tuple[Node, OneRequestZooKeeper]] = []
    for name in routing:
        workers = routing if name == routing[0] else ()
        made = OneRequestZooKeeper(options, partial(RoutingOfThePaper, name=name, workers=workers))
        brokers.append((_Idle(), made))
    for number, topics in enumerate(places):
        name = f"edge-{number}"
        effects = [JoinEndpoint(topic, count) for count, topic in enumerate(topics)]
        brokers.append((_Edge(name, effects), OneRequestZooKeeper(options, partial(EdgeOfThePaper, name=name))))
    return brokers


async def _until_quiet(brokers: Sequence[tuple[Node, OneRequestZooKeeper]]) -> None:
    """Until every broker has done what it has to, and nothing has happened for a while."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    quiet_since, seen = loop.time(), -1
    while loop.time() - quiet_since < _QUIET_SECONDS:
        if loop.time() > deadline:
            waits = [wait for _, zookeeper in brokers for wait in zookeeper.waits()]
            raise RuntimeError(f"the endpoints did not join: {len(waits)} wait, such as {waits[:3]}")
        await asyncio.sleep(0.05)
        requests = sum(zookeeper.request_count for _, zookeeper in brokers)
        is_done = all(zookeeper.problem is None and not zookeeper.waits() for _, zookeeper in brokers)
        is_unowned = any(node.unowned for node, _ in brokers if isinstance(node, _Edge))
        if requests != seen or is_unowned or not is_done:
            quiet_since, seen = loop.time(), requests


def _joined(before: Mapping[str, str], after: Mapping[str, str]) -> Joined:
    def grown(name: str) -> float:
        return float(after[name]) - float(before.get(name, "0"))

    writes, reads = grown("zk_cnt_updatelatency"), grown("zk_cnt_readlatency")
    write_ms, read_ms = grown("zk_sum_updatelatency"), grown("zk_sum_readlatency")
    return Joined(
        write_ms / max(writes, 1.0),
        (write_ms + read_ms) / max(writes + reads, 1.0),
        float(after["zk_max_latency"]),
        int(after["zk_znode_count"]),
        int(after["zk_watch_count"]),
        round(writes + reads),
    )


WAYS: Mapping[str, tuple[bool, int | None]] = {  # whether it is ours, and the topics of an edge
    PAPER: (False, None),
    "counted, own topics": (True, None),
    "a znode for each, shared topics": (False, SHARED_TOPICS),
    "counted, shared topics": (True, SHARED_TOPICS),
}


def figure_6cf(lab: Laboratory) -> Figure:
    """Latency at the server, znodes and watches, by the number of endpoints that join."""
    scale = lab.scale.joining
    found: dict[str, list[Joined]] = {name: [] for name in WAYS}
    rows: dict[str, list[Cell]] = {}
    for endpoints in scale.endpoints:
        for name, (is_ours, topics_per_edge) in WAYS.items():
            lab.progress(f"Figure 6c: {endpoints:,} endpoints, {name}")
            joined = join(scale, endpoints, topics_per_edge, is_ours=is_ours)
            found[name].append(joined)
            rows[f"{endpoints:,} endpoints, {name}"] = [
                PAPER_MS.get(endpoints) if name == PAPER else None,
                joined.request_ms,
                joined.write_ms,
                joined.longest_ms,
                joined.requests,
                joined.znodes,
                joined.watches,
            ]

    def series(value: Callable[[Joined], float]) -> list[Series]:
        return [Series(name, scale.endpoints, [value(each) for each in column]) for name, column in found.items()]

    return Figure(
        "6cf",
        "endpoints that join at once, at a real ZooKeeper",
        f"A server of ZooKeeper 3.9, {scale.edges} edges and {_ROUTING_COUNT} routing brokers with a session each and "
        f"one request under way, {scale.topics:,} topics at most; a new server for each row. Endpoints of an edge have "
        f"a topic each, which other edges have too, or share {SHARED_TOPICS}. Latencies, znodes and watches are the "
        "server's own (`mntr`), of the time in which endpoints joined.",
        ("paper, ms", "request ms", "write ms", "longest ms", "requests", "znodes", "watches"),
        rows,
        "Where every endpoint of an edge has a topic of its own, counting saves nothing, and a topic's parts and what "
        "edges watch of them cost more than the paper's. Where endpoints share topics, a count stands for all of "
        "them, and requests, znodes and watches do not grow with the endpoints at all.",
        [
            Panel("requests (6c)", "endpoints", "milliseconds at the server", series(lambda each: each.request_ms)),
            Panel("znodes (6f)", "endpoints", "znodes", series(lambda each: each.znodes)),
            Panel("watches (6f)", "endpoints", "watches", series(lambda each: each.watches)),
        ],
    )
