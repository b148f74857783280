"""Events that have left their connection, which does not mean that somebody has dealt with them.

A stream over HTTP has no acknowledgements: it is known what was written to its connection, and, later and from the
position at which its client comes back, what has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.messages import Position
from fieldfare.routing.unread import Unread

_KNOWN_MAX = 10_000  # positions; of more events is only known how many they are


class LeftEvents:
    """The events of one subscription that have left and are not acknowledged."""

    __slots__ = ("counted", "positions", "upto")

    def __init__(self) -> None:
        self.upto: Position = -1  # all that were sent up to here have left
        self.positions: list[Position] = []  # while they are not too many
        self.counted = Unread()  # how many they are, also when they are too many

    @property
    def are_known(self) -> bool:
        """Whether the position of each is known."""
        return bool(self.positions)

    def add(self, positions: Sequence[Position], upto: Position) -> None:
        """Events up to a position have left."""
        self.positions += positions
        self.counted.add_each(positions)
        if len(self.positions) > _KNOWN_MAX:
            self.positions.clear()
        self.upto = max(self.upto, upto)

    def acknowledge(self, position: Position) -> None:
        """All up to a position have been dealt with."""
        if self.positions:
            self.positions = [each for each in self.positions if each > position]
        self.counted.drop_upto(position)
