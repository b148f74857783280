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
    upto: Position = -1  # the last one that can be acknowledged with all before it
    _each: list[Position] = field(default_factory=list)  # those that have to be acknowledged by themselves
    _settled: deque[Position] = field(default_factory=lambda: deque(maxlen=_UNSURE_MAX))  # on this connection
    _unsure: set[Position] = field(default_factory=set)  # settled on a connection that broke

    def fresh(self, events: list[Delivery]) -> list[Delivery]:
        """The events that the application is to be given; those that it is done with are acknowledged again."""
        fresh = []
        for event in events:
            position = event.position
            if position in self._unsure:
                self._unsure.discard(position)
                self._each.append(position)
            elif position not in self._in_order and position not in self._again:
                fresh.append(event)
                if event.attempt == 1 and position > self._seen:
                    self._in_order[position] = None
                    self._seen = position
                else:
                    self._again.add(position)
        return fresh

    def settle(self, position: Position) -> bool:
        """The application is done with an event; returns whether it had it."""
        if position in self._in_order:
            is_first = next(iter(self._in_order)) == position
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
        return True

    def refuse(self, position: Position) -> bool:
        """The application could not deal with an event; returns whether it had it."""
        has_it = position in self._in_order or position in self._again
        self._in_order.pop(position, None)
        self._again.discard(position)
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
        """Acknowledgements may have been lost."""
        self._unsure.update(self._settled)
        self._settled.clear()
        self._each.clear()

    def confirmed(self, position: Position, *, is_anew: bool) -> None:
        """The edge goes on after a position. If positions begin anew, nothing of before means anything."""
        if is_anew:
            self._in_order.clear()
            self._again.clear()
            self._unsure.clear()
            self._seen = self.upto = position
        else:
            self._unsure = {each for each in self._unsure if each > position}
