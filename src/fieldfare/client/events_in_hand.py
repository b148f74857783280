"""Events that an application settles one by one: it has each in hand until it acknowledges or refuses it.

What comes although it is in hand is known already: the connection broke, and the edge sends it again. What comes
although it was settled is acknowledged again, if the acknowledgement may have been lost with a connection. Else it was
refused, or somebody wants it to come again: it is given to the application.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fieldfare.messages import SETTLED_MAX, Ack, AckEach, Delivery, Position

_UNSURE_MAX = 10_000


@dataclass(slots=True)
class EventsInHand:
    """Which events of a subscription the application has, and which it is done with."""

    _in_order: dict[Position, None] = field(default_factory=dict)  # in hand; they came one after another
    _again: set[Position] = field(default_factory=set)  # in hand; they came again, or before others
    _seen: Position = -1
    _is_connected: bool = False
    upto: Position = -1  # the last one that can be acknowledged with all before it
    _each: list[Position] = field(default_factory=list)  # those that have to be acknowledged by themselves
    _settled: deque[Position] = field(default_factory=lambda: deque(maxlen=_UNSURE_MAX))  # on this connection
    _refused: dict[Position, None] = field(default_factory=dict)  # and not come again; of too many the latest
    _blocking: set[Position] = field(default_factory=set)  # refused before this connection: the edge may not know
    _expected: set[Position] = field(default_factory=set)  # in hand when the connection began: they come once more
    _unsure: set[Position] = field(default_factory=set)  # settled before it: the edge may not know

    def fresh(self, events: list[Delivery]) -> list[Delivery]:
        """The events that the application is to be given; those that it is done with are acknowledged again."""
        fresh = []
        for event in events:
            position = event.position
            self._expected.discard(position)
            if position in self._unsure:
                self._unsure.discard(position)
                self._each.append(position)
                self._settled.append(position)
            elif position not in self._in_order and position not in self._again:
                fresh.append(event)
                self._refused.pop(position, None)
                self._blocking.discard(position)
                if event.attempt == 1 and position > self._seen:
                    self._in_order[position] = None
                    self._seen = position
                else:
                    self._again.add(position)
        return fresh

    def settle(self, position: Position) -> bool:
        """The application is done with an event; returns whether it had it."""
        if position in self._in_order:
            is_first = next(iter(self._in_order)) == position and not self._is_blocked(position)
            del self._in_order[position]
            if is_first:
                self.upto = position
            else:
                self._each.append(position)
        elif position in self._again:
            self._again.discard(position)
            self._each.append(position)
        else:
            return False
        self._settled.append(position)
        if position in self._expected:
            self._expected.discard(position)
            self._unsure.add(position)
        return True

    def _is_blocked(self, position: Position) -> bool:
        """Whether the edge would take an earlier event for settled if all up to a position were acknowledged."""
        return any(each < position for each in self._again) or any(each < position for each in self._blocking)

    def refuse(self, position: Position) -> bool:
        """The application could not deal with an event; returns whether it had it."""
        has_it = position in self._in_order or position in self._again
        self._in_order.pop(position, None)
        self._again.discard(position)
        if has_it:
            self._refused[position] = None
            if not self._is_connected:
                self._blocking.add(position)
            if len(self._refused) > _UNSURE_MAX:
                del self._refused[next(iter(self._refused))]
        return has_it

    def acknowledgements(self, subscription: str, acknowledged: Position) -> list[Ack | AckEach]:
        """The frames that say what was settled since the last time. `acknowledged`: all up to here was before."""
        frames: list[Ack | AckEach] = [Ack(subscription, self.upto)] if self.upto > acknowledged else []
        each, self._each = self._each, []
        frames += [
            AckEach(subscription, each[start : start + SETTLED_MAX]) for start in range(0, len(each), SETTLED_MAX)
        ]
        return frames

    def disconnected(self) -> None:
        """Acknowledgements and refusals may have been lost: the next connection goes on before the refused events."""
        self._each.clear()
        self._is_connected = False
        self._blocking = set(self._refused)
        self.upto = min((self.upto, *(each - 1 for each in (*self._refused, *self._again))))

    def confirmed(self, position: Position, *, is_anew: bool) -> None:
        """The edge goes on after a position. If positions begin anew, nothing of before means anything."""
        if is_anew:
            self._in_order.clear()
            self._again.clear()
            self._unsure.clear()
            self._refused.clear()
            self._blocking.clear()
            self._expected.clear()
            self._seen = self.upto = position
        else:
            self._unsure = {each for each in (*self._unsure, *self._settled) if each > position}
            self._refused = {each: None for each in self._refused if each > position}
            self._blocking = set(self._refused)  # or else an acknowledgement up to a later one would mean them too
            self._expected = {*self._in_order, *self._again}
        self._is_connected = True
        self._settled.clear()
