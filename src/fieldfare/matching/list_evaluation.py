"""Calls of list functions for many events: value by value, for what lists hold is of no one type.

What is asked most, whether a list has a member, does not come here: see postings.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.language.expressions import names_in
from fieldfare.language.kinds import NULL, Value
from fieldfare.language.scalars import evaluator
from fieldfare.language.values import value_of
from fieldfare.matching.batch import Batch, Piece, Values
from fieldfare.model import Call, Section, section_start

Rows = npt.NDArray[np.int64]
Point = tuple[Section, Any]
_MISSING: Point = section_start(Section.NULL)


def values_for(call: Call, batch: Batch, rows: Rows) -> tuple[list[Value], npt.NDArray[np.bool_]]:
    """The call's value for each row, and whether it may be anything, because an attribute there is a range."""
    names = sorted(names_in(call))
    columns: list[list[Point]] = []
    uncertain = np.zeros(len(rows), np.bool_)
    for name in names:
        column = [_MISSING] * len(rows)
        for piece in batch.columns.get(name, ()):
            at, places = _common(piece, rows)
            if piece.high is not None:
                uncertain[at] = True
                continue
            for row, point in zip(at.tolist(), _points(piece, places, name), strict=True):
                column[row] = point
        columns.append(column)
    evaluate = evaluator(call)
    points = zip(*columns, strict=True) if columns else [()] * len(rows)
    values = [
        NULL if skipped else evaluate(dict(zip(names, row, strict=True)))
        for row, skipped in zip(points, uncertain.tolist(), strict=True)
    ]
    return values, uncertain


def _common(piece: Piece, rows: Rows) -> tuple[Rows, Rows]:
    """Where among the rows, which ascend, those of a piece stand, and the places of their values in it."""
    if piece.rows is None:
        return np.arange(len(rows)), rows
    _, at, places = np.intersect1d(rows, piece.rows, assume_unique=True, return_indices=True)
    return at, places


def _points(piece: Piece, places: Rows, name: str) -> Iterator[Point]:
    if piece.lists is not None:
        for place in places.tolist():
            yield value_of(piece.lists.listed(place), name)
        return
    for value in _contents(piece.low, places):
        is_nan = value != value  # noqa: PLR0124  # NaN differs from itself
        yield (section_start(Section.NAN) if is_nan else (piece.section, value))


def _contents(values: Values, places: Rows) -> list[Any]:
    if values.texts is None:
        found: list[Any] = values.numbers[places].tolist()
        return found
    texts = values.texts
    codes = places if values.codes is None else values.codes[places]
    return [texts[code] for code in codes.tolist()]
