"""A pipeline as a child process: started again when it ends, after a wait that grows, and stopped with the service."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

_log = logging.getLogger(__name__)
_WAIT_SECONDS_MAX = 60.0
_SOUND_SECONDS = 60.0  # a run that lasted this long counts as healthy
_GROUP_SECONDS = 5.0  # for Spark's processes to end after the one that started them
_SAID_BYTES_MAX = 64 * 1024  # at once
_LEASH = "fieldfare.runtime.spark.leash"


class Child:
    """Runs a `fieldfare` command. `before_start` is awaited before each start."""

    def __init__(self, name: str, before_start: Callable[[], Awaitable[None]], *, stop_seconds: float) -> None:
        self._name, self._before_start, self._stop_seconds = name, before_start, stop_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        """Run a command, again and again, until `stop`."""
        self._task = asyncio.create_task(self._keep_running(arguments, environment))

    async def stop(self) -> None:
        """End it, and all that it started."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _keep_running(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        wait_seconds, clock = 1.0, asyncio.get_running_loop().time
        while True:
            started = clock()
            try:
                await self._before_start()
                reason = await self._run(arguments, environment)
            except OSError as error:
                reason = str(error)
            wait_seconds = 1.0 if clock() - started > _SOUND_SECONDS else min(2 * wait_seconds, _WAIT_SECONDS_MAX)
            _log.warning("%s has ended (%s); starting it again in %.0f s", self._name, reason, wait_seconds)
            await asyncio.sleep(wait_seconds)

    async def _run(self, arguments: Sequence[str], environment: dict[str, str]) -> str:
        """Run it to its end; what it said last."""
        command = [sys.executable, "-m", _LEASH, *arguments]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=DEVNULL, stderr=PIPE, env=environment, start_new_session=True
        )
        last = "it said nothing"
        try:
            assert process.stderr is not None  # noqa: S101 - a pipe was asked for
            while said := await process.stderr.read(_SAID_BYTES_MAX):
                for line in said.decode(errors="replace").split("\n"):
                    if line:
                        _log.info("%s: %s", self._name, line)
                        last = line
            return f"status {await process.wait()}: {last}"
        finally:
            await asyncio.shield(self._end(process))

    async def _end(self, process: Process) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)  # it alone: Spark has to live until the batch is finished
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._stop_seconds)
        deadline = asyncio.get_running_loop().time() + _GROUP_SECONDS
        with suppress(ProcessLookupError):
            while process.returncode is not None and asyncio.get_running_loop().time() < deadline:
                os.killpg(process.pid, 0)  # until there is nobody
                await asyncio.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
