"""What a host can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fieldfare.messages.effects import Effect
from fieldfare.messages.inputs import Input
from fieldfare.messages.records import Record


class Node(Protocol):
    """Anything that a host can run."""

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        ...

    def recover(self, record: Record) -> None:
        """Take up a record of the checkpoint or the log, in order, before the first message."""
        ...

    def checkpoint(self) -> Sequence[Record]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        ...
