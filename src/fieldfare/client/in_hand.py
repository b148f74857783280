"""The events of a subscription that its application settles one by one: acknowledged, or refused and sent again.

One that just iterates settles its events in order, and needs none of this. Where events come out of order, because the
subscription is shared or has a key, or because one was refused, each is acknowledged by itself. An application that
says itself when it is done (`manual_ack`) may do so in any order: what is done without a gap is acknowledged together.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice

from fieldfare.messages import Ack, AckEach, ClientFrame, Delivery, Position

_RETRIED_MAX = 10_000
_TOGETHER_MAX = 10_000  # positions in one frame


@dataclass(slots=True)
class InHand:
    """What the application was given and has not settled, as far as that has to be known one by one."""

    is_manual: bool = False
    acks_each: bool = False  # the edge says that events come out of order
    is_prompt: bool = False  # the next event of a key waits for the acknowledgement
    held: OrderedDict[Position, None] = field(default_factory=OrderedDict)  # manual: not settled
    is_in_order: bool = True  # the first of those is the least
    owed: set[Position] = field(default_factory=set)  # refused: the edge will send them again
    unsure: set[Position] = field(default_factory=set)  # refused, and the edge may not know
    from_before: set[Position] = field(default_factory=set)  # held, and not sent again on this connection
    retried: OrderedDict[Position, int] = field(default_factory=OrderedDict)  # came again, by the last attempt
    to_acknowledge: list[Position] = field(default_factory=list)

    def is_single(self, position: Position) -> bool:
        """Whether an event is settled by itself."""
        return self.acks_each or self.is_manual or position in self.retried

    def is_new_retry(self, event: Delivery) -> bool:
        """Note an event that is sent again; returns whether this sending is new."""
        if self.acks_each:
            return True
        if self.retried.get(event.position, 1) >= event.attempt and event.position not in self.owed:
            if self.is_manual and event.position not in self.held:
                self.to_acknowledge.append(event.position)  # it is settled: the acknowledgement was lost
            return False
        self.retried[event.position] = event.attempt
        self.comes_again(event.position)
        while len(self.retried) > _RETRIED_MAX:
            self.retried.popitem(last=False)
        return True

    def comes_again(self, position: Position) -> None:
        """An event that was refused is sent again."""
        self.owed.discard(position)
        self.unsure.discard(position)

    def disconnected(self) -> None:
        """Refusals may have been lost: until such an event comes again, nothing is acknowledged together with it."""
        self.unsure = set(self.owed)
        self.from_before = set(self.held)

    def confirmed(self, position: Position) -> None:
        """The edge goes on after a position: what was refused before it is settled, as a dead letter."""
        self.owed = {each for each in self.owed if each > position}
        self.unsure &= self.owed

    def give(self, events: list[Delivery]) -> None:
        """The application is given events."""
        if self.is_manual and not self.acks_each:
            for event in events:
                last = next(reversed(self.held), -1)
                self.is_in_order = event.position > last and (self.is_in_order or not self.held)
                self.held[event.position] = None

    def settle(self, position: Position) -> None:
        """The application is done with an event."""
        self.held.pop(position, None)
        self.to_acknowledge.append(position)

    def refuse(self, position: Position, *, comes_again: bool, is_told: bool = True) -> None:
        """The application could not deal with an event; the edge is told so, or cannot be now.

        It does not heed a refusal of what it has not sent again on this connection.
        """
        self.held.pop(position, None)
        if comes_again and not self.acks_each:
            self.owed.add(position)
            if not is_told or position in self.from_before:
                self.unsure.add(position)

    def done_upto(self, seen: Position) -> Position:
        """Of an application that says itself when it is done: all up to here is settled."""
        held = islice(self.held, 1) if self.is_in_order else self.held
        first = min((*held, *self.unsure), default=None)
        return seen if first is None else first - 1

    def begin_anew(self) -> None:
        """Nothing that was in hand can be settled any more."""
        self.held.clear()
        self.owed.clear()
        self.unsure.clear()
        self.from_before.clear()
        self.retried.clear()
        self.to_acknowledge.clear()

    def acknowledgements(self, subscription: str, upto: Position) -> list[ClientFrame]:
        """The frames for what was settled; `upto` is what an acknowledgement in order covers."""
        positions, self.to_acknowledge = self.to_acknowledge, []
        frames: list[ClientFrame] = [] if self.acks_each else [Ack(subscription, upto)]
        single = [each for each in positions if self.acks_each or each > upto or each in self.retried]
        frames += [
            AckEach(subscription, single[begin : begin + _TOGETHER_MAX])
            for begin in range(0, len(single), _TOGETHER_MAX)
        ]
        return frames
