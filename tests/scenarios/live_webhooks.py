"""Real webhooks on one port: each takes events, fails, hangs or refuses, as it is told."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

import msgspec
from tests.scenarios.scenario import Mood

from fieldfare.messages import Delivery
from fieldfare.simulation.history import History

_STATUS: dict[Mood, int] = {"takes": 204, "fails": 500, "refuses": 404}


class _Call(msgspec.Struct):
    events: list[Delivery]


class LiveWebhooks:
    """An HTTP server on loopback; a webhook's name is its path."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._moods: dict[str, Mood] = {}
        self._mood_changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def add(self, name: str) -> str:
        """The URL of a webhook."""
        self._moods.setdefault(name, "takes")
        return f"{self._url}/{name}"

    async def set_mood(self, name: str, mood: Mood) -> None:
        """From now on it does this."""
        self._moods[name] = mood
        async with self._mood_changed:
            self._mood_changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one call; False where it never is."""
        head = await reader.readuntil(b"\r\n\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        call = msgspec.json.decode(await reader.readexactly(int(headers[b"content-length"])), type=_Call)
        name = head.split()[1].decode().removeprefix("/")
        mood = self._moods.get(name, "takes")
        if mood == "hangs":
            async with self._mood_changed:
                await self._mood_changed.wait_for(lambda: self._moods[name] != "hangs")
            return False
        if mood != "fails":
            of_outcome = self._history.called if mood == "takes" else self._history.refused
            of_outcome.setdefault(f"{self._url}/{name}", []).extend(call.events)
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % _STATUS[mood])
        await writer.drain()
        return True
