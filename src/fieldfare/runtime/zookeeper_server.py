"""A real ZooKeeper server as a child process, from the jars that PySpark brings along; or an ensemble of several.

    with ZooKeeperServer(Path("data/zookeeper")) as server:
        print(server.hosts, read_mntr(server.port)["zk_znode_count"])

It listens on this machine only, unless told otherwise. It ends with the process that started it, even if that one is
killed.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fieldfare.errors import MissingDependencyError, ServiceError
from fieldfare.runtime.child_server import LOOPBACK, ChildServer, free_ports, java_command

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS = ("zookeeper-", "slf4j-api-", "log4j-api-", "log4j-core-", "log4j-slf4j2-impl-", "metrics-core-", "snappy-java-")
_WORDS = ("conf", "mntr", "ruok", "srvr")
_ATTEMPTS = 3  # a free port may be taken by somebody else before the server has it
_ANSWER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server runs."""

    port: int = 0  # 0: a free one
    listen_host: str = LOOPBACK  # this machine only; 0.0.0.0 for every machine that can reach this one
    heap_megabytes: int = 256
    tick_seconds: float = 0.5  # sessions expire at multiples of it
    session_seconds_min: float = 1.0
    session_seconds_max: float = 60.0
    start_seconds_max: float = 60.0
    sound_seconds: float = 5.0  # a server that ends by itself, after it ran for so long, is started again


@dataclass(frozen=True, slots=True)
class Peer:
    """A server of an ensemble, as the others know it."""

    number: int
    quorum_port: int
    election_port: int


DEFAULT_OPTIONS = ServerOptions()


class ZooKeeperServer:
    """One server, with its data in a folder. A context manager: inside it serves, afterwards it is gone."""

    def __init__(
        self, folder: Path, options: ServerOptions = DEFAULT_OPTIONS, peers: Sequence[Peer] = (), number: int = 0
    ) -> None:
        self.port = options.port
        self._folder, self._options = folder.absolute(), options
        self._peers, self._number = peers, number
        self._child = ChildServer(self._folder / "zookeeper.log", options.sound_seconds)

    @property
    def hosts(self) -> str:
        """Where clients connect."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._child.is_running

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it serves. Started again, it has the same port."""
        for attempt in range(1, _ATTEMPTS + 1):
            self.launch()
            try:
                self.wait_until_serving()
            except ServiceError:
                self.stop()
                if attempt == _ATTEMPTS or self._options.port or "Address already in use" not in self._child.said:
                    raise
                self.port = 0
            else:
                return

    def launch(self) -> None:
        """Start its process, and do not wait."""
        java = java_command("the ZooKeeper server")
        command = [java, f"-Xmx{self._options.heap_megabytes}m", *_JVM_OPTIONS, "-cp", _class_path(), _MAIN]
        self._folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_ports(1)[0]
        config = self._folder / "zoo.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._settings()), encoding="utf-8")
        (self._data / "myid").write_text(f"{self._number}\n", encoding="utf-8")
        self._child.launch([*command, str(config)])

    @property
    def _data(self) -> Path:
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        return data

    def _settings(self) -> Iterator[tuple[str, object]]:
        options = self._options
        yield "dataDir", self._data
        yield "clientPort", self.port
        yield "clientPortAddress", options.listen_host
        yield "maxClientCnxns", 0  # all clients have the same address here: no limit for each
        yield "tickTime", round(options.tick_seconds * 1000)
        yield "minSessionTimeout", round(options.session_seconds_min * 1000)
        yield "maxSessionTimeout", round(options.session_seconds_max * 1000)
        yield "admin.enableServer", "false"
        yield "4lw.commands.whitelist", ",".join(_WORDS)
        yield "autopurge.purgeInterval", 1
        if self._peers:
            yield "initLimit", 20
            yield "syncLimit", 10
            for peer in self._peers:
                yield f"server.{peer.number}", f"{LOOPBACK}:{peer.quorum_port}:{peer.election_port}"

    def wait_until_serving(self) -> None:
        """Raise a ServiceError if it ends, or does not serve in time."""
        deadline = time.monotonic() + self._options.start_seconds_max
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ServiceError(f"the ZooKeeper server has ended: {self._child.said}")
            with suppress(OSError):
                # Another server may have been given this port: only ours knows our folder.
                if str(self._data) in ask(self.port, "conf") and "Mode:" in ask(self.port, "srvr"):
                    return
            time.sleep(0.05)
        raise ServiceError(f"the ZooKeeper server does not serve on port {self.port}: {self._child.said}")

    def stop(self) -> None:
        """End it, if it runs, and wait for that."""
        self._child.stop()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the server's processes: SIGKILL to crash it for good, SIGSTOP and SIGCONT to pause it."""
        if number == signal.SIGKILL:
            self._child.kill()
        else:
            self._child.send_signal(number)


class ZooKeeperEnsemble:
    """Several servers that replicate each other. A context manager like a single one."""

    def __init__(self, folder: Path, size: int = 3, options: ServerOptions = DEFAULT_OPTIONS) -> None:
        ports = free_ports(2 * size)
        peers = [Peer(number, ports[2 * number - 2], ports[2 * number - 1]) for number in range(1, size + 1)]
        self.servers = [ZooKeeperServer(folder / str(peer.number), options, peers, peer.number) for peer in peers]
        self._stack = ExitStack()

    @property
    def hosts(self) -> str:
        """Where clients connect: all servers."""
        return ",".join(server.hosts for server in self.servers)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in self.servers:
                stack.callback(server.stop)
                server.launch()
            for server in self.servers:
                server.wait_until_serving()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


def ask(port: int, word: str) -> str:
    """The answer to a four-letter word, from a server on this machine; raises an OSError if there is none."""
    with socket.create_connection((LOOPBACK, port), _ANSWER_SECONDS) as connection:
        if connection.getsockname() == connection.getpeername():  # TCP may connect a port that is free with itself
            raise ConnectionRefusedError(f"nobody listens on port {port}")
        connection.sendall(word.encode())
        pieces = []
        while piece := connection.recv(65_536):
            pieces.append(piece)
        return b"".join(pieces).decode(errors="replace")


def read_mntr(port: int) -> dict[str, str]:
    """What a server on this machine measures of itself, such as zk_znode_count, zk_watch_count and zk_avg_latency."""
    lines = [line.partition("\t") for line in ask(port, "mntr").splitlines()]
    return {name: value.strip() for name, tab, value in lines if tab}


_JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.apache.logging.log4j.level=ERROR",
    "-Dzookeeper.preAllocSize=1024",  # KiB: its log grows in such steps
    "-Djava.net.preferIPv4Stack=true",
)


def _class_path() -> str:
    """The jars of the server, which lie among those of PySpark. PySpark itself is not imported: that would be slow."""
    spec = importlib.util.find_spec("pyspark")
    folders = [Path(place) / "jars" for place in (spec.submodule_search_locations or ())] if spec else []
    jars = [str(jar) for folder in folders for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(_JARS)]
    if not any(Path(jar).name.startswith("zookeeper-") for jar in jars):
        raise MissingDependencyError("the ZooKeeper server is a part of PySpark: pip install 'fieldfare[spark]'")
    return os.pathsep.join(jars)
