"""The events of a subscription that its application settles one by one: acknowledged, or refused and sent again.

One that just iterates settles its events in order, and needs none of this. Where events come out of order, because the
subscription is shared or has a key, or because one was refused, each is acknowledged by itself. An application that
says itself when it is done (`manual_ack`) may do so in any order: what is done without a gap is acknowledged together.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from fieldfare.messages import Ack, AckEach, ClientFrame, Delivery, Position

_RETRIED_MAX = 10_000
_TOGETHER_MAX = 10_000  # positions in one frame


@dataclass(slots=True)
class InHand:
    """What the application was given and has not settled, as far as that has to be known one by one."""

    is_manual: bool = False
    acks_each: bool = False  # the edge says that events come out of order
    is_prompt: bool = False  # the next event of a key waits for the acknowledgement
    held: OrderedDict[Position, None] = field(default_factory=OrderedDict)  # manual: not settled, in order
    owed: set[Position] = field(default_factory=set)  # refused: the edge will send them again
    retried: OrderedDict[Position, int] = field(default_factory=OrderedDict)  # came again, by the last attempt
    to_acknowledge: list[Position] = field(default_factory=list)

    def is_single(self, position: Position) -> bool:
        """Whether an event is settled by itself."""
        return self.acks_each or self.is_manual or position in self.retried

    def is_new_retry(self, event: Delivery) -> bool:
        """Note an event that is sent again; returns whether this sending is new."""
        if self.acks_each:
            return True
        if self.retried.get(event.position, 1) >= event.attempt:
            return False
        self.retried[event.position] = event.attempt
        self.owed.discard(event.position)
        while len(self.retried) > _RETRIED_MAX:
            self.retried.popitem(last=False)
        return True

    def give(self, events: list[Delivery]) -> None:
        """The application is given events."""
        if self.is_manual and not self.acks_each:
            self.held.update((event.position, None) for event in events)

    def settle(self, position: Position) -> None:
        """The application is done with an event."""
        self.held.pop(position, None)
        self.to_acknowledge.append(position)

    def refuse(self, position: Position, *, comes_again: bool) -> None:
        """The application could not deal with an event."""
        self.held.pop(position, None)
        if comes_again and not self.acks_each:
            self.owed.add(position)

    def done_upto(self, seen: Position) -> Position:
        """Of an application that says itself when it is done: all up to here is settled."""
        first = next(iter(self.held), None)
        return seen if first is None else first - 1

    def begin_anew(self) -> None:
        """Nothing that was in hand can be settled any more."""
        self.held.clear()
        self.owed.clear()
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
