"""The links of a node on asyncio: whoever is at the other end is a function that takes frames.

A link is made by whoever has the other end, a socket or a part of this process; here it has a name, and the frames that
a round sends over it are handed on together at the end of the round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, TypeAlias

from fieldfare.kernel import Kernel
from fieldfare.messages import Close, Closed, Input, LinkIdentity, Opened, Received, Send

Frames: TypeAlias = Callable[[list[Any]], None]


class Connection:
    """The other end's handle on a link."""

    __slots__ = ("_links", "frames", "identity", "link", "on_close", "on_frames")

    def __init__(
        self,
        links: Links,
        link: str,
        identity: LinkIdentity,
        on_frames: Frames,
        on_close: Callable[[str], None],
    ) -> None:
        self._links, self.link, self.identity = links, link, identity
        self.on_frames, self.on_close = on_frames, on_close
        self.frames: list[Any] | None = None  # of this round, if there are any

    def send(self, frame: Any) -> None:
        """The other end says something."""
        self._links.received(self.link, frame)

    def send_all(self, frames: Iterable[Any]) -> None:
        """The other end says several things together."""
        self._links.received_all(self.link, frames)

    def close(self) -> None:
        """The other end is gone, and hears nothing any more."""
        self._links.closed(self)


class Links:
    """All links of one node. `tell` queues an input for it, `wake` has it handled soon."""

    def __init__(self, tell: Callable[[Input], None], wake: Callable[[], None]) -> None:
        self.is_closed: str | None = None  # why nobody is let in any more
        self._tell, self._wake = tell, wake
        self._connections: dict[str, Connection] = {}
        self._speaking: list[Connection] = []  # those with frames to be handed on at the end of the round
        self._names = count(1)

    def provide(self, kernel: Kernel) -> None:
        """Perform what a node does with links."""
        kernel.provide(Send, self._send)
        kernel.provide(Close, self._close)
        kernel.at_round_end(self._flush)

    def accept(self, identity: LinkIdentity, on_frames: Frames, on_close: Callable[[str], None]) -> Connection:
        """A link that the other end opened."""
        return self.open(f"c{next(self._names)}", identity, on_frames, on_close)

    def open(self, link: str, identity: LinkIdentity, on_frames: Frames, on_close: Callable[[str], None]) -> Connection:
        """A link under a name that no other link has."""
        connection = Connection(self, link, identity, on_frames, on_close)
        if self.is_closed is not None:
            asyncio.get_running_loop().call_soon(on_close, self.is_closed)
            return connection
        self._connections[link] = connection
        self._say(Opened(link, identity))
        return connection

    def received(self, link: str, frame: Any) -> None:
        """A frame came."""
        self._say(Received(link, frame))

    def received_all(self, link: str, frames: Iterable[Any]) -> None:
        """Frames came."""
        tell = self._tell
        for frame in frames:
            tell(Received(link, frame))
        self._wake()

    def closed(self, connection: Connection) -> None:
        """The other end is gone."""
        if self._connections.pop(connection.link, None) is not None:
            connection.frames = None
            self._say(Closed(connection.link))

    def close_all(self, reason: str, may_stay: Callable[[LinkIdentity], bool] = lambda _: False) -> None:
        """Part from everybody, but for those who may stay."""
        for link, connection in list(self._connections.items()):
            if not may_stay(connection.identity):
                self._close(Close(link, reason))
        self._wake()

    def _say(self, message: Input) -> None:
        self._tell(message)
        self._wake()

    def _send(self, effect: Send) -> None:
        connection = self._connections.get(effect.link)
        if connection is not None:
            if connection.frames is None:
                connection.frames = [effect.frame]
                self._speaking.append(connection)
            else:
                connection.frames.append(effect.frame)

    def _close(self, effect: Close) -> None:
        connection = self._connections.pop(effect.link, None)
        if connection is not None:
            if connection.frames is not None:
                frames, connection.frames = connection.frames, None
                connection.on_frames(frames)
            self._tell(Closed(effect.link))
            connection.on_close(effect.reason)

    def _flush(self) -> None:
        speaking, self._speaking = self._speaking, []
        for connection in speaking:
            if (frames := connection.frames) is not None:
                connection.frames = None
                connection.on_frames(frames)
