"""Events on their way from the peer that published them to the peers that want them, until each has taken them.

Every peer that wants something has an outbox of its own here; it is repeated to until it has confirmed an event or the
event's time is over. Events are known by their numbers in the publishing peer's log, which grow and are never used
again. The peer on the other side keeps which it took, so that nothing comes twice, though both may restart between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from fieldfare.dmm.messages import EventTaken, Locate, OwedEvent, encode
from fieldfare.messages import SetTimer
from fieldfare.pastry.ports import Card, Ring

_LOCATE_AFTER = 2  # times the first pause: then a peer that does not confirm is looked for
_WINDOW = 256  # events for one peer that are under way; others wait until some of these are confirmed
_OUTBOXES_MAX = 10_000  # of other peers, of which the numbers taken are remembered
_TAKEN_MAX = 100_000  # numbers of one outbox that are remembered: then those below the greatest half count as taken


@dataclass(frozen=True, slots=True)
class OutboxDue:
    """A timer: events for a peer have not been confirmed in time."""

    name: str


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event for other peers: when it was published, and until when it lives."""

    topic: str
    event: bytes
    at: float
    until: float


@dataclass(slots=True)
class _Unconfirmed:
    outgoing: OutgoingEvent
    pause_seconds: float = 0.0  # before it is sent again
    again_at: float = 0.0


@dataclass(slots=True)
class _Outbox:
    card: Card
    unconfirmed: dict[int, _Unconfirmed] = field(default_factory=dict)  # by the event's number
    is_timed: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """An event needs nothing more from one peer: it was taken there, or its time is over."""

    number: int
    peer: str
    is_taken: bool


class Outboxes:
    """The outboxes of one peer, under the name of its log. `lowest` is the lowest number that may still be sent."""

    def __init__(
        self, ring: Ring, log: str, lowest: Callable[[], int], first_seconds: float, seconds_max: float
    ) -> None:
        self._ring, self._log, self._lowest = ring, log, lowest
        self._first_seconds, self._seconds_max = first_seconds, seconds_max
        self._boxes: dict[str, _Outbox] = {}

    def put(self, card: Card, number: int, outgoing: OutgoingEvent, now: float) -> None:
        """An event is for a peer."""
        box = self._boxes.setdefault(card.name, _Outbox(card))
        if card.life > box.card.life:
            box.card = card
        box.unconfirmed[number] = _Unconfirmed(outgoing)
        if len(box.unconfirmed) <= _WINDOW:
            self._send(box, number, now)
        self._set_timer(card.name, box)

    def _send(self, box: _Outbox, number: int, now: float) -> None:
        item = box.unconfirmed[number]
        item.pause_seconds = min(2 * item.pause_seconds, self._seconds_max) or self._first_seconds
        item.again_at = now + item.pause_seconds
        event = item.outgoing
        message = OwedEvent(self._log, number, self._lowest(), event.topic, event.event, event.at)
        self._ring.send(self._ring.contact(box.card), encode(message), now)

    def _set_timer(self, name: str, box: _Outbox) -> None:
        if box.unconfirmed and not box.is_timed:
            box.is_timed = True
            again_at = min(item.again_at for item in islice(box.unconfirmed.values(), _WINDOW))
            over_at = min(item.outgoing.until for item in box.unconfirmed.values())
            self._ring.perform(SetTimer(OutboxDue(name), min(again_at, over_at)))

    def due(self, name: str, now: float) -> list[Settled]:
        """Repeat what has not been confirmed in time; what is too late is over."""
        box = self._boxes.get(name)
        if box is None:
            return []
        box.is_timed = False
        over = [number for number, item in box.unconfirmed.items() if item.outgoing.until <= now]
        for number in over:
            del box.unconfirmed[number]
        late = [number for number, item in islice(box.unconfirmed.items(), _WINDOW) if item.again_at <= now]
        if any(box.unconfirmed[number].pause_seconds >= _LOCATE_AFTER * self._first_seconds for number in late):
            self._ring.route(self._ring.contact(box.card).id, encode(Locate(name)), now)
        for number in late:
            self._send(box, number, now)
        if box.unconfirmed:
            self._set_timer(name, box)
        else:
            del self._boxes[name]
        return [Settled(number, name, is_taken=False) for number in over]

    def located(self, card: Card, now: float) -> None:
        """A peer is there: if that is a later life, send it at once what it has not confirmed."""
        box = self._boxes.get(card.name)
        if box is not None and card.life > box.card.life:
            box.card = card
            for number in list(islice(box.unconfirmed, _WINDOW)):
                self._send(box, number, now)

    def taken(self, name: str, message: EventTaken, now: float) -> Settled | None:
        """A peer has confirmed a number."""
        box = self._boxes.get(name)
        if box is None or message.outbox != self._log or box.unconfirmed.pop(message.number, None) is None:
            return None
        for number, item in list(islice(box.unconfirmed.items(), _WINDOW - 1, _WINDOW)):
            if not item.pause_seconds:  # it has waited for this
                self._send(box, number, now)
        return Settled(message.number, name, is_taken=True)

    def __len__(self) -> int:
        return sum(len(box.unconfirmed) for box in self._boxes.values())


@dataclass(slots=True)
class TakenNumbers:
    """The numbers that were taken from one outbox. Those below `lowest` are not going to come."""

    lowest: int = 0
    numbers: set[int] = field(default_factory=set)

    def take(self, number: int, lowest: int) -> bool:
        """Take a number; whether it is new."""
        if lowest > self.lowest:
            self.lowest = lowest
            self.numbers = {other for other in self.numbers if other >= lowest}
        if number < self.lowest or number in self.numbers:
            return False
        self.numbers.add(number)
        if len(self.numbers) > _TAKEN_MAX:  # only the events of the peer that does so may be lost by that
            kept = sorted(self.numbers)[len(self.numbers) // 2 :]
            self.lowest, self.numbers = kept[0], set(kept)
        return True


class TakenEvents:
    """The numbers that one peer took from the outboxes of others, of which the least recently used are forgotten."""

    def __init__(self) -> None:
        self._outboxes: OrderedDict[tuple[str, str], TakenNumbers] = OrderedDict()

    def has(self, peer: str, outbox: str, number: int) -> bool:
        """Whether a number was taken from a peer's outbox, or counts as taken."""
        taken = self._outboxes.get((peer, outbox))
        return taken is not None and (number < taken.lowest or number in taken.numbers)

    def take(self, peer: str, outbox: str, number: int, lowest: int) -> bool:
        """Take a number from a peer's outbox; whether it is new."""
        taken = self._outboxes.setdefault((peer, outbox), TakenNumbers())
        self._outboxes.move_to_end((peer, outbox))
        if len(self._outboxes) > _OUTBOXES_MAX:
            self._outboxes.popitem(last=False)
        return taken.take(number, lowest)

    def items(self) -> Iterator[tuple[str, str, TakenNumbers]]:
        """All that were taken: the peer, its outbox, the numbers."""
        return ((peer, outbox, taken) for (peer, outbox), taken in self._outboxes.items())
