"""Where the topology needs advertisements, the overlay is told of them, and who advertises waits until it knows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from tests.routing.frames import publication
from tests.routing.harness import ALL, TENANT

from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.messages import (
    Advertise,
    AdvertiseTopic,
    Append,
    ClientFrame,
    Done,
    Effect,
    Member,
    Opened,
    Received,
    Send,
    Started,
    Stored,
    TimerDue,
    TopicAdvertised,
    Unadvertise,
)
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.routing.edge import Edge
from fieldfare.routing.overlay import OverlayTimer
from fieldfare.routing.overlay_ports import OverlayOptions

NOW = 1_000.0


class AdvertisingEdge:
    """An edge of an overlay that needs advertisements, with one client."""

    def __init__(self) -> None:
        overlay = OverlayOptions(Member("edge", "edge"), tells_advertisements=True)
        self.edge = Edge("edge", random.Random(1), overlay=overlay)
        self.edge.handle(Started(), NOW)
        self.edge.handle(Opened("client", ALL), NOW)

    def send(self, frame: ClientFrame) -> Sequence[Effect]:
        effects = [*self.edge.handle(Received("client", frame), NOW)]
        for append in [effect for effect in effects if isinstance(effect, Append)]:
            effects += self.edge.handle(Stored(append.number), NOW)
        return effects


@pytest.fixture
def edge() -> AdvertisingEdge:
    return AdvertisingEdge()


def told(effects: Sequence[Effect]) -> tuple[int, Covering]:
    (effect,) = (each for each in effects if isinstance(each, AdvertiseTopic))
    assert effect.topic == (TENANT, "news")
    return effect.number, Covering.decode(effect.advertised)


def is_answered(effects: Sequence[Effect], ref: int) -> bool:
    return Send("client", Done(ref)) in effects


def covering(*conditions: str) -> Covering:
    return Covering.of(map(compile, conditions))


def test_it_is_answered_when_the_overlay_knows(edge: AdvertisingEdge) -> None:
    effects = edge.send(Advertise(1, "news", "p", "n < 5"))
    number, advertised = told(effects)
    assert advertised == covering("n < 5")
    assert not is_answered(effects, 1)
    assert is_answered(edge.edge.handle(TopicAdvertised(number), NOW), 1)
    assert not edge.edge.handle(TopicAdvertised(number), NOW)


def test_it_is_answered_after_a_while_in_any_case(edge: AdvertisingEdge) -> None:
    edge.send(Advertise(1, "news", "p", "n < 5"))
    assert not is_answered(edge.edge.handle(TimerDue(OverlayTimer.TIDY), NOW + 1.9), 1)
    assert is_answered(edge.edge.handle(TimerDue(OverlayTimer.TIDY), NOW + 2.1), 1)


def test_all_of_a_topic_is_told_as_a_whole_and_shrinks_again(edge: AdvertisingEdge) -> None:
    edge.send(Advertise(1, "news", "p", "n < 5"))
    assert told(edge.send(Advertise(2, "news", "q", "n > 7")))[1] == covering("n < 5", "n > 7")
    assert told(edge.send(Advertise(3, "news", "r")))[1] == EVERYTHING
    assert told(edge.send(Unadvertise(4, "news", "r")))[1] == covering("n < 5", "n > 7")
    assert told(edge.send(Unadvertise(5, "news", "q")))[1] == covering("n < 5")


def test_who_advertises_nothing_may_publish_anything_and_the_overlay_knows(edge: AdvertisingEdge) -> None:
    edge.send(Advertise(1, "news", "p", "n < 5"))
    assert told(edge.send(publication(2, "news", {"n": 9}, publisher="q", sequence=0)))[1] == EVERYTHING
    later = edge.send(publication(3, "news", {"n": 9}, publisher="q", sequence=1))
    assert not any(isinstance(effect, AdvertiseTopic) for effect in later)
