"""A deployment of real processes: routing brokers and edges that can be killed, stopped and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.runtime.processes import READY, ReadyProcess

from fieldfare.coordination.registered import Registered, RegisteredTopic
from fieldfare.errors import CoordinationError
from fieldfare.runtime.tokens import BRIDGE_RIGHTS, TokenFile
from fieldfare.runtime.zookeeper import ZooKeeperOptions
from fieldfare.runtime.zookeeper_registry import ZooKeeperRegistry

TENANT = "default"
SESSION_SECONDS = 2.0  # a broker that is not heard of for so long counts as gone
_ROUTES = r"Fieldfare routes at (\S+) --zookeeper (\S+)"
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Where:
    """Where a broker runs, and how it is reached there."""

    host: str = "127.0.0.1"
    prefix: Sequence[str] = ()  # a command that runs it there
    variables: Mapping[str, str] = field(default_factory=dict)  # settings


class Broker:
    """One broker, a process at a time. It keeps its folder, and an edge also its port, over its lives."""

    def __init__(self, name: str, folder: Path, where: Where, variables: Mapping[str, str]) -> None:
        self.name = name
        self._folder, self._where = folder, where
        self.variables = {"FIELDFARE_BROKER_LISTEN": f"{where.host}:0", **variables, **where.variables}
        self.has_started = False
        self._stack = contextlib.ExitStack()

    @property
    def _arguments(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def _ready(self) -> str:
        raise NotImplementedError

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        arguments = ["broker", "--name", self.name, "--data", str(self._folder), *self._arguments]
        log = self._folder.with_name(f"{self._folder.name}.stderr")
        self.process = ReadyProcess(arguments, self._ready, log, **self.variables)
        self.process.prefix = list(self._where.prefix)
        await asyncio.to_thread(self._stack.enter_context, self.process)
        self.has_started = True

    async def kill(self) -> None:
        """SIGKILL."""
        await asyncio.to_thread(self.process.kill)

    @property
    def is_up(self) -> bool:
        """Whether its process lives."""
        return self.process.process.poll() is None

    async def restart(self, away_seconds: float) -> None:
        """Kill it, and start it again later."""
        await self.kill()
        await asyncio.sleep(away_seconds)
        await self.start()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP at the beginning, SIGCONT at the end."""
        os.killpg(self.process.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill what runs of it."""
        self._stack.close()


class RoutingProcess(Broker):
    """`fieldfare broker --role routing`."""

    _arguments = ("--role", "routing")
    _ready = _ROUTES

    @property
    def zookeeper(self) -> str:
        """Where others find the ZooKeeper that it uses."""
        return str(self.process.said[1])


class EdgeProcess(Broker):
    """`fieldfare broker --role edge`."""

    _ready = READY

    def __init__(self, name: str, folder: Path, where: Where, variables: Mapping[str, str]) -> None:
        super().__init__(name, folder, where, variables)
        self._port = 0
        self.token: str | None = None
        if where.host != "127.0.0.1":  # there only who has a token may do something
            _, self.token = TokenFile(folder).create(TENANT, BRIDGE_RIGHTS, time.time())

    @property
    def _arguments(self) -> tuple[str, ...]:
        insecure = () if self.token is None else ("--insecure",)
        return ("--role", "edge", "--host", self._where.host, "--port", str(self._port), *insecure)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://{self._where.host}:{self._port}"

    async def start(self) -> None:
        """Start it; after the first time, on the same port."""
        await super().start()
        self._port = int(str(self.process.said[0]).rpartition(":")[2])


_LOOPBACK = Where()


class LiveDeployment:
    """The brokers of a test, by name. A ZooKeeper is given, or the first routing broker has one of its own.

    `variables` are settings of all, as environment variables.
    """

    def __init__(self, folder: Path, zookeeper: str | None = None, **variables: str) -> None:
        self.folder, self._hosts = folder, zookeeper
        secret = folder / "secret"
        secret.write_text("a secret of tests, which is long enough")
        secret.chmod(0o600)
        self._variables = {
            "FIELDFARE_BROKER_ZOOKEEPER_SESSION_SECONDS": str(SESSION_SECONDS),
            "FIELDFARE_BROKER_SECRET_FILE": str(secret),
            **variables,
        }
        self.routing: dict[str, RoutingProcess] = {}
        self.edges: dict[str, EdgeProcess] = {}

    def add_routing(self, name: str, where: Where = _LOOPBACK) -> RoutingProcess:
        """A routing broker, which is not started yet."""
        made = self.routing[name] = RoutingProcess(name, self.folder / name, where, self._given)
        return made

    def add_edge(self, name: str, where: Where = _LOOPBACK) -> EdgeProcess:
        """An edge, which is not started yet."""
        made = self.edges[name] = EdgeProcess(name, self.folder / name, where, self._given)
        return made

    @property
    def _given(self) -> dict[str, str]:
        return self._variables if self._hosts is None else {**self._variables, "FIELDFARE_BROKER_ZOOKEEPER": self.hosts}

    @property
    def hosts(self) -> str:
        """Where ZooKeeper is."""
        assert self._hosts is not None, "no routing broker was started"
        return self._hosts

    async def start(self, routing: Sequence[str], edges: Sequence[str]) -> None:
        """Start brokers on this machine."""
        if self._hosts is None:
            first = self.add_routing(routing[0])
            await first.start()
            self._hosts, routing = first.zookeeper, routing[1:]
        brokers = [*map(self.add_routing, routing), *map(self.add_edge, edges)]
        await asyncio.gather(*(broker.start() for broker in brokers))

    async def start_all(self) -> None:
        """Start the brokers that were added."""
        await asyncio.gather(*(broker.start() for broker in self._brokers))

    async def start_again(self) -> None:
        """Start those that were killed."""
        await asyncio.gather(*(broker.start() for broker in self._brokers if not broker.is_up))

    @property
    def _brokers(self) -> list[Broker]:
        return [*self.routing.values(), *self.edges.values()]

    def close(self) -> None:
        """Kill all."""
        for broker in self._brokers:
            broker.close()

    # What ZooKeeper says

    def registered(self) -> Registered:
        """Who is there, and who owns what."""
        with ZooKeeperRegistry(ZooKeeperOptions(f"{self.hosts}/fieldfare")) as registry:
            return registry.read()

    async def topic(self, name: str, is_so: Callable[[RegisteredTopic], bool]) -> RegisteredTopic:
        """What is known of a topic, as soon as something is so."""
        found: list[RegisteredTopic] = []

        def look(registered: Registered) -> bool:
            found[:] = [each for each in registered.topics if each.topic == (TENANT, name) and is_so(each)]
            return bool(found)

        await self.until(look)
        return found[0]

    async def until(self, is_so: Callable[[Registered], bool]) -> Registered:
        """What ZooKeeper says, as soon as something is so."""
        end = time.monotonic() + _PATIENCE_SECONDS
        registered = None
        while time.monotonic() < end:
            with contextlib.suppress(CoordinationError):  # it cannot be reached while it is started again
                registered = await asyncio.to_thread(self.registered)
                if is_so(registered):
                    return registered
            await asyncio.sleep(_LOOK_SECONDS)
        raise AssertionError(f"it did not become so: {registered}")


@contextlib.contextmanager
def running(deployment: LiveDeployment, routing: Sequence[str], edges: Sequence[str]) -> Iterator[LiveDeployment]:
    """Inside it runs, afterwards it is gone. It outlives the event loops of those who use it."""
    try:
        asyncio.run(deployment.start(routing, edges))
        yield deployment
    finally:
        deployment.close()
