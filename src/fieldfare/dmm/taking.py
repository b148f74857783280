"""Events that come for this peer's program: each is delivered once, and acknowledged to the peer that published it.

An event is taken when it is delivered; or, where the program wants that, when the program is done with it. What is not
taken comes again, from the outbox of its publisher, also after a restart of this peer.
"""

from __future__ import annotations

from typing import NamedTuple

from fieldfare.dmm.messages import EventTaken, OwedEvent, encode
from fieldfare.dmm.outbox import TakenEvents
from fieldfare.dmm.peer_log import PeerLog
from fieldfare.dmm.peer_records import NumbersTaken
from fieldfare.dmm.subscribing import Subscribing
from fieldfare.pastry.ports import Contact, Ring


class _Given(NamedTuple):
    """An event that the program has, and is not done with."""

    source: Contact
    outbox: str
    number: int
    lowest: int


class Taking:
    """The events that come to one peer. `given_max` is how many its program may have without being done with them."""

    def __init__(
        self, ring: Ring, log: PeerLog, subscribing: Subscribing, taken: TakenEvents, *, given_max: int
    ) -> None:
        self.held = 0  # events so far that the program was not ready for: they come again
        self.misattributed = 0  # events so far that came in the name of another peer
        self._ring, self._log, self._subscribing, self._taken = ring, log, subscribing, taken
        self._given_max = given_max
        self._given: dict[str, _Given] = {}  # by the event's id

    def came(self, source: Contact, event: OwedEvent, now: float) -> None:
        """An event came, perhaps once more. An outbox is named after its peer: nobody publishes for others."""
        if not event.outbox.startswith(f"{source.name}@"):
            self.misattributed += 1
            return
        given = _Given(source, event.outbox, event.number, event.lowest)
        if self._taken.has(source.name, event.outbox, event.number):
            self._acknowledge(given, now)
            return
        event_id = f"{event.outbox}:{event.number}"
        if event_id in self._given:
            return
        handles = self._subscribing.matching(event.topic, event.event, event.at)
        waits = self._subscribing.are_taken_by_program(handles)
        if not self._subscribing.are_attached(handles) or (waits and len(self._given) >= self._given_max):
            self.held += 1
            return
        if waits:
            self._given[event_id] = given
        else:
            self._take(given, now)
        self._subscribing.deliver(event.topic, event_id, event.event, handles)

    def done(self, event_id: str, now: float) -> None:
        """The program is done with an event."""
        if (given := self._given.pop(event_id, None)) is not None:
            self._take(given, now)

    def _take(self, given: _Given, now: float) -> None:
        """Its number goes to the disk at once, but neither delivery nor acknowledgement waits.

        So an event comes twice only if this peer stops in the instant before its number is on the disk, and the peer
        that published the event sends it again.
        """
        source, outbox, number, lowest = given
        self._taken.take(source.name, outbox, number, lowest)
        self._log.store(NumbersTaken(source.name, outbox, lowest, (number,)), None, now)
        self._acknowledge(given, now)

    def _acknowledge(self, given: _Given, now: float) -> None:
        self._ring.send(given.source, encode(EventTaken(given.outbox, given.number)), now)
