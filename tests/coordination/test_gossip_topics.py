"""Topics under gossip: owners, epochs, the leader, who is owed events, and what topics offer."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fieldfare.coordination.gossip_messages import RetireBroker
from fieldfare.messages import (
    AssignTopic,
    CountEndpoints,
    EdgeRetired,
    LeaderSeen,
    OfferAnswered,
    OfferTopic,
    TopicGone,
    TopicKey,
    TopicOffer,
    TopicSeen,
)
from fieldfare.qos import Offered
from fieldfare.simulation import World
from fieldfare.simulation.gossip import GossipingBrokers

LONG_SECONDS = 120.0
ROUTING = ("r1", "r2", "r3", "r4")
EDGES = ("e1", "e2", "e3")
TOPICS: tuple[TopicKey, ...] = tuple(("t", f"topic-{number}") for number in range(60))


def deployment(seed: int = 0, topics: tuple[TopicKey, ...] = TOPICS) -> GossipingBrokers:
    """Routing brokers and edges that all see each other, with endpoints of all topics at all edges but the last."""
    made = GossipingBrokers(World(seed))
    for name in ROUTING:
        made.add(name, "routing")
    for name in EDGES:
        made.add(name)
    made.run_until(made.agree, LONG_SECONDS)
    for name in EDGES[:-1]:
        made.do(name, *(CountEndpoints(topic, 1, 1) for topic in topics))
    made.run_until(lambda: len(made.broker("r1").topics) == len(topics), LONG_SECONDS)
    return made


def owners(made: GossipingBrokers, name: str) -> dict[TopicKey, str]:
    return {topic: seen.owner for topic, seen in made.broker(name).topics.items()}


def told(made: GossipingBrokers, name: str, topic: TopicKey) -> list[TopicSeen | TopicGone]:
    """All that a broker was told of a topic."""
    every = made.broker(name).told
    return [message for message in every if isinstance(message, TopicSeen | TopicGone) and message.topic == topic]


def epochs(made: GossipingBrokers, name: str, topic: TopicKey) -> list[tuple[str, int]]:
    return [(message.owner, message.epoch) for message in told(made, name, topic) if isinstance(message, TopicSeen)]


# Owners, epochs, the leader


def test_all_name_the_same_owner_and_the_topics_are_spread() -> None:
    made = deployment()
    assert owners(made, "e1") == owners(made, "e2") == owners(made, "r1")
    counts = [list(owners(made, "e1").values()).count(name) for name in ROUTING]
    assert sum(counts) == len(TOPICS)
    assert min(counts) >= len(TOPICS) / 4 / 3
    epochs_seen = [{topic: seen.epoch for topic, seen in made.broker(name).topics.items()} for name in ("e1", "e2")]
    assert epochs_seen[0] == epochs_seen[1]


def test_an_edge_is_told_of_its_own_topics_and_the_leader_of_all() -> None:
    made = deployment()
    assert not made.broker("e3").topics
    assert not made.broker("r2").topics
    assert {made.broker(name).leader for name in made.living} == {"r1"}
    made.do("e3", CountEndpoints(TOPICS[5], 0, 1))
    assert owners(made, "e3") == {TOPICS[5]: owners(made, "e1")[TOPICS[5]]}  # at once: it knows the routing brokers
    made.world.crash(made.hosts["r1"])
    made.run_until(lambda: made.broker("r2").leader == "r2", LONG_SECONDS)
    assert made.broker("r2").topics.keys() == set(TOPICS)
    assert not made.broker("r3").topics


def test_only_the_topics_of_a_routing_broker_that_comes_or_goes_move() -> None:
    made = deployment()
    before = owners(made, "e1")
    made.world.crash(made.hosts["r3"])
    made.run_until(made.agree, LONG_SECONDS)
    after = owners(made, "e1")
    assert {topic for topic in TOPICS if before[topic] != after[topic]} == {
        topic for topic in TOPICS if before[topic] == "r3"
    }
    made.world.restart(made.hosts["r3"])
    made.run_until(made.agree, LONG_SECONDS)
    assert owners(made, "e1") == before


@pytest.mark.parametrize("seed", range(3))
def test_epochs_grow_whenever_the_owner_changes_and_all_name_the_same(seed: int) -> None:
    made = deployment(seed)
    topic = next(topic for topic, owner in owners(made, "e1").items() if owner == "r2")
    for crash in ("r2", "r3", "r2", "r4"):
        host = made.hosts[crash]
        made.world.crash(host)
        made.run_until(made.agree, LONG_SECONDS)
        made.world.restart(host)
        made.run_until(made.agree, LONG_SECONDS)
    for name in ("e1", "e2"):
        history = epochs(made, name, topic)
        assert len(history) >= 5
        for (owner, epoch), (next_owner, next_epoch) in pairwise(history):
            assert next_epoch > epoch or (next_owner, next_epoch) == (owner, epoch)
    assert epochs(made, "e1", topic)[-1] == epochs(made, "e2", topic)[-1]
    made.do("e3", CountEndpoints(topic, 0, 1))  # it has no history of this topic
    owner, epoch = epochs(made, "e3", topic)[-1]
    assert owner == "r2"
    assert epoch > epochs(made, "e1", topic)[0][1]


def test_who_hears_of_a_topic_later_names_the_same_epoch() -> None:
    made = deployment()
    topic = next(topic for topic, owner in owners(made, "e1").items() if owner == "r2")
    made.world.crash(made.hosts["r2"])
    made.run_until(made.agree, LONG_SECONDS)
    made.do("e3", CountEndpoints(topic, 0, 1))
    (before, after) = epochs(made, "e1", topic)
    assert epochs(made, "e3", topic) == [after]
    assert after[1] > before[1]


def test_two_sides_of_a_partition_have_owners_of_their_own_and_agree_when_it_heals() -> None:
    made = deployment()
    before = owners(made, "e1")
    one, other = ["r1", "r2", "e1"], ["r3", "r4", "e2", "e3"]
    made.world.partition(one, other)
    made.run_until(lambda: made.agree(one) and made.agree(other), LONG_SECONDS)
    assert set(owners(made, "e1").values()) == {"r1", "r2"}
    assert set(owners(made, "e2").values()) == {"r3", "r4"}
    assert (made.broker("e1").leader, made.broker("e2").leader) == ("r1", "r3")
    made.world.heal()
    made.run_until(made.agree, LONG_SECONDS)
    assert owners(made, "e1") == owners(made, "e2") == before
    for name in ("e1", "e2"):
        for topic in TOPICS:
            history = [epoch for _, epoch in epochs(made, name, topic)]
            assert history == sorted(history)


def test_without_a_routing_broker_a_topic_has_no_owner_yet() -> None:
    made = GossipingBrokers(World())
    made.add("e1")
    made.do("e1", CountEndpoints(TOPICS[0], 1, 0))
    assert made.broker("e1").topics[TOPICS[0]] == TopicSeen(TOPICS[0])
    made.add("r1", "routing")
    made.run_until(lambda: owners(made, "e1") == {TOPICS[0]: "r1"}, LONG_SECONDS)
    made.world.crash(made.hosts["r1"])
    made.run_until(lambda: owners(made, "e1") == {TOPICS[0]: ""}, LONG_SECONDS)
    assert [message.name for message in made.broker("e1").told if isinstance(message, LeaderSeen)] == ["r1", None]


def test_nobody_assigns() -> None:
    made = deployment()
    before = owners(made, "e1")
    made.do("r1", *(AssignTopic(topic, "r1", 0) for topic in TOPICS))
    made.world.run_for(10.0)
    assert owners(made, "e1") == owners(made, "r1") == before


# Endpoints, and who is owed


def test_a_topic_ends_with_its_last_endpoint() -> None:
    made = deployment(topics=TOPICS[:1])
    topic = TOPICS[0]
    made.do("e1", CountEndpoints(topic, 0, 0))
    made.world.run_for(10.0)
    assert topic in made.broker("r1").topics
    made.do("e2", CountEndpoints(topic, 0, 0))
    assert told(made, "e2", topic)[-1] == TopicGone(topic)
    made.run_until(lambda: topic not in made.broker("r1").topics, LONG_SECONDS)


def test_the_endpoints_of_an_edge_end_with_it() -> None:
    made = deployment(topics=TOPICS[:1])
    for name in ("e1", "e2"):
        made.world.crash(made.hosts[name])
    made.run_until(lambda: TOPICS[0] not in made.broker("r1").topics, LONG_SECONDS)
    assert told(made, "r1", TOPICS[0])[-1] == TopicGone(TOPICS[0])


def test_what_is_owed_to_an_edge_outlives_it_until_it_is_retired() -> None:
    made = deployment(topics=TOPICS[:1])
    topic = TOPICS[0]
    made.do("e1", CountEndpoints(topic, 1, 1, is_owed=True))
    made.run_until(lambda: made.broker("e2").topics[topic].owed == ("e1",), LONG_SECONDS)
    made.world.crash(made.hosts["e1"])
    made.run_until(made.agree, LONG_SECONDS)
    assert made.broker("e2").topics[topic].owed == ("e1",)
    made.add("late")
    made.do("late", CountEndpoints(topic, 1, 0))
    made.run_until(lambda: made.broker("late").topics[topic].owed == ("e1",), LONG_SECONDS)
    assert "e1" not in made.broker("late").members
    made.do("e2", CountEndpoints(topic, 0, 0))
    made.world.run_for(10.0)
    assert made.broker("r1").topics[topic].owed == ("e1",)
    made.hosts["r4"].tell(RetireBroker("e1"))
    made.run_until(lambda: made.broker("late").topics[topic].owed == (), LONG_SECONDS)
    assert EdgeRetired("e1") in made.broker("late").told


def test_a_broker_that_was_retired_and_lives_returns_with_all_that_it_says() -> None:
    made = deployment(topics=TOPICS[:1])
    made.do("e1", CountEndpoints(TOPICS[0], 1, 1, is_owed=True))
    made.run_until(lambda: made.broker("r1").topics[TOPICS[0]].owed == ("e1",), LONG_SECONDS)
    made.hosts["r2"].tell(RetireBroker("e1"))
    made.world.run_for(30.0)
    assert made.agree()
    assert made.broker("r1").topics[TOPICS[0]].owed == ("e1",)


def test_an_edge_that_comes_back_is_believed_what_it_says_now() -> None:
    made = deployment(topics=TOPICS[:2])
    made.world.crash(made.hosts["e1"])
    made.world.crash(made.hosts["e2"])
    made.world.restart(made.hosts["e1"])
    made.do("e1", CountEndpoints(TOPICS[0], 1, 0))
    made.run_until(lambda: made.agree() and made.broker("r1").topics.keys() == {TOPICS[0]}, LONG_SECONDS)


# Offers

RELIABLE = Offered()
QUICK = Offered(reliability="best_effort", durability="volatile")


def answers(made: GossipingBrokers, name: str) -> dict[int, str | None]:
    return {message.number: message.failure for message in made.broker(name).told if isinstance(message, OfferAnswered)}


def offer_at(made: GossipingBrokers, name: str, topic: TopicKey = TOPICS[0]) -> TopicOffer | None:
    return made.broker(name).topics[topic].offer


def test_an_offer_holds_at_every_edge_and_changes_by_its_version() -> None:
    made = deployment(topics=TOPICS[:1])
    made.do("e1", OfferTopic(1, TOPICS[0], TopicOffer(RELIABLE, version=1)))
    assert answers(made, "e1") == {1: None}
    made.run_until(lambda: offer_at(made, "e2") == TopicOffer(RELIABLE, version=1), LONG_SECONDS)
    made.do("e2", OfferTopic(7, TOPICS[0], TopicOffer(QUICK, version=2)))
    made.run_until(lambda: offer_at(made, "e1") == TopicOffer(QUICK, version=2), LONG_SECONDS)
    for number, version in ((2, 1), (3, 2), (4, 4)):
        made.do("e1", OfferTopic(number, TOPICS[0], TopicOffer(RELIABLE, version=version)))
        failure = answers(made, "e1")[number]
        assert failure is not None
        assert "version 3" in failure
    made.do("e1", OfferTopic(5, TOPICS[0], TopicOffer(QUICK, version=2)))  # the same again
    assert answers(made, "e1")[5] is None
    made.add("late")
    made.do("late", CountEndpoints(TOPICS[0], 1, 0))
    made.run_until(lambda: offer_at(made, "late") == TopicOffer(QUICK, version=2), LONG_SECONDS)


@pytest.mark.parametrize("seed", range(3))
def test_of_two_changes_at_once_all_take_the_same(seed: int) -> None:
    made = deployment(seed, TOPICS[:1])
    made.do("e1", OfferTopic(1, TOPICS[0], TopicOffer(RELIABLE, version=1)))
    made.do("e2", OfferTopic(1, TOPICS[0], TopicOffer(QUICK, version=1)))
    made.world.run_for(20.0)
    assert offer_at(made, "e1") == offer_at(made, "e2") == offer_at(made, "r1")
    assert offer_at(made, "e1") in (TopicOffer(RELIABLE, version=1), TopicOffer(QUICK, version=1))


def test_many_offers_come_to_a_broker_that_joins_later() -> None:
    made = deployment(topics=TOPICS[:1])
    offered = [("t", f"offered-{number:03}") for number in range(300)]
    made.do("e1", *(OfferTopic(number, topic, TopicOffer(RELIABLE)) for number, topic in enumerate(offered)))
    made.add("late")
    late = made.nodes["late"].gossip.table
    made.run_until(lambda: late.offers.keys() == set(offered), LONG_SECONDS)
    made.run_until(lambda: len({node.gossip.table.hash for node in made.nodes.values()}) == 1, LONG_SECONDS)
    assert made.codec.bytes_max <= 1200
