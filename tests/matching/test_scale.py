"""Sizes at which an index has many tiles and nodes and coarse slots hold several slots, against brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import fieldfare
from fieldfare.matching.coarse import DOUBLED
from fieldfare.matching.kd import kd_sort

Floats = npt.NDArray[np.float64]


def boxes(count: int, attributes: int, width: float, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    lows = rng.normal(500, 200, (attributes, count))
    return lows, lows + rng.exponential(width, (attributes, count))


def events_near(lows: Floats, highs: Floats, rows: int, seed: int) -> Floats:
    """Half of the values lie exactly on a bound, or next to it."""
    rng = np.random.default_rng(seed)
    attributes, count = lows.shape
    chosen = rng.integers(0, count, rows)
    values = lows[:, chosen] + (highs - lows)[:, chosen] * rng.random((attributes, rows))
    for attribute in range(attributes):
        on = rng.random(rows) < 0.5
        bounds = np.where(rng.random(rows) < 0.5, lows[attribute, chosen], highs[attribute, chosen])
        nudged = np.choose(
            rng.integers(0, 3, rows), [bounds, np.nextafter(bounds, -np.inf), np.nextafter(bounds, np.inf)]
        )
        values[attribute, on] = nudged[on]
    return values


def index_of(lows: Floats, highs: Floats) -> fieldfare.Index:
    columns = {f"a{number}": (lows[number], highs[number]) for number in range(len(lows))}
    return fieldfare.Index.from_boxes(np.arange(lows.shape[1]), columns)


def table_of(values: Floats) -> pa.Table:
    return pa.table({f"a{number}": column for number, column in enumerate(values)})


def found(index: fieldfare.Index, table: pa.Table) -> list[list[Any]]:
    return [sorted(ids) for ids in index.match_table(table).to_pylist()]


def expected(lows: Floats, highs: Floats, values: Floats) -> list[list[int]]:
    holds = (np.all((lows <= row[:, None]) & (row[:, None] < highs), axis=0) for row in values.T)
    return [np.flatnonzero(mask).tolist() for mask in holds]


@pytest.mark.parametrize(
    ("count", "attributes", "width"),
    [(64, 2, 50.0), (65, 3, 50.0), (9_000, 4, 200.0), (70_000, 3, 20.0), (300_000, 2, 1.0)],
)
def test_equals_brute_force(count: int, attributes: int, width: float) -> None:
    lows, highs = boxes(count, attributes, width, seed=count)
    values = events_near(lows, highs, 300, seed=1)
    assert found(index_of(lows, highs), table_of(values)) == expected(lows, highs, values)


def test_the_sizes_above_reach_every_layer() -> None:
    small, large = (index_of(*boxes(count, 2, 1.0, seed=3))._segments[0].part.tree for count in (1_000, 300_000))
    assert set(small.tile_shifts.tolist()) == {DOUBLED}
    assert large.tile_shifts.max() > 0
    assert len(large.node_uses) - 1 > 1


def test_ranges_equal_brute_force() -> None:
    lows, highs = boxes(20_000, 2, 30.0, seed=5)
    starts = events_near(lows, highs, 100, seed=6)
    ends = starts + np.random.default_rng(7).exponential(5.0, starts.shape)
    table = pa.table(
        {
            f"a{number}": pa.StructArray.from_arrays(
                [pa.array(starts[number]), pa.array(ends[number])], ["low", "high"]
            )
            for number in range(2)
        }
    )
    rows = zip(starts.T, ends.T, strict=True)
    holds = [np.all((lows <= end[:, None]) & (start[:, None] < highs), axis=0) for start, end in rows]
    assert found(index_of(lows, highs), table) == [np.flatnonzero(mask).tolist() for mask in holds]


def test_ranges_in_a_table_longer_than_a_chunk() -> None:
    starts = np.arange(70_000.0)
    ranges = pa.StructArray.from_arrays([pa.array(starts), pa.array(starts + 1)], ["low", "high"])
    index = fieldfare.Index({"early": "x BETWEEN 3 AND 4", "late": "x = 69000"})
    matched = index.match_table(pa.table({"x": ranges})).to_pylist()
    early, late = ([row for row, ids in enumerate(matched) if name in ids] for name in ("early", "late"))
    assert early == [2, 3, 4]
    assert late == [68_999, 69_000]


def test_ranges_of_dictionary_encoded_strings() -> None:
    ends = [pa.array(values).dictionary_encode() for values in (["a", "c"], ["b", "d"])]
    table = pa.table({"x": pa.StructArray.from_arrays(ends, ["low", "high"])})
    assert found(fieldfare.Index({"s": "x >= 'b' AND x < 'c'"}), table) == [["s"], []]


def test_updates_and_snapshots_keep_the_answer(tmp_path: Path) -> None:
    lows, highs = boxes(20_000, 3, 60.0, seed=8)
    values = events_near(lows, highs, 100, seed=9)
    removed = np.random.default_rng(10).permutation(20_000)[:6_000]
    kept = np.setdiff1d(np.arange(20_000), removed)
    answer = [kept[ids].tolist() for ids in expected(lows[:, kept], highs[:, kept], values)]
    index = index_of(lows, highs).updated(remove=removed.tolist())
    assert found(index, table_of(values)) == answer
    index.save(tmp_path / "saved")
    assert found(fieldfare.Index.load(tmp_path / "saved"), table_of(values)) == answer
    texts = {
        int(number): " AND ".join(
            f"a{a} >= {float(lows[a, number])} AND a{a} < {float(highs[a, number])}" for a in range(3)
        )
        for number in removed[:2_000]
    }
    now = np.sort(np.concatenate([kept, removed[:2_000]]))
    answer = [now[ids].tolist() for ids in expected(lows[:, now], highs[:, now], values)]
    grown = index.updated(add=texts)
    assert found(grown, table_of(values)) == answer
    assert found(grown.compacted(), table_of(values)) == answer


def test_many_spaces_and_missing_attributes() -> None:
    rng = np.random.default_rng(11)
    count, attributes = 3_000, 12
    lows, highs = boxes(count, attributes, 400.0, seed=12)
    unused = rng.random((attributes, count)) < 0.75
    values = events_near(lows, highs, 200, seed=13)
    missing = rng.random(values.shape) < 0.4
    index = index_of(np.where(unused, np.nan, lows), np.where(unused, np.nan, highs))
    table = pa.table({f"a{n}": pa.array(values[n], mask=missing[n]) for n in range(attributes)})
    holds = [
        np.all(unused | (~gone[:, None] & (lows <= row[:, None]) & (row[:, None] < highs)), axis=0)
        for row, gone in zip(values.T, missing.T, strict=True)
    ]
    assert found(index, table) == [np.flatnonzero(mask).tolist() for mask in holds]


def test_overlapping_boxes_are_listed_once_at_any_size() -> None:
    texts = {
        number: f"x < {number % 700} OR y < {number % 300} OR x > {1_000 - number % 50}" for number in range(5_000)
    }
    index = fieldfare.Index(texts)
    events = [{"x": x, "y": y} for x in range(0, 1_000, 90) for y in (0, 150, 299, 500)]
    answer = [[n for n in texts if e["x"] < n % 700 or e["y"] < n % 300 or e["x"] > 1_000 - n % 50] for e in events]
    assert [sorted(ids) for ids in index.match_rows(events).to_pylist()] == answer


@pytest.mark.parametrize("count", [1, 64, 65, 5_000])
def test_conditions_without_attributes(count: int) -> None:
    index = fieldfare.Index(dict.fromkeys(range(count), "TRUE"))
    assert index.match({}) == list(range(count))
    assert found(index, pa.table({"x": [1, 2]})) == [list(range(count))] * 2
    grown = index.updated(add={count: "x = 1", count + 1: "TRUE"}, remove=[0])
    assert [sorted(ids) for ids in grown.match_rows([{}, {"x": 1}]).to_pylist()] == [
        [*range(1, count), count + 1],
        list(range(1, count + 2)),
    ]


def test_a_segment_that_is_all_removed_takes_no_other_along() -> None:
    first, second, third = ([f"{name}{n}" for n in range(count)] for name, count in (("a", 100), ("b", 20), ("c", 4)))
    index = fieldfare.Index(dict.fromkeys(first, "TRUE"))
    index = index.updated(add=dict.fromkeys(second, "TRUE")).updated(add=dict.fromkeys(third, "TRUE"))
    left = index.updated(remove=first)
    assert len(left._segments) == 2  # or this does not test what it says
    assert left.match({}) == second + third
    assert found(left, pa.table({"x": [1]})) == [sorted(second + third)]


@pytest.mark.parametrize("count", [3, 200])
def test_bounds_may_be_strings(count: int) -> None:
    lows = [f"{number:03}" for number in range(count)]
    index = fieldfare.Index.from_boxes(range(count), {"name": (lows, [low + "5" for low in lows])})
    assert index.match({"name": "0012"}) == [1]
    assert index.match({"name": "0015"}) == []


def test_kd_order_is_a_permutation() -> None:
    rng = np.random.default_rng(14)
    lows = rng.integers(0, 50, (1_000, 3), dtype=np.int32)
    bounds = np.concatenate([lows, lows + 5], axis=1)
    before = bounds.copy()
    order = kd_sort(bounds)
    assert sorted(order.tolist()) == list(range(1_000))
    assert (bounds == before[order]).all()
