"""Which attributes to search by, chosen from the subscriptions and, where there is one, a sample of events.

What counts is the share of all boxes that an event would search: those in its segment. Boxes that do not constrain an
attribute are in every segment, wide ones in many, and where events and boxes crowd in the same segments it is worse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, BoxTable
from fieldfare.matching.batch import Batch
from fieldfare.model import Cut
from fieldfare.partitioning.cuts import SAMPLED, Cutting
from fieldfare.partitioning.dimension import Dimension, box_segments

COUNT_MAX = 4
USEFUL_SHARE_MAX = 0.8  # an attribute along which more than this is searched is not worth a copy of everything
COMPARED_MAX = 4.0  # nor is one along which an event searches so many times what it does along the best


@dataclass(frozen=True, slots=True)
class Searchability:
    """How well an attribute serves as a dimension."""

    attribute: str
    constrained_share: float  # of the boxes
    searched_share: float  # of the boxes, for an event
    copies: float  # segments that a box spans which constrains it, of about 16
    skew: float  # boxes in the fullest of the segments, against the mean
    chosen: bool = False
    reason: str = ""


def choose_dimensions(
    table: BoxTable, count_max: int = COUNT_MAX, sample: Batch | None = None
) -> tuple[Searchability, ...]:
    """Every attribute that conditions ask about, the best dimension first; those that are worth it are `chosen`."""
    judged = [_judged(attribute, column, len(table), sample) for attribute, column in table.axes.items()]
    judged.sort(key=lambda one: (one.searched_share, one.attribute))
    return tuple(_decided(one, judged[0], is_room=rank < count_max) for rank, one in enumerate(judged))


def chosen_attributes(table: BoxTable, sample: Batch | None) -> tuple[str, ...]:
    """The attributes that are chosen, the best first."""
    return tuple(one.attribute for one in choose_dimensions(table, sample=sample) if one.chosen)


def _judged(attribute: str, column: AxisColumn, boxes: int, sample: Batch | None) -> Searchability:
    gauge = Cutting(sample=sample).gauge(attribute, column)
    cells = len(gauge) + 1
    kept = np.arange(0, len(column.boxes), max(1, -(-len(column.boxes) // SAMPLED)))
    some = AxisColumn(np.arange(len(kept), dtype=np.int32), column.low.take(kept), column.high.take(kept))
    first, last = box_segments(gauge, some, len(kept))
    begun, ended = np.bincount(first, minlength=cells), np.bincount(last + 1, minlength=cells + 1)[:cells]
    held = np.cumsum(begun - ended) / len(kept)  # in each cell, the share of the boxes that constrain the attribute
    constrained = len(column.boxes) / boxes
    searched = float((constrained * held + 1.0 - constrained) @ _event_shares(attribute, gauge, sample))
    return Searchability(
        attribute, constrained, searched, copies=float(held.sum()), skew=float(held.max() / held.mean())
    )


def _event_shares(attribute: str, gauge: tuple[Cut, ...], sample: Batch | None) -> npt.NDArray[np.float64]:
    """The share of events in each cell; without a sample every cell counts the same."""
    cells = len(gauge) + 1
    if sample is None or not sample.rows:
        return np.full(cells, 1.0 / cells)
    dimension = Dimension(attribute, gauge, tuple((cell,) for cell in range(cells)))
    first, _ = dimension.event_segments(sample)
    return np.bincount(first, minlength=cells) / sample.rows


def _decided(one: Searchability, best: Searchability, *, is_room: bool) -> Searchability:
    searched = f"an event searches {one.searched_share:.0%} of the boxes"
    if one.searched_share > USEFUL_SHARE_MAX:
        return replace(one, reason=f"{searched}; {one.constrained_share:.0%} of them constrain it")
    if one.searched_share > best.searched_share * COMPARED_MAX:
        return replace(one, reason=f"{searched}, by {best.attribute} only {best.searched_share:.0%}")
    if not is_room:
        return replace(one, reason=f"{searched}, but others are better and enough")
    return replace(one, chosen=True, reason=searched)
