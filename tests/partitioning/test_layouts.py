"""The law of layouts: any one candidate of an event finds everything that the event matches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.matching.strategies import Event, conditions, events, range_conditions, range_events
from tests.partitioning.laws import (
    ATTRIBUTES,
    DENSE,
    by_hand,
    changed,
    check_law,
    compiled,
    dense_conditions,
    dense_events,
    layouts,
)

from fieldfare import Range
from fieldfare.boxes import BoxTable
from fieldfare.errors import LayoutError
from fieldfare.matching.rows import batch_of_rows
from fieldfare.model import Cut, Section
from fieldfare.partitioning.cuts import Cutting
from fieldfare.partitioning.dimension import Dimension
from fieldfare.partitioning.elastic import merge, split
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.layouts import clusters, multi_dimensional, replicated, single_dimension
from fieldfare.partitioning.replicas import by_load
from fieldfare.partitioning.summary import Summary, hops


def cut(value: float) -> Cut:
    return Section.NUMBER, float(value)


slow_to_draw = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    deadline=None,
)


@given(st.data(), st.lists(conditions(), min_size=1, max_size=8), st.lists(events(), min_size=1, max_size=4))
@settings(slow_to_draw, max_examples=50)
def test_every_candidate_finds_every_match(data: st.DataObject, texts: list[str], rows: list[Event]) -> None:
    check_law(data.draw(layouts(compiled(texts), rows, ATTRIBUTES)), texts, rows)


@given(
    st.data(), st.lists(range_conditions(), min_size=1, max_size=8), st.lists(range_events(), min_size=1, max_size=4)
)
@settings(slow_to_draw, max_examples=50)
def test_ranges_visit_every_segment_they_meet(data: st.DataObject, texts: list[str], rows: list[Event]) -> None:
    check_law(data.draw(layouts(compiled(texts), rows, ATTRIBUTES)), texts, rows)


many = st.lists(dense_conditions(), min_size=1, max_size=20)


crowds = [st.lists(dense_events(ranged=ranged), min_size=1, max_size=12) for ranged in (False, True)]


@given(st.data(), many, st.one_of(crowds))
@settings(slow_to_draw, max_examples=100)
def test_every_candidate_finds_the_matches_in_a_crowd(data: st.DataObject, texts: list[str], rows: list[Event]) -> None:
    check_law(data.draw(layouts(compiled(texts), rows, DENSE)), texts, rows)


@given(st.data(), many)
@settings(slow_to_draw, max_examples=100)
def test_parts_of_equal_keys_hold_the_same_boxes(data: st.DataObject, texts: list[str]) -> None:
    table = compiled(texts)
    before = data.draw(layouts(table, [], DENSE))
    check_keys(before, data.draw(changed(before, table)), table)


EVERYWHERE = compiled([f"x = {x} AND y = {y}" for x in range(8) for y in range(8)])


@given(st.data())
@settings(slow_to_draw, max_examples=100)
def test_keys_know_of_spare_copies_and_hops(data: st.DataObject) -> None:
    matchers = data.draw(st.integers(2, 5))
    dimensions = []
    for name in ("x", "y"):
        places = data.draw(st.sets(st.integers(1, 7), min_size=matchers - 1, max_size=matchers - 1))
        groups = tuple((matcher,) for matcher in data.draw(st.permutations(range(matchers))))
        hops = data.draw(st.integers(1, matchers))
        dimensions.append(Dimension(name, tuple(cut(place) for place in sorted(places)), groups, hops))
    before = Layout("multi", tuple(dimensions))
    check_keys(before, data.draw(changed(before, EVERYWHERE)), EVERYWHERE)


def check_keys(before: Layout, after: Layout, table: BoxTable) -> None:
    held = before.place(table)
    known = {before.part_key(part): set(held.boxes_of(part).tolist()) for part in range(before.part_count)}
    now = after.place(table)
    for part in range(after.part_count):
        boxes = set(now.boxes_of(part).tolist())
        assert known.get(after.part_key(part), boxes) == boxes


@given(st.data(), many)
@settings(slow_to_draw, max_examples=80)
def test_a_placement_names_each_pair_once_and_counts_right(data: st.DataObject, texts: list[str]) -> None:
    table = compiled(texts)
    layout = data.draw(layouts(table, [], DENSE))
    placement = layout.place(table)
    pairs = list(zip(placement.parts.tolist(), placement.boxes.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert [part for part, _ in pairs] == sorted(part for part, _ in pairs)
    held = {(part, int(table.owners[box])) for part, box in pairs}
    assert placement.subscriptions.tolist() == [
        sum(other == part for other, _ in held) for part in range(layout.part_count)
    ]
    copies = [sum(owner == other for _, other in held) for owner in sorted(set(table.owners.tolist()))]
    assert placement.copies.most == max(copies, default=0)
    assert placement.copies.mean == pytest.approx(sum(copies) / len(copies) if copies else 0.0)
    assert placement.copies.shared == len({owner for part, owner in held if layout.is_shared(part)})


@given(st.data(), many)
@settings(slow_to_draw, max_examples=80)
def test_no_matcher_alone_holds_a_subscription(data: st.DataObject, texts: list[str]) -> None:
    table = compiled(texts)
    dimensions = data.draw(st.lists(st.sampled_from(DENSE), min_size=2, max_size=3, unique=True))
    layout = multi_dimensional(table, data.draw(st.integers(2, 6)), dimensions=dimensions)
    if data.draw(st.booleans()):
        layout, _ = split(layout, data.draw(st.sampled_from(layout.matchers)), table)
    placement = layout.place(table)
    holders: dict[int, set[int]] = {}
    for part, box in zip(placement.parts.tolist(), placement.boxes.tolist(), strict=True):
        holders.setdefault(int(table.owners[box]), set()).update(layout.matchers_of(part))
    assert all(len(those) > 1 for those in holders.values())


@given(by_hand(ATTRIBUTES))
@settings(slow_to_draw, max_examples=50)
def test_json_keeps_everything(layout: Layout) -> None:
    again = Layout.from_json(layout.to_json())
    assert again == layout
    kinds = [[type(value) for d in one.dimensions for _, value in (*d.cuts, *d.gauge)] for one in (layout, again)]
    assert kinds[0] == kinds[1]
    assert [again.part_key(part) for part in range(again.part_count)] == [
        layout.part_key(part) for part in range(layout.part_count)
    ]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kind": "multi", "dimensions": []}', '{"kind": "round"}'])
def test_other_json_is_a_layout_error(text: str) -> None:
    with pytest.raises(LayoutError):
        Layout.from_json(text)


PRICES = [f"price BETWEEN {low} AND {low + 9}" for low in range(0, 1000, 10)]


def test_segments_belong_to_the_matchers_in_order() -> None:
    layout = multi_dimensional(compiled(PRICES), 4, dimensions=["price"], cutting=Cutting("equal"))
    (dimension,) = layout.dimensions
    assert dimension.matchers == ((0,), (1,), (2,), (3,))
    assert [round(float(value)) for _, value in dimension.cuts] == [250, 500, 749]
    found = layout.candidates(batch_of_rows([{"price": 10}, {"price": 999.5}, {}, {"price": "x"}], ["price"]))
    assert found.first.tolist() == [[0], [3], [0], [3]]
    assert found.count.tolist() == [[1], [1], [1], [1]]


def test_quantiles_hold_about_the_same() -> None:
    table = compiled([*PRICES, *(f"price BETWEEN {low} AND {low + 0.9}" for low in range(100))])
    held = single_dimension(table, 8, dimension="price").place(table).subscriptions[:8]
    assert held.max() <= 1.2 * held.min()


def test_events_decide_too_where_there_is_a_sample() -> None:
    table = compiled(PRICES)
    sample = batch_of_rows([{"price": 900 + number / 10} for number in range(1000)], ["price"])
    blind, seeing = (
        single_dimension(table, 4, dimension="price", cutting=Cutting(sample=given)).dimensions[0].cuts
        for given in (None, sample)
    )
    assert sum(value > 890 for _, value in blind) == 0  # type: ignore[operator]
    assert sum(value > 890 for _, value in seeing) == 2  # type: ignore[operator]


def test_a_value_that_many_ask_for_has_a_segment_of_its_own() -> None:
    texts = ["symbol = 'm'"] * 90 + [f"symbol = '{letter}'" for letter in "abcdefghijnopqrstuvw"]
    layout = single_dimension(compiled(texts), 3, dimension="symbol")
    assert layout.place(compiled(texts)).subscriptions[:3].tolist() == [10, 90, 10]


def test_few_values_are_shared_among_the_matchers() -> None:
    texts = ["flag", "NOT flag", "symbol = 'a'", "symbol = 'b'", "symbol = 'c'"]
    layout = multi_dimensional(compiled(texts), 7, dimensions=["flag", "symbol", "unheard of"])
    assert [dimension.size for dimension in layout.dimensions] == [2, 3, 1]
    for dimension in layout.dimensions:
        assert sorted(matcher for group in dimension.matchers for matcher in group) == list(range(7))


def test_without_a_useful_attribute_there_is_one_part() -> None:
    table = compiled(["1 = 1"])
    for make in (multi_dimensional, single_dimension, clusters):
        assert make(table, 3) == replicated(3)


def test_what_is_wide_is_held_once() -> None:
    table = compiled([*PRICES, "price > 100", "symbol = 'a'", "price < 300 OR price > 500", "price < 300"])
    layout = multi_dimensional(table, 10, dimensions=["price"])
    placement = layout.place(table)
    shared = layout.shared_part(0)
    assert shared is not None
    assert sorted(set(table.owners[placement.boxes_of(shared)].tolist())) == [100, 101, 102]
    assert placement.copies.shared == 3
    copying = multi_dimensional(table, 10, dimensions=["price"], wide_share=1.0).place(table)
    assert copying.copies.shared == 0
    assert copying.copies.most == 10


def test_wide_is_measured_by_the_events_where_there_is_a_sample() -> None:
    table = compiled([*PRICES, "price < 300"])
    sample = batch_of_rows([{"price": number / 10} for number in range(1000)], ["price"])
    layout = single_dimension(table, 10, dimension="price", cutting=Cutting(sample=sample))
    assert layout.place(table).copies.shared == 1


def test_spare_copies_go_clockwise_to_different_matchers() -> None:
    bounds: tuple[Cut, ...] = (cut(1.0), cut(2.0), cut(3.0))
    layout = Layout("multi", tuple(Dimension(name, bounds, ((0,), (1,), (2,), (3,))) for name in ("x", "y", "z")))
    table = compiled(["x = 3.5 AND y = 3.5 AND z = 3.5", "x = 0 AND y = 1 AND z = 0"])
    placement = layout.place(table)
    pairs = list(zip(placement.boxes.tolist(), placement.parts.tolist(), strict=True))
    assert sorted(part for box, part in pairs if box == 0) == [3, 4 + 0, 4 + 3, 8 + 1, 8 + 3]
    assert sorted(part for box, part in pairs if box == 1) == [0, 4 + 1, 8 + 0]
    assert placement.copies.spared == 1


def test_where_spare_copies_go_is_part_of_a_key() -> None:
    table = compiled([f"x = {number} AND y = {number}" for number in range(30)])
    before = multi_dimensional(table, 3, dimensions=["x", "y"])
    assert before.place(table).copies.spared == 30
    after, _ = split(before, 1, table)  # the spare copies of what matcher 1 keeps go to the new one, no longer to 2
    one, other = before.starts[1] + 2, after.starts[1] + 3
    assert before.matchers_of(one) == after.matchers_of(other) == (2,)
    assert before.dimensions[1].bounds(2) == after.dimensions[1].bounds(3)
    assert set(before.place(table).boxes_of(one)) != set(after.place(table).boxes_of(other))
    assert before.part_key(one) != after.part_key(other)
    assert before.part_key(before.starts[1]) == after.part_key(after.starts[1])


def test_clusters_have_replicas_and_hops() -> None:
    table = compiled(PRICES)
    layout = clusters(table, 13, replicas=3, hops=2, dimension="price")
    (dimension,) = layout.dimensions
    assert sorted(map(len, dimension.matchers)) == [3, 3, 3, 4]
    found = layout.candidates(batch_of_rows([{"price": 1}, {"price": 999}, {"price": Range(0, 999)}], ["price"]))
    assert found.first.tolist() == [[0], [3], [0]]
    assert found.count.tolist() == [[2], [2], [4]]
    held = layout.place(table).subscriptions[:4]
    assert held.sum() == pytest.approx(100, abs=4)
    assert held.max() <= 30


def test_replicas_hold_everything() -> None:
    table = compiled([*PRICES, "symbol = 'a'"])
    layout = replicated(3)
    assert (layout.part_count, layout.shared_part_of(0), layout.matchers_of(0)) == (1, None, (0, 1, 2))
    assert layout.place(table).subscriptions.tolist() == [101]
    assert layout.attributes == ()


def test_no_subscriptions_at_all() -> None:
    nothing = compiled([])
    assert multi_dimensional(nothing, 3) == replicated(3)
    placement = multi_dimensional(compiled(PRICES), 3).place(nothing)
    assert (placement.boxes.tolist(), placement.subscriptions.tolist(), placement.copies.most) == ([], [0] * 4, 0)


def test_parts_are_numbered_by_dimension_with_the_shared_ones_last() -> None:
    layout = multi_dimensional(compiled([*PRICES, *(f"size = {number}" for number in range(9))]), 3,
                               dimensions=["price", "size"])  # fmt: skip
    assert layout.starts == (0, 3, 6)
    assert layout.part_count == 8
    assert [layout.part_dimension(part) for part in range(8)] == [0, 0, 0, 1, 1, 1, 0, 1]
    assert [layout.shared_part_of(part) for part in range(8)] == [6, 6, 6, 7, 7, 7, None, None]
    assert [layout.matchers_of(part) for part in (0, 4, 7)] == [(0,), (1,), (0, 1, 2)]
    narrower = Layout("multi", layout.dimensions, wide_share=0.9)
    assert len({one.part_key(part) for one in (layout, narrower) for part in range(8)}) == 16


def test_a_split_takes_the_upper_half_and_a_merge_gives_it_back() -> None:
    table = compiled([*PRICES, *(f"size = {number}" for number in range(90))])
    layout = multi_dimensional(table, 3, dimensions=["price", "size"], wide_share=0.9)
    wider, moves = split(layout, 1, table)
    assert (wider.version, wider.matchers) == (1, (0, 1, 2, 3))
    assert [dimension.matchers for dimension in wider.dimensions] == [((0,), (1,), (3,), (2,))] * 2
    assert [(move.dimension, move.from_matcher, move.to_matcher) for move in moves] == [(0, 1, 3), (1, 1, 3)]
    placement = wider.place(table)
    for move in moves:
        new, old = wider.starts[move.dimension] + 2, layout.starts[move.dimension] + 1
        assert move.to_key == wider.part_key(new)
        assert move.from_key == layout.part_key(old)
        assert move.boxes == len(placement.boxes_of(new)) > 0
        assert len(placement.boxes_of(new)) == pytest.approx(len(placement.boxes_of(new - 1)), abs=2)
    narrow, back = merge(wider, 3, table)
    assert narrow.dimensions == layout.dimensions
    assert [(move.from_key, move.to_key) for move in back] == [(move.to_key, move.from_key) for move in moves]
    kept = {layout.part_key(part) for part in range(8)} & {wider.part_key(part) for part in range(10)}
    assert {layout.part_key(layout.starts[1]), layout.part_key(6), layout.part_key(7)} <= kept


def test_the_first_segment_goes_to_the_one_above() -> None:
    table = compiled(PRICES)
    layout = single_dimension(table, 3, dimension="price")
    merged, (move,) = merge(layout, 0, table)
    assert merged.dimensions[0].matchers == ((1,), (2,))
    assert merged.dimensions[0].cuts == layout.dimensions[0].cuts[1:]
    assert (move.from_matcher, move.to_matcher, move.boxes) == (0, 1, int(layout.place(table).starts[1]))


def test_what_cannot_be_halved_gets_a_second_matcher() -> None:
    table = compiled(["symbol = 'a'"] * 9)
    layout = single_dimension(table, 1, dimension="symbol")
    two, _ = split(layout, 0, table)
    three, (move,) = split(two, 1, table, new_matcher=7)
    assert (two.dimensions[0].size, three.dimensions[0].size) == (2, 2)
    assert three.dimensions[0].matchers == ((0,), (1, 7))
    assert move.to_matcher == 7
    assert merge(three, 7, table) == (Layout("single", two.dimensions, 3), ())


def test_an_empty_stretch_of_numbers_is_halved_in_the_middle() -> None:
    layout = Layout("single", (Dimension("price", (cut(10.0), cut(20.0)), ((0,), (1,), (2,))),))
    halved, _ = split(layout, 1, compiled(["price < 5"]))
    assert halved.dimensions[0].cuts == (cut(10.0), cut(15.0), cut(20.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: replicated(0),
        lambda: multi_dimensional(compiled(PRICES), 2, dimensions=["price", "price"]),
        lambda: clusters(compiled(PRICES), 2, replicas=3),
        lambda: clusters(compiled(PRICES), 2, hops=0),
        lambda: split(replicated(2), 5, compiled(PRICES)),
        lambda: split(replicated(2), 0, compiled(PRICES), new_matcher=1),
        lambda: merge(replicated(1), 0, compiled(PRICES)),
        lambda: merge(replicated(2), 2, compiled(PRICES)),
        lambda: Layout("multi", ()),
        lambda: Layout("multi", (Dimension("x", (), ((0,),)),), wide_share=2.0),
        lambda: Layout("multi", (Dimension("x", (), ((0,),)), Dimension("y", (), ((1,),)))),
        lambda: Dimension("x", (cut(1.0),), ((0,),)),
        lambda: Dimension("x", (cut(1.0), cut(1.0)), ((0,), (1,), (2,))),
        lambda: Dimension("x", (cut(np.inf),), ((0,), (1,))),
        lambda: Dimension("x", ((Section.NULL, 0),), ((0,), (1,))),
        lambda: Dimension("x", (cut(1.0),), ((0,), (0,))),
        lambda: Dimension("x", (cut(1.0),), ((0,), ())),
        lambda: Dimension("x", (), ((0,),), hops=2),
        lambda: Dimension(None, (cut(1.0),), ((0,), (1,))),
    ],
)  # fmt: skip
def test_what_is_not_sound_is_refused(make: object) -> None:
    with pytest.raises(LayoutError):
        make()  # type: ignore[operator]


@given(st.data(), many, st.lists(st.floats(0, 10), min_size=1, max_size=6), st.booleans())
@settings(slow_to_draw, max_examples=60)
def test_replicas_by_load_change_who_serves_and_nothing_else(
    data: st.DataObject, texts: list[str], weights: list[float], has_speeds: bool
) -> None:
    table = compiled(texts)
    replicas = data.draw(st.integers(1, 6))
    layout = clusters(table, 6, replicas=replicas, hops=data.draw(st.integers(1, 3)), dimension="x")
    loads = (weights * 6)[: layout.dimensions[0].size]
    speeds = data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=6, max_size=6)) if has_speeds else None
    divided = by_load(layout, loads, speeds)
    assert divided.matchers == layout.matchers
    assert divided.dimensions[0].cuts == layout.dimensions[0].cuts
    before, after = layout.place(table), divided.place(table)
    assert before.boxes.tolist() == after.boxes.tolist()
    held = after.subscriptions @ [len(divided.matchers_of(part)) for part in range(divided.part_count)]
    assert after.copies.replicas == pytest.approx(held / len({*table.owners.tolist()}) if texts else 0.0)


def test_a_popular_cluster_gets_more_matchers_and_the_fast_ones_first() -> None:
    table = compiled([f"x = {x}" for x in range(40)])
    layout = clusters(table, 8, replicas=2, dimension="x")
    assert [len(group) for group in by_load(layout, [8.0, 1.0, 1.0, 2.0]).dimensions[0].matchers] == [5, 1, 1, 1]
    groups = by_load(layout, [3.0, 1.0, 1.0, 1.0], [1.0] * 7 + [4.0]).dimensions[0].matchers
    assert 7 in groups[0]
    with pytest.raises(LayoutError, match="4 segments need as many loads"):
        by_load(layout, [1.0])
    with pytest.raises(LayoutError, match="8 matchers need as many speeds"):
        by_load(layout, [1.0] * 4, [0.0] * 8)


def test_hops_are_as_many_as_needed_and_no_more_than_allowed() -> None:
    table = compiled([f"x = {x} AND y = {y}" for x in range(8) for y in range(8)])
    layout = clusters(table, 8, hops=4, dimension="x")
    placement = layout.place(table)
    rows: list[Event] = [{"x": x, "y": y} for x in range(8) for y in range(8)]
    candidates = layout.candidates(batch_of_rows(rows, layout.attributes))
    assert hops(layout, candidates).tolist() == [4] * 64
    assert hops(layout, Summary.of(layout, table, placement).narrowed(layout, candidates, rows)).tolist() == [1] * 64
