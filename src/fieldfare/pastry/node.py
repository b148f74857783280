"""A Pastry node: which part deals with which input, and what is believed of who sent it.

Courier      frames that are acknowledged
Forwarding   messages of the application
Reception    frames that come
Membership   joining, leaf sets, tables, who is gone; Rounds: the same from time to time
Place        the leaf set, the prefix table and the neighbourhood
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fieldfare.messages import DatagramReceived, Effect, Input, Started, TimerDue, Withdraw
from fieldfare.pastry.acquaintances import Acquaintances
from fieldfare.pastry.admission import Ids
from fieldfare.pastry.core import NodeCore, Phase
from fieldfare.pastry.courier import Courier
from fieldfare.pastry.forwarding import Forwarding
from fieldfare.pastry.joining import Joining
from fieldfare.pastry.membership import Membership
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.pastry_frames import Hop, Join, Note, PastryTimer
from fieldfare.pastry.place import Place
from fieldfare.pastry.ports import (
    Application,
    Assurance,
    Card,
    Contact,
    Key,
    Leaves,
    LoggingApplication,
    NeighboursChanged,
    NodeId,
)
from fieldfare.pastry.questions import Questions
from fieldfare.pastry.reception import FRAMES, Reception
from fieldfare.pastry.rounds import Rounds
from fieldfare.pastry.statistics import PastryCounts

_DEFAULT_OPTIONS = PastryOptions()


class Acquainted(msgspec.Struct, frozen=True):
    """Tables to begin with, in place of joining: for simulations of many nodes."""

    before: Sequence[Contact]
    after: Sequence[Contact]
    table: Iterable[tuple[Contact, float]]  # with round trips
    neighbourhood: Iterable[tuple[Contact, float]]


@dataclass(frozen=True, slots=True)
class NodeStart:
    """How a node gets on a ring: its name, which decides its place, its group, and who lets it in."""

    name: str
    group: Ids
    address: str = ""  # where others reach it; without it they take what they see, but it can give its card to nobody
    seeds: Sequence[str] = ()  # addresses of members; without any but its own, the node is the first of a ring


class PastryNode:
    """One node, and the application on it. It is the `Ring` that the application is given."""

    def __init__(
        self, start: NodeStart, application: Application, rng: random.Random, options: PastryOptions = _DEFAULT_OPTIONS
    ) -> None:
        self._name, self._address, self._group = start.name, start.address, start.group
        self._seeds = tuple(seed for seed in start.seeds if seed != start.address)
        self._application, self._rng, self._options = application, rng, options
        self._acquainted: Acquainted | None = None
        self._out: list[Effect] = []
        self._has_started = self._has_joined = False

    def begin_with(self, acquainted: Acquainted) -> None:
        """Before the start: do not join, but begin with these tables."""
        self._acquainted = acquainted

    def _start(self, now: float) -> None:
        me = self._group.contact(Card(self._name, self._address, int(now * 1000)))
        options = self._options
        self.place, self._acquaintances = Place(me, options), Acquaintances(options)
        self.courier = Courier(me, self._group, self._acquaintances, options, self._out)
        self.courier.listen(self)
        self.core = core = NodeCore(
            self.place, self._acquaintances, self.courier, self._group, options, self._rng, self._out
        )
        questions = self._questions = Questions(core)
        self.joining = Joining(core, questions, self._seeds)
        self.membership = Membership(core, questions, self.joining)
        self.forwarding = Forwarding(core, self._application)
        self._rounds = Rounds(core, self.membership, self.joining, questions, self._seeds)
        self._reception = Reception(core, self.membership, self.joining, self.forwarding)
        self._leaves, self._leaves_version = self.place.leaf_set.leaves, self.place.leaf_set.version
        self._has_started = True
        self._application.started(self, now)
        if self._acquainted is not None:
            self._install(self._acquainted, now)
        else:
            self.joining.begin(now)
        self._rounds.begin(now)

    def _install(self, acquainted: Acquainted, now: float) -> None:
        for contact in (*acquainted.before, *acquainted.after):
            self._acquaintances.add(contact, now)
        self.place.leaf_set.set_sides(list(acquainted.before), list(acquainted.after))
        for contact, seconds in acquainted.table:
            self._acquaintances.add(contact, now).measured(seconds)
            self.place.table.put(contact)
        for contact, seconds in acquainted.neighbourhood:
            self._acquaintances.add(contact, now).measured(seconds)
            self.place.neighbourhood.offer(contact, seconds)
        self.core.phase = Phase.JOINED

    # For the host

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        kind = type(message)
        if kind is DatagramReceived and type(message.message) in FRAMES:  # type: ignore[attr-defined]
            if not self._has_started:
                return ()
            self._reception.receive(message.address, message.message, now)  # type: ignore[attr-defined]
        elif kind is TimerDue and type(message.key) is PastryTimer:  # type: ignore[attr-defined]
            self._timer_due(message.key, now)  # type: ignore[attr-defined]
        elif kind is Started:
            self._start(now)
            self._out += self._application.handle(message, now)
        else:
            if kind is Withdraw:
                self._leave(now)
            self._out += self._application.handle(message, now)
        self._work(now)
        taken = self._out.copy()
        self._out.clear()
        return taken

    def _timer_due(self, key: PastryTimer, now: float) -> None:
        if key is PastryTimer.RESEND:
            self.courier.timer_due(now)
        elif key is PastryTimer.ROUND:
            self._rounds.due(now)
        elif key is PastryTimer.ARRIVAL:
            self.forwarding.timer_due(now)
        else:
            self.joining.ask_seed(now)

    def _leave(self, now: float) -> None:
        self.membership.leave(now)
        self.forwarding.is_leaving = True

    def _work(self, now: float) -> None:
        """Tell the application what has changed, and let messages move on, until nothing is left to do."""
        leaf_set, forwarding = self.place.leaf_set, self.forwarding
        while True:
            if not self._has_joined and self.core.phase is Phase.JOINED:
                self._has_joined = forwarding.is_open = True
                self._application.joined(now)
            if leaf_set.version != self._leaves_version:
                self._tell_of_neighbours(now)
            elif forwarding.has_work:
                forwarding.work(now)
            else:
                return

    def _tell_of_neighbours(self, now: float) -> None:
        old, new = self._leaves, self.place.leaf_set.leaves
        self._leaves, self._leaves_version = new, self.place.leaf_set.version
        were = {contact.id: contact for contact in (*old.before, *old.after)}
        are = {contact.id: contact for contact in (*new.before, *new.after)}
        came = tuple(contact for node, contact in are.items() if node not in were)
        gone = tuple(contact for node, contact in were.items() if node not in are)
        if came or gone:
            self._application.neighbours_changed(NeighboursChanged(new, came, gone), now)

    def waits(self) -> list[str]:
        """What the node waits for, for people who look at a failed run."""
        if not self._has_started:
            return ["its start"]
        return [*self.joining.waits(), *self.forwarding.waits(), *self.courier.waits()]

    # What the courier tells

    def answered(self, contact: Contact, seconds: float, now: float) -> None:
        """A node has answered for the first time."""
        self.membership.answered(contact, seconds, now)

    def is_no_member(self, node: NodeId, life: int, now: float) -> None:
        """A node has answered that is not on the ring."""
        self.membership.is_no_member(node, life, now)

    def fell_silent(self, target: Contact, now: float) -> None:
        """A node does not answer any more."""
        self.membership.fell_silent(target, now)

    def take_back(self, frame: Hop | Note | Join, target: Contact, previous: Contact | None, now: float) -> None:
        """A message could not be brought to a node."""
        if isinstance(frame, Join):
            self.joining.pass_on(frame, now)
        else:
            self.forwarding.take_back(frame, target, previous)

    def try_detour(self, frame: Hop, target: Contact, previous: Contact | None, now: float) -> bool:
        """A node lets a routed message wait; whether it goes another way."""
        self._questions.ping(target, now)
        return self.forwarding.try_detour(frame, target, previous)

    # The ring, for the application

    @property
    def me(self) -> Contact:
        """How others reach this node."""
        return self.place.me

    @property
    def leaves(self) -> Leaves:
        """The nodes around this one."""
        return self.place.leaf_set.leaves

    @property
    def is_joined(self) -> bool:
        """Whether this node has its place on the ring."""
        return self._has_joined

    @property
    def counts(self) -> PastryCounts:
        """What the node has counted since its start."""
        return self.courier.counts

    def contact(self, card: Card) -> Contact:
        """How the node of a card is reached."""
        return self._group.contact(card)

    def route(self, key: Key, message: bytes, now: float, assurance: Assurance = Assurance.EACH_HOP) -> None:
        """Bring a message to the node closest to a key."""
        self.forwarding.route(key, message, now, assurance)

    def send(self, target: Contact, message: bytes, now: float, assurance: Assurance = Assurance.EACH_HOP) -> None:
        """Bring a message to a node that is known."""
        self.forwarding.send(target, message, now, assurance)

    def next_hop(self, key: Key) -> Contact | None:
        """Where a message to this key would go now; None: it would be delivered here."""
        return self.place.next_hop(key)

    def closest(self, key: Key, count: int) -> list[Contact]:
        """Of this node and its leaf set the nodes closest to a key, the closest first."""
        return self.place.leaf_set.closest_first(key, count)

    def perform(self, effect: Effect) -> None:
        """Have the host do something else."""
        self._out.append(effect)


class LoggingPastryNode(PastryNode):
    """The same for an application that keeps a log. Pastry itself keeps nothing there."""

    _application: LoggingApplication

    def recover(self, record: Any) -> None:
        """Take up a record of the checkpoint or the log, in order, before the first message."""
        self._application.recover(record)

    def checkpoint(self) -> Sequence[Any]:
        """Records that stand for all that were stored so far."""
        return self._application.checkpoint()


def node_for(
    start: NodeStart, application: Application, rng: random.Random, options: PastryOptions = _DEFAULT_OPTIONS
) -> PastryNode:
    """A node for an application; it keeps a log if the application does."""
    kind = LoggingPastryNode if isinstance(application, LoggingApplication) else PastryNode
    return kind(start, application, rng, options)
