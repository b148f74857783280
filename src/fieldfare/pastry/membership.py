"""Who else is on the ring: leaf sets and tables that are compared, nodes that come, fall silent and leave.

Nothing that others tell gets into the tables before the node it is about has answered itself. Where a node is gone, the
ends of the leaf set and nodes of the same row know others.
"""

from __future__ import annotations

from collections.abc import Iterable

from fieldfare.pastry.acquaintances import Acquaintance
from fieldfare.pastry.core import NodeCore, Phase
from fieldfare.pastry.former_members import FormerMembers
from fieldfare.pastry.ids import shared_digits
from fieldfare.pastry.joining import Joining
from fieldfare.pastry.pastry_frames import Gone, Goodbye, LeafCards, RowAsk, SomeCards
from fieldfare.pastry.ports import Card, Contact, NodeId
from fieldfare.pastry.questions import Questions
from fieldfare.pastry.recent import Recent

_COMPARED_AT_JOIN_MAX = 16  # nodes that are asked for their round trip though their slot is taken, at an introduction
_COMPARED_MAX = 2  # and when rows are compared


class Membership:
    """One node's part in the ring."""

    def __init__(self, core: NodeCore, questions: Questions, joining: Joining) -> None:
        self.former = FormerMembers(core.options, core.rng)
        self._core, self._questions, self._joining = core, questions, joining
        self._rumoured = Recent()  # nodes of which somebody has told that they are gone

    # Leaf sets

    def ask_leaves(self, contact: Contact, now: float) -> None:
        """Compare leaf sets with a node."""
        if self._questions.ask_leaves(contact, now):
            self._joining.await_leaves(contact.id)

    def take_leaves(self, frame: LeafCards, sender: Contact, now: float) -> None:
        """A node has told its leaf set."""
        core = self._core
        if frame.wants_answer:
            core.courier.send(sender, self._questions.leaf_frame(frame.number, now, wants_answer=False), now)
        if frame.answers:
            core.courier.answered(frame, frame.answers, now, is_joined=frame.is_joined)
            self._joining.leaves_came(sender.id)
        elif not frame.wants_answer and core.phase is Phase.JOINING:
            self._joining.root_answered()
            self._consider([sender.card], now)
        self._consider(frame.cards, now)
        if frame.is_joined and core.phase is Phase.JOINED:
            self._doubt(frame, sender, now)
        self._joining.look_whether_joined(now)

    def compare_leaves(self, sender: Contact, their_hash: int, now: float, *, is_to_successor: bool) -> None:
        """A neighbour has sent a hash of the leaves that both should have."""
        if their_hash != self._core.place.leaf_set.hash_shared(with_successor=not is_to_successor):
            self.ask_leaves(sender, now)

    def _consider(self, cards: Iterable[Card], now: float, *, compared_max: int = 0) -> None:
        """Ask those of whom others have told and who would be of use; they get in when they answer."""
        core, me = self._core, self._core.place.me.id
        for card in cards:
            contact = core.group.contact(card)
            known = core.acquaintances.get(contact.id)
            if contact.id == me or self._questions.is_left_alone(contact.id, now):
                continue
            if known is not None and known.contact.card.life >= card.life:
                self._promote(known, now)
            elif self._is_leaf(contact):
                self.ask_leaves(contact, now)
            elif not self._questions.ping_for_slot(contact, now) and compared_max:
                compared_max -= 1
                self._questions.ping(contact, now)

    def _is_leaf(self, contact: Contact) -> bool:
        """Whether a node that has not answered yet belongs in the leaf set.

        Our own is empty before we have joined, and would take anybody: so we look at what we were told.
        """
        if self._core.phase is Phase.JOINING:
            return self._joining.expects(contact)
        return self._core.place.leaf_set.would_take(contact.id)

    def _promote(self, known: Acquaintance, now: float) -> None:
        """A node that has answered before is a leaf by now, since others are gone; unless it is gone too."""
        contact, leaf_set = known.contact, self._core.place.leaf_set
        if leaf_set.would_take(contact.id):
            if self._core.was_heard(contact.id, now):
                leaf_set.insert(contact)
            else:
                self._core.courier.watched.add(contact.id)
                self.ask_leaves(contact, now)

    def _doubt(self, frame: LeafCards, sender: Contact, now: float) -> None:
        """Look whether those of our leaves live that another node should know, and does not."""
        theirs = {self._core.group.id_of(card.name) for card in frame.cards}
        for contact in self._core.place.leaf_set.unknown_to(sender.id, theirs):
            self._questions.ping_unheard(contact, now)

    # The prefix table

    def ask_row(self, now: float) -> None:
        """Ask a node of the prefix table, or a near one, for others of the same row, which may be nearer."""
        place, rng = self._core.place, self._core.rng
        if rows := place.table.rows():
            row = rng.choice(rows)
            asked = place.table.row(row) if rng.random() < 0.5 else list(place.neighbourhood) or place.table.row(row)
            self._questions.ask_row(rng.choice(asked), row, now)

    def take_row_ask(self, frame: RowAsk, sender: Contact, now: float) -> None:
        """A node asks for a row; if it is near, some that are near to us are near to it too."""
        place = self._core.place
        near = self._core.rng.sample(list(place.neighbourhood), min(_COMPARED_MAX, len(place.neighbourhood)))
        cards = tuple({each.id: each.card for each in (*near, *place.table.row(frame.row))}.values())
        self._core.courier.send(sender, SomeCards(*self._core.head(now), frame.number, cards), now)

    def take_cards(self, frame: SomeCards, sender: Contact, now: float) -> None:
        """A node has told of others."""
        if frame.answers:
            self._core.courier.answered(frame, frame.answers, now, is_joined=True)
        self._consider([sender.card], now)
        self._consider(frame.cards, now, compared_max=_COMPARED_MAX if frame.answers else _COMPARED_AT_JOIN_MAX)

    # Who comes

    def meet(self, contact: Contact, now: float) -> None:
        """Something came from a node that has not answered us: ask it, if it would be of use."""
        if self._core.place.would_take(contact.id):
            self._questions.ping(contact, now)

    def answered(self, contact: Contact, seconds: float, now: float) -> None:
        """A member has answered: it gets its places."""
        core = self._core
        holder = core.place.table.at(contact.id)
        core.place.take(contact, seconds, None if holder is None else core.acquaintances.round_trip_seconds(holder.id))
        self.former.found(contact.id, now)

    # Who goes

    def fell_silent(self, contact: Contact, now: float) -> None:
        """A node does not answer: find others in its place, and let the leaves look for themselves."""
        core, known = self._core, self._core.acquaintances.get(contact.id)
        if known is not None and known.contact.card != contact.card:  # it answers elsewhere, or in another life
            self._give_up(contact.id, now)
            return
        if known is not None:
            self.former.add(contact, now)
        self._questions.leave_alone(contact.id, now)
        was_leaf = self._remove(contact.id, now)
        self._give_up(contact.id, now)
        if was_leaf and self._rumoured.is_new(contact.card, now):
            for leaf in core.place.leaf_set:
                core.send_once(leaf.address, Gone(core.card.name, core.card.life, contact.card))

    def take_gone(self, card: Card, now: float) -> None:
        """Somebody has no answer from a node: ask it, unless it was heard just now."""
        self._rumoured.is_new(card, now)
        known = self._core.acquaintances.get(self._core.group.id_of(card.name))
        if known is not None:
            self._questions.ping_unheard(known.contact, now)

    def is_no_member(self, node: NodeId, life: int, now: float) -> None:
        """A node has started again and not joined yet, or has left: it must not stand in our tables.

        It still takes messages that were sent to it. If it started again, we remember it, in case that nobody else lets
        it join.
        """
        if (known := self._core.acquaintances.get(node)) is not None:
            if life > known.contact.card.life:
                self.former.add(known.contact, now)
            self._remove(node, now)

    def take_goodbye(self, frame: Goodbye, sender: Contact, now: float) -> None:
        """A node leaves; its leaves may take its place in our tables."""
        self._questions.leave_alone(sender.id, now)
        self._remove(sender.id, now)
        self._joining.given_up(sender.id, now)
        self._consider(frame.cards, now)

    def leave(self, now: float) -> None:
        """Say goodbye to all who may send something here."""
        core, cards = self._core, self._questions.leaf_cards()
        if core.phase is Phase.JOINED:
            for contact in {each.id: each for each in core.place.contacts()}.values():
                core.courier.send(contact, Goodbye(*core.head(now), cards), now)
        core.phase = Phase.LEFT

    def _remove(self, node: NodeId, now: float) -> bool:
        """Take a node out of all tables, and look for others; whether it was a leaf."""
        place = self._core.place
        neighbours = [each.id for each in (place.leaf_set.predecessor, place.leaf_set.successor) if each is not None]
        row = shared_digits(place.me.id, node) if node in place.table else None
        self._core.acquaintances.forget(node)
        was_leaf = place.remove(node)
        if self._core.phase is not Phase.JOINED:
            return was_leaf
        if was_leaf:
            self._repair_leaves(now, is_thorough=node in neighbours)
        if row is not None and (others := place.table.row(row)):
            self._questions.ask_row(self._core.rng.choice(others), row, now)
        return was_leaf

    def _give_up(self, node: NodeId, now: float) -> None:
        """Wait for nothing from a node any more."""
        self._core.courier.give_up(node, now)
        self._joining.given_up(node, now)

    def _repair_leaves(self, now: float, *, is_thorough: bool) -> None:
        """Compare leaf sets with the ends, and if a neighbour is gone look whether the others live: several may be."""
        leaf_set = self._core.place.leaf_set
        for contact in (*leaf_set.ends, leaf_set.predecessor, leaf_set.successor):
            if contact is not None:
                self.ask_leaves(contact, now)
        if is_thorough:
            for contact in leaf_set:
                self._questions.ping_unheard(contact, now)
