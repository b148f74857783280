"""Whatever is lost and whoever restarts: a decision of GRAPE stands on the whole of its session, or is not made."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.placement.grape import Grape
from fieldfare.placement.options import DampingOptions, GrapeOptions
from fieldfare.placement.placement_frames import AnyPlacementFrame, BrokerDelays, SessionTag, TraceId
from fieldfare.simulation.placement_tree import PlacementPorts, PlacementTree, TreeShape

LINKS = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]
BROKERS = "abcde"


@dataclass(frozen=True)
class Publication:
    root: str
    deliveries: dict[str, int]


class NotingGrape(Grape):
    """Notes which publications each session has."""

    sessions: dict[TraceId, list[Publication]]
    published: Publication

    def tag(self, publisher: str, now: float) -> SessionTag | None:
        tag = super().tag(publisher, now)
        if tag is not None:
            self.sessions.setdefault(tag.session, []).append(self.published)
        return tag


class Faults:
    """A tree in which frames are lost and brokers restart."""

    def __init__(self, rng: random.Random, loss: float) -> None:
        self.sessions: dict[TraceId, list[Publication]] = {}
        numbers = itertools.count(0, 1000)  # a restarted broker goes on with other numbers
        options = GrapeOptions(session_publications=4, timeout_seconds=2.0, calm_factor_max=2)

        def machine(broker: str) -> Grape:
            grape = NotingGrape(broker, options, BrokerDelays, next(numbers))
            grape.sessions = self.sessions
            return grape

        def loses(_source: str, _target: str, _frame: AnyPlacementFrame) -> bool:
            return rng.random() < loss

        damping = DampingOptions(gain_share_min=0.0, errors_min=0.0, return_seconds=0.0)
        self.tree = PlacementTree(TreeShape(LINKS), {"p": "a"}, PlacementPorts(machine, loses=loses), damping)
        self.checked = 0

    def publish(self, deliveries: dict[str, int], now: float) -> None:
        root, decisions = self.tree.places["p"], self.tree.counts.decisions
        NotingGrape.published = Publication(root, deliveries)
        self.tree.publish("p", deliveries, now)
        if self.tree.counts.decisions > decisions:
            self._check(root)

    def _check(self, root: str) -> None:
        session = next(reversed(self.sessions))
        publications = self.sessions[session]
        assert {publication.root for publication in publications} == {root}
        passed = [len(self.tree.shape.ways(root, frozenset(each.deliveries))) for each in publications]
        assert self.tree.counts.own_costs["p"]["messages"] == pytest.approx(fmean(passed))
        self.checked += 1


DELIVERIES = st.dictionaries(st.sampled_from(BROKERS), st.integers(1, 3), max_size=3)
STEPS = st.one_of(DELIVERIES, DELIVERIES, DELIVERIES, st.sampled_from(BROKERS), st.just(None))


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=60), st.sampled_from((0.0, 0.02, 0.2)), st.randoms(use_true_random=False))
def test_a_decision_stands_on_all_publications_of_its_session(
    steps: list[dict[str, int] | str | None], loss: float, rng: random.Random
) -> None:
    faults = Faults(rng, loss)
    for now, step in enumerate(steps):
        if isinstance(step, dict):
            faults.publish(step, float(now))
        elif step is not None:
            faults.tree.restart(step)
        else:
            faults.tree.expire(float(now))


def test_decisions_are_made_in_spite_of_faults() -> None:
    rng = random.Random(5)
    faults = Faults(rng, 0.02)
    for second in range(3000):
        faults.publish({rng.choice(BROKERS): 1 for _ in range(rng.randrange(3))}, float(second))
        if second % 97 == 0:
            faults.tree.restart(rng.choice(BROKERS))
        faults.tree.expire(float(second))
    assert faults.checked > 100
