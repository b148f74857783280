"""Reading what a gossip knows without joining it, where answers are long and datagrams get lost."""

from __future__ import annotations

import random

import pytest

from fieldfare.coordination.gossip import Gossip
from fieldfare.coordination.gossip_messages import Announcement, Claim, EndpointCount, Fact, Health, News, OfferNews
from fieldfare.coordination.gossip_reader import GossipReader
from fieldfare.messages import Effect, Member, SendDatagram, TopicOffer
from fieldfare.qos import Offered

NOW = 1_800_000_000.0
STAMP = int(NOW * 1000) << 10
EDGES, TOPICS = 120, 12
OFFER = TopicOffer(Offered(), "edge", "", 0)


def member(name: str, health: Health = Health.ALIVE, topics: int = 0, *, is_owed: bool = False) -> News:
    role = "routing" if name.startswith("r") else "edge"
    facts: list[Fact] = [Announcement(f"{name}:1", Member(name, role, f"{name}:2", log=f"log of {name}"))]  # type: ignore[arg-type]
    facts += [EndpointCount(("t", f"topic-{number}"), 1, 2, is_owed) for number in range(topics)]
    numbered = list(enumerate(facts, 1))
    at = 0 if health is Health.ALIVE else STAMP + 1
    return News(name, Claim(STAMP, health, at, STAMP), 0, len(facts), numbered, len(facts))


@pytest.fixture
def gossip() -> Gossip:
    """A member that knows many others."""
    made = Gossip("r0", random.Random(1), address="r0:1")
    made.announce(Member("r0", "routing", "r0:2"))
    made.start(NOW)
    for number in range(EDGES):
        made.membership.hear(member(f"e{number}", topics=TOPICS), NOW, is_rumour=False)
    made.membership.hear(member("gone", Health.DEAD, 1, is_owed=True), NOW, is_rumour=False)
    made.membership.hear(member("left", Health.LEFT, 1), NOW, is_rumour=False)
    made.membership.hear_offer(OfferNews(("t", "topic-0"), OFFER))
    made.take_effects()
    return made


def exchange(reader: GossipReader, gossip: Gossip, sent: list[SendDatagram], rng: random.Random, loss: float) -> None:
    """Bring what a reader sends to the member, and its answers back."""
    while sent:
        datagram = sent.pop(0)
        if datagram.address != "r0:1" or rng.random() < loss:
            continue
        gossip.receive("reader:1", datagram.message, NOW)
        answers: list[Effect] = gossip.take_effects()
        for answer in answers:
            if isinstance(answer, SendDatagram) and answer.address == "reader:1" and rng.random() >= loss:
                sent += reader.receive("r0:1", answer.message)


def read(reader: GossipReader, gossip: Gossip, loss: float = 0.0) -> int:
    rng = random.Random(7)
    for rounds in range(1, 500):
        exchange(reader, gossip, reader.begin_round(), rng, loss)
        if reader.is_complete:
            return rounds
    raise AssertionError("it never ended")


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_all_that_a_member_knows_is_read(gossip: Gossip, loss: float) -> None:
    before = gossip.table.hash, len(gossip.membership.candidates)
    reader = GossipReader(["r0:1", "nobody:1"], random.Random(2))
    read(reader, gossip, loss)
    assert reader.table.hash == gossip.table.hash
    registered = reader.read()
    assert {each.name for each in registered.members} == {"r0", *(f"e{number}" for number in range(EDGES))}
    assert registered.leader == "r0"
    assert [topic.topic[1] for topic in registered.topics] == sorted(f"topic-{number}" for number in range(TOPICS))
    first = registered.topics[0]
    assert (first.owner, first.offer, dict(first.owed)) == ("r0", OFFER, {"gone": "log of gone"})
    assert len(first.endpoints) == EDGES  # those that live
    assert registered.missing == ("gone",)
    assert (gossip.table.hash, len(gossip.membership.candidates)) == before  # nobody has joined


def test_who_is_retired_is_owed_nothing_any_more(gossip: Gossip) -> None:
    reader = GossipReader(["r0:1"], random.Random(2))
    read(reader, gossip)
    assert reader.owed_to("gone") == (("t", "topic-0"),)
    assert not reader.may_live("gone")
    assert reader.may_live("e1")
    assert reader.is_retired("never there")
    exchange(reader, gossip, reader.retirement("gone", NOW), random.Random(3), 0.0)
    assert not reader.is_retired("gone")
    read(reader, gossip)
    assert reader.is_retired("gone")
    assert gossip.table.members["gone"].claim.health is Health.RETIRED
    assert reader.read().missing == ()


def test_nobody_answers() -> None:
    reader = GossipReader(["r0:1"], random.Random(2))
    for _ in range(10):
        assert [datagram.address for datagram in reader.begin_round()] == ["r0:1"]
        assert not reader.is_complete
    assert not reader.table.members
