"""A service in a process of its own, as users start it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import fieldfare

_SOURCES = Path(fieldfare.__file__).parents[1]  # wherever a test changes to
_WAIT_SECONDS = 60.0
COMMAND = [sys.executable, "-m", "fieldfare"]
READY = r"Fieldfare is ready at (https?://\S+:\d+)"


def environment(**more: str) -> dict[str, str]:
    """The environment without settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FIELDFARE_")}
    return {**kept, "PYTHONPATH": str(_SOURCES), **more}


class ReadyProcess:
    """A `fieldfare` command that says when it is ready. A context manager: inside it is ready, afterwards it is gone.

    `ready` is a pattern of the line that it prints then.
    """

    def __init__(self, arguments: Sequence[str], ready: str, log_path: Path, **variables: str) -> None:
        self._arguments, self._ready, self._log_path = arguments, ready, log_path
        self._variables = variables
        self.prefix: list[str] = []  # a command that runs it, such as strace

    def __enter__(self) -> Self:
        with self._log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *COMMAND, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(**self._variables),
                start_new_session=True,  # so that what it runs under can be killed with it
            )
        # Whatever happens, nobody waits for ever: a process that says nothing is killed, and readline returns.
        watchdog = threading.Timer(_WAIT_SECONDS, self.process.kill)
        watchdog.start()
        try:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            ready = re.fullmatch(f"{self._ready}\n", line)
            if ready is None:
                self.process.kill()
                self._wait()
                raise AssertionError(f"not ready: {line!r}\n{self.log}")
        finally:
            watchdog.cancel()
        self.said = ready.groups()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill it, with what it runs under and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._wait()

    @property
    def log(self) -> str:
        """All that it said on standard error, also in earlier lives."""
        return self._log_path.read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop, and wait until it has; its exit code."""
        self.process.send_signal(how)
        return self._wait()

    def _wait(self) -> int:
        try:
            code = self.process.wait(_WAIT_SECONDS)
        finally:
            self.process.kill()
            if self.process.stdout is not None:
                self.process.stdout.close()
        return code


class ServiceProcess(ReadyProcess):
    """`fieldfare serve` on a free port."""

    def __init__(self, data: Path, *arguments: str, **variables: str) -> None:
        self.data = data
        command = ["serve", "--port", "0", "--data", str(data), *arguments]
        super().__init__(command, READY, data.with_name(f"{data.name}.stderr"), **variables)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return str(self.said[0])


def run(*arguments: str, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of users, to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_WAIT_SECONDS,
        check=False,
        env=environment(**variables),
    )
