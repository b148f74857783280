"""The leaf set: the nodes whose ids are next to one's own, some on each side.

Both sides are sorted by how far around the ring a node is from this one. In a ring of few nodes a node stands on both
sides; then the leaf set covers the ring. Who is responsible for a key depends on the nearest node of each side only:
if the far ends are wrong for a moment, a message takes another hop and still ends where it should.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from fieldfare.pastry.ids import MASK, RING, distance, is_closer
from fieldfare.pastry.ports import Contact, Key, Leaves, NodeId

_HASH_MASK = (1 << 62) - 1


class _Side:
    """One side, the nearest first."""

    __slots__ = ("contacts", "offsets", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self.offsets: list[int] = []
        self.contacts: list[Contact] = []

    def would_take(self, offset: int) -> bool:
        offsets = self.offsets
        if len(offsets) < self.size_max or offset < offsets[-1]:
            place = bisect_left(offsets, offset)
            return place == len(offsets) or offsets[place] != offset
        return False

    def insert(self, offset: int, contact: Contact) -> None:
        place = bisect_left(self.offsets, offset)
        self.offsets.insert(place, offset)
        self.contacts.insert(place, contact)
        del self.offsets[self.size_max :], self.contacts[self.size_max :]

    def find(self, offset: int) -> int | None:
        place = bisect_left(self.offsets, offset)
        return place if place < len(self.offsets) and self.offsets[place] == offset else None

    def remove(self, offset: int) -> None:
        if (place := self.find(offset)) is not None:
            del self.offsets[place], self.contacts[place]

    def replace(self, offset: int, contact: Contact) -> None:
        if (place := self.find(offset)) is not None:
            self.contacts[place] = contact


class LeafSet:
    """The nodes around one node. `version` grows with each change."""

    __slots__ = ("_after", "_before", "_hashes", "_leaves", "_me", "covers_ring", "version")

    def __init__(self, me: Contact, each_side: int) -> None:
        self._me = me
        self._before = _Side(each_side)  # by how far counterclockwise a node is
        self._after = _Side(each_side)  # by how far clockwise
        self.covers_ring = False  # a node stands on both sides
        self.version = 0
        self._leaves: Leaves | None = None
        self._hashes: tuple[int, int] | None = None

    # What it holds

    def __len__(self) -> int:
        return len({contact.id for contact in self})

    def __contains__(self, node: NodeId) -> bool:
        return (
            self._after.find((node - self._me.id) & MASK) is not None
            or self._before.find((self._me.id - node) & MASK) is not None
        )

    def __iter__(self) -> Iterator[Contact]:
        """Every node once."""
        yield from {contact.id: contact for contact in (*self._before.contacts, *self._after.contacts)}.values()

    @property
    def leaves(self) -> Leaves:
        """Both sides, as others may keep them."""
        if self._leaves is None:
            self._leaves = Leaves(tuple(self._before.contacts), tuple(self._after.contacts))
        return self._leaves

    @property
    def predecessor(self) -> Contact | None:
        """The next node counterclockwise."""
        return self._before.contacts[0] if self._before.contacts else None

    @property
    def successor(self) -> Contact | None:
        """The next node clockwise."""
        return self._after.contacts[0] if self._after.contacts else None

    @property
    def ends(self) -> tuple[Contact, ...]:
        """The farthest node of each side: they know who comes after them."""
        return (self._before.contacts[-1], self._after.contacts[-1]) if self._after.contacts else ()

    def hash_shared(self, *, with_successor: bool) -> int:
        """A hash of the leaves that the neighbour on one side has too, both nodes included."""
        if self._hashes is None:
            before = [contact.id for contact in self._before.contacts]
            after = [contact.id for contact in self._after.contacts]
            to_before = {*before, self._me.id, *after[: self._after.size_max - 1]}
            to_after = {*before[: self._before.size_max - 1], self._me.id, *after}
            self._hashes = sum(to_before) & _HASH_MASK, sum(to_after) & _HASH_MASK
        return self._hashes[with_successor]

    def unknown_to(self, other: NodeId, theirs: set[NodeId]) -> list[Contact]:
        """The nodes in here that another node's leaf set, `theirs`, should have too, and has not."""
        clockwise = sorted((node - other) & MASK for node in theirs)
        size, known = self._after.size_max, theirs | {other}
        if len(clockwise) < 2 * size:  # it covers the ring
            return [contact for contact in self if contact.id not in known]
        low, high = clockwise[size - 1], clockwise[-size]
        return [contact for contact in self if contact.id not in known and not low < (contact.id - other) & MASK < high]

    # Changes

    def would_take(self, node: NodeId) -> bool:
        """Whether a node that is not in it belongs in it."""
        clockwise = (node - self._me.id) & MASK
        return clockwise != 0 and (self._after.would_take(clockwise) or self._before.would_take(RING - clockwise))

    def insert(self, contact: Contact) -> bool:
        """Take in a node if it belongs here; whether anything changed."""
        clockwise = (contact.id - self._me.id) & MASK
        if clockwise == 0:
            return False
        goes_after, goes_before = self._after.would_take(clockwise), self._before.would_take(RING - clockwise)
        if goes_after:
            self._after.insert(clockwise, contact)
        if goes_before:
            self._before.insert(RING - clockwise, contact)
        if goes_after or goes_before:
            self._changed()
        return goes_after or goes_before

    def remove(self, node: NodeId) -> bool:
        """Take out a node; whether it was there."""
        if node not in self:
            return False
        self._after.remove((node - self._me.id) & MASK)
        self._before.remove((self._me.id - node) & MASK)
        self._fill_up()
        self._changed()
        return True

    def _fill_up(self) -> None:
        """A side that has room takes the nodes of the other: in a small ring they belong there.

        In a large one they do not, but nearer ones that the neighbours know replace them soon.
        """
        for contact in self._before.contacts.copy():
            if self._after.would_take(offset := (contact.id - self._me.id) & MASK):
                self._after.insert(offset, contact)
        for contact in self._after.contacts.copy():
            if self._before.would_take(offset := (self._me.id - contact.id) & MASK):
                self._before.insert(offset, contact)

    def replace(self, contact: Contact) -> None:
        """A node that is here is reached otherwise now."""
        self._after.replace((contact.id - self._me.id) & MASK, contact)
        self._before.replace((self._me.id - contact.id) & MASK, contact)
        self._leaves = None

    def set_sides(self, before: list[Contact], after: list[Contact]) -> None:
        """Begin with these nodes, which are the right ones, the nearest first."""
        me = self._me.id
        self._before.contacts, self._before.offsets = before, [(me - each.id) & MASK for each in before]
        self._after.contacts, self._after.offsets = after, [(each.id - me) & MASK for each in after]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._leaves = self._hashes = None
        before, after = self._before.offsets, self._after.offsets
        # The sides overlap if together they reach once around.
        self.covers_ring = bool(after and before) and after[-1] + before[-1] >= RING

    # Keys

    def is_in_range(self, key: Key) -> bool:
        """Whether a key lies between the ends, so that one of these nodes or this one is the closest to it."""
        if self.covers_ring or not self._after.offsets:
            return True
        clockwise = (key - self._me.id) & MASK
        return clockwise <= self._after.offsets[-1] or RING - clockwise <= self._before.offsets[-1]

    def closest(self, key: Key) -> Contact | None:
        """The closest node to a key that is in range; None: this one. One of the two that the key lies between."""
        clockwise = (key - self._me.id) & MASK
        after, before = self._after, self._before
        if not after.offsets:
            return None
        if clockwise <= after.offsets[-1]:
            place = bisect_left(after.offsets, clockwise)
            farther = after.contacts[place]
            nearer = after.contacts[place - 1] if place else None
        else:
            place = bisect_left(before.offsets, RING - clockwise)
            farther = before.contacts[place]
            nearer = before.contacts[place - 1] if place else None
        if is_closer(farther.id, self._me.id if nearer is None else nearer.id, key):
            return farther
        return nearer

    def closest_first(self, key: Key, count: int) -> list[Contact]:
        """The node itself and its leaves by how close they are to a key, the closest first."""
        return sorted([self._me, *self], key=lambda contact: (distance(contact.id, key), contact.id))[:count]
