"""The prefix table: for each length of prefix that others share with this node, one node for each digit that follows.

Row 3 holds nodes whose ids begin with the same three digits as this node's and differ in the fourth. One step over the
table brings a message at least one digit closer to its key. Of several nodes for a slot the
nearest by round trip stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fieldfare.pastry.ids import DIGIT_BITS, DIGIT_VALUES, digit, shared_digits
from fieldfare.pastry.ports import Contact, Key, NodeId

_MUCH_NEARER = 0.8  # of the round trip: for less a node is not replaced


class PrefixTable:
    """The table of one node."""

    __slots__ = ("_me", "_slots")

    def __init__(self, me: NodeId) -> None:
        self._me = me
        self._slots: dict[int, Contact] = {}  # by row and digit; most are empty

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._slots.values())

    def items(self) -> Iterable[tuple[int, int, Contact]]:
        """Row, digit and node of each slot that is taken."""
        return ((slot >> DIGIT_BITS, slot & (DIGIT_VALUES - 1), node) for slot, node in self._slots.items())

    def slot_of(self, node: NodeId) -> int:
        """Where a node belongs; this node itself belongs nowhere."""
        row = shared_digits(self._me, node)
        return row << DIGIT_BITS | digit(node, row)

    def is_free(self, node: NodeId) -> bool:
        """Whether nobody stands where a node belongs."""
        return self.slot_of(node) not in self._slots

    def toward(self, key: Key) -> Contact | None:
        """A node that shares more digits with a key than this one does."""
        row = shared_digits(self._me, key)
        return self._slots.get(row << DIGIT_BITS | digit(key, row)) if key != self._me else None

    def at(self, node: NodeId) -> Contact | None:
        """Who stands where a node belongs."""
        return self._slots.get(self.slot_of(node))

    def __contains__(self, node: NodeId) -> bool:
        there = self._slots.get(self.slot_of(node)) if node != self._me else None
        return there is not None and there.id == node

    def row(self, row: int) -> list[Contact]:
        """The nodes of a row."""
        first = row << DIGIT_BITS
        slots = self._slots
        return [slots[slot] for slot in range(first, first + DIGIT_VALUES) if slot in slots]

    def rows(self) -> list[int]:
        """The rows that hold somebody."""
        return sorted({slot >> DIGIT_BITS for slot in self._slots})

    def offer(self, contact: Contact, seconds: float, seconds_of_other: float | None) -> None:
        """Take in a node with this round trip, if its slot is free or its holder is much farther away."""
        slot = self.slot_of(contact.id)
        holder = self._slots.get(slot)
        if (
            holder is None
            or holder.id == contact.id
            or seconds_of_other is None
            or seconds < _MUCH_NEARER * seconds_of_other
        ):
            self._slots[slot] = contact

    def put(self, contact: Contact) -> None:
        """Take in a node, whoever stood there."""
        self._slots[self.slot_of(contact.id)] = contact

    def remove(self, node: NodeId) -> bool:
        """Take out a node; whether it was there."""
        if node not in self:
            return False
        del self._slots[self.slot_of(node)]
        return True
