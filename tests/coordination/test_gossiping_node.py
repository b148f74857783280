"""A broker with its gossip around it: what passes, what is kept, and in which order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fieldfare.coordination.gossip import Gossip
from fieldfare.coordination.gossip_messages import Ping, Pong, RoundDue
from fieldfare.coordination.gossiping_node import with_gossip
from fieldfare.messages import (
    Announce,
    AssignTopic,
    Closed,
    CountEndpoints,
    DatagramReceived,
    Effect,
    Input,
    LeaderSeen,
    LoggingNode,
    Member,
    OfferAnswered,
    OfferTopic,
    Send,
    SendDatagram,
    SetTimer,
    Started,
    TimerDue,
    TopicOffer,
    TopicSeen,
)
from fieldfare.qos import Offered

NOW = 1_800_000_000.0
TOPIC = ("tenant", "topic")


class Scripted:
    """Answers an input with effects that are given for its type, and notes all inputs."""

    def __init__(self, script: dict[type[Input], Sequence[Effect]]) -> None:
        self.script = script
        self.told: list[Any] = []

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        assert now == NOW
        self.told.append(message)
        return self.script.get(type(message), ())


class LoggingScripted(Scripted):
    def recover(self, record: Any) -> None:
        self.told.append(record)

    def checkpoint(self) -> Sequence[Any]:
        return [f"record {number}" for number in range(3)]


def gossip(seeds: Sequence[str] = ()) -> Gossip:
    return Gossip("me", random.Random(0), seeds, "here")


def test_what_is_not_for_coordination_passes_untouched() -> None:
    effects = [Send("link", "a"), SetTimer("mine", NOW + 1)]
    inner = Scripted({Closed: effects, DatagramReceived: effects, TimerDue: effects})
    node = with_gossip(inner, gossip())
    messages = [Closed("link"), DatagramReceived("there", "no gossip"), TimerDue("mine")]
    for message in messages:
        assert node.handle(message, NOW) is effects
    assert inner.told == messages


def test_what_is_for_coordination_never_reaches_the_host() -> None:
    inner = Scripted(
        {
            Started: [Send("link", 1), Announce(Member("me", "routing", "me:1")), Send("link", 2)],
            LeaderSeen: [CountEndpoints(TOPIC, 1, 1), AssignTopic(TOPIC, "me", -1), Send("link", 3)],
            TopicSeen: [OfferTopic(4, TOPIC, TopicOffer(Offered()))],
            OfferAnswered: [Send("link", 4)],
        }
    )
    node = with_gossip(inner, gossip(["seed"]))
    effects = list(node.handle(Started(), NOW))
    assert [effect.frame for effect in effects if isinstance(effect, Send)] == [1, 2, 3, 4, 4]
    assert {type(effect) for effect in effects} == {Send, SendDatagram, SetTimer}
    told = [Started, LeaderSeen, TopicSeen, OfferAnswered, TopicSeen, OfferAnswered]
    assert [type(message) for message in inner.told] == told
    last = inner.told[-2]
    assert isinstance(last, TopicSeen)
    assert (last.owner, last.offer) == ("me", TopicOffer(Offered()))


def test_datagrams_and_timers_of_the_gossip_pass_the_broker_by() -> None:
    inner = Scripted({})
    node = with_gossip(inner, gossip())
    node.handle(Started(), NOW)
    assert node.handle(DatagramReceived("there", Ping("other", "me", 7)), NOW) == [SendDatagram("there", Pong("me", 7))]
    assert node.handle(DatagramReceived("there", Ping("other", "somebody", 7)), NOW) == []
    assert node.handle(TimerDue(RoundDue()), NOW)
    assert inner.told == [Started()]


def test_it_keeps_a_log_exactly_if_the_broker_does() -> None:
    assert not isinstance(with_gossip(Scripted({}), gossip()), LoggingNode)
    inner = LoggingScripted({})
    node = with_gossip(inner, gossip())
    assert isinstance(node, LoggingNode)
    node.recover("a record")
    assert inner.told == ["a record"]
    assert node.checkpoint() == ["record 0", "record 1", "record 2"]


def test_it_says_what_it_waits_for() -> None:
    node = with_gossip(Scripted({}), gossip())
    node.handle(Started(), NOW)
    assert node.waits() == ["1 rumours to spread"]


@pytest.mark.parametrize("message", [Ping("other", "me", 1)])
def test_before_it_has_started_nothing_is_answered(message: Ping) -> None:
    assert not with_gossip(Scripted({}), gossip()).handle(DatagramReceived("there", message), NOW)
