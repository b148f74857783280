"""How the paper writes endpoints into ZooKeeper: a znode for each, as in its Figure 2 and Algorithm 1. For comparison.

    topics/TOPIC             persistent; its data is where its routing broker is found, which edges watch
    topics/TOPIC/ENDPOINT    ephemeral: edge, topic, type and QoS of one publisher or subscriber
    brokers/NAME             the topics of a routing broker, which watches them

A routing broker watches the endpoints of its topics and reads each, as Curator's cache does. One of them leads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from fieldfare.coordination.zookeeper import MemberOptions, Tree, ZooKeeperPort
from fieldfare.coordination.zookeeper.procedures import Procedures
from fieldfare.coordination.zookeeper.steps import create, make_path, read, read_children, write
from fieldfare.coordination.zookeeper.znodes import NoZnodeError, Procedure, ZnodeExistsError
from fieldfare.experiments.pubsubcoord.settings import OFFERED
from fieldfare.messages import Effect

_LOCATOR_BYTES = 40  # of an address, about


class JoinEndpoint(Effect, frozen=True):
    """A subscriber joins at this edge."""

    topic: str
    number: int


class _Key(msgspec.Struct, frozen=True):
    pass


class _WriteEndpoint(_Key, frozen=True):
    topic: str
    number: int


class _WatchLocator(_Key, frozen=True):
    topic: str


class _AssignTopics(_Key, frozen=True):
    """The leader gives new topics to routing brokers."""


class _WatchOwnTopics(_Key, frozen=True):
    pass


class _WatchEndpoints(_Key, frozen=True):
    topic: str


_AnyKey: TypeAlias = _WriteEndpoint | _WatchLocator | _AssignTopics | _WatchOwnTopics | _WatchEndpoints


class EdgeOfThePaper:
    """What an edge does at ZooKeeper: write each endpoint, and watch where their topics' routing brokers are."""

    def __init__(self, port: ZooKeeperPort, tree: Tree, options: MemberOptions, name: str) -> None:
        self._tree, self._name = tree, name
        self._procedures: Procedures[_AnyKey] = Procedures(port, self._start, 1, options)
        self.located: dict[str, bool] = {}  # topics of this edge, and whether their routing brokers are known

    def performers(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        """Perform JoinEndpoint."""
        return {JoinEndpoint: lambda effect: self._procedures.request(_WriteEndpoint(effect.topic, effect.number))}

    def connected(self, _session: int) -> None:
        """Begin."""
        self._procedures.open()

    def suspended(self) -> None:
        """The connection is lost."""
        self._procedures.close()

    def changed(self, path: str) -> None:
        """A topic's routing broker is known."""
        self._procedures.request(_WatchLocator(path.rpartition("/")[2]))

    def waits(self) -> list[str]:
        """What is not done."""
        unknown = [f"where {topic} is" for topic, is_known in self.located.items() if not is_known]
        return [*self._procedures.waits(), *unknown]

    def _start(self, key: _AnyKey) -> Procedure[None]:
        match key:
            case _WriteEndpoint(topic, number):
                return self._write(topic, number)
            case _WatchLocator(topic):
                return self._watch(topic)
        raise TypeError(key)

    def _write(self, topic: str, number: int) -> Procedure[None]:
        path = f"{self._tree.topics}/{topic}"
        content = {"edge": "x" * _LOCATOR_BYTES, "topic": topic, "type": "Sample", "qos": OFFERED}
        endpoint, data = f"{path}/{self._name}-{number}", msgspec.json.encode(content)
        try:
            yield from create(endpoint, data, is_ephemeral=True)
        except NoZnodeError:
            yield from make_path(path)
            yield from create(endpoint, data, is_ephemeral=True)
        if topic not in self.located:
            self.located[topic] = False
            self._procedures.request(_WatchLocator(topic))

    def _watch(self, topic: str) -> Procedure[None]:
        znode = yield from read(f"{self._tree.topics}/{topic}", is_watched=True)
        self.located[topic] = bool(znode.data)


class RoutingOfThePaper:
    """What a routing broker does at ZooKeeper. `workers`, if it leads: the names of all."""

    def __init__(
        self, port: ZooKeeperPort, tree: Tree, options: MemberOptions, name: str, workers: tuple[str, ...] = ()
    ) -> None:
        self._tree, self._name, self._workers = tree, name, workers
        self._procedures: Procedures[_AnyKey] = Procedures(port, self._start, 1, options)
        self._assigned: dict[str, list[str]] = {worker: [] for worker in workers}
        self._owners: dict[str, str] = {}
        self._topics: set[str] = set()
        self.endpoints: set[str] = set()  # those that were read

    def performers(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        """Nothing: it watches."""
        return {}

    def connected(self, _session: int) -> None:
        """Begin."""
        self._procedures.open()
        self._procedures.request(_WatchOwnTopics())
        if self._workers:
            self._procedures.request(_AssignTopics())

    def suspended(self) -> None:
        """The connection is lost."""
        self._procedures.close()

    def changed(self, path: str) -> None:
        """A watch was triggered."""
        match path.removeprefix(self._tree.root).split("/")[1:]:
            case ["topics"]:
                self._procedures.request(_AssignTopics())
            case ["brokers", _]:
                self._procedures.request(_WatchOwnTopics())
            case ["topics", topic]:
                self._procedures.request(_WatchEndpoints(topic))

    def waits(self) -> list[str]:
        """What is not done."""
        return self._procedures.waits()

    def _start(self, key: _AnyKey) -> Procedure[None]:
        match key:
            case _AssignTopics():
                return self._assign()
            case _WatchOwnTopics():
                return self._watch_own()
            case _WatchEndpoints(topic):
                return self._watch(topic)
        raise TypeError(key)

    def _assign(self) -> Procedure[None]:
        """Each new topic to the routing broker that has the fewest."""
        yield from make_path(self._tree.topics)
        changed: set[str] = set()
        for topic in sorted(set((yield from read_children(self._tree.topics))) - self._owners.keys()):
            worker = min(self._workers, key=lambda name: len(self._assigned[name]))
            self._owners[topic] = worker
            self._assigned[worker].append(topic)
            changed.add(worker)
            yield from write(f"{self._tree.topics}/{topic}", worker.ljust(_LOCATOR_BYTES).encode())
        for worker in sorted(changed):
            yield from write(self._tree.broker(worker), msgspec.json.encode(self._assigned[worker]))

    def _watch_own(self) -> Procedure[None]:
        path = self._tree.broker(self._name)
        yield from make_path(self._tree.brokers)
        with suppress(ZnodeExistsError):
            yield from create(path)
        znode = yield from read(path, is_watched=True)
        for topic in msgspec.json.decode(znode.data or b"[]", type=list[str]):
            if topic not in self._topics:
                self._topics.add(topic)
                self._procedures.request(_WatchEndpoints(topic))

    def _watch(self, topic: str) -> Procedure[None]:
        path = f"{self._tree.topics}/{topic}"
        for name in (yield from read_children(path)):
            if (endpoint := f"{path}/{name}") not in self.endpoints:
                yield from read(endpoint, is_watched=True)
                self.endpoints.add(endpoint)
