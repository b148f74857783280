"""Bounds in a tile are coarse slots and what those drop: together they are exact, and old snapshots give the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import fieldfare
from fieldfare.matching.lanes import LANES
from fieldfare.matching.tree import Column, Tree, exact_bounds, fine_of_exact, without_codes
from fieldfare.matching.tree_building import build_tree

FOLDER = Path(__file__).parent
NEW = {"fine", "tile_fine", *without_codes(0)}


def columns_of(boxes: int, span: int) -> list[Column]:
    rng = np.random.default_rng(3)
    columns = []
    for _ in range(2):
        low = rng.integers(0, span, boxes).astype(np.int32)
        high = (low + rng.integers(0, span // 10 + 1, boxes)).astype(np.int32)
        columns.append(Column(np.arange(boxes, dtype=np.int32), low, high, 2 * span))
    return columns


@pytest.mark.parametrize(
    ("boxes", "span", "bytes_per_bound"), [(200, 1_000, 0), (5_000, 70_000, 1), (20_000, 5_000_000, 1), (300, 2**28, 2)]
)
def test_exact_bounds_come_back(boxes: int, span: int, bytes_per_bound: int) -> None:
    columns = columns_of(boxes, span)
    tree, number_of = build_tree([*columns], np.zeros(boxes, np.int8))
    assert len(tree.fine) == bytes_per_bound * len(tree.coarse)
    exact = np.zeros(len(tree.coarse), np.int32)
    for tile, use, part in parts(tree, exact):
        part[:] = exact_bounds(tree, tile, use)
        numbers = number_of[tree.tile_words[tile] * LANES :][: len(part) * LANES]
        there = numbers >= 0
        column = columns[int(tree.tile_attributes[use])]
        for side, bounds in enumerate((column.low, column.high)):
            assert (part[:, side].reshape(-1)[there] == bounds[numbers[there]]).all()
    old = {field: getattr(tree, field) for field in Tree._fields if field not in NEW}
    again = Tree(**old, **fine_of_exact(old, exact), **without_codes(len(tree.tile_modes)))
    assert (again.tile_fine == tree.tile_fine).all()
    lives = np.unpackbits(tree.alive.view(np.uint8), bitorder="little").all()
    assert not lives or (again.fine == tree.fine).all()
    for tile, use, part in parts(tree, exact):
        assert (exact_bounds(again, tile, use) == part).all()


def parts(tree: Tree, exact: npt.NDArray[np.int32]) -> list[tuple[int, int, npt.NDArray[np.int32]]]:
    found = []
    for tile, start in enumerate(tree.tile_starts[:-1].tolist()):
        first, last = int(tree.tile_uses[tile]), int(tree.tile_uses[tile + 1])
        words = int(tree.tile_words[tile + 1] - tree.tile_words[tile])
        bounds = exact[start : start + words * (last - first) * 2 * LANES].reshape(words, last - first, 2, LANES)
        found += [(tile, use, bounds[:, use - first]) for use in range(first, last)]
    return found


@pytest.mark.parametrize("boxes", [3_000, 40_000])
def test_events_at_the_ends_of_boxes(boxes: int) -> None:
    rng = np.random.default_rng(boxes)
    lows = rng.integers(0, 10**9, (2, boxes)).astype(np.float64)
    highs = lows + rng.integers(1, 10**7, (2, boxes))
    index = fieldfare.Index.from_boxes(range(boxes), {"x": (lows[0], highs[0]), "y": (lows[1], highs[1])})
    at = rng.integers(0, boxes, 200)
    events = [
        {"x": ends[0][box] + off, "y": other[1][box] + off}
        for box, off, ends, other in zip(
            at, [0, -1, 0, 1] * 50, [lows, highs, lows, lows] * 50, [lows, lows, highs, lows] * 50, strict=True
        )
    ]
    for event, ids in zip(events, index.match_rows(events).to_pylist(), strict=True):
        x, y = event["x"], event["y"]
        held = (lows[0] <= x) & (x < highs[0]) & (lows[1] <= y) & (y < highs[1])
        assert sorted(ids) == np.flatnonzero(held).tolist()


def golden() -> tuple[pa.Table, list[dict[str, float]]]:
    rng = np.random.default_rng(4)
    conditions = [f"x BETWEEN {low} AND {low + 20} AND y < {low * 2}" for low in rng.integers(0, 100, 80).tolist()]
    events = [{"x": x, "y": y} for x, y in rng.integers(0, 120, (50, 2)).tolist()]
    return pa.table({"subscription_id": range(80), "condition": conditions}), events


@pytest.mark.parametrize("saved", ["format4", "format5"])  # what version 0.3 saved of `golden()`, and one after it
def test_a_snapshot_of_an_earlier_format_is_read(saved: str) -> None:
    table, events = golden()
    index = fieldfare.Index.load(FOLDER / saved)
    assert index.match_rows(events) == fieldfare.Index(table).match_rows(events)
    assert any(index.match_rows(events).to_pylist())
