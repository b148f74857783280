"""Attributes with few bounds are compared as codes of one byte; small spaces share tiles."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fieldfare
from fieldfare.matching.lanes import LANES
from fieldfare.matching.tree import WIDE, Column, Tree, exact_bounds
from fieldfare.matching.tree_building import build_tree

Wanted = dict[str, tuple[float, float]]  # the closed range that a subscription wants of each attribute


def some_wanted(count: int, seed: int, attributes: int = 8, most: int = 256) -> list[Wanted]:
    rng = np.random.default_rng(seed)
    wanted = []
    for _ in range(count):
        chosen = rng.choice(attributes, rng.integers(1, min(6, attributes + 1)), replace=False)
        ends = np.sort(rng.integers(1, most + 1, (len(chosen), 2)), axis=1).tolist()
        wanted.append({f"a{number}": (low, high) for number, (low, high) in zip(chosen, ends, strict=True)})
    return wanted


def index_of(wanted: list[Wanted]) -> fieldfare.Index:
    conditions = [
        " AND ".join(f"{name} BETWEEN {low} AND {high}" for name, (low, high) in one.items()) for one in wanted
    ]
    return fieldfare.Index(dict(enumerate(conditions)))


def some_events(count: int, seed: int, attributes: int = 8, most: int = 256) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    strange: list[Any] = [None, math.nan, -math.inf, math.inf, 0, most + 1, 1, most, 1.5, most + 0.5, "text", True]
    events = []
    for _ in range(count):
        names = rng.choice(attributes, rng.integers(1, attributes + 1), replace=False)
        event: dict[str, Any] = {f"a{number}": int(rng.integers(1, most + 1)) for number in names}
        for number in rng.choice(attributes, 2):
            event[f"a{number}"] = strange[rng.integers(len(strange))]
        low = float(rng.integers(-5, most))
        event[f"a{rng.integers(attributes)}"] = {"low": low, "high": low + float(rng.integers(0, most // 3))}
        events.append(event)
    return events


def holds(wanted: Wanted, event: dict[str, Any]) -> bool:
    for name, (low, high) in wanted.items():
        value = event.get(name)
        ends: tuple[Any, Any] = (value["low"], value["high"]) if isinstance(value, dict) else (value, value)
        if value is None or isinstance(value, str | bool) or not (low <= ends[1] and ends[0] <= high):
            return False
    return True


def tree_of(index: fieldfare.Index) -> Tree:
    return index._segments[0].part.tree


@pytest.mark.parametrize(
    ("count", "attributes", "most"), [(300, 8, 256), (6_000, 8, 256), (3_000, 3, 256), (800, 8, 20)]
)
def test_equals_brute_force(count: int, attributes: int, most: int) -> None:
    wanted = some_wanted(count, count, attributes, most)
    index = index_of(wanted)
    events = some_events(150, 1, attributes, most)
    found = [sorted(ids) for ids in index.match_rows(events).to_pylist()]
    assert found == [[number for number, one in enumerate(wanted) if holds(one, event)] for event in events]
    assert any(found)


@pytest.mark.parametrize(("lows", "highs", "narrow"), [(256, 256, True), (257, 10, False), (10, 257, False)])
def test_one_bound_too_many(lows: int, highs: int, narrow: bool) -> None:
    wanted: list[Wanted] = [{"a": (low, 1_000 + low % highs)} for low in range(max(lows, highs))]
    wanted = [{"a": (low % lows, high)} for low, one in enumerate(wanted) for _, high in one.values()]
    index = index_of(wanted)
    assert (tree_of(index).tile_narrow != WIDE).any() == narrow
    events = [{"a": value} for value in [*range(-2, 1_300, 3), 0.5, 255.5, 256, 999.5, 1_000, 1_255, 1_255.5, 1_256]]
    found = [sorted(ids) for ids in index.match_rows(events).to_pylist()]
    assert found == [[number for number, one in enumerate(wanted) if holds(one, event)] for event in events]


def test_many_small_spaces_share_tiles() -> None:
    tree = tree_of(index_of(some_wanted(20_000, 5)))
    words = np.diff(tree.tile_words)
    assert (tree.tile_narrow != WIDE).all()
    assert words.mean() > LANES / 2
    assert len(tree.node_uses) == 2
    groups = np.diff(tree.narrow_words)
    assert groups.min() == 1  # a word is compared on what its own boxes ask, not on all that its tile has
    assert np.diff(tree.tile_uses).max() > groups.max()


def test_bounds_come_back_from_codes() -> None:
    rng = np.random.default_rng(8)
    columns = []
    for _ in range(3):
        boxes = np.flatnonzero(rng.random(2_000) < 0.6).astype(np.int32)
        low = rng.choice(np.arange(3, 400, 2), len(boxes)).astype(np.int32)
        columns.append(Column(boxes, low, (low + rng.integers(0, 50, len(boxes)) * 2).astype(np.int32), 600))
    tree, number_of = build_tree([*columns], np.zeros(2_000, np.int8))
    assert (tree.tile_narrow != WIDE).all()
    seen = 0
    for tile in range(len(tree.tile_modes)):
        for use in range(tree.tile_uses[tile], tree.tile_uses[tile + 1]):
            column = columns[tree.tile_attributes[use]]
            bounds = exact_bounds(tree, tile, use)
            numbers = number_of[tree.tile_words[tile] * LANES :][: len(bounds) * LANES]
            given = dict(
                zip(column.boxes.tolist(), zip(column.low.tolist(), column.high.tolist(), strict=True), strict=True)
            )
            for number, *found in zip(numbers, bounds[:, 0].reshape(-1), bounds[:, 1].reshape(-1), strict=True):
                if number >= 0 and number in given:
                    assert tuple(found) == given[number]
                    seen += 1
                elif number >= 0:
                    assert found[0] == 0
                    assert found[1] >= column.last_slot
    assert seen == sum(len(column.boxes) for column in columns)


def test_updates_and_snapshots_keep_them(tmp_path: Path) -> None:
    wanted = some_wanted(3_000, 9)
    index = index_of(wanted)
    added = {4_000 + number: "a1 BETWEEN 3 AND 200 AND a2 BETWEEN 7 AND 300" for number in range(900)}
    changed = index.updated(add=added, remove=range(0, 3_000, 3)).compacted()
    changed.save(tmp_path / "index")
    events = some_events(60, 10)
    expected = [
        [number for number, one in enumerate(wanted) if number % 3 and holds(one, event)]
        + [number for number in added if holds({"a1": (3, 200), "a2": (7, 300)}, event)]
        for event in events
    ]
    for one in (changed, fieldfare.Index.load(tmp_path / "index")):
        assert [sorted(ids) for ids in one.match_rows(events).to_pylist()] == expected
        assert (tree_of(one).tile_narrow != WIDE).any()


def test_a_box_may_ask_for_more_attributes_than_a_byte_counts() -> None:
    wanted: list[Wanted] = [{f"a{number}": (low, low + 5) for number in range(300)} for low in range(10)]
    index = index_of(wanted)
    events: list[dict[str, Any]] = [{f"a{number}": at for number in range(300)} for at in range(16)]
    events += [{**events[7], "a299": 20}, {**events[7], "a255": None}, {**events[7], "a256": 0}]
    found = [sorted(ids) for ids in index.match_rows(events).to_pylist()]
    assert found == [[number for number, one in enumerate(wanted) if holds(one, event)] for event in events]
