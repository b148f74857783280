"""How a client reaches an edge: anything that carries frames in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fieldfare.client.wire import DecodedEdgeFrame
from fieldfare.messages import ClientFrame, EdgeFrame


class Connection(Protocol):
    """A connection to an edge. When it is gone, `receive` and `send` raise NotConnectedError."""

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
