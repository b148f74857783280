"""What a host can run: any node, and nodes that keep a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from fieldfare.messages.effects import Effect
from fieldfare.messages.inputs import Input


class Node(Protocol):
    """A state machine: no sockets, files, clocks or randomness of its own."""

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        ...


@runtime_checkable
class LoggingNode(Node, Protocol):
    """A node that keeps a log, and comes back from it."""

    def recover(self, record: Any) -> None:
        """Take up a record of the checkpoint or the log, in order, before the first message."""
        ...

    def checkpoint(self) -> Sequence[Any]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        ...
