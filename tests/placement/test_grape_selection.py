from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.placement.oracles import SlowTree, reports_of, sessions

from fieldfare.placement.grape_selection import rank, relocations, scaled
from fieldfare.placement.options import GrapeOptions, Priority
from fieldfare.placement.placement_frames import BrokerDelays, BrokerReport
from fieldfare.placement.trace_tree import TraceTree, trace_tree

PRIORITIES = st.sampled_from(("load", "delay"))


def tree_of(reports: list[BrokerReport], published: int) -> TraceTree:
    tree = trace_tree("0", reports, published)
    assert tree is not None
    return tree


def best_by_the_paper(
    reports: list[BrokerReport], published: int, options: GrapeOptions, ways: dict[str, float]
) -> set[str]:
    """Section IV-B, literally: scale, drop, and take the lowest of the other metric; all that are alike."""
    slow = SlowTree(reports, published)
    deliveries = sum(report.deliveries for report in reports)
    load = {name: float(slow.total_messages(name)) for name in ways}
    delay = {name: slow.total_delay(name) + deliveries * way for name, way in ways.items()}
    first, second = (load, delay) if options.priority == "load" else (delay, load)
    low, high = min(first.values()), max(first.values())
    width = (high - low) or 1.0
    kept = {name for name, value in first.items() if (value - low) / width * 100 <= 100 - options.weight_percent + 1e-7}
    lowest = min(second[name] for name in kept)
    return {name for name in kept if second[name] <= lowest * (1 + 1e-7) + 1e-7}


@given(sessions(), PRIORITIES, st.sampled_from((0, 1, 25, 50, 75, 100)), st.data())
def test_the_best_broker_is_that_of_the_papers_selection(
    session: tuple[list[BrokerReport], int], priority: Priority, weight: int, data: st.DataObject
) -> None:
    reports, published = session
    options = GrapeOptions(priority=priority, weight_percent=weight)
    ways = {report.broker: data.draw(st.integers(0, 9)) / 10 for report in reports}
    for name in data.draw(st.sets(st.sampled_from(sorted(ways)), max_size=len(ways) - 1)):
        del ways[name]  # unreachable
    ranked = rank(tree_of(reports, published), options, ways)
    assert {each.broker for each in ranked} == ways.keys()
    assert ranked[0].broker in best_by_the_paper(reports, published, options, ways)


@given(sessions())
def test_load_alone_and_delay_alone_reach_the_best_placement_there_is(session: tuple[list[BrokerReport], int]) -> None:
    reports, published = session
    tree, slow = tree_of(reports, published), SlowTree(reports, published)
    by_load = rank(tree, GrapeOptions(priority="load"))[0]
    assert by_load.messages * published == pytest.approx(min(slow.total_messages(name) for name in tree.brokers))
    by_delay = rank(tree, GrapeOptions(priority="delay"))[0]
    best = min(slow.total_delay(name) for name in tree.brokers)
    assert by_delay.delay_seconds * published == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_metrics_are_scaled_from_0_to_100() -> None:
    assert scaled([30.0, 10.0, 20.0]) == [100.0, 0.0, 50.0]
    assert scaled([7.0, 7.0]) == [0.0, 0.0]


ENTERPRISE = [  # 0 - 1 - 2 - 3 - 4: one subscriber at 4 wants all, four at 1 want one of ten
    *reports_of(
        [0, 1, 2, 3],
        [0, 0b1, 0, 0, 2**10 - 1],
        [0, 14, 0, 0, 10],
        {number: BrokerDelays(matching_seconds=1.0) for number in range(5)},
    )
]


@pytest.mark.parametrize(
    ("priority", "weight", "best"), [("load", 100, "4"), ("delay", 100, "1"), ("load", 0, "1"), ("delay", 0, "4")]
)
def test_load_goes_to_who_wants_all_and_delay_to_most_deliveries(priority: Priority, weight: int, best: str) -> None:
    options = GrapeOptions(priority=priority, weight_percent=weight)
    assert rank(tree_of(ENTERPRISE, 10), options)[0].broker == best


def test_a_relocation_says_what_it_saves_in_the_metric_that_decides() -> None:
    tree = tree_of(ENTERPRISE, 10)
    load, delay = GrapeOptions(priority="load"), GrapeOptions(priority="delay")
    best = relocations("p", tree, rank(tree, load), load, 2.0)[0]
    assert (best.target, best.hops, best.measure) == ("4", 4, "messages")
    assert (best.cost_now, best.cost_then) == (5.0, 1.0 + 3 * 0.1)  # messages of an event, at all brokers
    assert (best.deliveries, best.publications_per_second) == (2.4, 2.0)
    best = relocations("p", tree, rank(tree, delay), delay, 2.0)[0]
    assert (best.target, best.measure) == ("1", "seconds")
    assert best.cost_now - best.cost_then == pytest.approx(2.4)  # a second less for each delivery


def test_a_publisher_at_the_best_broker_stays_and_the_nearest_of_equals_is_taken() -> None:
    options = GrapeOptions()
    tree = tree_of(reports_of([0], [0b1, 0b1], [1, 1], {}), 1)
    ranked = rank(tree, options)
    assert ranked[0].hops == 0
    assert relocations("p", tree, ranked, options, 1.0) == []


def test_without_a_measured_way_to_its_own_broker_nothing_is_promised() -> None:
    options = GrapeOptions(priority="delay")
    tree = tree_of(ENTERPRISE, 10)
    assert relocations("p", tree, rank(tree, options, {"1": 0.1}), options, 1.0) == []
    assert rank(tree, options, {}) == []


def test_only_load_at_100_percent_needs_no_measured_delays() -> None:
    assert not GrapeOptions(priority="load", weight_percent=100).needs_delays
    assert GrapeOptions(priority="load", weight_percent=99).needs_delays
    assert GrapeOptions(priority="delay", weight_percent=100).needs_delays
