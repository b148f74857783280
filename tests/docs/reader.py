"""A newcomer who types what a page says, from its top to its end, in one folder.

Commands that go on run in the background until the page ends. The documented ports and addresses are replaced by free
ports on loopback, so that several pages can be read at once; other machines of a page are other addresses of loopback.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import msgspec
from tests.docs.pages import ANYTHING, Block, Command, is_shown
from tests.runtime.processes import environment

from fieldfare.pipeline.settings import read_pipelines
from fieldfare.routing.tree.topology_file import read_topology
from fieldfare.runtime.child_server import free_ports
from fieldfare.runtime.config import load

# Of a service, of more beside it, of gossip, of links between brokers, and of peers.
PORTS = ("7380", "7480", "7390", "7580", "7381", "7481", "7581", "7400", "7401")
_BASH = shutil.which("bash") or "bash"
_WAIT_SECONDS = 120.0


class Reader:
    """A context manager: afterwards nothing runs any more."""

    def __init__(self, folder: Path, spark: Callable[[], Any]) -> None:
        self.folder = folder
        self._spark = spark  # the session that a page calls `spark`, started when one needs it
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._running: list[_Running] = []
        self._ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        port = self._ports[PORTS[0]]
        self._environment = environment(
            FIELDFARE_SERVER_PORT=port,
            FIELDFARE_URL=f"http://127.0.0.1:{port}",
        )
        self._make_commands()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for running in reversed(self._running):
            running.kill()

    def read(self, block: Block) -> None:
        """Do what a block says; an AssertionError if something else is seen than what it shows."""
        match block.language:
            case "console":
                for command in block.commands:
                    self._type(Command(self._local(command.text), tuple(map(self._local, command.shown))))
            case "python":
                self._python(block)
            case "toml":
                self._settings(block)
            case "json":
                msgspec.json.decode(block.text)

    def finish(self) -> None:
        """Stop what goes on, as Ctrl-C does; all that the page shows of it must have been seen."""
        while self._running:
            self._running.pop().stop()

    def _make_commands(self) -> None:
        """The commands that a page uses, as they are after an installation."""
        commands = self.folder.with_name(f"{self.folder.name}-bin")
        commands.mkdir()
        for name, arguments in (("fieldfare", "-m fieldfare "), ("python", "")):
            (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
            (commands / name).chmod(0o755)
        self._environment["PATH"] = f"{commands}{os.pathsep}{self._environment['PATH']}"

    def _local(self, text: str) -> str:
        local = re.sub("|".join(PORTS), lambda found: self._ports[found[0]], text)
        local = re.sub(r"\b192\.0\.2\.(\d+)", r"127.0.0.\1", local)
        return local.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - it is replaced

    # At a terminal

    def _type(self, command: Command) -> None:
        if command.goes_on:
            if command.text.startswith("fieldfare serve"):
                self.finish()  # a page says to stop what runs before it starts another service
            self._running.append(_Running(command, self.folder, self._environment))
            return
        variables = self.folder.with_name(f"{self.folder.name}-variables")
        ended = subprocess.run(
            [_BASH, "-c", f"{command.text}\ncode=$?; env -0 > {variables}; exit $code"],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_WAIT_SECONDS,
            check=False,
        )
        assert (ended.returncode != 0) == command.fails, f"$ {command.text}\n{ended.stdout}"
        if command.shown:
            assert is_shown(command.shown, ended.stdout), _difference(command, ended.stdout)
        self._environment = dict(  # what was exported is there for the next command
            variable.split("=", 1) for variable in variables.read_text().split("\0") if "=" in variable
        )

    # In Python

    def _python(self, block: Block) -> None:
        text = self._local(block.text)
        if re.search(r"\bspark\b", text) and "spark" not in self._names:
            self._names["spark"] = self._spark()
        if block.file_name is not None:
            (self.folder / block.file_name).write_text(text)
        with _at_most(_WAIT_SECONDS):
            if text.startswith(">>> "):
                test = doctest.DocTestParser().get_doctest(text, {}, "block", None, block.line)
                test.globs = self._names
                report = io.StringIO()
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
                assert runner.run(test, out=report.write, clear_globs=False).failed == 0, report.getvalue()
                return
            with redirect_stdout(io.StringIO()) as printed:
                code = compile(text, f"line {block.line}", "exec", dont_inherit=True)
                exec(code, self._names)  # noqa: S102 - our own documentation
            assert printed.getvalue().splitlines() == block.prints

    # Files

    def _settings(self, block: Block) -> None:
        path = self.folder / (block.file_name or "block.toml")
        path.write_text(self._local(block.text))
        if "[brokers." in block.text:
            read_topology(path)
        elif "[pipelines." in block.text:
            read_pipelines(path)
        else:
            load(path, {})


class _Running:
    """A command that goes on. It is ready when the first line that the page shows is there."""

    def __init__(self, command: Command, folder: Path, variables: dict[str, str]) -> None:
        self.command = command
        self._output = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.output")
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [_BASH, "-c", f"exec {command.text}"],
                cwd=folder,
                env=variables | {"PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        first = next((line for line in command.shown if line != ANYTHING), None)
        assert first is not None, f"$ {command.text}\nThe page does not show how to see that it has begun"
        self._wait((ANYTHING, first, ANYTHING))

    def stop(self) -> None:
        try:
            self._wait((*self.command.shown, ANYTHING))
            self._process.send_signal(signal.SIGINT)
            assert self._process.wait(_WAIT_SECONDS) == 0, self._output.read_text()
        finally:
            self.kill()
        assert "Traceback" not in self._output.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _wait(self, shown: tuple[str, ...]) -> None:
        end = time.monotonic() + _WAIT_SECONDS
        while not is_shown(shown, self._output.read_text()):
            is_over = self._process.poll() is not None or time.monotonic() > end
            assert not is_over, _difference(self.command, self._output.read_text())
            time.sleep(0.05)


def _difference(command: Command, output: str) -> str:
    shown = "\n".join(command.shown)
    return f"$ {command.text}\n--- the page shows\n{shown}\n--- was seen\n{output}"


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Nobody waits for ever: an example that hangs fails."""

    def fail(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError("the example hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
