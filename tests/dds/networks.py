"""DDS networks that do not see each other, what runs in them, and a service that both can reach.

Where this process may make network namespaces, each network is one; elsewhere a network is a DDS domain of its own on
loopback, without multicast.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.faults.processes import wait_until
from tests.runtime.processes import COMMAND, environment

_ROOT = Path(__file__).parents[2]
_WAIT_SECONDS = 60.0
_IP = shutil.which("ip") or "ip"
ON_LOOPBACK = (  # the tag keeps apart what tests of other processes have in the same domain
    "<CycloneDDS><Domain><General><AllowMulticast>false</AllowMulticast><Interfaces>"
    '<NetworkInterface address="127.0.0.1"/></Interfaces></General><Discovery><ParticipantIndex>auto</ParticipantIndex>'
    "<MaxAutoParticipantIndex>30</MaxAutoParticipantIndex><Peers>"
    f'<Peer address="127.0.0.1"/></Peers><Tag>tests-{os.getpid()}</Tag></Discovery></Domain></CycloneDDS>'
)


@dataclass(frozen=True)
class Network:
    """Where DDS applications run. `host` is the address under which they reach this process's machine."""

    name: str
    domain: int
    host: str
    prefix: tuple[str, ...] = ()  # of commands that run in it
    config: str | None = None

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        variables = environment(no_proxy="*", NO_PROXY="*")
        variables["PYTHONPATH"] += os.pathsep + str(_ROOT)
        variables.pop("CYCLONEDDS_URI", None)
        if self.config is not None:
            variables["CYCLONEDDS_URI"] = self.config
        return subprocess.Popen(
            [*self.prefix, *arguments],
            env=variables,
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
            **options,
        )

    def other_domain(self) -> Network:
        """A domain of its own in the same network."""
        return Network(self.name, self.domain + 1, self.host, self.prefix, self.config)


def can_make_namespaces() -> bool:
    """Whether this process may, as root in most places."""
    name = f"ffdds{os.getpid()}x"
    try:
        made = subprocess.run([_IP, "netns", "add", name], capture_output=True, check=False)
    except OSError:
        return False
    if made.returncode == 0:
        subprocess.run([_IP, "netns", "del", name], check=True)
    return made.returncode == 0


@contextmanager
def namespaces() -> Iterator[list[Network]]:
    """Two network namespaces. Each has a cable to this one, and no way to the other."""
    made: list[Network] = []
    try:
        made += map(_namespace, range(2))
        yield made
    finally:
        for network in made:
            subprocess.run([_IP, "netns", "del", network.prefix[3]], check=True)  # its end of the cable goes with it


def _namespace(number: int) -> Network:
    pid = os.getpid()
    name, outer, inner = f"ffdds{pid}-{number}", f"ffd{pid % 1_000_000}-{number}", "cable"
    subnet = f"10.{100 + pid // 128 % 100}.{(pid % 128) * 2 + number}"
    for command in (
        f"netns add {name}",
        f"link add {outer} type veth peer name {inner} netns {name}",
        f"addr add {subnet}.1/24 dev {outer}",
        f"link set {outer} up",
        f"-n {name} addr add {subnet}.2/24 dev {inner}",
        f"-n {name} link set {inner} up",
        f"-n {name} link set lo up",
    ):
        subprocess.run([_IP, *command.split()], check=True)
    return Network("ab"[number], 0, f"{subnet}.1", (_IP, "netns", "exec", name))


def domains() -> list[Network]:
    """Two domains on loopback."""
    first = 20 + os.getpid() % 20 * 4
    return [Network("ab"[number], first + 2 * number, "127.0.0.1", (), ON_LOOPBACK) for number in range(2)]


class Running:
    """A process in a network, that is killed at the end."""

    def __init__(self, process: subprocess.Popen[str], is_ready: Callable[[str], bool]) -> None:
        self.process = process
        watchdog = threading.Timer(_WAIT_SECONDS, self.kill)  # a process that says nothing makes nobody wait for ever
        watchdog.start()
        line = self._line()
        watchdog.cancel()
        assert is_ready(line), f"not ready: {line!r}"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, how)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self.process.wait(_WAIT_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class DdsApplication(Running):
    """`tests.dds.application` in a network."""

    def __init__(self, network: Network) -> None:
        arguments = [sys.executable, "-m", "tests.dds.application", str(network.domain)]
        super().__init__(network.start(*arguments, stdin=subprocess.PIPE), lambda line: line == "ready\n")

    def ask(self, do: str, **command: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **command}) + "\n")
        self.process.stdin.flush()
        line = self._line()
        assert line, f"the application ended when it was asked to {do}"
        return json.loads(line)

    def make(self, kind: str, name: str, topic: str, type: str, **policies: Any) -> None:  # noqa: A002
        self.ask("make", kind=kind, name=name, topic=topic, type=type, **policies)

    def until_matched(self, name: str, count: int = 1) -> None:
        wait_until(lambda: self.ask("matched", name=name) >= count, f"{name} has {count} counterparts", _WAIT_SECONDS)

    def taken(self, name: str, count: int) -> list[Any]:
        """At least so many samples of a reader."""
        wait_until(lambda: len(self.ask("take", name=name)) >= count, f"{name} has {count} samples", _WAIT_SECONDS)
        return list(self.ask("take", name=name))

    def numbers(self, name: str, last: int) -> list[int]:
        """The numbers that a reader of counts has, once it has a certain one."""
        wait_until(lambda: last in self.ask("numbers", name=name), f"{name} has {last}", _WAIT_SECONDS)
        return list(self.ask("numbers", name=name))


class BridgeProcess(Running):
    """`fieldfare dds-bridge` in a network."""

    def __init__(self, network: Network, port: int, name: str, folder: Path, *options: str) -> None:
        self._log_path = folder / f"{name}.log"
        arguments = ["dds-bridge", "--domain", str(network.domain), "--name", name, *options]
        arguments += ["--url", f"http://{network.host}:{port}", "--token-file", str(folder / "token")]
        with self._log_path.open("wb") as log:
            process = network.start(*COMMAND, *arguments, stderr=log)
        super().__init__(process, lambda line: line.startswith("Bridging DDS domain"))

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    def until_logged(self, text: str) -> None:
        wait_until(lambda: text in self.log, f"a bridge says {text!r}", _WAIT_SECONDS)
