"""Frames that come: who has sent them, whether they have come before, and which part of the node takes them.

A frame proves by its seal that a member of the group has sent it, but it may be an old one that somebody plays again.
So a sender that has not answered us from where it is now gets answers, and no place in our tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fieldfare.messages import SendDatagram
from fieldfare.pastry.core import NodeCore, Phase
from fieldfare.pastry.forwarding import Forwarding
from fieldfare.pastry.fragments import Assemblies
from fieldfare.pastry.joining import Joining
from fieldfare.pastry.membership import Membership
from fieldfare.pastry.pastry_frames import (
    Acknowledge,
    Arrived,
    Gone,
    Goodbye,
    Heartbeat,
    Hello,
    Hop,
    Join,
    LeafCards,
    Note,
    NumberedFrame,
    PastryFrame,
    Piece,
    Ping,
    RowAsk,
    SomeCards,
)
from fieldfare.pastry.ports import Assurance, Card, Contact, NodeId
from fieldfare.pastry.recent import Age, LatestNumbers, Recent

FRAMES: frozenset[type] = frozenset(
    {
        Acknowledge,
        Piece,
        Hop,
        Note,
        Arrived,
        Ping,
        Heartbeat,
        LeafCards,
        Join,
        Hello,
        RowAsk,
        SomeCards,
        Gone,
        Goodbye,
    }
)
# Frames that need not be followed by a question: they are answered with another, or their sender may not have joined.
_ANSWERED: frozenset[type] = frozenset({Join, LeafCards, RowAsk, Ping})


class Reception:
    """What comes to one node."""

    def __init__(self, core: NodeCore, membership: Membership, joining: Joining, forwarding: Forwarding) -> None:
        self._core, self._membership, self._joining, self._forwarding = core, membership, joining, forwarding
        self._place, self._courier, self._acquaintances = core.place, core.courier, core.acquaintances
        self._recent = Recent()  # senders and numbers
        self._latest = LatestNumbers()
        self._assemblies = Assemblies(core.options.assembly_bytes_max)
        self._takers: dict[type, Callable[[Any, Contact, float], None]] = {
            Hop: self._take_hop,
            Note: self._take_note,
            Arrived: self._take_arrived,
            Piece: self._take_piece,
            Ping: self._take_ping,
            Hello: self._take_hello,
            Heartbeat: self._take_heartbeat,
            LeafCards: self._take_leaves,
            Join: self._take_join,
            RowAsk: self._take_row_ask,
            SomeCards: self._take_cards,
            Gone: self._take_gone,
            Goodbye: self._take_goodbye,
        }

    def receive(self, address: str, frame: Any, now: float) -> None:
        """A frame has come, which may be anything that a member can say."""
        if type(frame) is Acknowledge:
            answered = self._courier.acknowledged(frame, now)
            if answered is not None and self._place.suspected:
                self._place.suspected.discard(answered)
            return
        node = self._core.group.id_of(frame.name)
        if node == self._place.me.id:  # our own, or somebody has our name
            self._courier.counts.misplaced += 1
            return
        age = self._latest.age(node, frame.number, now) if isinstance(frame, NumberedFrame) else Age.LATE
        sender = None if age is Age.TOO_OLD else self._sender(node, address, frame, age, now)
        if sender is None:
            self._courier.counts.too_old += 1
        else:
            self._takers[type(frame)](frame, sender, now)

    def _sender(self, node: NodeId, address: str, frame: PastryFrame, age: Age, now: float) -> Contact | None:
        """Who has sent a frame, if it is to be believed; the node need not have answered us yet."""
        known = self._acquaintances.get(node)
        if known is not None:
            card = known.contact.card
            if frame.life < card.life:
                return None
            if frame.life > card.life:  # it has started again, and may not have joined yet
                self._membership.is_no_member(node, frame.life, now)
            elif card.address != address:
                self._courier.counts.misplaced += 1
            else:
                if age is Age.NEWEST:
                    known.heard_at = now
                    self._place.suspected.discard(node)
                return known.contact
        contact = self._core.group.contact(Card(frame.name, address, frame.life))
        self._joining.heard(contact)
        if type(frame) not in _ANSWERED:
            self._membership.meet(contact, now)
        return contact

    def _is_new(self, frame: NumberedFrame, sender: Contact, now: float, *, is_acknowledged: bool = True) -> bool:
        """Whether a numbered frame has not come before; it is acknowledged in any case."""
        if is_acknowledged:
            self._acknowledge(frame, sender)
        if self._recent.is_new((sender.id, frame.number), now):
            return True
        self._courier.counts.repeats += 1
        return False

    def _take_hop(self, frame: Hop, sender: Contact, now: float) -> None:
        if not self._forwarding.has_room():
            self._courier.counts.refused += 1
        elif self._is_new(frame, sender, now, is_acknowledged=frame.assurance is not Assurance.NONE):
            self._forwarding.take_hop(frame, sender)

    def _take_note(self, frame: Note, sender: Contact, now: float) -> None:
        if self._is_new(frame, sender, now, is_acknowledged=frame.is_acknowledged):
            self._forwarding.take_note(frame, sender)

    def _take_arrived(self, frame: Arrived, _sender: Contact, _now: float) -> None:
        self._forwarding.arrived(frame)

    def _take_piece(self, frame: Piece, sender: Contact, now: float) -> None:
        if not (self._assemblies.has_room(frame, now) and self._forwarding.has_room()):
            self._courier.counts.refused += 1
            return
        if not self._is_new(frame, sender, now):
            return
        try:
            whole = self._assemblies.add(sender.id, frame, now)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            self._courier.counts.unreadable += 1
            return
        if whole is None or whole.name != frame.name or not self._recent.is_new((sender.id, whole.number), now):
            return
        if isinstance(whole, Hop):
            self._forwarding.take_hop(whole, sender)
        else:
            self._forwarding.take_note(whole, sender)

    def _acknowledge(self, frame: NumberedFrame, sender: Contact) -> None:
        me, is_joined = self._place.me.card, self._core.phase is Phase.JOINED
        self._core.out.append(SendDatagram(sender.card.address, Acknowledge(me.name, me.life, frame.number, is_joined)))

    def _take_ping(self, frame: Ping, sender: Contact, _now: float) -> None:
        self._acknowledge(frame, sender)

    def _take_hello(self, _frame: Hello, _sender: Contact, _now: float) -> None:
        """The sender has been met already."""

    def _take_heartbeat(self, frame: Heartbeat, sender: Contact, now: float) -> None:
        self._membership.compare_leaves(sender, frame.leaves_hash, now, is_to_successor=frame.is_to_successor)

    def _take_leaves(self, frame: LeafCards, sender: Contact, now: float) -> None:
        if self._is_new(frame, sender, now, is_acknowledged=not frame.wants_answer):
            self._membership.take_leaves(frame, sender, now)

    def _take_join(self, frame: Join, sender: Contact, now: float) -> None:
        if self._is_new(frame, sender, now):
            self._joining.take(frame, sender, now)

    def _take_row_ask(self, frame: RowAsk, sender: Contact, now: float) -> None:
        if self._is_new(frame, sender, now, is_acknowledged=False):
            self._membership.take_row_ask(frame, sender, now)

    def _take_cards(self, frame: SomeCards, sender: Contact, now: float) -> None:
        if self._is_new(frame, sender, now):
            self._membership.take_cards(frame, sender, now)

    def _take_gone(self, frame: Gone, _sender: Contact, now: float) -> None:
        self._membership.take_gone(frame.card, now)

    def _take_goodbye(self, frame: Goodbye, sender: Contact, now: float) -> None:
        if self._is_new(frame, sender, now):
            self._membership.take_goodbye(frame, sender, now)
