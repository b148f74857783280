"""Boxes given as columns of bounds, without SQL: `low <= value < high` on each attribute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.boxes import AxisColumn, BoxTable, Cuts
from fieldfare.errors import SubscriptionError
from fieldfare.matching.arrow import batch_of_table
from fieldfare.model import EXACT_INTEGER_MAX, Section, cut_below, section_end, section_start


def box_table(count: int, bounds: Mapping[str, tuple[Any, Any]]) -> BoxTable:
    """One box for each of `count` subscriptions."""
    live = np.ones(count, np.bool_)
    columns: dict[str, tuple[npt.NDArray[np.bool_], Cuts, Cuts]] = {}
    for attribute, ends in bounds.items():
        try:
            low, high = ends
        except (TypeError, ValueError) as error:
            raise SubscriptionError(f"the bounds of {attribute!r} must be a pair of columns, low and high") from error
        columns[attribute] = _cuts_of_bounds(attribute, low, high, count, live)
    boxes = (np.cumsum(live, dtype=np.int32) - 1).astype(np.int32, copy=False)
    axes = {}
    for attribute, (bounded, low, high) in columns.items():
        chosen = bounded & live
        axes[attribute] = AxisColumn(
            boxes if chosen.all() else boxes[chosen], _taken(low, chosen), _taken(high, chosen)
        )
    owners = boxes if live.all() else np.flatnonzero(live).astype(np.int32)
    return BoxTable(owners, axes, np.zeros(len(owners), np.bool_))


def _taken(cuts: Cuts, chosen: npt.NDArray[np.bool_]) -> Cuts:
    return cuts if chosen.all() else Cuts(cuts.sections[chosen], cuts.values[chosen])


def _cuts_of_bounds(
    attribute: str, low: Any, high: Any, count: int, live: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], Cuts, Cuts]:
    """Which rows bound the attribute, and their cuts; rows whose bounds leave nothing are taken out of `live`."""
    columns = [_column(attribute, end, count) for end in (low, high)]
    if all(column.dtype == np.float64 for column in columns):
        lows, highs = columns
        is_open = np.isnan(lows)
        bounded = ~(is_open & np.isnan(highs))
        starts = np.where(is_open, -np.inf, lows) if is_open.any() else lows
        if not np.isnan(highs).any():
            live &= ~bounded | (starts < highs)
            return bounded, Cuts.numbers(starts), Cuts.numbers(highs)
    cuts_low, cuts_high = [], []
    bounded = np.ones(count, np.bool_)
    for row, (begin, end) in enumerate(zip(*map(_objects, columns), strict=True)):
        sections = {_section(value) for value in (begin, end) if value is not None}
        if len(sections) > 1:
            raise SubscriptionError(f"the bounds of {attribute!r} in row {row + 1} are of two types")
        bounded[row] = bool(sections)
        section = sections.pop() if sections else Section.NUMBER
        cuts_low.append(section_start(section) if begin is None else cut_below(section, begin))
        cuts_high.append(section_end(section) if end is None else cut_below(section, end))
        live[row] &= not bounded[row] or cuts_low[row] < cuts_high[row]
    return bounded, Cuts.of(cuts_low), Cuts.of(cuts_high)


def _objects(column: npt.NDArray[Any]) -> list[Any]:
    """The bounds as Python objects, None where open."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in column.tolist()]


def _section(value: float | bytes) -> Section:
    return Section.STRING if isinstance(value, bytes) else Section.NUMBER


def _column(attribute: str, values: Any, count: int) -> npt.NDArray[Any]:
    """A column of bounds: float64 with NaN for null; else objects (int, float, bytes, None)."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        column: npt.NDArray[Any] = values
    else:
        column = _of_arrow(attribute, values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values))
    if len(column) != count:
        raise SubscriptionError(f"the bounds of {attribute!r} have {len(column)} rows; there are {count} subscriptions")
    return column


def _of_arrow(attribute: str, array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    batch = batch_of_table(pa.table({attribute: array}), [attribute])
    column = np.full(batch.rows, np.nan)
    for piece in batch.columns[attribute]:
        rows = slice(None) if piece.rows is None else piece.rows
        numbers, texts = piece.low.numbers, piece.low.texts
        if piece.section is Section.NUMBER:
            if numbers.dtype == np.int64 and len(numbers) and np.abs(numbers).max() > EXACT_INTEGER_MAX:
                column = np.full(batch.rows, None, object)
                column[rows] = numbers.tolist()
            else:
                column[rows] = numbers
        elif texts is not None:
            codes = range(len(texts)) if piece.low.codes is None else piece.low.codes.tolist()
            column = np.full(batch.rows, None, object)
            column[rows] = [texts[code] for code in codes]
        else:
            raise SubscriptionError(f"bounds of {attribute!r} must be numbers or strings, not {array.type}")
    return column
