"""What a node asks others, and how often: whether they live, for their leaf sets, for rows of their tables.

A node is not asked the same twice within a few seconds. One that was given up is left alone for a while, whatever
others tell of it, until something comes from it.
"""

from __future__ import annotations

from fieldfare.pastry.core import NodeCore, Phase
from fieldfare.pastry.pastry_frames import LeafCards, Ping, RowAsk
from fieldfare.pastry.ports import Card, Contact, NodeId

_AGAIN_SECONDS = 3.0


class Questions:
    """The questions of one node."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        # Until when a node is not asked again: whether it lives, and for its leaf set.
        self._pinged: dict[NodeId, float] = {}
        self._compared: dict[NodeId, float] = {}
        self._left_alone: dict[NodeId, float] = {}
        self._slots: dict[int, float] = {}  # until when no other node is asked for a free slot of the prefix table
        self._cards: tuple[int, tuple[Card, ...]] = (-1, ())  # of the leaf set, at a version

    def ping(self, contact: Contact, now: float) -> None:
        """Find out whether a node lives, and how near it is."""
        if self._may_ask(self._pinged, contact.id, now):
            self._core.courier.send(contact, Ping(*self._core.head(now)), now)

    def ping_unheard(self, contact: Contact, now: float) -> None:
        """The same, unless something came from it just now."""
        if not self._core.was_heard(contact.id, now):
            self.ping(contact, now)

    def ping_for_slot(self, contact: Contact, now: float) -> bool:
        """Ask a node for whose slot in the prefix table nobody was asked just now; else False."""
        table = self._core.place.table
        if table.is_free(contact.id) and self._may_ask(self._slots, table.slot_of(contact.id), now):
            self.ping(contact, now)
            return True
        return False

    def ask_leaves(self, contact: Contact, now: float) -> bool:
        """Compare leaf sets with a node; False: it was asked just now."""
        if not self._may_ask(self._compared, contact.id, now):
            return False
        self._core.courier.send(contact, self.leaf_frame(0, now, wants_answer=True), now)
        return True

    def ask_row(self, contact: Contact, row: int, now: float) -> None:
        """Ask a node for a row of its prefix table."""
        self._core.courier.send(contact, RowAsk(*self._core.head(now), row), now)

    def leave_alone(self, node: NodeId, now: float) -> None:
        """A node is gone: do not ask it for a while because others tell of it."""
        if len(self._left_alone) > self._core.options.acquaintances_max:
            _drop_past(self._left_alone, now)
        self._left_alone[node] = now + self._core.options.healing_seconds

    def is_left_alone(self, node: NodeId, now: float) -> bool:
        """Whether what others tell of a node is not believed."""
        return self._left_alone.get(node, 0.0) > now

    def leaf_frame(self, answers: int, now: float, *, wants_answer: bool) -> LeafCards:
        """Our leaf set, as a question or an answer."""
        core = self._core
        return LeafCards(*core.head(now), answers, wants_answer, core.phase is Phase.JOINED, self.leaf_cards())

    def leaf_cards(self) -> tuple[Card, ...]:
        """The cards of our leaf set."""
        leaf_set = self._core.place.leaf_set
        if self._cards[0] != leaf_set.version:
            self._cards = leaf_set.version, tuple(contact.card for contact in leaf_set)
        return self._cards[1]

    def _may_ask(self, asked: dict[int, float], what: int, now: float) -> bool:
        """Whether this was not asked just now; from now on it has been."""
        if asked.get(what, 0.0) > now:
            return False
        if len(asked) > self._core.options.acquaintances_max:
            _drop_past(asked, now)
        asked[what] = now + _AGAIN_SECONDS
        return True


def _drop_past(times: dict[int, float], now: float) -> None:
    for past in [each for each, until in times.items() if until <= now]:
        del times[past]
