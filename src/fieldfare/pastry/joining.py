"""How a node gets on the ring, and helps others to.

A request is routed to the newcomer's own id. The members on the way send rows of their tables, the last one its leaf
set. The newcomer compares leaf sets with all who belong in its own until nothing new turns up. Only then it is
responsible for keys, and tells so: others put it in their tables from then on, so that two newcomers never wait for
each other. A node that looks for another ring sends the same request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fieldfare.messages import SetTimer
from fieldfare.pastry.core import NodeCore, Phase
from fieldfare.pastry.ids import shared_digits
from fieldfare.pastry.leaf_set import LeafSet
from fieldfare.pastry.pastry_frames import Hello, Join, PastryTimer, SomeCards
from fieldfare.pastry.ports import Contact, NodeId
from fieldfare.pastry.questions import Questions

_CARDS_MAX = 100  # of one introduction
_HINTS_MAX = 4
_WAITING_MAX = 64  # requests of others that wait until we have joined


class Joining:
    """One node's way onto the ring."""

    def __init__(self, core: NodeCore, questions: Questions, seeds: Sequence[str]) -> None:
        self._core, self._questions = core, questions
        self._seeds = deque(seeds)
        self._hints: deque[str] = deque(maxlen=_HINTS_MAX)  # who sent something here, while no seed let us in
        self._has_root_answered = False  # we have the leaf set of the node closest to our id
        self._expected = LeafSet(core.place.me, core.options.leaves_each_side)  # our leaf set, if all answer
        self._awaited: set[NodeId] = set()  # nodes whose leaf sets are still to come
        self._compared: set[NodeId] = set()  # those whose leaf sets we have seen
        self._waiting: list[Join] = []

    # Our own way

    def begin(self, now: float) -> None:
        """Join over a seed; without seeds, be the first of a ring."""
        if self._seeds:
            self.ask_seed(now)
        else:
            self._core.phase = Phase.JOINED

    def ask_seed(self, now: float) -> None:
        """Ask the next seed to let us join, until somebody does."""
        if self._core.phase is not Phase.JOINING:
            return
        if not self._awaited:
            self._has_root_answered = False
            for addresses in (self._seeds, self._hints):
                if addresses:
                    self.seek(addresses[0], now)
                    addresses.rotate(-1)
        self._core.out.append(SetTimer(PastryTimer.JOIN, now + self._core.options.join_seconds))

    def seek(self, address: str, now: float) -> None:
        """Let a node, perhaps of another ring, route a request to our own id: who is there introduces itself."""
        self._core.send_once(address, Join(*self._core.head(now), self._core.card, 0))

    def heard(self, sender: Contact) -> None:
        """Something came from a node: a ring may remember us from a former life, whatever became of our seeds."""
        if self._core.phase is Phase.JOINING and sender.address not in self._hints:
            self._hints.append(sender.address)

    def root_answered(self) -> None:
        """The node closest to our id has sent its leaf set."""
        self._has_root_answered = True

    def expects(self, contact: Contact) -> bool:
        """Whether a node of whom we are told belongs in our leaf set, as far as we know."""
        return self._has_root_answered and self._expected.insert(contact)

    def await_leaves(self, node: NodeId) -> None:
        """A node was asked for its leaf set."""
        if self._core.phase is Phase.JOINING:
            self._awaited.add(node)

    def leaves_came(self, node: NodeId) -> None:
        """A node has answered with its leaf set."""
        if self._core.phase is Phase.JOINING:
            self._awaited.discard(node)
            self._compared.add(node)

    def given_up(self, node: NodeId, now: float) -> None:
        """A node will not answer."""
        if self._core.phase is Phase.JOINING:
            self._awaited.discard(node)
            self._expected.remove(node)
            self.look_whether_joined(now)

    def look_whether_joined(self, now: float) -> None:
        """If all leaves have told their leaf sets, we have joined."""
        if self._core.phase is not Phase.JOINING or not self._has_root_answered:
            return
        leaf_set = self._core.place.leaf_set
        for contact in leaf_set:
            is_expected = contact.id in self._expected or self._expected.insert(contact)
            if is_expected and contact.id not in self._compared and self._questions.ask_leaves(contact, now):
                self._awaited.add(contact.id)
        if self._awaited:
            return
        if leaf_set.successor is None:
            self._has_root_answered = False  # all have fallen silent: the next seed
            return
        self._core.phase = Phase.JOINED
        self._announce(now)
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self.pass_on(frame, now)

    def _announce(self, now: float) -> None:
        """Compare leaf sets once more, now as a member: so others put us in theirs, and we see who joined meanwhile."""
        core, place = self._core, self._core.place
        for contact in place.leaf_set:
            core.courier.send(contact, self._questions.leaf_frame(0, now, wants_answer=True), now)
        for contact in {each.id: each for each in place.contacts() if each.id not in place.leaf_set}.values():
            core.send_once(contact.address, Hello(core.card.name, core.card.life))

    # The ways of others

    def take(self, frame: Join, sender: Contact, now: float) -> None:
        """Somebody joins: introduce nodes of use, and pass the request on."""
        if frame.hops == 0:  # from the newcomer itself, who may not know its own address
            frame = Join(frame.name, frame.life, frame.number, sender.card, 0)
        if self._core.phase is not Phase.JOINING:
            self.pass_on(frame, now)
        elif len(self._waiting) < _WAITING_MAX:
            self._waiting.append(frame)

    def pass_on(self, frame: Join, now: float) -> None:
        """Introduce nodes to a newcomer, and let its request take the next step."""
        core, newcomer = self._core, self._core.group.contact(frame.newcomer)
        if newcomer.id == core.place.me.id or frame.hops >= core.options.hops_max:
            return
        core.courier.send(newcomer, self._introduction(newcomer, frame.hops, now), now)
        target = core.place.next_hop(newcomer.id, without=newcomer.id)
        if target is None or core.phase is Phase.LEFT:
            core.courier.send(newcomer, self._questions.leaf_frame(0, now, wants_answer=False), now)
        else:
            core.courier.send(target, Join(*core.head(now), newcomer.card, frame.hops + 1), now)

    def _introduction(self, newcomer: Contact, hops: int, now: float) -> SomeCards:
        """Nodes that may stand in the newcomer's table too; the first one, which is commonly near, adds near nodes."""
        place = self._core.place
        shared = shared_digits(place.me.id, newcomer.id)
        near = [] if hops else list(place.neighbourhood)
        rows = [each for row in range(min(hops, shared), shared + 1) for each in place.table.row(row)]
        useful = {each.id: each.card for each in (*near, *rows) if each.id != newcomer.id}
        return SomeCards(*self._core.head(now), 0, tuple(useful.values())[:_CARDS_MAX])

    def waits(self) -> list[str]:
        """What is waited for, for people who look at a failed run."""
        return [self._core.phase.value, f"leaf sets of {len(self._awaited)} nodes"]
