"""Peers as processes of their own, driven by tests: lines in, JSON lines out, and SIGKILL."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE_SECONDS = 90.0  # for a machine on which much else runs
_ROOT = Path(__file__).parents[2]


class PeerProcess:
    """One `fieldfare peer --json`, or another command, that runs."""

    def __init__(self, pid: int, wait: Callable[[int], int], pipes: tuple[int, int, int]) -> None:
        self.pid, self._wait = pid, wait
        self.lines: list[dict[str, Any]] = []
        self.text = ""  # of its standard output, where that is no JSON
        self.complaints = ""
        self.name = self.address = self.status_url = ""
        self._code: int | None = None
        self._changed = asyncio.Event()
        self._input = os.fdopen(pipes[0], "wb")
        self._reading = [asyncio.create_task(self._read(pipes[1])), asyncio.create_task(self._complain(pipes[2]))]

    async def _read(self, descriptor: int) -> None:
        reader = await _opened(descriptor)
        while line := await reader.readline():
            if line.startswith(b"{"):
                self.lines.append(json.loads(line))
            self.text += line.decode()
            self._changed.set()

    async def _complain(self, descriptor: int) -> None:
        reader = await _opened(descriptor)
        while line := await reader.readline():
            self.complaints += line.decode()

    def said(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one type."""
        return [line for line in self.lines if line["type"] == kind]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what it has printed."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                assert not self._reading[0].done(), f"it ended with {await self.code()}: {self.complaints}"
                self._changed.clear()
                await self._changed.wait()

    async def ready(self, kind: str = "ready") -> Self:
        """Wait until it has said that it is on the ring, or something else."""
        await self.until(lambda: bool(self.said(kind)))
        told = self.said("ready")[0]
        self.name, self.address, self.status_url = told["name"], told["address"], told["status"]
        return self

    def say(self, *events: Any) -> None:
        """Give it events to publish."""
        self._input.write(b"".join(json.dumps(event).encode() + b"\n" for event in events))
        self._input.flush()

    def end_input(self) -> None:
        """There are no more events."""
        self._input.close()

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)

    async def terminate(self) -> int:
        """Ask it to leave, and wait for it."""
        os.kill(self.pid, signal.SIGTERM)
        return await self.code()

    async def code(self) -> int:
        """Its exit code, once it has ended."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait(self._reading)
        if not self._input.closed:
            self._input.close()
        if self._code is None:
            self._code = self._wait(self.pid)
        return self._code

    async def end(self) -> None:
        """Leave nothing of it."""
        if self._code is None:
            self.kill()
            await self.code()


class PeerProcesses:
    """A context manager that starts them, and leaves none behind."""

    def __enter__(self) -> Self:
        self._started: list[PeerProcess] = []
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(PATIENCE_SECONDS)
        with other:
            self._launcher = subprocess.Popen(
                [sys.executable, "-m", "tests.peers.launcher"], stdin=other.fileno(), cwd=_ROOT
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._control.close()
        try:
            self._launcher.wait(PATIENCE_SECONDS)
        finally:
            self._launcher.kill()
            self._launcher.wait()

    def start(self, *arguments: str, namespace: str = "", environment: Sequence[str] = ()) -> PeerProcess:
        """Start a command. Inside of `asyncio.run`."""
        request = {"arguments": arguments, "namespace": namespace, "environment": environment}
        (stdin, give), (take, stdout), (hear, stderr) = os.pipe(), os.pipe(), os.pipe()
        theirs = [stdin, stdout, stderr]
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], theirs)
            pid = int(self._control.recv(100))
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._started.append(PeerProcess(pid, self._wait, (give, take, hear)))
        return self._started[-1]

    def peer(self, *arguments: str, listen: str = "127.0.0.1:0", **where: Any) -> PeerProcess:
        """Start a peer."""
        return self.start("peer", "--listen", listen, "--status-port", "0", "--json", *arguments, **where)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Play a story. What is still there at its end is killed."""

        async def bounded() -> None:
            try:
                async with asyncio.timeout(3 * PATIENCE_SECONDS):
                    await story
            finally:
                for process in self._started:
                    await process.end()
                self._started.clear()

        asyncio.run(bounded())

    def _wait(self, pid: int) -> int:
        self._control.send(json.dumps({"wait": pid}).encode())
        return int(self._control.recv(100))


async def _opened(descriptor: int) -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb"))
    return reader
