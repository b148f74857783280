"""The laws of z-codes and regions, against a walk over every point of small spaces."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.dmm.axis_codes import DomainAxis, GeneralAxis
from fieldfare.dmm.regions import Extent, Grid
from fieldfare.dmm.zcodes import ROOT, ZCode, children_of, parent_of, sibling_of, siblings_on_path
from fieldfare.language import compile  # noqa: A004
from fieldfare.model import Range


def small_grids() -> st.SearchStrategy[Grid]:
    axes = st.lists(st.sampled_from([DomainAxis(0, 1), DomainAxis(0, 3), DomainAxis(0, 7)]), max_size=3)
    return axes.map(lambda some: Grid([f"a{number}" for number in range(len(some))], some))


@st.composite
def codes_of(draw: st.DrawFn, grid: Grid) -> ZCode:
    return draw(st.text("01", max_size=grid.bits))


@st.composite
def extents_of(draw: st.DrawFn, grid: Grid) -> Extent:
    ends = [draw(st.tuples(*[st.integers(0, (1 << axis.bits) - 1)] * 2)) for axis in grid.axes]
    return tuple((min(pair), max(pair)) for pair in ends)


def points_in(extent: Extent) -> set[tuple[int, ...]]:
    return set(itertools.product(*[range(low, high + 1) for low, high in extent]))


@given(st.data(), small_grids())
def test_a_point_lies_in_a_cell_exactly_if_its_code_has_that_prefix(data: st.DataObject, grid: Grid) -> None:
    region = data.draw(codes_of(grid))
    for point in points_in(grid.cell(ROOT)):
        assert (point in points_in(grid.cell(region))) == grid.code_of_point(point).startswith(region)


@given(st.data(), small_grids())
def test_siblings_are_disjoint_and_their_union_is_the_parent(data: st.DataObject, grid: Grid) -> None:
    region = data.draw(codes_of(grid))
    if len(region) == grid.bits:
        assert len(points_in(grid.cell(region))) == 1
        return
    lower, upper = (points_in(grid.cell(child)) for child in children_of(region))
    assert not lower & upper
    assert lower | upper == points_in(grid.cell(region))
    assert [parent_of(child) for child in children_of(region)] == [region, region]
    assert sibling_of(region + "0") == region + "1"


@given(st.data(), small_grids())
def test_an_extent_touches_a_region_exactly_if_they_share_a_point(data: st.DataObject, grid: Grid) -> None:
    region, extents = data.draw(codes_of(grid)), tuple(data.draw(st.lists(extents_of(grid), max_size=2)))
    shared = [code for extent in extents for code in points_in(extent) & points_in(grid.cell(region))]
    assert grid.touches(region, extents) == bool(shared)
    corner = grid.corner(region, extents)
    assert (corner is None) == (not shared)
    assert corner is None or corner in {grid.code_of_point(point) for point in shared}


@given(st.data(), small_grids())
def test_the_enclosing_region_is_the_smallest(data: st.DataObject, grid: Grid) -> None:
    target = tuple(data.draw(st.lists(extents_of(grid), min_size=1, max_size=2)))
    region = grid.enclosing(target)
    wanted = set().union(*map(points_in, target))
    assert wanted <= points_in(grid.cell(region))
    if len(region) < grid.bits:
        assert not any(wanted <= points_in(grid.cell(child)) for child in children_of(region))


@given(st.data(), small_grids())
def test_the_siblings_of_a_path_divide_the_rest(data: st.DataObject, grid: Grid) -> None:
    path = data.draw(codes_of(grid))
    after = data.draw(st.integers(0, len(path)))
    pieces = [path, *siblings_on_path(path, after, len(path))]
    points = [point for piece in pieces for point in points_in(grid.cell(piece))]
    assert len(points) == len(set(points))
    assert set(points) == points_in(grid.cell(path[:after]))


def test_a_box_across_the_middle_has_an_empty_code_and_touches_few_regions() -> None:
    grid = Grid(["a"], [DomainAxis(1, 256)])
    target = grid.target_of_boxes(compile("a BETWEEN 128 AND 129").boxes)
    assert grid.enclosing(target) == ROOT
    assert sum(grid.touches(f"{bits:08b}", target) for bits in range(256)) == 2


def test_events_lie_where_conditions_look_for_them() -> None:
    grid = Grid(["a", "s"], [GeneralAxis(), GeneralAxis()])
    target = grid.target_of_boxes(compile("a > 3 AND s LIKE 'ab%'").boxes)
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"a": 4, "s": "abc"}, True),
        ({"a": 2.9, "s": "abc"}, False),
        ({"a": 4, "s": "ac"}, False),
        ({"a": Range(1, 4), "s": "ab"}, True),
        ({"s": "ab"}, False),
    ]
    for event, is_inside in cases:
        region = grid.enclosing(grid.target_of_event(event))
        assert grid.touches(region, target) == is_inside, event
