"""`fieldfare bench covering`: how much a summary of what is wanted beyond a link saves, and what it forwards in vain.

An edge tells every other edge of a topic what its subscriptions want: a covering of at most so many boxes, or all the
boxes, the full index of what lies beyond. For both: what is sent, what the other edge holds, how long each side works,
and which of the events there are forwarded although nobody beyond wants them. A wanted event that would not be
forwarded is an error. Times are CPU times.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rich.table import Table

from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.results import compact
from fieldfare.bench.wanted_beyond import WORKLOADS_BEYOND, WantedBeyond, conditions_of, wanted_beyond
from fieldfare.boxes import BoxTable
from fieldfare.cores import one_core
from fieldfare.errors import InputError
from fieldfare.matching.ids import ids_of
from fieldfare.matching.index import Index
from fieldfare.matching.segment import Segment
from fieldfare.matching.stack import SegmentStack
from fieldfare.model import Condition
from fieldfare.overlay.covering import Covering, CoveringBuilder
from fieldfare.overlay.covering_format import decode_boxes, encode_boxes
from fieldfare.partitioning.few_boxes import warm_up
from fieldfare.routing.interest import CompiledConditions, Interest

__all__ = ["WORKLOADS_BEYOND", "CoveringOptions", "Result", "render", "run", "to_json"]

T = TypeVar("T")

HANDLE = 1
BATCH_EVENTS = 256  # that an origin matches at once
LATER = 500  # subscriptions that come one by one
QUICK_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class CoveringOptions:
    """What to measure."""

    workloads: tuple[str, ...] = tuple(WORKLOADS_BEYOND)
    subscriptions: tuple[int, ...] = (1_000, 100_000)
    boxes_max: tuple[int, ...] = (16, 64, 256, 1_024)
    events: int = 8_192
    repeats: int = 3  # of what is timed; the median counts
    seed: int = 1
    is_quick: bool = False  # sizes that only show that it works

    def __post_init__(self) -> None:
        for name in self.workloads:
            if name not in WORKLOADS_BEYOND:
                raise InputError(f"there is no workload {name!r}; there are {', '.join(WORKLOADS_BEYOND)}")
        if min(*self.subscriptions, *self.boxes_max, self.events, self.repeats) < 1:
            raise InputError("subscriptions, boxes, events and repeats must be above 0")


@dataclass(frozen=True, slots=True)
class Result:
    """One summary of one edge's subscriptions."""

    workload: str
    subscriptions: int
    boxes_max: int | None  # None: the full index
    boxes: int
    sent_bytes: int
    origin_bytes: int  # in memory, of its index
    build_ms: float
    take_ms: float  # until the origin has read it and can match with it
    add_us: float  # at the edge, for one subscription more
    grown_share: float  # of the subscriptions that come later: those that are sent, the others are covered already
    whole_bytes_per_subscription: float  # sent for each that comes later, if the summary is sent anew
    added_bytes_per_subscription: float  # and if only its new boxes are sent
    wanted_share: float  # of the events
    forwarded_share: float
    in_vain_share: float  # of the events: forwarded, though nobody wants them
    match_us: float  # for each event, at the origin


def run(options: CoveringOptions, progress: Callable[[str], None]) -> list[Result]:
    """Measure every workload at every size; `progress` is told what is being done."""
    factor = QUICK_SHARE if options.is_quick else 1.0
    warm_up()
    results = []
    with one_core():
        for name in options.workloads:
            for count in options.subscriptions:
                size = max(8, round(count * factor))
                progress(f"{name} with {size:,} subscriptions")
                later, events = max(4, round(LATER * factor)), max(8, round(options.events * factor))
                results += _measured(wanted_beyond(name, size, later, events, options.seed), options)
    return results


def _measured(beyond: WantedBeyond, options: CoveringOptions) -> list[Result]:
    rows = beyond.events.to_pylist()
    wanted = _wanted(beyond)
    results = []
    for boxes_max in (*options.boxes_max, None):
        summary = _full(beyond) if boxes_max is None else _covered(beyond, boxes_max, options.repeats)
        take_ms, origin = _timed(partial(_origin, summary.sent), options.repeats)
        match_us, forwarded = _matched(origin, rows, options.repeats)
        missed = np.flatnonzero(wanted & ~forwarded)
        if len(missed):
            raise BenchVerificationError("the covering", beyond.name, int(missed[0]), "it is wanted, but not forwarded")
        result = Result(
            workload=beyond.name,
            subscriptions=beyond.subscriptions,
            boxes_max=boxes_max,
            boxes=summary.boxes,
            sent_bytes=len(summary.sent),
            origin_bytes=origin.nbytes,
            build_ms=summary.build_ms,
            take_ms=take_ms,
            add_us=summary.later.add_us,
            grown_share=summary.later.grown_share,
            whole_bytes_per_subscription=summary.later.whole_bytes,
            added_bytes_per_subscription=summary.later.added_bytes,
            wanted_share=float(wanted.mean()),
            forwarded_share=float(forwarded.mean()),
            in_vain_share=float((forwarded & ~wanted).mean()),
            match_us=match_us,
        )
        results.append(result)
    return results


def _wanted(beyond: WantedBeyond) -> npt.NDArray[np.bool_]:
    """Whether each event satisfies any subscription, by the engine."""
    index = Index.of_compiled(range(beyond.subscriptions), beyond.table)
    return np.asarray(index.match_table(beyond.events).value_lengths().to_numpy(zero_copy_only=False) > 0)


def _timed(work: Callable[[], T], repeats: int) -> tuple[float, T]:
    """The median of the CPU times in milliseconds, and what was made."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        made = work()
        times.append(1e3 * (time.process_time() - began))
    return median(times), made


# At the edge


@dataclass(frozen=True, slots=True)
class _Later:
    """Subscriptions that come one by one: the means over all of them."""

    add_us: float
    grown_share: float
    whole_bytes: float
    added_bytes: float


@dataclass(frozen=True, slots=True)
class _Summary:
    sent: bytes
    boxes: int
    build_ms: float
    later: _Later


def _full(beyond: WantedBeyond) -> _Summary:
    """Every box of every subscription. Nothing is built; one that comes later is only encoded."""
    boxes = [box for condition in conditions_of(beyond.table) for box in condition.boxes]
    began = time.process_time()
    sizes = [len(encode_boxes(condition.boxes)) for condition in beyond.later]
    add_us = 1e6 * (time.process_time() - began) / len(sizes)
    later = _Later(add_us, 1.0, float(np.mean(sizes)), float(np.mean(sizes)))
    return _Summary(encode_boxes(boxes), len(boxes), 0.0, later)


def _covered(beyond: WantedBeyond, boxes_max: int, repeats: int) -> _Summary:
    build_ms, covering = _timed(lambda: Covering.of_table(beyond.table, boxes_max), repeats)
    add_us = median(1e6 * _cpu_of_adding(covering, beyond.later, boxes_max) for _ in range(repeats))
    later = _Later(add_us, *_bytes_of_adding(covering, beyond.later, boxes_max))
    return _Summary(covering.encode(), len(covering.boxes), build_ms, later)


def _cpu_of_adding(covering: Covering, later: Sequence[Condition], boxes_max: int) -> float:
    builder = CoveringBuilder(boxes_max)
    builder.replace(covering)
    began = time.process_time()
    for condition in later:
        builder.add(condition)
    return (time.process_time() - began) / len(later)


def _bytes_of_adding(covering: Covering, later: Sequence[Condition], boxes_max: int) -> tuple[float, float, float]:
    """The share that is not covered already, and the bytes for each if all boxes are sent, or those that are new."""
    builder = CoveringBuilder(boxes_max)
    builder.replace(covering)
    grown = whole_bytes = added_bytes = 0
    for condition in later:
        before = builder.covering
        if builder.add(condition):
            grown += 1
            whole_bytes += len(builder.covering.encode())
            added_bytes += len(builder.covering.beyond(before).encode())
    return grown / len(later), whole_bytes / len(later), added_bytes / len(later)


# At the origin


@dataclass(frozen=True, slots=True)
class _Origin:
    interest: Interest
    nbytes: int


def _origin(sent: bytes) -> _Origin:
    """What an edge does with what another wants: read it, and put it into an index."""
    boxes = decode_boxes(sent, bytes_max=len(sent), boxes_max=len(sent))
    table = BoxTable.from_conditions([Condition("", boxes, disjoint=False)], [0])
    segment = SegmentStack((Segment.build(ids_of([HANDLE]), table),)).prepared().segments[0]
    interest = Interest()
    interest.add(CompiledConditions({}, (), segment))
    return _Origin(interest, segment.nbytes)


def _matched(origin: _Origin, rows: Sequence[Mapping[str, Any]], repeats: int) -> tuple[float, npt.NDArray[np.bool_]]:
    """The CPU time for each event in microseconds, and which are forwarded."""
    batches = [rows[start : start + BATCH_EVENTS] for start in range(0, len(rows), BATCH_EVENTS)]
    forwarded = np.zeros(len(rows), np.bool_)
    for number, batch in enumerate(batches):
        for _, events in origin.interest.match(batch):
            forwarded[number * BATCH_EVENTS + np.array(events)] = True
    ms, _ = _timed(lambda: [list(origin.interest.match(batch)) for batch in batches], repeats)
    return 1e3 * ms / len(rows), forwarded


# Reports


def to_json(results: Sequence[Result]) -> str:
    """A list of objects, one for each summary; `boxes_max` is null for the full index."""
    return json.dumps([asdict(result) for result in results], indent=2)


def render(results: Sequence[Result]) -> Table:
    """One row for each summary."""
    table = Table(title="What another edge wants, as a covering of so many boxes, and in full", caption=_CAPTION)
    table.add_column("workload")
    for heading in (
        "subscriptions", "boxes\nat most", "boxes", "bytes", "origin\nbytes", "build\nms", "take\nms", "add\nµs",
        "grown", "bytes\n/add", "new bytes\n/add", "wanted", "forwarded", "in vain", "match\nµs",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(*_row(result), end_section=result.boxes_max is None)
    return table


_CAPTION = (
    "in vain: share of all events, forwarded though nobody beyond wants them. take: reading it and building an "
    "index at the origin. grown: share of later subscriptions that were not covered. bytes/add: sent for one in the "
    "mean, with all boxes, or with the new ones. All times are CPU times."
)


def _row(result: Result) -> list[str]:
    return [
        result.workload,
        f"{result.subscriptions:,}",
        "full" if result.boxes_max is None else f"{result.boxes_max:,}",
        f"{result.boxes:,}",
        compact(result.sent_bytes),
        compact(result.origin_bytes),
        f"{result.build_ms:.0f}",
        f"{result.take_ms:.1f}",
        f"{result.add_us:.0f}",
        f"{result.grown_share:.0%}",
        compact(result.whole_bytes_per_subscription),
        compact(result.added_bytes_per_subscription),
        f"{result.wanted_share:.1%}",
        f"{result.forwarded_share:.1%}",
        f"{result.in_vain_share:.1%}",
        f"{result.match_us:.2f}",
    ]
