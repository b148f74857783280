"""Events on their way from the peer that published them to the peers that want them, until each has taken them.

Every peer that wants something has an outbox of its own here, with numbers; it is repeated to until it has confirmed a
number or the event's time is over. The peer on the other side keeps which numbers it took, so that nothing comes twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from fieldfare.dmm.messages import Event, EventTaken, encode
from fieldfare.messages import SetTimer
from fieldfare.pastry.ports import Card, Ring


@dataclass(frozen=True, slots=True)
class OutboxDue:
    """A timer: events for a peer have not been confirmed in time."""

    name: str


@dataclass(slots=True)
class _Unconfirmed:
    id: str
    topic: str
    event: bytes
    until: float
    sent_at: float
    pause_seconds: float


@dataclass(slots=True)
class _Outbox:
    card: Card
    numbers: count[int] = field(default_factory=lambda: count(1))
    unconfirmed: dict[int, _Unconfirmed] = field(default_factory=dict)
    is_timed: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """An event needs nothing more from one peer: it was taken there, or its time is over."""

    event: str
    peer: str
    is_taken: bool


class Outboxes:
    """The outboxes of one peer, in one life: `life` tells them from those of other lives."""

    def __init__(self, ring: Ring, first_seconds: float, seconds_max: float) -> None:
        self._ring, self._first_seconds, self._seconds_max = ring, first_seconds, seconds_max
        self._boxes: dict[str, _Outbox] = {}

    @property
    def _name(self) -> str:
        me = self._ring.me.card
        return f"{me.name}@{me.life}"

    def put(self, card: Card, event_id: str, topic: str, event: bytes, until: float, now: float) -> None:
        """An event is for a peer."""
        box = self._boxes.setdefault(card.name, _Outbox(card))
        if card.life > box.card.life:
            box.card = card
        number = next(box.numbers)
        box.unconfirmed[number] = _Unconfirmed(event_id, topic, event, until, now, self._first_seconds)
        self._send(box, number, now)
        self._set_timer(card.name, box)

    def _send(self, box: _Outbox, number: int, now: float) -> None:
        item = box.unconfirmed[number]
        lowest = next(iter(box.unconfirmed))
        message = Event(self._name, number, lowest, item.id, item.topic, item.event)
        self._ring.send(self._ring.contact(box.card), encode(message), now)

    def _set_timer(self, name: str, box: _Outbox) -> None:
        if box.unconfirmed and not box.is_timed:
            box.is_timed = True
            due_at = min(min(item.sent_at + item.pause_seconds, item.until) for item in box.unconfirmed.values())
            self._ring.perform(SetTimer(OutboxDue(name), due_at))

    def due(self, name: str, now: float) -> list[Settled]:
        """Repeat what has not been confirmed in time; what is too late is over."""
        box = self._boxes.get(name)
        if box is None:
            return []
        box.is_timed = False
        over = [number for number, item in box.unconfirmed.items() if item.until <= now]
        settled = [Settled(box.unconfirmed.pop(number).id, name, is_taken=False) for number in over]
        for number, item in box.unconfirmed.items():
            if item.sent_at + item.pause_seconds <= now:
                item.sent_at, item.pause_seconds = now, min(2 * item.pause_seconds, self._seconds_max)
                self._send(box, number, now)
        self._set_timer(name, box)
        return settled

    def taken(self, name: str, message: EventTaken) -> Settled | None:
        """A peer has confirmed a number."""
        box = self._boxes.get(name)
        if box is None or message.outbox != self._name:
            return None
        item = box.unconfirmed.pop(message.number, None)
        return None if item is None else Settled(item.id, name, is_taken=True)

    def __len__(self) -> int:
        return sum(len(box.unconfirmed) for box in self._boxes.values())


@dataclass(slots=True)
class TakenNumbers:
    """The numbers that were taken from one outbox: all up to one, and some beyond."""

    upto: int = 0
    beyond: set[int] = field(default_factory=set)

    def take(self, number: int, lowest: int) -> bool:
        """Take a number; whether it is new. Those below `lowest` are not going to come."""
        if number <= self.upto or number in self.beyond:
            return False
        self.beyond.add(number)
        if lowest - 1 > self.upto:
            self.upto = lowest - 1
            self.beyond = {other for other in self.beyond if other > self.upto}
        while self.upto + 1 in self.beyond:
            self.upto += 1
            self.beyond.discard(self.upto)
        return True
