"""Small nodes that the simulator is measured with: idle, gossiping, matching, and linked in a ring."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from fieldfare.messages import DatagramReceived, Dial, Effect, Input, Opened, Received, Send, SendDatagram, Started
from fieldfare.messages.lines import LineCodec
from fieldfare.routing.interest import Interest, compile_conditions


class Message(msgspec.Struct, frozen=True, gc=False):
    """Goes from node to node as often as it may."""

    hops_left: int
    price: float
    region: str


LINES: LineCodec[Message, Message] = LineCodec(Message)
REGIONS = 5


def make_message(rng: random.Random, hops_left: int) -> Message:
    """A message that says something at random."""
    return Message(hops_left, rng.uniform(0.0, 1000.0), f"r{rng.randrange(REGIONS)}")


class IdleNode:
    """Does nothing."""

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        """What to do about something that happened."""
        return ()


class GossipNode:
    """Sends each datagram on to a random node."""

    def __init__(self, names: Sequence[str], rng: random.Random) -> None:
        self.received = 0
        self._names = names
        self._rng = rng

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        """What to do about something that happened."""
        if not isinstance(message, DatagramReceived):
            return ()
        self.received += 1
        came: Message = message.message
        self._look_at(came)
        if not came.hops_left:
            return ()
        target = self._names[int(self._rng.random() * len(self._names))]
        return (SendDatagram(target, Message(came.hops_left - 1, came.price, came.region)),)

    def _look_at(self, message: Message) -> None:
        """For nodes that do more."""


class MatchingNode(GossipNode):
    """Matches each datagram against conditions of its own before it sends it on."""

    def __init__(self, names: Sequence[str], rng: random.Random, conditions: Sequence[str]) -> None:
        super().__init__(names, rng)
        self.matches = 0
        self.conditions = conditions
        self._interest = Interest()
        for handle, condition in enumerate(conditions):
            self._interest.add(compile_conditions([handle], [condition]))

    def _look_at(self, message: Message) -> None:
        self.matches += len(self.match(message))

    def match(self, message: Message) -> list[int]:
        """The numbers of the conditions that a message satisfies."""
        found = self._interest.match([{"price": message.price, "region": message.region}])
        return [handle for handle, _ in found]


class RingNode:
    """Opens a link to the next node, and sends over it what comes."""

    def __init__(self, neighbour: str, first: Message) -> None:
        self.received = 0
        self._neighbour = neighbour
        self._first = first

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        """What to do about something that happened."""
        match message:
            case Received():
                self.received += 1
                came: Message = message.frame
                if came.hops_left:
                    return (Send("next", Message(came.hops_left - 1, came.price, came.region)),)
            case Started():
                return (Dial("next", self._neighbour),)
            case Opened("next"):
                return (Send("next", self._first),)
        return ()
