"""The log of a peer, if it keeps one: records that wait to be stored, and what follows when they are.

Without a log, what follows happens at once, and nothing survives a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fieldfare.dmm.outbox import TakenEvents
from fieldfare.dmm.peer_records import (
    NumbersTaken,
    PeerLogBegun,
    PeerRecord,
    PeerSubscriptionRemoved,
    PeerSubscriptionStored,
    PublicationOwed,
    PublicationSettled,
    PublicationStored,
)
from fieldfare.messages import Append
from fieldfare.pastry.ports import Card, Ring


@dataclass(slots=True)
class RecoveredPublication:
    """An event of an earlier life."""

    stored: PublicationStored
    owed: dict[str, Card] = field(default_factory=dict)
    is_settled: bool = False


@dataclass(slots=True)
class Recovered:
    """What a log holds."""

    log: str = ""
    number: int = 0  # the last that was used for an event
    subscriptions: dict[str, PeerSubscriptionStored] = field(default_factory=dict)
    publications: dict[int, RecoveredPublication] = field(default_factory=dict)
    taken: TakenEvents = field(default_factory=TakenEvents)

    def take(self, record: PeerRecord) -> None:
        """Take up a record. One that comes twice, because a checkpoint has it too, changes nothing."""
        match record:
            case PeerLogBegun(log):
                self.log = log
            case PublicationStored(number):
                self.publications.setdefault(number, RecoveredPublication(record))
                self.number = max(self.number, number)
            case PublicationOwed(number, peers):
                if (publication := self.publications.get(number)) is not None:
                    publication.owed.update((card.name, card) for card in peers)
                    publication.is_settled = False
            case PublicationSettled(number):
                if (publication := self.publications.get(number)) is not None:
                    publication.owed.clear()
                    publication.is_settled = True
            case PeerSubscriptionStored(ref):
                self.subscriptions[ref] = record
            case PeerSubscriptionRemoved(ref):
                self.subscriptions.pop(ref, None)
            case NumbersTaken(peer, outbox, lowest, numbers):
                for number in numbers:
                    self.taken.take(peer, outbox, number, lowest)


class _Pending(NamedTuple):
    number: int
    then: object


class PeerLog:
    """Stores records. `follow` is called with what follows a record that is stored; `failed` with it and a reason."""

    def __init__(
        self,
        ring: Ring,
        follow: Callable[[Any, float], None],
        failed: Callable[[Any, str, float], None],
        *,
        is_kept: bool,
    ) -> None:
        self.is_kept = is_kept
        self._ring, self._follow, self._failed = ring, follow, failed
        self._number = 0
        self._pending: deque[_Pending] = deque()

    def __len__(self) -> int:
        return len(self._pending)

    def store(self, record: PeerRecord, then: object, now: float) -> None:
        """Store a record at once, and go on with `then` when it is durable."""
        if self.is_kept:
            self._append(record, then, is_durable=True)
        else:
            self._follow(then, now)

    def note(self, record: PeerRecord) -> None:
        """Store a record that only saves work, when others are flushed: if it is lost, the work is done again."""
        if self.is_kept:
            self._append(record, None, is_durable=False)

    def _append(self, record: PeerRecord, then: object, *, is_durable: bool) -> None:
        self._number += 1
        self._pending.append(_Pending(self._number, then))
        self._ring.perform(Append(self._number, record, is_durable=is_durable))

    def stored(self, number: int, now: float) -> None:
        """All records up to a number are stored."""
        for then in self._take(number):
            self._follow(then, now)

    def not_stored(self, number: int, reason: str, now: float) -> None:
        """The records up to a number are not stored, and will not be."""
        for then in self._take(number):
            self._failed(then, reason, now)

    def _take(self, number: int) -> list[object]:
        taken = []
        while self._pending and self._pending[0].number <= number:
            then = self._pending.popleft().then
            if then is not None:
                taken.append(then)
        return taken
