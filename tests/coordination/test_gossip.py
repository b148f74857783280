"""Members that find each other, notice who is gone, and come back: in the simulator, where a seed replays a run."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from fieldfare.coordination.gossip import Gossip
from fieldfare.coordination.gossip_messages import (
    Claim,
    Depart,
    Digest,
    EndpointCount,
    Health,
    Known,
    News,
    RetireBroker,
    RoundDue,
    Tell,
)
from fieldfare.coordination.gossip_options import GossipOptions
from fieldfare.coordination.packing import news_of
from fieldfare.messages import (
    Announce,
    CountEndpoints,
    DatagramReceived,
    Member,
    MemberGone,
    MemberSeen,
    SendDatagram,
)
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.gossip import GossipingBrokers

NOW = 1_800_000_000.0
LONG_SECONDS = 120.0  # far more than anything here should take
ROUND_SECONDS = GossipOptions().round_seconds


def brokers(count: int, seed: int = 0, quality: LinkQuality | None = None) -> GossipingBrokers:
    """So many, each of which sees all the others."""
    made = GossipingBrokers(World(seed, quality or LinkQuality()))
    for number in range(count):
        made.add(f"b{number:03}", "routing" if number % 4 == 0 else "edge")
    made.run_until(made.agree, LONG_SECONDS)
    return made


def gone(made: GossipingBrokers, name: str) -> list[str]:
    """Who was ever told to be gone, at a broker."""
    return [message.name for message in made.broker(name).told if isinstance(message, MemberGone)]


def claim_about(made: GossipingBrokers, name: str, at: str) -> Claim:
    return made.nodes[at].gossip.table.members[name].claim


def everybody(made: GossipingBrokers, holds: Callable[[str], bool]) -> Callable[[], bool]:
    return lambda: all(holds(name) for name in made.living)


# Finding each other


@pytest.mark.parametrize("count", [2, 3, 10, 40])
def test_all_who_know_one_soon_know_all(count: int) -> None:
    made = brokers(count)
    first = made.broker("b000").members
    assert first == {name: made.broker(name).member for name in made.living if name != "b000"}
    assert all(not gone(made, name) for name in made.living)


def test_a_change_reaches_all_in_a_number_of_rounds_that_grows_with_the_logarithm() -> None:
    made = brokers(150)
    made.world.run_for(10.0)
    made.do("b007", Announce(Member("b007", "edge", address="elsewhere")))
    seconds = made.run_until(
        everybody(made, lambda name: name == "b007" or made.broker(name).members["b007"].address == "elsewhere"),
        LONG_SECONDS,
    )
    assert seconds / ROUND_SECONDS <= math.log2(150)
    assert made.codec.bytes_max <= 1200


def test_it_joins_when_its_seed_comes_later() -> None:
    made = GossipingBrokers(World())
    made.add("early", seeds=["late"])
    made.world.run_for(20.0)
    made.add("late", seeds=[])
    made.run_until(made.agree, LONG_SECONDS)


def test_two_groups_that_grew_apart_meet_through_a_seed() -> None:
    made = GossipingBrokers(World())
    for name in ("a1", "a2", "a3"):
        made.add(name, seeds=["a1", "z1"])
    made.run_until(made.agree, LONG_SECONDS)
    for name in ("z1", "z2"):
        made.add(name, seeds=["z1"])
    made.run_until(made.agree, LONG_SECONDS)


def test_a_member_that_does_not_know_its_address_is_told() -> None:
    made = GossipingBrokers(World())
    for name in ("a", "b", "c"):
        host = made.add(name, seeds=["a"])
        host.crash()
        host._make_node = lambda name=name: made.make_node(name, ("a",), "")  # type: ignore[misc]
        host.start()
    made.run_until(made.agree, LONG_SECONDS)
    assert {name: node.gossip.myself.address for name, node in made.nodes.items()} == {"a": "a", "b": "b", "c": "c"}


def test_a_quiet_gossip_says_little_and_compares_nothing() -> None:
    made = brokers(20)
    made.world.run_for(30.0)
    bytes_before = made.codec.bytes
    made.world.run_for(30.0)
    assert (made.codec.bytes - bytes_before) / 20 / 30 < 400
    assert len({node.gossip.table.hash for node in made.nodes.values()}) == 1


def test_small_changes_of_the_load_are_not_passed_on() -> None:
    made = brokers(3)
    made.do("b001", Announce(Member("b001", "edge", address="b001", load=0.5)))
    made.run_until(lambda: made.broker("b002").members["b001"].load == 0.5, LONG_SECONDS)
    made.do("b001", Announce(Member("b001", "edge", address="b001", load=0.52)))
    made.world.run_for(10.0)
    assert made.broker("b002").members["b001"].load == 0.5
    made.do("b001", Announce(Member("b001", "edge", address="b001", load=0.6)))
    made.run_until(lambda: made.broker("b002").members["b001"].load == 0.6, LONG_SECONDS)


def test_an_edge_with_many_topics_is_known_whole() -> None:
    made = brokers(8)
    topics = [("t", f"topic-{number:04}") for number in range(700)]
    made.do("b001", *(CountEndpoints(topic, 1, 2) for topic in topics))
    leader = made.broker("b000")
    made.run_until(lambda: len(leader.topics) == 700, LONG_SECONDS)
    made.run_until(lambda: len({node.gossip.table.hash for node in made.nodes.values()}) == 1, LONG_SECONDS)
    made.do("b001", *(CountEndpoints(topic, 0, 0) for topic in topics))
    made.run_until(lambda: not leader.topics, LONG_SECONDS)
    assert made.codec.bytes_max <= 1200


# Losing each other


@pytest.mark.parametrize("count", [2, 5, 60])
def test_a_crash_is_noticed_by_all_and_a_restart_too(count: int) -> None:
    made = brokers(count)
    victim = f"b{count - 1:03}"
    before = claim_about(made, victim, "b000")
    made.world.crash(made.hosts[victim])
    made.run_until(made.agree, LONG_SECONDS)
    dead = claim_about(made, victim, "b000")
    assert (dead.incarnation, dead.health) == (before.incarnation, Health.DEAD)
    made.world.restart(made.hosts[victim])
    made.run_until(made.agree, LONG_SECONDS)
    back = claim_about(made, victim, "b000")
    assert back.life > dead.at > dead.incarnation
    assert all(set(gone(made, name)) <= {victim} for name in made.living)


def test_a_dead_incarnation_does_not_return_by_old_news() -> None:
    made = brokers(6)
    old = made.nodes["b000"].gossip.table.members["b005"]
    facts = old.facts_after(0)
    alive = News("b005", old.claim, 0, old.version, facts, old.version)
    made.world.crash(made.hosts["b005"])
    made.run_until(made.agree, LONG_SECONDS)
    for name in made.living:
        made.hosts[name].tell(DatagramReceived("b003", Tell("b003", [alive], hash=1)))
    made.world.run_for(30.0)
    for name in made.living:
        assert "b005" not in made.broker(name).members
        seen = [message for message in made.broker(name).told if isinstance(message, MemberSeen)]
        assert [message.member.name for message in seen].count("b005") == 1


def test_who_is_wrongly_suspected_objects_and_nobody_misses_it() -> None:
    made = brokers(12)
    before = claim_about(made, "b007", "b000")
    wrong = Claim(before.incarnation, Health.SUSPECTED, 0, before.life)
    made.hosts["b000"].tell(DatagramReceived("b003", Tell("b003", [News("b007", wrong)], hash=1)))
    assert claim_about(made, "b007", "b000").health is Health.SUSPECTED
    made.run_until(everybody(made, lambda name: claim_about(made, "b007", name) > wrong), LONG_SECONDS)
    assert {claim_about(made, "b007", name).health for name in made.living} == {Health.ALIVE}
    assert {claim_about(made, "b007", name).life for name in made.living} == {before.life}
    made.world.run_for(30.0)
    assert all(not gone(made, name) for name in made.living)


def test_who_is_wrongly_said_to_be_dead_objects_before_it_is_missed() -> None:
    made = brokers(12)
    claim = claim_about(made, "b007", "b000")
    dead = News("b007", Claim(claim.incarnation, Health.DEAD, claim.incarnation + 1, claim.life))
    for name in made.living:
        made.hosts[name].tell(DatagramReceived("b003", Tell("b003", [dead], hash=1)))
    made.world.run_for(30.0)
    assert made.agree()
    assert all(not gone(made, name) for name in made.living)
    assert made.nodes["b007"].gossip.myself.objection_count >= 1


def test_who_says_goodbye_is_gone_at_once() -> None:
    made = brokers(10)
    made.hosts["b009"].tell(Depart())
    seconds = made.run_until(lambda: made.agree(made.living[:-1]), LONG_SECONDS)
    assert seconds < 3 * ROUND_SECONDS  # suspecting would take more
    made.world.crash(made.hosts["b009"])
    made.world.restart(made.hosts["b009"])
    made.run_until(made.agree, LONG_SECONDS)


def test_loss_makes_suspicions_but_nobody_is_missed() -> None:
    made = brokers(20, quality=LinkQuality(loss=0.1, duplication=0.1))
    made.world.run_for(300.0)
    assert made.agree()
    assert all(not gone(made, name) for name in made.living)
    assert sum(node.gossip.membership.suspicion_count for node in made.nodes.values()) > 0


def test_a_way_that_is_cut_between_two_members_is_gone_around() -> None:
    made = brokers(12)
    made.world.partition({"b001"}, {"b002"})
    made.do("b001", Announce(Member("b001", "edge", address="moved")))
    made.world.run_for(120.0)
    assert made.agree()
    assert made.broker("b002").members["b001"].address == "moved"
    assert sum(node.gossip.membership.suspicion_count for node in made.nodes.values()) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_partition_heals_by_itself_and_nobody_misses_its_own_side(seed: int) -> None:
    made = brokers(24, seed)
    one, other = made.living[:9], made.living[9:]
    made.world.partition(one, other)
    made.run_until(lambda: made.agree(one) and made.agree(other), LONG_SECONDS)
    made.do(one[1], Announce(Member(one[1], "edge", address="moved")))
    made.world.run_for(60.0)
    made.world.heal()
    made.run_until(made.agree, LONG_SECONDS)
    for side, far in ((one, other), (other, one)):
        assert all(sorted(gone(made, name)) == far for name in side)
    assert all(made.broker(name).members[one[1]].address == "moved" for name in other)
    made.world.run_for(60.0)
    assert made.agree()


def test_a_member_that_was_alone_for_long_comes_back() -> None:
    made = brokers(5)
    made.world.partition(["b004"], made.living[:4])
    made.run_until(lambda: made.agree(["b004"]) and made.agree(made.living[:4]), LONG_SECONDS)
    made.world.run_for(3600.0)
    made.world.heal()
    made.run_until(made.agree, LONG_SECONDS)


def test_a_paused_member_returns_and_suspects_nobody() -> None:
    made = brokers(12)
    paused = made.hosts["b006"]
    naps = [60.0]
    paused.serve_in(lambda _: naps.pop() if naps else 0.0)  # one input takes a minute; the others wait
    made.run_until(lambda: made.agree([name for name in made.living if name != "b006"]), LONG_SECONDS)
    assert len(made.broker("b006").members) == 11
    made.run_until(made.agree, LONG_SECONDS)
    assert made.nodes["b006"].gossip.membership.suspicion_count == 0
    assert not gone(made, "b006")
    assert all(set(gone(made, name)) <= {"b006"} for name in made.living)


@pytest.mark.parametrize("seed", range(3))
def test_whoever_is_left_after_churn_agrees(seed: int) -> None:
    made = brokers(20, seed, LinkQuality(loss=0.02, duplication=0.02))
    rng = random.Random(seed)
    for turn in range(25):
        host = made.hosts[rng.choice(list(made.hosts)[1:])]
        if host.is_up:
            made.world.crash(host)
        else:
            made.world.restart(host)
        if turn % 5 == 0:
            made.add(f"c{turn:03}")
        made.world.run_for(rng.uniform(0.1, 5.0))
    made.run_until(made.agree, LONG_SECONDS)
    made.run_until(lambda: len({made.nodes[name].gossip.table.hash for name in made.living}) == 1, LONG_SECONDS)


def member(name: str, rng: random.Random | None = None) -> Gossip:
    """A member without a host."""
    gossip = Gossip(name, rng or random.Random(0), address=name)
    gossip.announce(Member(name, "edge"))
    gossip.start(NOW)
    return gossip


@pytest.mark.parametrize(("late_seconds", "suspicions"), [(0.0, 1), (60.0, 0)])
def test_after_a_pause_silence_means_nothing(late_seconds: float, suspicions: int) -> None:
    me = member("me")
    me.receive("other", Tell("other", news_of(member("other").myself.state, 0, 1)), NOW)
    me.timer_due(RoundDue(), NOW + 1.0)  # it is pinged, and never answers
    me.timer_due(RoundDue(), NOW + 2.0 + late_seconds)
    assert me.membership.suspicion_count == suspicions


def test_a_pause_gives_those_who_are_suspected_their_time_again() -> None:
    me, other = member("me"), member("other").myself.state
    me.receive("other", Tell("other", news_of(other, 0, 1)), NOW)
    suspected = Claim(other.claim.incarnation, Health.SUSPECTED, 0, other.claim.life)
    me.receive("other", Tell("other", [News("other", suspected)]), NOW)
    me.timer_due(RoundDue(), NOW + 1.0)
    me.timer_due(RoundDue(), NOW + 60.0)
    assert "other" in me.membership.view.seen
    for seconds in range(61, 70):
        me.timer_due(RoundDue(), NOW + seconds)
    assert "other" not in me.membership.view.seen


def test_what_is_missing_is_asked_for_at_once() -> None:
    me, other = member("me"), member("other").myself.state
    other.say(*(EndpointCount(("t", f"topic-{number}"), 1, 1) for number in range(100)))
    pieces = news_of(other, 0, 99)
    me.take_effects()
    me.receive("other", Tell("other", pieces[:1]), NOW)
    me.receive("other", Tell("other", pieces[2:3]), NOW)
    questions = [effect.message for effect in me.take_effects() if isinstance(effect, SendDatagram)]
    assert questions == [Digest("me", 0, [Known("other", other.claim, pieces[0].upto)])]


# Clocks and names


def test_a_member_that_joins_with_an_old_clock_counts_from_the_stamps_of_the_others() -> None:
    made = brokers(3)
    host = made.add("old")
    host.crash()
    made.world.run_for(30.0)
    host.clock_ahead_seconds = -700_000_000.0
    host._make_node = lambda: made.make_node("new", ("b000",), "old")
    host.start()
    made.run_until(lambda: "new" in made.broker("b000").members, LONG_SECONDS)
    made.world.run_for(10.0)
    assert claim_about(made, "new", "b000") > claim_about(made, "b002", "b000")


@pytest.mark.parametrize("back_seconds", [3600.0, 700_000_000.0])
def test_a_member_whose_clock_was_set_back_takes_an_incarnation_above_its_last(back_seconds: float) -> None:
    made = brokers(6)
    before = claim_about(made, "b003", "b000")
    made.world.crash(made.hosts["b003"])
    made.world.run_for(2.0)  # it is not even suspected by all yet
    made.hosts["b003"].clock_ahead_seconds = -back_seconds
    made.world.restart(made.hosts["b003"])
    made.run_until(everybody(made, lambda name: claim_about(made, "b003", name).life > before.incarnation), 60.0)
    made.run_until(made.agree, LONG_SECONDS)
    made.world.run_for(30.0)
    assert made.agree()


def test_two_lives_that_begin_at_the_same_reading_of_a_clock_are_told_apart() -> None:
    lives = set()
    for number in range(4):
        gossip = Gossip("x", random.Random(number))
        gossip.start(0.0)
        lives.add(gossip.table.members["x"].claim.life)
    assert len(lives) == 4


def test_another_broker_at_the_address_of_a_dead_one_does_not_keep_it_alive() -> None:
    made = brokers(6)
    made.world.crash(made.hosts["b005"])
    made.world.run_for(1.0)
    host = made.hosts["b005"]
    host._make_node = lambda: made.make_node("heir", ("b000",), "b005")
    host.start()
    others = made.living[:5]
    made.run_until(lambda: all("b005" not in made.broker(name).members for name in others), LONG_SECONDS)
    assert all("heir" in made.broker(name).members for name in others)


# Limits


def test_a_full_table_forgets_the_longest_gone_first_and_then_takes_nobody() -> None:
    made = GossipingBrokers(World(), GossipOptions(members_max=4))
    for name in ("a", "b", "c", "d"):
        made.add(name)
    made.run_until(made.agree, LONG_SECONDS)
    made.world.crash(made.hosts["d"])
    made.run_until(made.agree, LONG_SECONDS)
    made.add("e", seeds=["a"])
    made.run_until(made.agree, LONG_SECONDS)
    assert set(made.nodes["a"].gossip.table.members) == {"a", "b", "c", "e"}
    made.add("f", seeds=["a"])
    made.world.run_for(20.0)
    assert "f" not in made.nodes["a"].gossip.table.members
    assert made.nodes["a"].gossip.table.refused_count > 0


def test_the_long_gone_are_forgotten_for_good_but_not_those_that_are_owed() -> None:
    made = GossipingBrokers(World(), GossipOptions(forget_seconds=300.0))
    for name in ("a", "b", "c", "owed", "gone"):
        made.add(name)
    made.run_until(made.agree, LONG_SECONDS)
    made.do("owed", CountEndpoints(("t", "x"), 0, 0, is_owed=True))
    made.run_until(lambda: made.nodes["a"].gossip.table.members["owed"].is_owed, LONG_SECONDS)
    for name in ("owed", "gone"):
        made.world.crash(made.hosts[name])
    made.world.run_for(800.0)
    for name in made.living:
        assert set(made.nodes[name].gossip.table.members) == {"a", "b", "c", "owed"}
    made.add("late", seeds=["a"])
    made.run_until(lambda: made.agree() and "owed" in made.nodes["late"].gossip.table.members, LONG_SECONDS)
    made.world.crash(made.hosts["late"])
    made.hosts["b"].tell(RetireBroker("owed"))
    made.world.run_for(800.0)
    for name in made.living:
        assert set(made.nodes[name].gossip.table.members) == {"a", "b", "c"}
