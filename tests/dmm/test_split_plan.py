"""Plans of splits: nothing is lost, nothing is copied in vain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.dmm.test_regions import codes_of, extents_of, points_in, small_grids

from fieldfare.dmm.axis_codes import DomainAxis, GeneralAxis
from fieldfare.dmm.regions import Grid
from fieldfare.dmm.split_plan import inner_regions, split_plan
from fieldfare.dmm.zcodes import ROOT, parent_of, sibling_of
from fieldfare.language import compile  # noqa: A004


@given(st.data(), small_grids())
def test_pieces_divide_the_region_and_hold_what_touches_them(data: st.DataObject, grid: Grid) -> None:
    region = data.draw(codes_of(grid))
    targets = [(extent,) for extent in data.draw(st.lists(extents_of(grid), min_size=1, max_size=12))]
    inside = [target for target in targets if grid.touches(region, target)]
    if not inside:
        return
    pieces = split_plan(grid, region, inside)
    points = [point for piece in pieces for point in points_in(grid.cell(piece.region))]
    assert len(points) == len(set(points))
    assert set(points) == points_in(grid.cell(region))
    for piece in pieces:
        assert piece.region.startswith(region)
        if len(pieces) > 1:
            assert len(piece.members) < len(inside)
            assert set(piece.members) == {
                number for number, target in enumerate(inside) if grid.touches(piece.region, target)
            }
    assert sum(len(piece.members) for piece in pieces) <= 3 * len(inside)


@given(st.data(), small_grids())
def test_inner_regions_lie_between(data: st.DataObject, grid: Grid) -> None:
    targets = [(extent,) for extent in data.draw(st.lists(extents_of(grid), min_size=1, max_size=12))]
    pieces = split_plan(grid, ROOT, targets)
    leaves, inner = {piece.region for piece in pieces}, set(inner_regions(ROOT, pieces))
    assert not leaves & inner
    for region in (leaves | inner) - {ROOT}:
        assert parent_of(region) in inner | {ROOT}
        assert sibling_of(region) in inner | leaves


def test_what_covers_everything_is_not_split() -> None:
    grid = Grid(["a", "b"], [DomainAxis(1, 256)] * 2)
    assert len(split_plan(grid, ROOT, [grid.target_of_boxes(compile("a > 0").boxes)] * 50)) == 1


def test_what_is_all_the_same_is_not_split() -> None:
    grid = Grid(["a"], [GeneralAxis()])
    assert len(split_plan(grid, ROOT, [grid.target_of_boxes(compile("a = 5").boxes)] * 50)) == 1


def test_a_split_looks_beyond_an_axis_that_tells_nothing_apart() -> None:
    grid = Grid(["a", "b"], [DomainAxis(1, 256)] * 2)
    targets = [grid.target_of_boxes(compile(f"a > 0 AND b BETWEEN {low} AND {low + 9}").boxes) for low in (20, 220)]
    pieces = split_plan(grid, ROOT, targets * 10)
    assert max(len(piece.members) for piece in pieces) == 10


def test_a_split_goes_as_deep_as_values_are_alike() -> None:
    grid = Grid(["a"], [GeneralAxis()])
    targets = [grid.target_of_boxes(compile(f"a = {1_000_000 + number}").boxes) for number in range(16)]
    pieces = split_plan(grid, ROOT, targets)
    assert max(len(piece.members) for piece in pieces) <= 8
    assert max(len(piece.region) for piece in pieces) > 10
