"""What a node does in each period: heartbeats to its neighbours, now and then a comparison, a try to heal a split.

Heartbeats carry a hash of the leaves that two neighbours share, so that in a quiet ring nothing else has to be sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.messages import SetTimer
from fieldfare.pastry.core import NodeCore, Phase
from fieldfare.pastry.joining import Joining
from fieldfare.pastry.membership import Membership
from fieldfare.pastry.pastry_frames import Heartbeat, PastryTimer
from fieldfare.pastry.ports import Contact
from fieldfare.pastry.questions import Questions


class Rounds:
    """The periods of one node."""

    def __init__(
        self, core: NodeCore, membership: Membership, joining: Joining, questions: Questions, seeds: Sequence[str]
    ) -> None:
        self._seeds = seeds
        self._core, self._membership, self._joining, self._questions = core, membership, joining, questions
        self._round = core.rng.randrange(1000)  # so that not all compare at the same time
        self._due_at = 0.0
        self._seed_at = 0.0

    def begin(self, now: float) -> None:
        """Begin somewhere in a period."""
        self._seed_at = now + self._core.options.healing_seconds_max * (0.5 + self._core.rng.random())
        self._set_timer(now + self._core.options.heartbeat_seconds * self._core.rng.random())

    def _set_timer(self, at: float) -> None:
        self._due_at = at
        self._core.out.append(SetTimer(PastryTimer.ROUND, at))

    def due(self, now: float) -> None:
        """A period is over."""
        options, membership = self._core.options, self._membership
        if self._core.phase is Phase.LEFT:
            return
        was_paused = now - self._due_at > options.heartbeat_seconds
        self._set_timer(now + options.heartbeat_seconds * (0.95 + 0.1 * self._core.rng.random()))
        if self._core.phase is not Phase.JOINED:
            return
        self._round += 1
        leaf_set = self._core.place.leaf_set
        if (successor := leaf_set.successor) is not None:
            self._beat(successor, now, is_to_successor=True)
            self._check(successor, now, was_paused=was_paused)
        if (predecessor := leaf_set.predecessor) is not None:
            self._beat(predecessor, now, is_to_successor=False)
            self._check(predecessor, now, was_paused=was_paused)
        if successor is not None and self._round % options.exchange_periods == 0:
            membership.ask_leaves(self._core.rng.choice(list(leaf_set)), now)
        if self._round % options.upkeep_periods == 0:
            membership.ask_row(now)
            self._core.acquaintances.forget_strangers(self._core.place.__contains__)
        self._heal(now, is_alone=successor is None)

    def _beat(self, neighbour: Contact, now: float, *, is_to_successor: bool) -> None:
        shared = self._core.place.leaf_set.hash_shared(with_successor=is_to_successor)
        self._core.send_once(neighbour.address, Heartbeat(*self._core.head(now), is_to_successor, shared))

    def _check(self, neighbour: Contact, now: float, *, was_paused: bool) -> None:
        """Ask a neighbour that has been silent, unless it was this node that heard nothing."""
        known, options = self._core.acquaintances.get(neighbour.id), self._core.options
        if known is None or was_paused:
            return
        if now - known.heard_at > options.silence_periods * options.heartbeat_seconds:
            self._questions.ping(neighbour, now)

    def _heal(self, now: float, *, is_alone: bool) -> None:
        """Ask former members, and rarely a seed, for whoever is next to us in their ring."""
        for card in self._membership.former.take_due(now):
            self._joining.seek(card.address, now)
        if self._seeds and (is_alone or now >= self._seed_at):
            self._seed_at = now + self._core.options.healing_seconds_max * (0.5 + self._core.rng.random())
            self._joining.seek(self._core.rng.choice(self._seeds), now)
