"""The brokers that are measured: how each is found, started on a free port of loopback, and spoken to.

A peer is taken as Debian packages it, with the settings that suit it here: Redis without snapshots and without a limit
on what waits for a subscriber, so that it never disconnects one.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fieldfare.bench.broker.fieldfare_wire import FieldfareWire
from fieldfare.bench.broker.wires import NatsWire, RedisStreamWire, RedisWire, Wire
from fieldfare.errors import FieldfareError, MissingDependencyError

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0


class ServerError(FieldfareError):
    """A broker did not start; carries the end of what it said."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """How a broker serves a kind of topic: the wire to speak, and its arguments."""

    wire: Callable[[], Wire]
    arguments: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """A broker. Without a guarantee, it has nothing that is equal."""

    name: str
    command: Callable[[Path, int], Sequence[str]]  # given a folder and a free port
    volatile: Guarantee
    durable: Guarantee | None
    filters: bool  # by content, so that its clients need not
    why_not_durable: str = ""
    is_announcing: bool = False  # tells its address itself
    environment: Mapping[str, str] = field(default_factory=dict)  # beside our own


def installed(program: str) -> str | None:
    """The path of a program; Debian has some servers where only root looks."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")


def found(program: str) -> str:
    """The path of a program that has to be installed."""
    path = installed(program)
    if path is None:
        advice = f"apt-get install {program} (Debian, Ubuntu), or leave it out with --peer"
        raise MissingDependencyError(f"{program} is not installed: {advice}")
    return path


def _redis(folder: Path, port: int) -> Sequence[str]:
    limits = ["--save", "", "--maxclients", "15000", "--client-output-buffer-limit", "pubsub 0 0 0"]
    return [found("redis-server"), "--bind", HOST, "--port", str(port), "--dir", str(folder), *limits]


def _nats(folder: Path, port: int) -> Sequence[str]:  # noqa: ARG001 (core NATS keeps nothing in a folder)
    return [found("nats-server"), "--addr", HOST, "--port", str(port)]


def _fieldfare(folder: Path, port: int) -> Sequence[str]:
    return [sys.executable, "-m", "fieldfare", "serve", "--port", str(port), "--data", str(folder)]


OURS = Server(
    "fieldfare",
    _fieldfare,
    volatile=Guarantee(partial(FieldfareWire, is_durable=False), note="best effort"),
    durable=Guarantee(partial(FieldfareWire, is_durable=True), note="fsync before an event is accepted or delivered"),
    filters=True,
    is_announcing=True,
    environment={"FIELDFARE_LIMITS_CONNECTIONS_MAX": "15000"},
)
PEERS = {
    "redis": Server(
        "redis",
        _redis,
        volatile=Guarantee(RedisWire, ("--appendonly", "no"), "publish/subscribe"),
        durable=Guarantee(
            RedisStreamWire,
            ("--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"),
            "a stream, fsync before an answer",
        ),
        filters=False,
    ),
    "nats": Server(
        "nats",
        _nats,
        volatile=Guarantee(NatsWire, note="core NATS"),
        durable=None,
        filters=False,
        why_not_durable="no equal: before 2.10, JetStream cannot flush before it acknowledges",
    ),
}


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that takes connections."""

    port: int
    process_id: int

    def cpu_seconds(self) -> float | None:
        """What it has used of the processors so far, where the platform tells."""
        try:
            fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int | None:
        """What it has in memory, where the platform tells."""
        try:
            pages = int(Path(f"/proc/{self.process_id}/statm").read_text().split()[1])
        except OSError:
            return None
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Program:
    """What is to be started."""

    command: Sequence[str]
    port: int  # at which it takes connections; 0: it tells which
    log: Path  # where what it says is written
    environment: Mapping[str, str] = field(default_factory=dict)  # beside our own


@contextmanager
def running(server: Server, guarantee: Guarantee, folder: Path) -> Iterator[Running]:
    """Start a broker, wait until it takes connections, and stop it in the end."""
    port = 0 if server.is_announcing else free_port()
    command = [*server.command(folder, port), *guarantee.arguments]
    with started([Program(command, port, folder / "server.log", server.environment)]) as (broker,):
        yield broker


@contextmanager
def started(programs: Sequence[Program]) -> Iterator[list[Running]]:
    """Start programs at the same time, wait until all of them take connections, and stop them in the end."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.extend(_launched(program) for program in programs)
        yield [
            Running(_ready_port(process, program), process.pid)
            for process, program in zip(processes, programs, strict=True)
        ]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _launched(program: Program) -> subprocess.Popen[bytes]:
    with program.log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - a program that was found, with arguments of ours
            program.command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **program.environment},
        )


def free_port() -> int:
    """A port of loopback at which nobody listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _ready_port(process: subprocess.Popen[bytes], program: Program) -> int:
    """The port, once it can be connected to."""
    port, log = program.port, program.log
    deadline = time.monotonic() + START_SECONDS_MAX
    while process.poll() is None and time.monotonic() < deadline:
        announced = re.search(r"ready at https?://[^:\s]+:(\d+)", log.read_text(errors="replace"))
        port = port or (int(announced[1]) if announced else 0)
        if port and _is_open(port):
            return port
        time.sleep(0.02)
    said = log.read_text(errors="replace")[-2000:]
    raise ServerError(f"{process.args!r} did not start within {START_SECONDS_MAX:g} s; it said:\n{said}")


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
