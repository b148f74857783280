"""Brokers on a simulated ZooKeeper, through everything that can go wrong with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import methodcaller

import pytest
from tests.coordination.scripted import Do, ScriptedNode, edge, routing

from fieldfare.coordination.zookeeper import MemberOptions
from fieldfare.coordination.zookeeper.writes import is_counted
from fieldfare.messages import (
    Announce,
    AssignTopic,
    CountEndpoints,
    LeaderSeen,
    MemberGone,
    MemberSeen,
    OfferTopic,
    TopicKey,
    TopicOffer,
    TopicSeen,
)
from fieldfare.qos import Offered
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.zookeeper import SimulatedZooKeeper

T = ("default", "traffic")
OWNER = "/topics/default:traffic/owner"


class Scene:
    """A world with a ZooKeeper and scripted brokers."""

    def __init__(self, seed: int = 1, link: LinkQuality = LinkQuality(), **options: float) -> None:  # noqa: B008 - it is frozen
        self.world = World(seed, link)
        self.zookeeper = SimulatedZooKeeper(self.world.network, session_seconds=options.pop("session_seconds", 4.0))
        self.nodes: dict[str, ScriptedNode] = {}
        self.hosts: dict[str, SimulatedHost] = {}

    def add(self, make: Callable[[str], ScriptedNode], *names: str) -> None:
        for name in names:

            def make_node(name: str = name) -> ScriptedNode:
                self.nodes[name] = make(name)
                return self.nodes[name]

            self.hosts[name] = host = self.world.node(name, make_node)
            self.zookeeper.serve(host)
            host.start()
            self.run(0.5)  # the first leads
        self.run(1.5)

    def run(self, seconds: float) -> None:
        self.world.run_for(seconds)

    def do(self, name: str, *effects: object) -> None:
        for effect in effects:
            self.hosts[name].tell(Do(effect))  # type: ignore[arg-type]

    @property
    def leader(self) -> str:
        names = {node.leader for node in self.nodes.values() if node.member.role == "routing"}
        (name,) = names
        assert name is not None
        return name


def manual(name: str) -> ScriptedNode:
    """A routing broker that assigns nothing by itself."""
    return routing(name, decides=False)


def test_brokers_find_each_other_and_hear_when_one_changes_or_goes() -> None:
    scene = Scene()
    scene.add(edge, "e1", "e2")
    scene.add(routing, "r1")
    assert all(sorted(node.members) == ["e1", "e2", "r1"] for node in scene.nodes.values())
    changed = scene.nodes["e1"].member.__class__("e1", "edge", address="elsewhere:2")
    scene.do("e1", Announce(changed))
    scene.run(1.0)
    assert scene.nodes["e2"].members["e1"] == changed
    scene.world.crash(scene.hosts["e1"])
    scene.run(3.0)
    assert "e1" in scene.nodes["e2"].members  # its session has not expired
    scene.run(3.0)
    assert "e1" not in scene.nodes["e2"].members
    scene.world.restart(scene.hosts["e1"])
    scene.run(2.0)
    first = scene.nodes["e1"].member
    of_e1 = [MemberSeen(first), MemberSeen(changed), MemberGone("e1"), MemberSeen(first)]
    about = [message for message in scene.nodes["e2"].told if message in of_e1]
    assert about == of_e1


def test_a_broker_that_comes_back_before_its_old_session_has_expired_stays_when_that_expires() -> None:
    scene = Scene()
    scene.add(edge, "e1", "e2")
    scene.do("e1", CountEndpoints(T, 1, 0))
    scene.run(1.0)
    scene.world.crash(scene.hosts["e1"])
    scene.world.restart(scene.hosts["e1"])
    scene.do("e1", CountEndpoints(T, 1, 0))
    scene.run(30.0)
    assert not any(isinstance(message, MemberGone) for message in scene.nodes["e2"].told)
    assert scene.zookeeper.read("/topics/default:traffic/endpoints/e1") is not None


def test_the_leader_assigns_and_another_one_takes_over() -> None:
    scene = Scene()
    scene.add(routing, "r1", "r2")
    scene.add(edge, "e1")
    assert scene.leader == "r1"
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    assert scene.nodes["e1"].owner(T) == "r1"
    epoch = scene.nodes["e1"].topics[T].epoch
    scene.world.crash(scene.hosts["r1"])
    scene.run(10.0)
    assert scene.nodes["r2"].leader == "r2"
    assert scene.nodes["e1"].owner(T) == "r2"
    assert scene.nodes["e1"].topics[T].epoch > epoch


def test_a_leader_whose_session_expires_unseen_assigns_nothing_any_more() -> None:
    scene = Scene()
    scene.add(manual, "r1", "r2")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    assert scene.nodes["r1"].leader == "r1"
    scene.zookeeper.expire("r1")
    scene.do("r1", AssignTopic(T, "r1", -1))  # it believes that it leads
    scene.run(1.0)
    assert scene.nodes["r1"].leader == "r1"
    assert scene.nodes["r2"].leader == "r2"
    assert scene.nodes["e1"].owner(T) == ""
    scene.do("r2", AssignTopic(T, "r2", -1))
    scene.run(10.0)
    assert scene.nodes["r1"].leader == "r2"
    assert scene.nodes["e1"].owner(T) == "r2"
    assert [message.owner for message in scene.nodes["e1"].told if isinstance(message, TopicSeen)] == ["", "r2"]


def test_an_assignment_with_an_unknown_outcome_takes_place_once() -> None:
    scene = Scene()
    scene.add(manual, "r1")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    scene.zookeeper.lose_answer("r1")
    scene.do("r1", AssignTopic(T, "r1", -1))
    scene.run(5.0)
    owner = scene.zookeeper.read(OWNER)
    assert owner is not None
    assert (owner.data, owner.version) == (b"r1", 1)
    leaders = [message.name for message in scene.nodes["r1"].told if isinstance(message, LeaderSeen)]
    assert leaders == ["r1", None, "r1"]
    assert scene.nodes["r1"].topics[T].epoch == owner.transaction == scene.nodes["e1"].topics[T].epoch


def test_an_assignment_since_another_epoch_is_refused() -> None:
    scene = Scene()
    scene.add(manual, "r1", "r2")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    scene.do("r1", AssignTopic(T, "r1", -1))
    scene.run(1.0)
    scene.do("r1", AssignTopic(T, "r2", -1), AssignTopic(T, "r2", 7))
    scene.run(1.0)
    assert scene.nodes["e1"].owner(T) == "r1"
    scene.do("r1", AssignTopic(T, "r2", scene.nodes["r1"].topics[T].epoch))
    scene.run(1.0)
    assert scene.nodes["e1"].owner(T) == "r2"
    scene.do("r2", AssignTopic(T, "r1", scene.nodes["r1"].topics[T].epoch))  # it does not lead
    scene.run(1.0)
    assert scene.nodes["e1"].owner(T) == "r2"


def test_of_two_assignments_since_one_epoch_the_first_counts() -> None:
    scene = Scene()
    scene.add(manual, "r1", "r2")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    scene.do("r1", AssignTopic(T, "r1", -1), AssignTopic(T, "r2", -1))
    scene.run(2.0)
    assert scene.nodes["e1"].owner(T) == "r1"


def test_an_assignment_that_was_lost_with_its_connection_is_not_repeated() -> None:
    scene = Scene(session_seconds=30.0)
    scene.add(manual, "r1")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    scene.do("r1", AssignTopic(T, "r1", -1))
    for stream in scene.world.network.streams("r1", "zookeeper"):
        stream.reset("reset")
    scene.run(20.0)
    assert scene.nodes["r1"].leader == "r1"
    assert scene.nodes["e1"].owner(T) == ""


def test_an_assignment_of_a_broker_that_leads_no_more_is_refused_although_it_does_not_know() -> None:
    scene = Scene()
    scene.add(manual, "r1", "r2")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    scene.zookeeper.lag("r1", 5.0)
    scene.zookeeper.remove(f"/leader/{scene.zookeeper.children('/leader')[0]}")
    scene.do("r1", AssignTopic(T, "r1", -1))
    scene.run(1.0)
    assert (scene.nodes["r1"].leader, scene.nodes["r2"].leader) == ("r1", "r2")
    scene.run(10.0)
    assert scene.leader == "r2"
    assert scene.nodes["e1"].owner(T) == ""


def test_what_somebody_removed_by_hand_is_written_again() -> None:
    scene = Scene()
    scene.add(routing, "r1", "r2")
    scene.zookeeper.remove(f"/leader/{scene.zookeeper.children('/leader')[0]}")
    scene.zookeeper.remove("/brokers/r1")
    scene.run(2.0)
    assert scene.leader == "r2"
    assert len(scene.zookeeper.children("/leader")) == 2
    assert sorted(scene.nodes["r2"].members) == ["r1", "r2"]


def test_a_topic_that_is_offered_while_a_slow_leader_removes_it_stays() -> None:
    scene = Scene(link=LinkQuality(0.001, 0.0))
    scene.add(routing, "r1")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    scene.world.network.set_link_quality("r1", "zookeeper", LinkQuality(0.5, 0.0))
    scene.do("e1", CountEndpoints(T, 0, 0))
    scene.run(0.2)
    scene.do("e1", OfferTopic(1, T, TopicOffer(Offered())))
    scene.run(10.0)
    assert scene.nodes["e1"].answers() == {1: None}
    assert scene.zookeeper.children("/topics") == ("default:traffic",)


def test_while_the_connection_is_lost_only_the_leader_is_unknown() -> None:
    scene = Scene(session_seconds=30.0)
    scene.add(routing, "r1", "r2")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(3.0)
    before = {name: len(node.told) for name, node in scene.nodes.items()}
    scene.zookeeper.crash()
    scene.run(20.0)
    assert scene.nodes["r1"].told[before["r1"] :] == [LeaderSeen(None)]
    assert scene.nodes["e1"].told[before["e1"] :] == []
    scene.zookeeper.restart()
    scene.run(20.0)
    assert scene.nodes["r1"].told[before["r1"] :] == [LeaderSeen(None), LeaderSeen("r1")]
    assert scene.nodes["e1"].told[before["e1"] :] == []


def test_in_a_new_session_all_that_the_node_said_last_stands_there_again() -> None:
    scene = Scene()
    scene.add(routing, "r1")
    scene.add(edge, "e1", "e2")
    scene.do("e1", CountEndpoints(T, 1, 1, is_owed=True), CountEndpoints(("default", "gone"), 1, 0))
    scene.run(2.0)
    cut = scene.world.partition({"e1"}, {"zookeeper"})
    scene.do("e1", CountEndpoints(T, 5, 1, is_owed=True), CountEndpoints(("default", "gone"), 0, 0))
    scene.do("e1", CountEndpoints(("default", "new"), 0, 1))
    scene.run(20.0)
    assert "e1" not in scene.nodes["e2"].members
    assert scene.nodes["r1"].topics == {}
    assert scene.zookeeper.children("/topics/default:traffic/owed") == ("e1",)
    scene.world.heal(cut)
    scene.run(10.0)
    counts = scene.zookeeper.read("/topics/default:traffic/endpoints/e1")
    assert counts is not None
    assert counts.data == b'{"publishers":5,"subscribers":1}'
    assert sorted(scene.nodes["r1"].topics) == [("default", "new"), T]
    assert scene.zookeeper.children("/topics") == ("default:new", "default:traffic")
    assert scene.nodes["e1"].members == scene.nodes["e2"].members
    assert not any(isinstance(message, MemberGone) for message in scene.nodes["e1"].told)


def test_of_a_burst_of_counts_the_latest_wins_and_few_are_written() -> None:
    scene = Scene()
    scene.add(edge, "e1")
    scene.do("e1", *(CountEndpoints(T, 1, number) for number in range(1000)))
    scene.run(2.0)
    counts = scene.zookeeper.read("/topics/default:traffic/endpoints/e1")
    assert counts is not None
    assert counts.data == b'{"publishers":1,"subscribers":999}'
    assert counts.version <= 2


def test_a_topic_without_endpoints_goes_unless_it_offers_or_owes_something() -> None:
    scene = Scene()
    scene.add(routing, "r1")
    scene.add(edge, "e1")
    for name, is_owed in (("plain", False), ("owed", True), ("offered", False)):
        scene.do("e1", CountEndpoints(("default", name), 1, 0, is_owed=is_owed))
    scene.do("e1", OfferTopic(1, ("default", "offered"), TopicOffer(Offered())))
    scene.run(2.0)
    assert len(scene.nodes["r1"].topics) == 3
    for name, is_owed in (("plain", False), ("owed", True), ("offered", False)):
        scene.do("e1", CountEndpoints(("default", name), 0, 0, is_owed=is_owed))
    scene.run(2.0)
    assert scene.nodes["r1"].topics == {}
    assert scene.zookeeper.children("/topics") == ("default:offered", "default:owed")
    scene.do("e1", CountEndpoints(("default", "plain"), 1, 0), CountEndpoints(("default", "owed"), 0, 0))
    scene.run(3.0)
    assert scene.nodes["e1"].owner(("default", "plain")) == "r1"
    assert scene.zookeeper.children("/topics") == ("default:offered", "default:plain")


def test_a_far_edge_gets_its_topic_although_the_leader_is_near() -> None:
    """The leader removes topics that nobody uses: it must not remove one that is about to be used."""
    scene = Scene(link=LinkQuality(0.001, 0.0))
    scene.world.network.set_link_quality("e1", "zookeeper", LinkQuality(0.5, 0.1))
    scene.add(routing, "r1")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 0), OfferTopic(1, ("default", "other"), TopicOffer(Offered())))
    scene.run(6.0)
    assert scene.nodes["e1"].owner(T) == "r1"
    assert scene.nodes["e1"].answers() == {1: None}


def test_of_two_concurrent_changes_of_an_offer_one_wins_and_all_see_it() -> None:
    scene = Scene()
    scene.add(edge, "e1", "e2")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.do("e2", CountEndpoints(T, 1, 1))
    scene.run(1.0)
    scene.do("e1", OfferTopic(1, T, TopicOffer(Offered(order="none"))))
    scene.do("e2", OfferTopic(2, T, TopicOffer(Offered(order="publisher"))))
    scene.run(2.0)
    answers = scene.nodes["e1"].answers() | scene.nodes["e2"].answers()
    assert sorted(failure is None for failure in answers.values()) == [False, True]
    (offer,) = {repr(scene.nodes[name].topics[T].offer) for name in ("e1", "e2")}
    assert ("order='none'" in offer) == (answers[1] is None)
    scene.do("e1", OfferTopic(3, T, TopicOffer(Offered(lifespan_seconds=60.0), version=1)))
    scene.do("e1", OfferTopic(4, T, TopicOffer(Offered(lifespan_seconds=60.0), version=7)))
    scene.do("e1", OfferTopic(5, ("default", "nowhere"), TopicOffer(Offered(), version=7)))
    scene.run(2.0)
    answers = scene.nodes["e1"].answers()
    assert answers[3] is None
    assert answers[4] is not None
    assert answers[5] == "the topic has no offer"
    seen = scene.nodes["e2"].topics[T].offer
    assert seen is not None
    assert (seen.version, seen.offered.lifespan_seconds) == (1, 60.0)


def test_a_change_of_an_offer_whose_answer_is_lost_is_answered_as_it_went() -> None:
    scene = Scene()
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(1.0)
    scene.zookeeper.lose_answer("e1")
    scene.do("e1", OfferTopic(1, T, TopicOffer(Offered())))
    scene.run(3.0)
    assert scene.nodes["e1"].answers() == {1: None}
    offer = scene.nodes["e1"].topics[T].offer
    assert offer is not None
    assert offer.version == 0


def test_a_candidate_whose_creation_was_not_answered_is_not_doubled() -> None:
    scene = Scene()
    host = scene.world.node("r1", lambda: scene.nodes.setdefault("r1", routing("r1")))
    scene.zookeeper.serve(host)
    scene.zookeeper.lose_answer("r1")
    host.start()
    for _ in range(6):  # one request after another is in doubt
        scene.run(0.5)
        scene.zookeeper.lose_answer("r1")
    scene.run(10.0)
    assert len(scene.zookeeper.children("/leader")) == 1
    assert scene.nodes["r1"].leader == "r1"


def test_reads_that_lag_show_an_older_view_and_then_all() -> None:
    scene = Scene()
    scene.add(routing, "r1")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    scene.zookeeper.lag("e1", 5.0)
    scene.add(edge, "e2")
    scene.add(routing, "r2")
    assert sorted(scene.nodes["e1"].members) == ["e1", "r1"]
    assert sorted(scene.nodes["r1"].members) == ["e1", "e2", "r1", "r2"]
    scene.run(5.0)
    assert sorted(scene.nodes["e1"].members) == ["e1", "e2", "r1", "r2"]


def test_load_is_announced_now_and_then_and_all_else_at_once() -> None:
    scene = Scene()
    scene.add(edge, "e1", "e2")
    member = scene.nodes["e1"].member
    for number in range(100):
        scene.do("e1", Announce(member.__class__("e1", "edge", address=member.address, load=number / 100)))
        scene.run(0.05)
    seen = [message for message in scene.nodes["e2"].told if isinstance(message, MemberSeen)]
    assert len(seen) <= 5
    scene.run(MemberOptions().load_seconds + 1.0)
    assert scene.nodes["e2"].members["e1"].load == pytest.approx(0.99)


def test_names_that_are_no_parts_of_paths_are_escaped() -> None:
    scene = Scene()
    scene.add(routing, ".", "a/b")
    scene.add(edge, "é-0000000001")
    topic = ("tenant:1", "a/b:c..")
    scene.do("é-0000000001", CountEndpoints(topic, 1, 1))
    scene.run(3.0)
    assert scene.leader in {".", "a/b"}
    assert scene.nodes["é-0000000001"].owner(topic) in {".", "a/b"}
    assert sorted(scene.nodes["a/b"].members) == [".", "a/b", "é-0000000001"]


@pytest.mark.parametrize("seconds", [0.5, 2.0, 30.0])
def test_a_broker_that_is_paused_goes_on_and_first_acts_as_if_nothing_had_happened(seconds: float) -> None:
    pause, resume = methodcaller("pause"), methodcaller("resume")
    scene = Scene()
    scene.add(manual, "r1", "r2")
    scene.add(edge, "e1")
    scene.do("e1", CountEndpoints(T, 1, 1))
    scene.run(2.0)
    told = len(scene.nodes["r1"].told)
    pause(scene.hosts["r1"])
    scene.run(seconds)
    is_gone = seconds > 4.0
    assert ("r1" not in scene.nodes["e1"].members) == is_gone
    assert len(scene.nodes["r1"].told) == told
    scene.do("r1", AssignTopic(T, "r1", -1))  # it believes that it leads
    resume(scene.hosts["r1"])
    scene.run(20.0)
    assert scene.leader == ("r2" if is_gone else "r1")
    assert scene.nodes["e1"].owner(T) == ("" if is_gone else "r1")
    assert sorted(scene.nodes["e1"].members) == ["e1", "r1", "r2"]
    assert scene.zookeeper.waits() == []


class Trouble:
    """Random faults of the service and of the ways to it, and counts that change meanwhile."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scene = Scene(seed, LinkQuality(loss=0.02))
        self.scene.add(routing, "r1", "r2", "r3")
        self.scene.add(edge, "e1", "e2")
        self.topics = [("default", str(number)) for number in range(5)]
        self.counts: dict[tuple[str, TopicKey], CountEndpoints] = {}
        world, zookeeper = self.scene.world, self.scene.zookeeper
        self.faults: list[Callable[[str], object]] = [
            self.crash_routing_broker,
            lambda name: world.partition({name}, {"zookeeper"}),
            lambda _: world.heal(),
            zookeeper.expire,
            zookeeper.lose_answer,
            lambda name: zookeeper.lag(name, self.rng.random() * 5),
            lambda _: zookeeper.crash(),
        ]

    def crash_routing_broker(self, name: str) -> None:
        if name.startswith("r"):  # edges would have to count again
            self.scene.world.crash(self.scene.hosts[name])

    def cause(self) -> None:
        rng, edge_name = self.rng, self.rng.choice(["e1", "e2"])
        count = CountEndpoints(rng.choice(self.topics), rng.randrange(2), rng.randrange(3), is_owed=rng.random() < 0.2)
        self.scene.do(edge_name, count)
        self.counts[edge_name, count.topic] = count
        rng.choice(self.faults)(rng.choice(list(self.scene.hosts)))
        self.scene.run(rng.expovariate(1.0))
        if rng.random() < 0.5:
            self.end()

    def end(self) -> None:
        self.scene.zookeeper.restart()
        for host in self.scene.hosts.values():
            self.scene.world.restart(host)

    def knows(self, edge_name: str, topic: TopicKey) -> bool:
        """Whether an edge is told of a topic now."""
        count = self.counts.get((edge_name, topic))
        return count is not None and is_counted(count)


@pytest.mark.parametrize("seed", range(30))
def test_after_any_faults_everybody_sees_the_same_and_every_topic_has_a_living_owner(seed: int) -> None:
    trouble = Trouble(seed)
    scene = trouble.scene
    for _ in range(40):
        trouble.cause()
    scene.world.heal()
    trouble.end()
    scene.run(60.0)
    hint = f"seed {seed}: {scene.zookeeper.waits()}"
    assert scene.zookeeper.waits() == [], hint
    leader = scene.nodes[scene.leader]
    assert set(leader.topics) == {
        topic for (_, topic), count in trouble.counts.items() if count.publishers or count.subscribers
    }, hint
    for node in scene.nodes.values():
        assert sorted(node.members) == ["e1", "e2", "r1", "r2", "r3"], hint
        for topic, seen in leader.topics.items():
            assert seen.owner in {"r1", "r2", "r3"}, hint
            if trouble.knows(node.member.name, topic):
                assert node.topics[topic] == seen, hint
    owners = [seen.owner for seen in leader.topics.values()]
    assert max(map(owners.count, owners), default=0) <= 3, hint
    assert not [member.problems for member in scene.zookeeper.members.values() if member.problems], hint
