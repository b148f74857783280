from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.placement.options import UNDAMPED, DampingOptions, PopOptions
from fieldfare.placement.passages import Passage, Relocations, ToNeighbour
from fieldfare.placement.placement_frames import (
    AnyPlacementFrame,
    RelocationAnswer,
    RelocationRequest,
    TraceId,
    TraceResult,
    TraceResults,
)
from fieldfare.placement.pop import Pop
from fieldfare.placement.pop_averages import DeliveryAverages
from fieldfare.placement.pop_selection import proceed
from fieldfare.placement.pop_tracing import TraceSampler
from fieldfare.simulation.placement_tree import PlacementPorts, PlacementTree, TreeShape

# Figure 1 of the paper: subscribers at brokers, with the publisher at B1. What lies between B2 and B3 we made up.
FIGURE_1_LINKS = [("B1", "B2"), ("B2", "B3"), ("B1", "B4"), ("B1", "B5"), ("B5", "B6"), ("B6", "B7"), ("B6", "B8")]
FIGURE_1_SUBSCRIBERS = {"B1": 1, "B2": 2, "B3": 4, "B4": 3, "B6": 5, "B7": 6, "B8": 4}


def pop_tree(
    links: list[tuple[str, str]],
    place: str,
    options: PopOptions,
    loses: Callable[[str, str, AnyPlacementFrame], bool] = lambda _source, _target, _frame: False,
) -> PlacementTree:
    ports = PlacementPorts(lambda broker: Pop(broker, options, random.Random(7)), loses=loses)
    return PlacementTree(TreeShape(links), {"p": place}, ports, UNDAMPED)


def told(trace: TraceId) -> TraceResults:
    return TraceResults((TraceResult(trace, 3),))


def test_figure_1_the_publisher_goes_to_b6() -> None:
    tree = pop_tree(FIGURE_1_LINKS, "B1", PopOptions(traces_min=1, gather_seconds=0.0))
    tree.publish("p", FIGURE_1_SUBSCRIBERS, 1.0)
    assert tree.places["p"] == "B6"
    # A result over each link; a search over two and an answer back over two.
    assert tree.counts.frames == {"TraceResults": 7, "RelocationRequest": 2, "RelocationAnswer": 2}
    relocation = tree.counts.relocated[0].relocation
    assert (relocation.hops, relocation.deliveries) == (2, 25.0)
    assert relocation.cost_now - relocation.cost_then == 2 * (15 - 10)  # over both links: 15 nearer, 10 farther


def test_figure_1_tables() -> None:
    machines: dict[str, Pop] = {}

    def machine(broker: str) -> Pop:
        return machines.setdefault(broker, Pop(broker, PopOptions(gather_seconds=0.0), random.Random(7)))

    tree = PlacementTree(TreeShape(FIGURE_1_LINKS), {"p": "B1"}, PlacementPorts(machine), UNDAMPED)
    tree.publish("p", FIGURE_1_SUBSCRIBERS, 0.0)
    tables = {name: pop._tracer.averages["p"] for name, pop in machines.items()}
    assert (tables["B1"].local, tables["B1"].beyond) == (1, {"B2": 6, "B4": 3, "B5": 15})
    assert (tables["B5"].local, tables["B5"].beyond) == (0, {"B6": 15})
    assert (tables["B6"].local, tables["B6"].beyond) == (5, {"B7": 6, "B8": 4})


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[tuple[str, str]], dict[str, int], str]:
    count = draw(st.integers(2, 10))
    links = [(str(draw(st.integers(0, number - 1))), str(number)) for number in range(1, count)]
    subscribers = {str(number): draw(st.integers(0, 6)) for number in range(count)}
    return links, {name: many for name, many in subscribers.items() if many}, str(draw(st.integers(0, count - 1)))


@given(trees())
def test_pop_ends_where_deliveries_take_the_fewest_hops(
    drawn: tuple[list[tuple[str, str]], dict[str, int], str],
) -> None:
    links, subscribers, place = drawn
    tree = pop_tree(links, place, PopOptions(traces_min=1, gather_seconds=0.0))

    def hops(root: str) -> int:
        return sum(many * (len(tree.shape.path(root, name)) - 1) for name, many in subscribers.items())

    before = hops(place)
    tree.publish("p", subscribers, 1.0)
    assert hops(tree.places["p"]) == min(map(hops, tree.shape.neighbours))
    if tree.counts.relocated:
        relocation = tree.counts.relocated[0].relocation
        assert relocation.cost_now - relocation.cost_then == pytest.approx(before - hops(tree.places["p"]))


def test_averages_of_brokers_that_few_publications_reach_are_brought_to_one_measure() -> None:
    # 9 of 10 publications go to two subscribers at a; one of 10 goes to six at c, beyond b.
    links = [("a", "b"), ("b", "c")]
    tree = pop_tree(links, "a", PopOptions(traces_min=200, traces_max=1000, gather_seconds=0.0))
    for number in range(2000):
        tree.publish("p", {"c": 6} if number % 10 == 0 else {"a": 2}, number * 0.01)
    assert tree.counts.decisions
    assert not tree.counts.relocated  # 1.8 deliveries of a publication are at a, 0.6 at c


def test_a_broker_scales_its_averages_to_those_of_the_broker_before() -> None:
    averages = DeliveryAverages(0.25)
    averages.add(2, {"c": 4})  # of the traces that reached b, which are half of those that a saw
    request = RelocationRequest("p", ahead=3.0, behind=2.0, saved=1.0, path=("a",))
    assert proceed(request, "b", averages) == ("a", RelocationAnswer("p", ("b", "a"), 1.0, 5.0))
    request = RelocationRequest("p", ahead=3.0, behind=0.5, saved=1.0, path=("a",))
    assert proceed(request, "b", averages) == ("c", RelocationRequest("p", 2.0, 1.5, 1.5, ("b", "a"), (1.0,)))


def test_the_decision_waits_for_enough_traces_and_for_outstanding_ones() -> None:
    pop = Pop("a", PopOptions(traces_min=2), random.Random(7))
    traces: list[TraceId] = []
    while len(traces) < 2:
        trace = pop.tag("p", 0.0)
        if trace is not None:
            traces.append(trace)
            assert not pop.handled(trace, Passage(None, ("b",), 0), 0.0)
    assert [pop.tag("p", 0.0) for _ in range(100)] == [None] * 100
    assert not pop.received("b", told(traces[0]), 1.0)
    assert not pop.received("c", told(traces[1]), 1.0)  # it was not sent to c
    (request,) = pop.received("b", told(traces[1]), 1.0)
    assert isinstance(request, ToNeighbour)
    assert request.neighbour == "b"
    (decided,) = pop.received("b", RelocationAnswer("p", ("b", "a"), 3.0, 3.0), 2.0)
    assert isinstance(decided, Relocations)
    assert not pop.received("b", RelocationAnswer("p", ("b", "a"), 3.0, 3.0), 2.0)  # once only


def test_traces_whose_results_are_lost_time_out_and_count_for_nothing() -> None:
    lost = True
    options = PopOptions(traces_min=3, timeout_seconds=5.0, gather_seconds=0.0)
    tree = pop_tree(FIGURE_1_LINKS, "B1", options, lambda _source, target, _frame: lost and target == "B6")
    for number in range(100):
        tree.publish("p", FIGURE_1_SUBSCRIBERS, number * 0.01)
    assert not tree.counts.decisions
    lost = False
    tree.expire(10.0)
    for number in range(300):
        tree.publish("p", FIGURE_1_SUBSCRIBERS, 61.0 + number * 0.01)
    assert tree.places["p"] == "B6"


def test_a_traced_publication_that_never_passes_does_not_hold_up_the_decision_for_good() -> None:
    pop = Pop("a", PopOptions(traces_min=1, timeout_seconds=5.0), random.Random(7))
    assert pop.tag("p", 0.0) is not None
    assert pop.tag("p", 1.0) is None  # enough are outstanding
    assert not pop.expire(10.0)
    trace = next(filter(None, (pop.tag("p", 60.0 + number) for number in range(100))))
    assert pop.handled(trace, Passage(None, (), 1), 70.0) == [Relocations("p", ())]


def test_a_search_that_is_not_answered_is_given_up_and_begun_again() -> None:
    lost = True
    options = PopOptions(traces_min=3, timeout_seconds=5.0, gather_seconds=0.0)
    tree = pop_tree(FIGURE_1_LINKS, "B1", options, lambda *passed: lost and isinstance(passed[2], RelocationAnswer))
    for number in range(300):
        tree.publish("p", FIGURE_1_SUBSCRIBERS, number * 0.01)
    assert tree.counts.frames["RelocationRequest"] == 2
    lost = False
    tree.expire(60.0)
    for number in range(300):
        tree.publish("p", FIGURE_1_SUBSCRIBERS, 61.0 + number * 0.01)
    assert tree.places["p"] == "B6"


def test_the_search_ends_at_a_broker_that_has_restarted() -> None:
    restarted = Pop("b", PopOptions(), random.Random(7))
    outcomes = restarted.received("a", RelocationRequest("p", 5.0, 1.0, 4.0, ("a",)), 0.0)
    assert outcomes == [ToNeighbour("a", RelocationAnswer("p", ("b", "a"), 4.0, 6.0))]


@given(st.integers(1, 60), st.integers(1, 120), st.randoms(use_true_random=False))
def test_no_more_are_traced_in_a_window_than_may_be_and_the_first_always(
    traces_max: int, published: int, rng: random.Random
) -> None:
    sampler = TraceSampler(PopOptions(traces_max=traces_max, window_seconds=10.0), 0.0)
    for window in range(3):
        drawn = [sampler.draws(rng, window * 10.0 + number * 9.0 / published) for number in range(published)]
        assert drawn[0]
        assert sum(drawn) <= traces_max


def test_the_chance_falls_with_what_is_traced() -> None:
    sampler, rng = TraceSampler(PopOptions(), 0.0), random.Random(7)
    drawn = [sampler.draws(rng, 0.0) for _ in range(100)]
    assert sum(drawn[:50]) > sum(drawn[50:]) > 0


def test_half_as_many_are_traced_each_time_that_a_publisher_stays() -> None:
    sampler, rng = TraceSampler(PopOptions(traces_max=40, calm_factor_max=4), 0.0), random.Random(7)
    traced = []
    for window in range(4):
        traced.append(sum(sampler.draws(rng, window * 60.0) for _ in range(10_000)))
        sampler.calm()
    assert traced == [40, 20, 10, 10]


def test_the_newest_trace_has_its_weight_and_an_untaken_link_counts_as_none() -> None:
    averages = DeliveryAverages(0.25)
    for _ in range(10):
        averages.add(4, {"b": 8})
    assert (averages.local, averages.beyond) == (4.0, {"b": 8.0})
    averages.add(0, {"c": 4})
    assert (averages.local, averages.beyond) == (3.0, {"b": 6.0, "c": 1.0})
    assert averages.total == 10.0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_the_first_traces_count_alike_and_their_spread_is_known(traces: list[tuple[int, int, int]]) -> None:
    averages = DeliveryAverages(0.0)
    for local, b, c in traces:
        averages.add(local, {"b": b, "c": c})
    assert averages.local == pytest.approx(statistics.fmean(local for local, _, _ in traces))
    assert averages.beyond["b"] == pytest.approx(statistics.fmean(b for _, b, _ in traces))
    saved = [b - local - c for local, b, c in traces]  # b's come one hop nearer, the others go one farther
    error = statistics.stdev(saved) / math.sqrt(len(saved)) if len(saved) > 1 else 0.0
    assert averages.saving_error("b") == pytest.approx(error, abs=1e-9)


def test_old_traces_fade_and_so_does_their_part_in_the_error() -> None:
    averages, rng = DeliveryAverages(0.1), random.Random(7)
    for _ in range(1000):
        averages.add(rng.choice((0, 2)), {"b": 0})
    assert averages.saving_error("b") == pytest.approx(math.sqrt(0.1 / 1.9), rel=0.25)  # not sqrt(1 / 1000)


def test_a_broker_that_a_publisher_has_moved_past_begins_its_averages_anew() -> None:
    broker = Pop("b", PopOptions(gather_seconds=0.0), random.Random(7))
    before, after = TraceId("p", "a", 1), TraceId("p", "c", 1)
    broker.handled(before, Passage("a", ("c",), 0), 0.0)
    broker.received("c", told(before), 0.0)
    assert broker._tracer.averages["p"].beyond == {"c": 3.0}
    broker.handled(after, Passage("c", ("a",), 0), 1.0)
    broker.received("a", told(after), 1.0)
    assert broker._tracer.averages["p"].beyond == {"a": 3.0}


GATHERING = PopOptions(traces_min=1000, traces_max=1000, gather_seconds=10.0)


def test_a_broker_where_publications_end_gathers_its_counts() -> None:
    leaf = Pop("c", GATHERING, random.Random(7))
    traces = [TraceId("p", "a", number) for number in range(3)]
    for number, trace in enumerate(traces):
        assert not leaf.handled(trace, Passage("b", (), number), float(number))
    assert not leaf.expire(9.0)
    counted = TraceResults(tuple(TraceResult(trace, number) for number, trace in enumerate(traces)))
    assert leaf.expire(10.0) == [ToNeighbour("b", counted)]
    assert not leaf.expire(30.0)


def test_a_broker_on_the_way_sends_on_at_once_what_is_complete_with_what_it_has_gathered() -> None:
    inner = Pop("b", GATHERING, random.Random(7))
    ends_here, goes_on, waits = (TraceId("p", "a", number) for number in range(3))
    assert not inner.handled(ends_here, Passage("a", (), 1), 0.0)
    assert not inner.handled(goes_on, Passage("a", ("c",), 2), 0.0)
    assert not inner.handled(waits, Passage("a", ("c", "d"), 0), 0.0)
    outcomes = inner.received("c", TraceResults((TraceResult(goes_on, 3), TraceResult(waits, 3))), 1.0)
    assert outcomes == [ToNeighbour("a", TraceResults((TraceResult(ends_here, 1), TraceResult(goes_on, 5))))]
    assert not inner.expire(11.0)


def test_not_too_many_counts_are_gathered() -> None:
    leaf = Pop("c", GATHERING, random.Random(7))
    sent = [leaf.handled(TraceId("p", "a", number), Passage("b", (), 1), 0.0) for number in range(250)]
    assert [number for number, outcomes in enumerate(sent) if outcomes] == [99, 199]


@given(st.lists(st.dictionaries(st.sampled_from(["B1", "B3", "B6", "B7"]), st.integers(1, 5)), max_size=30))
def test_gathered_counts_say_the_same_as_those_that_were_sent_one_by_one(published: list[dict[str, int]]) -> None:
    averages = []
    for gather_seconds in (0.0, 10.0):
        machines: dict[str, Pop] = {}
        options = PopOptions(traces_min=1000, traces_max=1000, gather_seconds=gather_seconds, timeout_seconds=1000.0)

        def machine(broker: str) -> Pop:
            return machines.setdefault(broker, Pop(broker, options, random.Random(7)))  # noqa: B023

        tree = PlacementTree(TreeShape(FIGURE_1_LINKS), {"p": "B1"}, PlacementPorts(machine), UNDAMPED)
        for number, deliveries in enumerate(published):
            tree.publish("p", deliveries, float(number))
            tree.expire(float(number))
        tree.expire(100.0)
        averages.append({name: pop._tracer.averages.get("p") for name, pop in machines.items()})
    one_by_one, gathered = averages
    for name, expected in one_by_one.items():
        found = gathered[name]
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found.local == pytest.approx(expected.local)
            assert found.beyond == pytest.approx(expected.beyond)


def test_where_the_target_is_too_busy_the_publisher_goes_to_a_broker_before_it() -> None:
    options = PopOptions(traces_min=1, gather_seconds=0.0)
    busy = {"B6"}
    ports = PlacementPorts(
        lambda broker: Pop(broker, options, random.Random(7)), busy_share=lambda broker: 0.95 if broker in busy else 0.5
    )
    damping = DampingOptions(return_seconds=0.0, payback_seconds=1e6)
    tree = PlacementTree(TreeShape(FIGURE_1_LINKS), {"p": "B1"}, ports, damping)
    tree.publish("p", FIGURE_1_SUBSCRIBERS, 1.0)
    tree.publish("p", FIGURE_1_SUBSCRIBERS, 2.0)
    assert tree.places["p"] == "B5"
    relocation = tree.counts.relocated[0].relocation
    assert (relocation.target, relocation.hops, relocation.cost_now - relocation.cost_then) == ("B5", 1, 15 - 10)


def test_frames_of_strangers_do_no_harm() -> None:
    pop = Pop("a", PopOptions(), random.Random(7))
    assert not pop.received("b", told(TraceId("p", "a", 5)), 0.0)
    assert not pop.received("b", RelocationAnswer("p", ("c", "b"), 3.0, 3.0), 0.0)
    assert not pop.received("b", RelocationAnswer("p", ("b", "a"), 3.0, 3.0), 0.0)
    assert not pop.expire(100.0)
