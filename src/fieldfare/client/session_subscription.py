"""A subscription as the session sees it: where it begins, what the application was given, and what it is done with.

A new connection begins again after what the application is done with, not after what it was given: so all that waits
in the client lies within one window, however often the connection breaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from fieldfare.client.outputs import Key
from fieldfare.messages import Ack, Attach, Delivery, Position, Ref, Subscribe, Subscribed


@dataclass(slots=True, eq=False)
class SessionSubscription:
    """A subscription whose events are to be delivered to this client, over whatever connection there is."""

    key: Key
    request: Subscribe | Attach
    ack_events: int
    id: str | None = None  # on this connection, once the edge has confirmed it
    is_confirmed: bool = False  # on some connection
    seen: Position = -1  # the last position that was given to the application, or where it begins
    taken: Position = -1  # the last one that the application is done with, or where it begins
    asked: Position = -1  # where to begin, in the request that was sent last
    events_taken: int = 0  # since the last acknowledgement
    times_busy: int = 0
    ending: Key | None = None  # the request to end it, which waits until it is confirmed

    @property
    def is_durable(self) -> bool:
        """Whether it outlives this client."""
        return isinstance(self.request, Attach) or self.request.name is not None

    def sent(self, ref: Ref) -> Subscribe | Attach:
        """The request to send now. Where a durable one goes on is known to the edge; for others it is said here."""
        if not self.is_confirmed:
            return replace(self.request, ref=ref)
        self.asked = self.taken
        return replace(self.request, ref=ref, after=None if self.is_durable else self.asked)

    def confirm(self, answer: Subscribed) -> None:
        """It is in force on this connection. If the edge lost its state, positions begin anew."""
        is_anew = answer.is_new and (self.is_durable or answer.position < self.asked)
        if is_anew or not self.is_confirmed:
            self.seen = self.taken = answer.position
        self.id = answer.subscription
        self.is_confirmed = True
        self.times_busy = 0

    def fresh(self, events: list[Delivery]) -> list[Delivery]:
        """The events that the application was not given before."""
        seen = self.seen
        fresh = []
        for event in events:
            if event.position > seen:
                seen = event.position
                fresh.append(event)
        self.seen = seen
        return fresh

    def take(self, position: Position) -> bool:
        """Note that the application is done with all up to a position; returns whether that changes anything."""
        if not self.taken < position <= self.seen:
            return False
        self.taken = position
        self.events_taken += 1
        return True

    def acknowledgement(self) -> Ack | None:
        """The frame that acknowledges what was taken; None while it is not confirmed on a connection."""
        if self.id is None:
            return None
        self.events_taken = 0
        return Ack(self.id, self.taken)
