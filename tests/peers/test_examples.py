"""The example of three laptops: three processes that know only each other's addresses, one of which is closed."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.peers.processes import PATIENCE_SECONDS

SCRIPT = Path(__file__).parents[2] / "examples" / "three_laptops.py"
SECRET = {"FIELDFARE_PEERS_SECRET": "a secret of many bytes"}


class Laptop:
    """One process, and what it prints."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @staticmethod
    @asynccontextmanager
    async def opened(name: str, *arguments: str) -> AsyncIterator[tuple[Laptop, str]]:
        """One that is killed in the end, and its address."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(SCRIPT), name, "127.0.0.1:0", *arguments),
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, **SECRET},
        )
        laptop = Laptop(process)
        try:
            yield laptop, (await laptop.line()).split()[3].rstrip(",")
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def close(self) -> int:
        """End its input, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await self._process.wait()


def test_what_one_says_the_others_hear_if_they_want_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with Laptop.opened("anna", "--wants", "kind = 'lunch'") as (anna, address):
            joins = ("--join", address)
            carla_opens = Laptop.opened("carla", *joins, "--wants", "kind IN ('lunch', 'build')")
            async with carla_opens as (carla, _):
                kept = ("--wants", "kind = 'build' AND minutes > 5", "--folder", str(tmp_path / "ben"))
                async with Laptop.opened("ben", *joins, *kept) as (ben, _):
                    carla.say('{"kind": "build", "minutes": 7}')
                    assert await ben.line() == "carla: {'kind': 'build', 'minutes': 7}"
                    assert await carla.line() == "carla: {'kind': 'build', 'minutes': 7}"
                    assert await carla.line() == "Said, and heard by 2"
                    carla.say("{")
                    assert (await carla.line()).startswith("Not said: an event cannot be sent as JSON")
                    carla.say('{"kind": "lunch"}')
                    assert await anna.line() == "carla: {'kind': 'lunch'}"
                    assert await ben.close() == 0
                anna.say('{"kind": "build", "minutes": 9}')
                async with Laptop.opened("ben", *joins, *kept) as (ben, _):
                    assert await ben.line() == "anna: {'kind': 'build', 'minutes': 9}"
                    assert await carla.close() == 0

    asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE_SECONDS))
