"""Which routing broker gets which topic."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.coordination.assignment import (
    ByMeasuredLoad,
    Worth,
    advise,
    assignments,
    rebalancing,
)
from fieldfare.messages import AssignTopic, Member, TopicSeen

ALWAYS = Worth(0.0, 0.0)
NAMES = st.sampled_from([f"r{number}" for number in range(8)])


def member(name: str, load: float = 0.0) -> Member:
    return Member(name, "routing", address=name, load=load)


def topic(name: str, owner: str = "", epoch: int = -1) -> TopicSeen:
    return TopicSeen(("t", name), owner, epoch)


@dataclass(frozen=True)
class Scene:
    members: list[Member]
    topics: list[TopicSeen]

    @property
    def living(self) -> set[str]:
        return {member.name for member in self.members}

    def after(self, effects: list[AssignTopic]) -> dict[tuple[str, str], str]:
        """The owners of topics, when these assignments have taken place."""
        return {seen.topic: seen.owner for seen in self.topics} | {effect.topic: effect.owner for effect in effects}

    def counts(self, effects: list[AssignTopic]) -> Counter[str]:
        return Counter(dict.fromkeys(self.living, 0)) + Counter(self.after(effects).values())


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    living = draw(st.sets(NAMES, min_size=1))
    owners = draw(st.lists(st.one_of(st.just(""), NAMES), max_size=40))
    members = [member(name, draw(st.floats(0, 1))) for name in sorted(living)]
    topics = [topic(f"{n:02}", owner, n if owner else -1) for n, owner in enumerate(owners)]
    return Scene(draw(st.permutations(members)), draw(st.permutations(topics)))


def everything(scene: Scene, worth: Worth = ALWAYS) -> tuple[list[AssignTopic], list[AssignTopic]]:
    """What a leader does: owners first, then the balance."""
    given_out = assignments(scene.members, scene.topics)
    owners = scene.after(given_out)
    now = [TopicSeen(seen.topic, owners[seen.topic], seen.epoch) for seen in scene.topics]
    return given_out, rebalancing(scene.members, now, worth=worth)


@given(scenes())
def test_every_topic_gets_a_living_owner_and_keeps_the_one_it_has(scene: Scene) -> None:
    effects = assignments(scene.members, scene.topics)
    assert set(scene.after(effects).values()) <= scene.living
    epochs = {seen.topic: seen.epoch for seen in scene.topics}
    assert all(effect.since_epoch == epochs[effect.topic] for effect in effects)
    assert {effect.topic for effect in effects} == {
        seen.topic for seen in scene.topics if seen.owner not in scene.living
    }


@given(scenes())
def test_afterwards_no_broker_has_two_topics_more_than_another_and_as_few_as_possible_moved(scene: Scene) -> None:
    given_out, moves = everything(scene)
    owners = scene.after(given_out) | {move.topic: move.owner for move in moves}
    counts = Counter(owners.values())
    shares = [counts[name] for name in scene.living]
    assert max(shares) - min(shares) <= 1
    # The fewest moves: the brokers with most topics get the larger shares, and give away only what is above them.
    owned = sorted((sum(seen.owner == name for seen in scene.topics) for name in scene.living), reverse=True)
    targets = sorted(shares, reverse=True)
    assert len(moves) == sum(max(0, has - target) for has, target in zip(owned, targets, strict=True))
    assert len({move.topic for move in moves}) == len(moves)


@given(scenes(), st.randoms())
def test_the_answer_does_not_depend_on_the_order_of_the_question(scene: Scene, rng: object) -> None:
    shuffled = Scene(list(scene.members), list(scene.topics))
    rng.shuffle(shuffled.members)  # type: ignore[attr-defined]
    rng.shuffle(shuffled.topics)  # type: ignore[attr-defined]
    assert everything(scene) == everything(shuffled)


@given(scenes())
def test_nothing_moves_for_a_gap_that_is_not_worth_it(scene: Scene) -> None:
    assert everything(scene, Worth(topics_min=1000.0))[1] == []
    given_out, moves = everything(scene, Worth())
    if moves:
        counts = scene.counts(given_out)
        assert max(counts.values()) - min(counts[name] for name in scene.living) >= 2


def test_a_broker_that_comes_gets_its_share_and_what_others_got_last() -> None:
    topics = [topic(f"{n}", "r1", n) for n in range(10)]
    moves = rebalancing([member("r1"), member("r2")], topics)
    assert moves == [AssignTopic(("t", str(n)), "r2", n) for n in (9, 8, 7, 6, 5)]


def test_topics_of_a_broker_that_may_come_back_are_kept() -> None:
    topics = [topic("a", "r1", 3), topic("b", "r9", 4), topic("c")]
    assert assignments([member("r1")], topics, keeping={"r9"}) == [AssignTopic(("t", "c"), "r1", -1)]
    assert len(assignments([member("r1")], topics)) == 2


def test_without_routing_brokers_nothing_is_assigned() -> None:
    assert assignments([Member("e1", "edge")], [topic("a")]) == []
    assert rebalancing([], [topic("a")]) == []


def test_measured_load_decides_where_it_is_asked_for() -> None:
    members = [member("r1", 0.9), member("r2", 0.1)]
    topics = [topic(f"{n}", "r1", n) for n in range(5)] + [topic(f"{n}", "r2", n) for n in range(5, 10)]
    new = assignments(members, [*topics, topic("x")], ByMeasuredLoad())
    assert new == [AssignTopic(("t", "x"), "r2", -1)]
    moves = rebalancing(members, topics, ByMeasuredLoad())
    assert {move.owner for move in moves} == {"r2"}
    assert len(moves) == 4  # each stands for a tenth: 0.5 and 0.5
    assert rebalancing(members, topics) == []  # by their number there is nothing to do


@given(scenes())
def test_measured_load_never_makes_the_most_loaded_broker_more_loaded(scene: Scene) -> None:
    moves = rebalancing(scene.members, scene.topics, ByMeasuredLoad(), ALWAYS)
    most = max(scene.members, key=lambda each: each.load).load
    busiest = {each.name for each in scene.members if each.load == most}
    assert most == 0 or len(scene.living) == 1 or not any(move.owner in busiest for move in moves)


@pytest.mark.parametrize(
    ("loads", "verdict", "brokers"),
    [
        ([], "more", 1),
        ([0.9], "more", 2),
        ([0.9, 0.9], "more", 4),
        ([0.6, 0.6], "enough", 2),
        ([0.1], "enough", 1),
        ([0.1, 0.1, 0.1], "fewer", 1),
        ([0.45, 0.45], "enough", 2),
    ],
)
def test_advice_from_measured_load(loads: list[float], verdict: str, brokers: int) -> None:
    members = [Member("e", "edge", load=1.0), *(member(f"r{n}", load) for n, load in enumerate(loads))]
    advice = advise(members)
    assert (advice.verdict, advice.brokers) == (verdict, brokers)
    assert advice.reason


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_advice_that_is_followed_gives_no_other_advice(loads: list[float]) -> None:
    advice = advise([member(f"r{n}", load) for n, load in enumerate(loads)])
    total = sum(loads)
    after = advise([member(f"r{n}", total / advice.brokers) for n in range(advice.brokers)])
    assert after.verdict == "enough"
