"""What is wanted beyond a link, and the events on this side of it, drawn from the benchmarks' workloads.

The subscriptions of a workload are those of one other edge. Some more come later, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fieldfare.bench.broker.load import make_load
from fieldfare.bench.workload import Size, WantedRanges
from fieldfare.bench.workloads import generate
from fieldfare.boxes import BoxTable
from fieldfare.language import compile_many
from fieldfare.matching.bounds import box_table
from fieldfare.model import Box, Condition, Interval

REGIONS = 16  # equal parts of the longitudes; the subscriptions of one edge lie in one of them
SELECTIVE_SHARE = 0.01  # of the events that each subscription of the broker's scenario wants


@dataclass(frozen=True, slots=True)
class WantedBeyond:
    """The boxes of another edge's subscriptions, those that come later, and the events published here."""

    name: str
    subscriptions: int
    table: BoxTable
    later: list[Condition]
    events: pa.Table


def wanted_beyond(name: str, subscriptions: int, later: int, events: int, seed: int) -> WantedBeyond:
    """A workload by its name, one of WORKLOADS_BEYOND."""
    table, rows = WORKLOADS_BEYOND[name](subscriptions + later, events, seed)
    count = min(subscriptions, int(table.owners.max()) + 1 - later)
    now, coming = (table.take(np.flatnonzero(mask)) for mask in (table.owners < count, table.owners >= count))
    return WantedBeyond(name, count, now, conditions_of(coming), rows)


def conditions_of(table: BoxTable) -> list[Condition]:
    """The boxes of a table as conditions, one for each owner."""
    intervals: list[dict[str, Interval]] = [{} for _ in range(len(table))]
    for attribute, column in table.axes.items():
        cuts = zip(column.boxes.tolist(), column.low.listed(), column.high.listed(), strict=True)
        for box, low, high in cuts:
            intervals[box][attribute] = Interval(low, high)
    boxes: dict[int, list[Box]] = {}
    for number, owner in enumerate(table.owners.tolist()):
        boxes.setdefault(owner, []).append(Box(intervals[number], table.tests.get(number, ())))
    return [Condition("", tuple(some), disjoint=False) for _, some in sorted(boxes.items())]


Drawn = tuple[BoxTable, pa.Table]


def _of_engine(name: str, width: float | None = None) -> Callable[[int, int, int], Drawn]:
    """A workload of `fieldfare bench engine`."""

    def draw(subscriptions: int, events: int, seed: int) -> Drawn:
        workload = generate(name, Size(subscriptions, width, events), seed)
        if workload.conditions is not None:
            return compile_many(workload.conditions["condition"].to_pylist()).table, workload.events
        return box_table(subscriptions, _bounds(workload.columns)), workload.events

    return draw


def _bounds(columns: Any) -> dict[str, tuple[Any, Any]]:
    return {name: (column.low, column.high) for name, column in columns.items() if isinstance(column, WantedRanges)}


def _region(subscriptions: int, events: int, seed: int) -> Drawn:
    """Of many clustered rectangles on a map those in one region; events from all over the map."""
    workload = generate("geo", Size(2 * REGIONS * subscriptions, None, events), seed)
    bounds = _bounds(workload.columns)
    west = bounds["longitude"][0]
    inside = np.flatnonzero((west >= 0.0) & (west < 360.0 / REGIONS))[:subscriptions]
    inside_bounds = {name: (low[inside], high[inside]) for name, (low, high) in bounds.items()}
    return box_table(len(inside), inside_bounds), workload.events


def _of_broker(share: float | None) -> Callable[[int, int, int], Drawn]:
    """Squares, as `fieldfare bench broker` has them. Without a share, all together have the area of the domain."""

    def draw(subscriptions: int, events: int, seed: int) -> Drawn:  # noqa: ARG001 - the broker's load has its own seed
        load = make_load(subscriptions, 1, share or 1.0 / subscriptions, pool_events=events)
        bounds = {}
        for number, attribute in enumerate(("x", "y")):
            low = np.array([(square.x_low, square.y_low)[number] for square in load.squares])
            bounds[attribute] = (low, low + load.squares[0].width)
        return box_table(subscriptions, bounds), pa.table({"x": load.points[:, 0], "y": load.points[:, 1]})

    return draw


WORKLOADS_BEYOND: dict[str, Callable[[int, int, int], Drawn]] = {
    "bluedove": _of_engine("bluedove", 250.0),
    "large": _of_engine("large", 50.0),
    "sparse": _of_engine("sparse"),
    "quotes": _of_engine("quotes"),
    "feeds": _of_engine("feeds"),
    "geo": _of_engine("geo"),
    "region": _region,
    "selective": _of_broker(SELECTIVE_SHARE),
    "edge": _of_broker(None),
}
