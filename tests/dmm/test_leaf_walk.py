"""Walks over random search trees, against all leaves that the target touches."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dmm.test_regions import extents_of, small_grids

from fieldfare.dmm.axis_codes import GeneralAxis
from fieldfare.dmm.leaf_walk import LeafWalk, RegionKind, Strategy
from fieldfare.dmm.regions import Grid
from fieldfare.dmm.zcodes import ROOT, ZCode, children_of


def random_leaves(rng: random.Random, grid: Grid, region: ZCode = ROOT) -> set[ZCode]:
    if len(region) == grid.bits or rng.random() < 0.4:
        return {region}
    return set().union(*(random_leaves(rng, grid, child) for child in children_of(region)))


def kind_of(leaves: set[ZCode], region: ZCode) -> RegionKind:
    if region in leaves:
        return RegionKind.LEAF
    return RegionKind.INNER if any(leaf.startswith(region) for leaf in leaves) else RegionKind.NOTHING


def walked(walk: LeafWalk, leaves: set[ZCode]) -> list[ZCode]:
    """All regions that a walk asks."""
    asked: list[ZCode] = []
    while not walk.is_over:
        for probe in walk.probes():
            asked.append(probe.region)
            assert probe.missing is None
            assert not walk.answer(probe.region, kind_of(leaves, probe.region))
    return asked


@given(st.data(), small_grids(), st.sampled_from(Strategy), st.integers(0, 2**32))
def test_all_leaves_are_found_and_none_is_asked_twice(
    data: st.DataObject, grid: Grid, strategy: Strategy, seed: int
) -> None:
    rng = random.Random(seed)
    leaves = random_leaves(rng, grid)
    target = tuple(data.draw(st.lists(extents_of(grid), min_size=1, max_size=2)))
    guesses = {leaf: rng.choice([None, rng.randrange(grid.bits + 1)]) for leaf in leaves}

    def guess(path: ZCode) -> int | None:
        return next(guess for leaf, guess in guesses.items() if path.startswith(leaf))

    walk = LeafWalk(grid, target, guess, strategy)
    asked = walked(walk, leaves)
    assert walk.leaves == {leaf for leaf in leaves if grid.touches(leaf, target)}
    assert len(asked) == len(set(asked))


def test_bisection_asks_few_regions_where_climbing_asks_all() -> None:
    grid = Grid(["a"], [GeneralAxis()])
    point = grid.target_of_event({"a": 17})
    path = grid.enclosing(point)
    leaves = {path[:12], *(path[:length] + ("1" if path[length] == "0" else "0") for length in range(12))}
    assert len(walked(LeafWalk(grid, point), leaves)) <= 7
    assert len(walked(LeafWalk(grid, point, strategy=Strategy.CLIMB), leaves)) == 64 - 12 + 1
    assert walked(LeafWalk(grid, point, lambda _: 12), leaves) == [path[:12]]


def test_a_space_that_nobody_has_made_is_one_leaf() -> None:
    grid = Grid(["a"], [GeneralAxis()])
    walk = LeafWalk(grid, grid.target_of_event({"a": 17}))
    while not walk.is_over:
        for probe in walk.probes():
            walk.answer(probe.region, RegionKind.NOTHING)
    assert walk.leaves == {ROOT}


@pytest.mark.parametrize("strategy", Strategy)
def test_nothing_below_an_inner_region_is_told_to_it(strategy: Strategy) -> None:
    grid = Grid(["a"], [GeneralAxis()])
    point = grid.target_of_event({"a": 17})
    path = grid.enclosing(point)
    walk = LeafWalk(grid, point, strategy=strategy)
    missing = None
    while missing is None:
        for probe in walk.probes():
            missing = probe.missing
            if missing is None:
                walk.answer(probe.region, RegionKind.INNER if len(probe.region) <= 4 else RegionKind.NOTHING)
    assert missing == path[:5]
    assert walk.answer(path[:4], RegionKind.INNER), "the tree is changing: wait"
    leaves = {path[:5], *(path[:length] + ("1" if path[length] == "0" else "0") for length in range(5))}
    walked(walk, leaves)
    assert walk.leaves == {path[:5]}
