"""Forwarding policies against a slow dispatcher that follows the paper's formulas event by event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.partitioning.laws import DENSE, by_hand, visited

from fieldfare.forwarding import Dispatcher, Load, Policy, Visits, busiest, forward, idlest, service_seconds
from fieldfare.model import Section
from fieldfare.partitioning.dimension import Dimension
from fieldfare.partitioning.layout import Candidates, Layout
from fieldfare.partitioning.layouts import replicated

Visit = tuple[int, int, int]


def pairs(visits: Visits) -> list[Visit]:
    columns = visits.events.tolist(), visits.parts.tolist(), visits.matchers.tolist()
    return list(zip(*columns, strict=True))


def mixed(seed: int, number: int) -> int:
    """SplitMix64, in plain integers."""
    value = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


class SlowDispatcher:
    """Everything in dictionaries and lists; it keeps for each matcher the time when it will be free."""

    def __init__(self, layout: Layout, load: Load, dispatcher: Dispatcher) -> None:
        self.layout, self.load, self.dispatcher = layout, load, dispatcher
        self.service = service_seconds(layout, load).tolist()
        speeds = np.ones(len(layout.matchers)) if load.speeds is None else load.speeds
        self.speed = dict(zip(layout.matchers, speeds.tolist(), strict=True))
        self.sent = 0

    def work(self, matcher: int, seconds: float) -> float:
        """Seconds of work in a matcher's queues after so long without news, if it did nothing meanwhile."""
        total = 0.0
        for part in range(self.layout.starts[-1]):
            if matcher in self.layout.matchers_of(part):
                waiting = self.load.queue[part] + self.load.arrival_rate[part] * seconds
                total += waiting * self.service[part] / sum(self.speed[one] for one in self.layout.matchers_of(part))
        return total

    def random_matcher(self, part: int) -> int:
        group = self.layout.matchers_of(part)
        self.sent += 1
        drawn = mixed(2**64 - 1 - self.dispatcher.seed % 2**64, self.sent - 1)
        if self.load.speeds is None:
            return group[drawn % len(group)]
        sums = list(accumulate(self.speed[matcher] for matcher in group))
        return next(one for one, upto in zip(group, sums, strict=True) if (drawn >> 11) / 2**53 < upto / sums[-1])

    def adaptive(self, choices: Sequence[Sequence[Sequence[int]]], clock: Sequence[float]) -> list[Visit]:
        start = clock[0] if clock else 0.0
        free_at = {matcher: max(start, self.work(matcher, start)) for matcher in self.layout.matchers}
        visits = []
        for event, (candidates, now) in enumerate(zip(choices, clock, strict=True)):

            def end(part: int, one: int, free_at: dict[int, float] = free_at, now: float = now) -> float:
                return float(max(free_at[one], now) + self.service[part] / self.speed[one])

            costs = [
                sum(min(end(part, one) for one in self.layout.matchers_of(part)) - now for part in parts)
                for parts in candidates
            ]
            for part in candidates[costs.index(min(costs))]:
                matcher = min(self.layout.matchers_of(part), key=lambda one: (end(part, one), free_at[one]))
                added = self.service[part] * self.dispatcher.count / self.speed[matcher]
                free_at[matcher] = max(free_at[matcher], now) + added
                visits.append((event, part, matcher))
        return visits

    def searched(self, part: int) -> int:
        shared = self.layout.shared_part_of(part)
        return int(self.load.subscriptions[part]) + (0 if shared is None else int(self.load.subscriptions[shared]))

    def answered_after(self, part: int) -> float:
        waits = [self.work(matcher, 0.0) for matcher in self.layout.matchers_of(part)]
        return float(sum(waits) / len(waits) + self.service[part])

    def fixed(self, choices: Sequence[Sequence[Sequence[int]]], policy: Policy) -> list[Visit]:
        visits = []
        cost = self.searched if policy is Policy.SUBSCRIPTIONS else self.answered_after
        for event, candidates in enumerate(choices):
            costs = [sum(cost(part) for part in parts) for parts in candidates]
            chosen = costs.index(min(costs))
            if policy is Policy.RANDOM:
                chosen = mixed(self.dispatcher.seed % 2**64, event) % len(candidates)
            visits += [(event, part, self.random_matcher(part)) for part in candidates[chosen]]
        return visits


@st.composite
def situations(draw: st.DrawFn) -> tuple[Layout, Candidates, Load, list[float]]:
    """Whole numbers and powers of two, so that both dispatchers compute the same and ties are ties."""
    layout = draw(by_hand(DENSE))
    events = draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts, sizes = layout.part_count, [dimension.size for dimension in layout.dimensions]
    first = np.stack([rng.integers(start, start + size, events)
                      for start, size in zip(layout.starts, sizes, strict=False)], axis=1)  # fmt: skip
    count = np.stack([rng.integers(1, size + 1, events) for size in sizes], axis=1)
    load = Load(
        rng.integers(0, 9, parts).astype(np.float64),
        rng.integers(0, 3, parts).astype(np.float64),
        rng.choice([0.25, 0.5, 1.0, 2.0] + [0.0] * draw(st.integers(0, 1)), parts),
        rng.integers(0, 4, parts) * 1000,
        draw(st.sampled_from([None, rng.choice([0.5, 1.0, 2.0], len(layout.matchers))])),
    )
    needed = rng.random((events, layout.starts[-1])) < draw(st.sampled_from([0.3, 0.8]))
    clock = np.cumsum(rng.choice([0.0, 0.25, 1.0], events)).tolist()
    is_narrowed = draw(st.booleans())
    candidates = Candidates(first.astype(np.int32), count.astype(np.int32), needed if is_narrowed else None)
    return layout, candidates, load, clock


@given(situations(), st.sampled_from(Policy), st.builds(Dispatcher, st.sampled_from([1, 2, 4]), st.integers()))
@settings(max_examples=150, deadline=None)
def test_every_policy_does_what_the_slow_dispatcher_does(
    situation: tuple[Layout, Candidates, Load, list[float]], policy: Policy, dispatcher: Dispatcher
) -> None:
    layout, candidates, load, clock = situation
    choices = [
        [visited(layout, first, count, dimension) for dimension, (first, count) in enumerate(zip(*row, strict=True))]
        for row in zip(candidates.first.tolist(), candidates.count.tolist(), strict=True)
    ]
    if (needed := candidates.needed) is not None:
        choices = [
            [[part for part in parts if needed[event, part]] for parts in one] for event, one in enumerate(choices)
        ]
    visits = forward(layout, candidates, load, policy, seconds_since_report=np.array(clock), dispatcher=dispatcher)
    slow = SlowDispatcher(layout, load, dispatcher)
    assert pairs(visits) == (
        slow.adaptive(choices, clock) if policy is Policy.ADAPTIVE else slow.fixed(choices, policy)
    )
    again = forward(layout, candidates, load, policy, seconds_since_report=np.array(clock), dispatcher=dispatcher)
    assert pairs(again) == pairs(visits)


def two_dimensions(matchers: int = 2) -> Layout:
    cuts = tuple((Section.NUMBER, float(number)) for number in range(1, matchers))
    groups = tuple((matcher,) for matcher in range(matchers))
    return Layout("multi", tuple(Dimension(name, cuts, groups) for name in ("x", "y")))


def points(*firsts: Sequence[int]) -> Candidates:
    first = np.array(firsts, np.int32)
    return Candidates(first, np.ones_like(first))


def loaded(queue: Sequence[float], rate: Sequence[float], subscriptions: Sequence[int] = (1, 1, 1, 1)) -> Load:
    return Load(
        np.array([*queue, 0.0, 0.0]),
        np.zeros(6),
        np.array([*rate, 0.0, 0.0]),
        np.array([*subscriptions, 0, 0], np.int64),
    )


def test_the_shortest_queue_wins_until_it_is_no_longer_the_shortest() -> None:
    layout, crossing = two_dimensions(), points(*([[0, 3]] * 6))  # matcher 0 along x, or matcher 1 along y
    load = loaded([4, 0, 0, 0], [1.0, 1.0, 1.0, 1.0])
    assert forward(layout, crossing, load).matchers.tolist() == [1, 1, 1, 1, 0, 1]
    assert forward(layout, crossing, load, Policy.RESPONSE_TIME).matchers.tolist() == [1] * 6


def test_a_matcher_waits_for_its_other_queue_too() -> None:
    load = loaded([0, 0, 9, 0], [1.0, 1.0, 1.0, 1.0])  # matcher 0 has events waiting along y
    visits = forward(two_dimensions(), points([0, 3]), load)
    assert (visits.parts.tolist(), visits.matchers.tolist()) == ([3], [1])


def test_queues_are_worked_off_while_no_report_comes() -> None:
    layout, load = two_dimensions(), loaded([4, 0, 0, 2], [2.0, 1.0, 1.0, 0.5])  # 2 and 4 seconds of work
    assert forward(layout, points([0, 3]), load).matchers.tolist() == [0]
    busy = replace(load, arrival_rate=np.array([4.0, 0, 0, 0, 0, 0]))  # twice what matcher 0 can do
    assert forward(layout, points([0, 3]), busy, seconds_since_report=10.0).matchers.tolist() == [1]


def test_what_other_dispatchers_send_counts() -> None:
    layout, crossing = two_dimensions(), points(*([[0, 3]] * 4))
    load = loaded([0, 0, 0, 3], [1.0, 1.0, 1.0, 1.0])
    assert forward(layout, crossing, load).matchers.tolist() == [0, 0, 0, 0]
    several = forward(layout, crossing, load, dispatcher=Dispatcher(count=4))
    assert several.matchers.tolist() == [0, 1, 0, 1]


def test_the_fewest_subscriptions_include_the_shared_ones() -> None:
    layout = two_dimensions()
    load = loaded([0] * 4, [0] * 4, [5, 9, 9, 6])
    assert forward(layout, points([0, 3]), load, Policy.SUBSCRIPTIONS).parts.tolist() == [0]
    shared = replace(load, subscriptions=np.array([5, 9, 9, 6, 4, 2]))
    assert forward(layout, points([0, 3]), shared, Policy.SUBSCRIPTIONS).parts.tolist() == [3]


def test_a_part_that_was_never_measured_is_tried() -> None:
    layout = two_dimensions()
    load = loaded([0] * 4, [1000.0, 0.0, 0.0, 0.0], [50_000, 1, 1, 100])
    seconds = service_seconds(layout, load)
    assert seconds[0] == 0.001
    assert 0 < seconds[3] < seconds[0]
    assert forward(layout, points([0, 3]), load).parts.tolist() == [3]


def test_replicas_share_the_events() -> None:
    layout = replicated(4)
    everything = Candidates(np.zeros((1000, 1), np.int32), np.ones((1000, 1), np.int32))
    load = Load.unmeasured(np.array([1000]))
    assert np.bincount(forward(layout, everything, load).matchers).tolist() == [250] * 4
    drawn = np.bincount(forward(layout, everything, load, Policy.RANDOM).matchers)
    assert drawn.min() > 200
    others = forward(layout, everything, load, Policy.RANDOM, dispatcher=Dispatcher(seed=1))
    assert np.bincount(others.matchers).tolist() != drawn.tolist()


def test_random_uses_every_candidate() -> None:
    visits = forward(two_dimensions(), points(*([[0, 3]] * 1000)), loaded([0] * 4, [0] * 4), Policy.RANDOM)
    assert np.bincount(visits.matchers).tolist() == pytest.approx([500, 500], abs=60)


def test_matchers_keep_their_numbers() -> None:
    layout = Layout("single", (Dimension("x", ((Section.NUMBER, 1.0),), ((7,), (3,))),))
    visits = forward(layout, points([0], [1]), Load.unmeasured(np.array([1, 1, 0])))
    assert visits.matchers.tolist() == [7, 3]


def test_the_busiest_and_the_idlest() -> None:
    layout = two_dimensions(3)
    load = Load(
        np.array([0, 0, 0, 2.0, 0, 0, 0, 0]),
        np.array([1.0, 4, 2, 1, 0, 2, 0, 0]),
        np.array([1.0, 2, 4, 1, 1, 1, 0, 0]),
        np.array([1, 1, 1, 1, 1, 1, 0, 0]),
    )  # seconds of work: 1 + 3, 2, 0.5 + 2
    assert (busiest(layout, load), idlest(layout, load)) == (0, 1)
    unmeasured = Load.unmeasured(np.array([5, 1, 9, 1, 2, 1, 0, 0]))
    assert (busiest(layout, unmeasured), idlest(layout, unmeasured)) == (2, 1)
