"""Servers of others as child processes: they end with the process that started them, even if that one is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fieldfare.errors import MissingDependencyError, ServiceError

LOOPBACK = "127.0.0.1"
NEVER_RESTARTED = float("inf")
JAVA_HINT = "install a JRE, version 17 or later (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
_END_WITH_PARENT = Path(__file__).with_name("end_with_parent.py")
_SERVER_PORTS = range(20_000, 32_000)
_STOP_SECONDS = 12.0  # a little more than end_with_parent.py gives the server
_LOG_CHARACTERS = 2000


class ChildServer:
    """A server's process, and the file into which it writes what it has to say.

    One that ends by itself, after it ran for at least `sound_seconds`, is started again.
    """

    def __init__(self, log: Path, sound_seconds: float = NEVER_RESTARTED) -> None:
        self._log, self._sound_seconds = log, sound_seconds
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """The end of what it wrote into its log since it was started."""
        said = ""
        with suppress(OSError):
            said = self._log.read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:].strip()
        return said or "it said nothing"

    def launch(self, command: Sequence[str], folder: Path | None = None) -> None:
        """Start its process, in a folder, and do not wait until it serves."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-I", "-S", str(_END_WITH_PARENT), str(self._sound_seconds), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End it, if it runs, and wait for that."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self.send_signal(signal.SIGCONT)  # one that is paused cannot end
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            self.kill()

    def kill(self) -> None:
        """End it as a crash does, and wait until all of its processes are gone."""
        if self._process is not None:
            self.send_signal(signal.SIGKILL)
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait()
            with suppress(ProcessLookupError):  # the server is a child of that process, and may end a moment later
                while True:
                    os.killpg(self._process.pid, 0)
                    time.sleep(0.02)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the server's processes."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def java_command(server: str) -> str:
    """The path of `java`, which a server needs that is named in the error if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise MissingDependencyError(f"{server} needs Java: {JAVA_HINT}")
    return java


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at the moment, all different.

    They lie below those that systems give to outgoing connections, so that none takes one before its server starts.
    """
    found: list[int] = []
    for port in random.sample(_SERVER_PORTS, len(_SERVER_PORTS)):
        with socket.socket() as tried:
            try:
                tried.bind((LOOPBACK, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ServiceError(f"{count} ports between {_SERVER_PORTS[0]} and {_SERVER_PORTS[-1]} are wanted and not free")
