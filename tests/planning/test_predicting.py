from __future__ import annotations

import math
import random
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.errors import ApplicationError, InputError, NodesError
from fieldfare.planning.application import Application, Destination, Shape
from fieldfare.planning.choosing import plan, ways_of
from fieldfare.planning.costs import reference_costs
from fieldfare.planning.live_ways import tree_distance
from fieldfare.planning.nodes import Nodes, NodeSize
from fieldfare.planning.predicting import predict
from fieldfare.planning.presets import PRESETS
from fieldfare.planning.spark_ways import hops_to_fit
from fieldfare.planning.together import together
from fieldfare.planning.ways import Way, WayKind

COSTS = reference_costs()
NODES = Nodes((NodeSize(cores=4),))
ONE = Nodes.equal(1, cores=32)  # a plan takes more nodes for more events, where it may: not here
SMALL = Application(
    name="small",
    subscriptions=10_000,
    events_per_second=500,
    latency_seconds_max=2.0,
    matches_per_event=5,
    subscribers=500,
)
WAYS = [
    Way(WayKind.PROCESS),
    Way(WayKind.EDGE),
    Way(WayKind.STAR, 4),
    Way(WayKind.TREE, 6),
    Way(WayKind.REPLICATED, 4),
    Way(WayKind.MULTI, 4),
    Way(WayKind.SINGLE, 4),
    Way(WayKind.CLUSTERS, 8, 2, 2),
    Way(WayKind.PEERS, 8),
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_just_below_its_throughput_a_way_is_slow_and_above_it_it_says_so(way: Way) -> None:
    most = predict(SMALL, way, COSTS, ONE).throughput_events
    below = predict(msgspec.structs.replace(SMALL, events_per_second=most * 0.999), way, COSTS, ONE)
    above = predict(msgspec.structs.replace(SMALL, events_per_second=most * 1.001), way, COSTS, ONE)
    assert predict(SMALL, way, COSTS, ONE).latency_p99_seconds < below.latency_p99_seconds < math.inf
    assert above.is_saturated
    assert math.isinf(above.latency_p50_seconds)
    assert any("saturated" in problem for problem in above.unmet)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(WAYS), st.floats(1.0, 1e4), st.floats(1.0, 30.0), st.sampled_from(Shape))
def test_more_to_do_is_never_faster(way: Way, rate: float, factor: float, shape: Shape) -> None:
    less = msgspec.structs.replace(SMALL, events_per_second=rate, shape=shape)
    found = predict(less, way, COSTS, ONE)
    for more in (
        msgspec.structs.replace(less, subscriptions=round(less.subscriptions * factor)),
        msgspec.structs.replace(less, matches_per_event=less.matches_per_event * factor),
    ):
        worse = predict(more, way, COSTS, ONE)
        assert worse.throughput_events <= found.throughput_events * 1.000001
        assert worse.memory_bytes_per_node >= found.memory_bytes_per_node * 0.999999


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(WAYS), st.floats(1.0, 1e6), st.floats(1.0, 10.0))
def test_at_a_higher_rate_the_tail_is_longer(way: Way, rate: float, factor: float) -> None:
    tails = [
        predict(msgspec.structs.replace(SMALL, events_per_second=each), way, COSTS, ONE).latency_p99_seconds
        for each in (rate, rate * factor)
    ]
    if tails[0] < math.inf:
        assert tails[1] >= tails[0] * 0.97  # the grid of a chain is not exact
    else:
        assert tails[1] == math.inf


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_gets_a_recommendation_and_thresholds_that_hold(name: str) -> None:
    found = plan(PRESETS[name].application, COSTS, NODES)
    best = found.recommended
    assert found.is_enough
    assert best.nodes >= 1
    assert [each.way.kind for each in found.predictions] == list(WayKind)
    assert found.thresholds
    part = PRESETS[name].application.part(found.parts)
    for threshold in found.thresholds:
        if threshold.setting == "latency_seconds_max":
            near, beyond = threshold.value * 1.02, threshold.value * 0.98
        else:
            near, beyond = threshold.value * 0.98, threshold.value * 1.02
        for value, is_enough in ((near, True), (beyond, False)):
            given_value = round(value) if threshold.setting == "subscriptions" else value
            changed = msgspec.structs.replace(part, **{threshold.setting: given_value}, peak_events_per_second=None)
            if part.peak_events_per_second is None:
                assert predict(changed, best.way, COSTS, NODES).is_enough == is_enough


def test_unequal_nodes_count_by_their_speed() -> None:
    one, fast = (Nodes((NodeSize(cores=1, speed=speed, network_mbps=1e6),), may_grow=False) for speed in (1.0, 2.0))
    both = Nodes((NodeSize(name="a", cores=1), NodeSize(name="b", cores=1, speed=3.0)), may_grow=False)
    table = msgspec.structs.replace(SMALL, delivery=Destination.TABLE)
    slow = predict(table, Way(WayKind.EDGE), COSTS, one)
    assert predict(table, Way(WayKind.EDGE), COSTS, fast).throughput_events == pytest.approx(2 * slow.throughput_events)
    equal = predict(table, Way(WayKind.REPLICATED, 2), COSTS, Nodes.equal(2, cores=1))
    unequal = predict(table, Way(WayKind.REPLICATED, 2), COSTS, both)
    assert unequal.throughput_events == pytest.approx(2 * equal.throughput_events)


def test_a_node_that_is_too_small_is_told() -> None:
    found = predict(SMALL, Way(WayKind.EDGE), COSTS, Nodes.equal(1, memory_gib=0.01))
    assert "too much memory" in found.unmet
    crowded = predict(SMALL, Way(WayKind.STAR, 4), COSTS, Nodes.equal(1, cores=2))
    assert "too few cores" in crowded.unmet
    with pytest.raises(NodesError):
        Nodes.equal(0)


@pytest.mark.parametrize("members", [4, 12])
def test_the_papers_relation_holds(members: int) -> None:
    for way in ways_of(WayKind.CLUSTERS, members):
        assert way.hops * way.replicas * way.load_indicator >= members - 1e-9
        assert way.clusters * way.replicas == members
    with pytest.raises(InputError):
        Way(WayKind.CLUSTERS, 4, 2, 3)
    assert hops_to_fit(SMALL, COSTS, COSTS.match[Shape.RANGES].bytes_per_subscription * 4_000) == 10_000 // 4_000 + 1


@pytest.mark.parametrize("brokers", [2, 3, 5, 16, 31])
def test_distances_in_a_tree(brokers: int) -> None:
    def way(broker: int) -> list[int]:
        return [broker >> up for up in range(broker.bit_length())]

    distances = [len(set(way(one)) ^ set(way(other))) for one, other in combinations(range(1, brokers + 1), 2)]
    assert tree_distance(brokers) == pytest.approx(sum(distances) / len(distances))


def test_applications_share_nodes_without_taking_a_core_twice() -> None:
    nodes = Nodes.equal(3, cores=2, memory_gib=16)
    shown = [PRESETS[name].application for name in ("games", "feeds", "alerts")]
    found = together(shown, COSTS, nodes)
    assert [share.application.name for share in found.shares] == ["games", "feeds", "alerts"]
    taken = sum(share.cores for share in found.shares)
    assert found.is_enough
    assert taken + sum(size.cores for size in found.left) == 6
    assert all(size.memory_gib >= 0 for size in found.left)
    crowd = [msgspec.structs.replace(shown[0], name=f"games-{number}") for number in range(8)]
    full = together(crowd, COSTS, nodes)
    assert not full.is_enough
    assert sum(share.cores for share in full.shares) <= 6
    with pytest.raises(ApplicationError, match="name of its own"):
        together([shown[0], shown[0]], COSTS, nodes)


def test_how_many_other_edges_an_event_reaches() -> None:
    rng = random.Random(1)
    edges, wanted = 5, 6
    homes = [[rng.randrange(edges) for _ in range(wanted)] for _ in range(20_000)]
    expected = sum(len(set(home) - {0}) for home in homes) / len(homes)
    match = msgspec.structs.replace(COSTS.match[Shape.RANGES], in_vain_share=0.0)
    costs = msgspec.structs.replace(COSTS, match={**COSTS.match, Shape.RANGES: match})
    application = msgspec.structs.replace(SMALL, matches_per_event=wanted)
    from fieldfare.planning.live_ways import star

    relay = next(station for station in star(application, costs, edges).stations if station.name == "routing broker")
    assert relay.costs["links"] / costs.link.event_seconds - 1.0 == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_subscriptions_that_come_and_go_take_their_part_of_a_core(way: Way) -> None:
    nodes = Nodes.equal(1, cores=32, network_mbps=1e6)
    still = predict(SMALL, way, COSTS, nodes)
    changing = predict(msgspec.structs.replace(SMALL, changes_per_second=2_000.0), way, COSTS, nodes)
    assert changing.throughput_events < still.throughput_events
    too_many = predict(msgspec.structs.replace(SMALL, changes_per_second=1e9), way, COSTS, nodes)
    assert too_many.is_saturated
    assert "changes of subscriptions" in too_many.limited_by


def test_events_that_come_together_wait_for_each_other() -> None:
    together = msgspec.structs.replace(SMALL, events_per_publication=200.0)
    for way in WAYS[:4]:
        alone, later = (predict(each, way, COSTS, ONE) for each in (SMALL, together))
        assert later.latency_p50_seconds > alone.latency_p50_seconds
        assert later.throughput_events == alone.throughput_events


def test_publishers_connections_need_memory() -> None:
    many = msgspec.structs.replace(SMALL, publishers=1_000_000)
    few, more = (predict(each, Way(WayKind.EDGE), COSTS, ONE).memory_bytes_per_node for each in (SMALL, many))
    assert more - few == pytest.approx((1_000_000 - 1) * COSTS.edge.bytes_per_connection)


def test_lists_have_nothing_to_divide_and_so_no_shuffle() -> None:
    lists = msgspec.structs.replace(SMALL, shape=Shape.KEYWORDS, delivery=Destination.TABLE)
    whole, divided = (predict(lists, Way(kind, 4), COSTS, ONE) for kind in (WayKind.REPLICATED, WayKind.MULTI))
    assert divided.latency_p50_seconds == whole.latency_p50_seconds
    assert divided.throughput_events == whole.throughput_events


def test_a_large_event_is_many_pieces_among_peers() -> None:
    large = msgspec.structs.replace(SMALL, event_bytes=12_000)
    few, many = (predict(each, Way(WayKind.PEERS, 8), COSTS, ONE) for each in (SMALL, large))
    assert many.throughput_events < few.throughput_events / 3
