"""How a client reaches edges: anything that carries frames in both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fieldfare.client.wire import DecodedEdgeFrame
from fieldfare.messages import ClientFrame, EdgeFrame


class Connection(Protocol):
    """A connection to an edge. When it is gone, `receive` and `send` raise NotConnectedError.

    It may have two attributes, if the edge said so when it was opened: `log`, the id of the edge's log, and `edges`,
    the URLs of others that serve the same network.
    """

    async def receive(self) -> Sequence[EdgeFrame | DecodedEdgeFrame]:
        """The next frames, of which there may be several at once."""
        ...

    async def send(self, frames: Sequence[ClientFrame], /) -> None:
        """Send frames, in order; wait while too much is on its way."""
        ...

    def abort(self) -> None:
        """End at once: calls of `receive` and `send` that wait raise NotConnectedError."""
        ...

    async def close(self) -> None:
        """End in good order: what was sent arrives. To close what is gone does nothing."""
        ...


class Transport(Protocol):
    """Opens connections to one edge."""

    async def connect(self) -> Connection:
        """Open a connection. NotConnectedError: try again; any other FieldfareError: that would be of no use."""
        ...


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges that a client may use, and how each is reached. `allows` says whether one that an edge names may be."""

    urls: tuple[str, ...]
    transport_to: Callable[[str], Transport]
    allows: Callable[[str], bool] = lambda _: True

    @classmethod
    def only(cls, transport: Transport) -> Edges:
        """One edge, behind a transport that is made already: no other can be reached."""
        return cls(("",), lambda _: transport, lambda _: False)


def log_of(connection: Connection) -> str | None:
    """The id of the edge's log, if it is known."""
    return getattr(connection, "log", None)


def edges_of(connection: Connection) -> tuple[str, ...]:
    """The other edges that the edge named."""
    return getattr(connection, "edges", ())
