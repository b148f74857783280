"""A broker that coordinates by gossip: any node, and around it the member of a gossip that performs what it asks for.

The broker cannot tell it from ZooKeeper. What it asks of its coordination never reaches the host; what the gossip finds
out is told to the broker as if the host had. Datagrams and timers of the gossip pass the broker by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldfare.coordination.gossip import Gossip
from fieldfare.coordination.gossip_messages import Depart, GossipMessage, PongDue, RetireBroker, RoundDue
from fieldfare.messages import (
    Announce,
    AssignTopic,
    CountEndpoints,
    DatagramReceived,
    Effect,
    Input,
    LoggingNode,
    Node,
    OfferTopic,
    Started,
    TimerDue,
)

_COORDINATION = frozenset({Announce, CountEndpoints, OfferTopic, AssignTopic})
_PERHAPS_FOR_GOSSIP = frozenset({DatagramReceived, TimerDue, RetireBroker, Depart})


class GossipingNode:
    """A broker, `inner`, and its gossip."""

    def __init__(self, inner: Node, gossip: Gossip) -> None:
        self.inner = inner
        self.gossip = gossip

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        kind = type(message)
        if kind in _PERHAPS_FOR_GOSSIP and self._is_for_gossip(message, now):
            effects: Sequence[Effect] = ()
        else:
            effects = self.inner.handle(message, now)
            if kind is not Started and _COORDINATION.isdisjoint(map(type, effects)):
                return effects
        out = self._perform(effects)
        if kind is Started:
            self.gossip.start(now)
        while told := self.gossip.take_told():
            for each in told:
                out += self._perform(self.inner.handle(each, now))
        out += self.gossip.take_effects()
        return out

    def _is_for_gossip(self, message: Input, now: float) -> bool:
        match message:
            case DatagramReceived(address, GossipMessage() as came):
                self.gossip.receive(address, came, now)  # type: ignore[arg-type]  # it is one of them
            case TimerDue((RoundDue() | PongDue()) as key):
                self.gossip.timer_due(key, now)
            case RetireBroker():
                self.gossip.retire(message.name, now)
            case Depart():
                self.gossip.depart(now)
            case _:
                return False
        return True

    def _perform(self, effects: Sequence[Effect]) -> list[Effect]:
        """Do what is for coordination; the effects that are for the host."""
        out: list[Effect] = []
        for effect in effects:
            match effect:
                case Announce():
                    self.gossip.announce(effect.member)
                case CountEndpoints():
                    self.gossip.count_endpoints(effect)
                case OfferTopic():
                    self.gossip.offer_topic(effect)
                case AssignTopic():
                    pass  # nobody assigns: the owner follows from who is seen
                case _:
                    out.append(effect)
        return out

    def waits(self) -> list[str]:
        """What the broker and the gossip wait for, for people who look at a failed run."""
        return [*getattr(self.inner, "waits", list)(), *self.gossip.waits()]


class LoggingGossipingNode(GossipingNode):
    """The same for a broker that keeps a log. The gossip keeps nothing there."""

    inner: LoggingNode

    def recover(self, record: Any) -> None:
        """Take up a record of the checkpoint or the log, in order, before the first message."""
        self.inner.recover(record)

    def checkpoint(self) -> Sequence[Any]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        return self.inner.checkpoint()


def with_gossip(inner: Node, gossip: Gossip) -> GossipingNode:
    """A broker with its gossip; it keeps a log if the broker does."""
    return LoggingGossipingNode(inner, gossip) if isinstance(inner, LoggingNode) else GossipingNode(inner, gossip)
