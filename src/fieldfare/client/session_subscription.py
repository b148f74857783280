"""A subscription as the session sees it: where it begins, what the application was given, and what it is done with.

A new connection begins again after what the application is done with, not after what it was given: so all that waits
in the client lies within one window, however often the connection breaks. Positions belong to the log of an edge: at an
edge with another log they begin anew, and the edge tells of a gap. There the events that came before are known by their
ids: they may be on their way to that edge when the client comes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from fieldfare.client.in_hand import InHand
from fieldfare.client.outputs import Key
from fieldfare.client.window_budget import WindowShare
from fieldfare.messages import Attach, ClientFrame, Delivery, Position, Ref, Subscribe, Subscribed

_EventName: TypeAlias = tuple[str | None, str]  # an event's publisher and its id, which is the publisher's own


@dataclass(slots=True, eq=False)
class SessionSubscription:
    """A subscription whose events are to be delivered to this client, over whatever connection there is."""

    key: Key
    request: Subscribe | Attach
    ack_events: int = 1  # acknowledge when so many were taken
    id: str | None = None  # on this connection, once the edge has confirmed it
    log: str = ""  # to which the positions below belong, if that is known
    knows_logs: bool = False  # whether the edge that is connected now does
    previous: str | None = None  # its id on the connection before
    is_confirmed: bool = False  # on some connection
    seen: Position = -1  # the last position that came, or where it begins
    given: Position = -1  # the last one that was given to the application; those after it were known already
    taken: Position = -1  # the last one that the application is done with, or where it begins
    asked: Position = -1  # where to begin, in the request that was sent last
    events_taken: int = 0  # since the last acknowledgement
    times_busy: int = 0
    ending: Key | None = None  # the request to end it, which waits until it is confirmed
    recent: deque[_EventName] | None = None  # events of this log, if it may move to another
    former: dict[_EventName, None] = field(default_factory=dict)  # events of logs that were left
    in_hand: InHand = field(default_factory=InHand)
    share: WindowShare | None = None  # of the client's memory
    window_sent: int | None = None  # the last one that the edge was told on this connection

    @property
    def is_durable(self) -> bool:
        """Whether it outlives this client."""
        return isinstance(self.request, Attach) or self.request.name is not None

    @property
    def has_window(self) -> bool:
        """Whether there is room for its events."""
        return self.share is None or not self.share.is_waiting

    def sent(self, ref: Ref) -> Subscribe | Attach:
        """The request to send now. Where a durable one goes on is known to the edge; for others it is said here."""
        self.window_sent = self.request.window if self.share is None else self.share.window
        return replace(self._sent(ref), window=self.window_sent)

    def _sent(self, ref: Ref) -> Subscribe | Attach:
        if not self.is_confirmed:
            return replace(self.request, ref=ref, log=(self.request.log or "") if self.knows_logs else None)
        owed = self.in_hand.owed
        self.asked = min(self.taken, min(owed) - 1) if owed else self.taken
        log = self.log if self.knows_logs else None
        if isinstance(self.request, Attach) or self.is_durable:
            return replace(self.request, ref=ref, after=None, log=log)
        return replace(self.request, ref=ref, after=self.asked, previous=self.previous, log=log)

    def confirm(self, answer: Subscribed) -> bool:
        """It is in force on this connection. Returns whether its positions belong to another log than before.

        There they begin anew, as they do if the edge lost its state.
        """
        is_other_log = bool(self.log and answer.log) and answer.log != self.log
        if is_other_log:
            self._leave_log()
        is_anew = is_other_log or (answer.is_new and (self.is_durable or answer.position < self.asked))
        if is_anew or not self.is_confirmed:
            self.begin_after(answer.position)
        else:
            self.in_hand.confirmed(answer.position)
        self.in_hand.acks_each = answer.acks_each
        self.in_hand.is_prompt = isinstance(self.request, Attach) or self.request.consuming.key is not None
        self.id = self.previous = answer.subscription
        self.log = answer.log or self.log
        self.is_confirmed = True
        self.times_busy = 0
        return is_other_log

    def begin_after(self, position: Position) -> None:
        """Nothing came yet of what lies after a position, and what came before means nothing."""
        self.seen = self.given = self.taken = position
        self.events_taken = 0
        self.in_hand.begin_anew()

    def _leave_log(self) -> None:
        if self.recent is not None and self.recent.maxlen is not None:
            self.former |= dict.fromkeys(self.recent)
            for name in list(self.former)[: -self.recent.maxlen]:
                del self.former[name]
            self.recent.clear()

    def fresh(self, events: list[Delivery]) -> list[Delivery]:
        """The events that the application was not given before."""
        seen, in_hand = self.seen, self.in_hand
        fresh = []
        for event in events:
            in_hand.from_before.discard(event.position)
            if event.attempt > 1:
                if in_hand.is_new_retry(event):
                    fresh.append(event)
                    seen = max(seen, event.position)
            elif event.position > seen:
                seen = event.position
                fresh.append(event)
            elif in_hand.acks_each or event.position in in_hand.owed:
                in_hand.comes_again(event.position)
                fresh.append(event)
        self.seen = seen
        if in_hand.is_manual:
            in_hand.give(fresh)
        if self.recent is None:
            self.given = seen
            return fresh
        return self._unknown(fresh, self.recent)

    def _unknown(self, events: list[Delivery], recent: deque[_EventName]) -> list[Delivery]:
        """Those that did not come from another edge before."""
        unknown = events
        if self.former:
            unknown = [event for event in events if (event.publisher, event.id) not in self.former]
        recent.extend((event.publisher, event.id) for event in unknown)
        if unknown:
            self.given = unknown[-1].position
        elif self.taken >= self.given:
            self.taken = self.seen  # nobody is to take them
        return unknown

    def take(self, position: Position) -> bool:
        """Note that the application is done with all up to a position; returns whether that changes anything."""
        if not self.taken < position <= self.seen:
            return False
        self.taken = position if position < self.given else self.seen
        self.events_taken += 1
        return True

    def settle(self, position: Position) -> None:
        """Note that the application is done with one event."""
        self.in_hand.settle(position)
        if self.in_hand.is_manual and not self.in_hand.acks_each:
            self.taken = max(self.taken, self.in_hand.done_upto(self.seen))
        self.events_taken += 1

    def refuse(self, position: Position, attempt: int) -> None:
        """Note that the application could not deal with an event."""
        attempts_max = 1_000_000 if isinstance(self.request, Attach) else self.request.consuming.attempts_max
        self.in_hand.refuse(position, comes_again=attempt < attempts_max)

    def disconnect(self) -> None:
        """It is not in force any more, until it is confirmed on another connection."""
        self.id = None
        self.in_hand.disconnected()
        if self.in_hand.is_manual and self.in_hand.unsure:
            self.taken = min(self.taken, min(self.in_hand.unsure) - 1)

    def acknowledgements(self) -> list[ClientFrame]:
        """The frames that acknowledge what was taken; none while it is not confirmed on a connection."""
        if self.id is None:
            return []
        self.events_taken = 0
        return self.in_hand.acknowledgements(self.id, self.taken)
