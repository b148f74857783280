"""Residual tests of places: whether the points of events lie in regions, in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.language.places import POLYGON_TESTS, polygon_of
from fieldfare.matching.batch import Batch
from fieldfare.matching.operands import Mask, Operand, Strings
from fieldfare.model import InRegion, Section

Column = tuple[npt.NDArray[Any], ...]  # offsets, and the floats of all regions
Places = npt.NDArray[np.int64]


def polygon_kernel(function: str) -> Callable[..., Any]:
    """A test of one polygon on columns of x and y."""

    def held(text: str, *point: Any) -> npt.NDArray[np.int64]:
        from fieldfare.geometry.regions import regions_hold  # kernels are loaded when a place is asked for

        region = polygon_of(text, POLYGON_TESTS[function])
        xs, ys = _floats(*point)
        answers = np.empty(len(xs), np.bool_)
        offsets = np.array([0, len(region)])
        regions_hold(region, offsets, np.zeros(len(xs), np.int64), xs, ys, np.arange(len(xs)), answers)
        return answers.astype(np.int64)

    return held


def distance_kernel(*points: Any) -> tuple[npt.NDArray[np.float64], Mask]:
    """Distances between columns of places, and where they are any."""
    from fieldfare.geometry.sphere import distances

    metres = distances(*_floats(*points))
    return metres, ~np.isnan(metres)


def _floats(*columns: Any) -> list[npt.NDArray[np.float64]]:
    """Columns of one length, of columns and single numbers."""
    return [np.ascontiguousarray(column, np.float64) for column in np.broadcast_arrays(*columns)]


def region_column(regions: Sequence[bytes]) -> Column:
    """Regions one after the other."""
    offsets = np.zeros(len(regions) + 1, np.int64)
    np.cumsum([len(region) // 8 for region in regions], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(regions), np.float64)


def region_test(x: str, y: str, column: Column, number: int) -> InRegion:
    """A test, as it was before its region became part of a column."""
    offsets, data = column
    return InRegion(x, y, data[offsets[number] : offsets[number + 1]].tobytes())


def hold_in_batch(x: str, y: str, column: Column, tests: Places, rows: Places, batch: Batch) -> Mask | None:
    """Whether each event lies in its region; None where some have no plain numbers, and pieces must be told apart."""
    from fieldfare.geometry.regions import regions_hold

    columns = []
    for name in (x, y):
        pieces = batch.columns.get(name, ())
        if len(pieces) != 1:
            return None
        piece = pieces[0]
        if piece.section is not Section.NUMBER or piece.rows is not None or piece.high is not None:
            return None
        columns.append(np.ascontiguousarray(piece.low.numbers, np.float64))
    held = np.empty(len(tests), np.bool_)
    offsets, data = column
    xs, ys = columns
    regions_hold(data, offsets, tests, xs, ys, rows, held)
    return held


def hold_of_operands(x: Operand, y: Operand, column: Column, tests: Places) -> Mask:
    """The same for columns of values. A range of more than one number always passes: some point in it may."""
    from fieldfare.geometry.regions import regions_hold

    held = np.zeros(len(tests), np.bool_)
    if x.section is not Section.NUMBER or y.section is not Section.NUMBER:
        return held
    if isinstance(x.low, Strings) or isinstance(y.low, Strings):
        return held
    offsets, data = column
    points = np.arange(len(tests))
    regions_hold(data, offsets, tests, x.low.astype(np.float64), y.low.astype(np.float64), points, held)
    held &= x.known & y.known
    for side in (x, y):
        if side.ranged and not isinstance(side.high, Strings):
            held |= np.asarray(side.low != side.high)
    return held
