"""A real Kafka broker as a child process: one process that is its own controller (KRaft), on this machine only.

    with KafkaServer(Path("data")) as server:
        print(server.address)

It ends with the process that started it, even if that one is killed. It is for tests and measurements: one copy of
everything, and nothing is flushed before the operating system does it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fieldfare.bench.kafka.jars import kafka_jars
from fieldfare.errors import ServiceError
from fieldfare.runtime.child_server import LOOPBACK, ChildServer, free_ports, java_command

_PLAIN = "PLAINTEXT"
_START_SECONDS_MAX = 90.0
_ATTEMPTS = 3  # a free port may be taken by somebody else before the server has it
_LOG_CHARACTERS = 2000
_ONE_COPY = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.num.partitions",
)
_JVM_OPTIONS = ("-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class KafkaServer:
    """One broker, with its data in a folder. A context manager: inside it serves, afterwards it is gone."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str] | None = None,
        heap_megabytes: int = 512,
        protocols: tuple[str, ...] = (_PLAIN,),
    ) -> None:
        """`settings` are added to the broker's own. It has a listener for each protocol, the plain one first."""
        self._folder = folder.absolute()
        self._settings = settings or {}
        self._heap_megabytes = heap_megabytes
        self._protocols = protocols
        self._ports: list[int] = []
        self._child = ChildServer(self._folder / "kafka.log")

    @property
    def address(self) -> str:
        """Where clients connect."""
        return self.address_of(_PLAIN)

    def address_of(self, protocol: str) -> str:
        """Where clients connect that speak a protocol, such as SASL_SSL."""
        return f"{LOOPBACK}:{self._ports[self._protocols.index(protocol)]}"

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
        """Start it and wait until it serves. Started again, it has the same port and data."""
        for attempt in range(1, _ATTEMPTS + 1):
            is_new = not self._ports
            self._launch()
            try:
                self._wait_until_serving()
            except ServiceError:
                self.stop()
                if attempt == _ATTEMPTS or not is_new:
                    raise
                self._ports = []
                shutil.rmtree(self._data)
            else:
                return

    def stop(self) -> None:
        """End it, if it runs, and wait for that."""
        self._child.stop()

    def kill(self) -> None:
        """End it as a crash does."""
        self._child.kill()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _launch(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._ports = self._ports or free_ports(1 + len(self._protocols))
        config = self._folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._config().items()), encoding="utf-8")
        java = [
            java_command("the Kafka broker"),
            f"-Xmx{self._heap_megabytes}m",
            *_JVM_OPTIONS,
            "-cp",
            f"{kafka_jars()}/*",
        ]
        if not self._data.exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            if cluster.startswith("-"):  # it would be taken for an option
                cluster = "A" + cluster[1:]
            command = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
            if done.returncode:
                raise ServiceError(
                    f"Kafka's folder cannot be prepared: {(done.stdout + done.stderr)[-_LOG_CHARACTERS:]}"
                )
        self._child.launch([*java, "kafka.Kafka", str(config)])

    def _config(self) -> dict[str, object]:
        clients = ",".join(f"{protocol}://{self.address_of(protocol)}" for protocol in self._protocols)
        controllers = f"{LOOPBACK}:{self._ports[-1]}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controllers}",
            "listeners": f"{clients},CONTROLLER://{controllers}",
            "advertised.listeners": clients,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{each}:{each}" for each in self._protocols)]
            ),
            "log.dirs": self._data,
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            "broker.session.timeout.ms": 1_000,  # one that was killed may come back when its session is over
            "broker.heartbeat.interval.ms": 200,
            **dict.fromkeys(_ONE_COPY, 1),
            **self._settings,
        }

    def _wait_until_serving(self) -> None:
        """A controller that serves clients has let its broker in, which then listens."""
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            if not self._child.is_running:
                raise ServiceError(f"the Kafka broker has ended: {self._child.said}")
            with suppress(OSError), socket.create_connection((LOOPBACK, self._ports[0]), 1.0) as connection:
                if connection.getsockname() != connection.getpeername():  # TCP may connect a free port with itself
                    return
            time.sleep(0.05)
        raise ServiceError(f"the Kafka broker does not serve on port {self._ports[0]}: {self._child.said}")
