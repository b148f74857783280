"""Events as a batch, made here by hand: the engine's own reading of events is what other tests judge."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np

from fieldfare.matching.batch import Batch, Piece, Texts, Values
from fieldfare.model import Range, Scalar, Section

Event = dict[str, Scalar | Range]
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  # times without a zone are UTC


def code(value: Scalar) -> tuple[Section, float | int | bytes]:
    if isinstance(value, bool):
        return Section.BOOLEAN, int(value)
    if isinstance(value, datetime.datetime):
        return Section.TIME, (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return code(datetime.datetime.combine(value, datetime.time()))
    if isinstance(value, str):
        return Section.STRING, value.encode()
    assert isinstance(value, int | float)
    return Section.NUMBER, value


def column(values: Sequence[float | int | bytes]) -> Values:
    if isinstance(values[0], bytes):
        distinct = sorted(set(values))
        codes = np.array([distinct.index(value) for value in values], np.int32)
        return Values(texts=Texts.of(distinct), codes=codes)  # type: ignore[arg-type]
    return Values(np.array(values, np.int64 if isinstance(values[0], int) else np.float64))


def batch_of(events: Sequence[Event]) -> Batch:
    columns: dict[str, dict[tuple[Section, type, bool], list[tuple[int, Scalar, Scalar]]]] = {}
    for row, event in enumerate(events):
        for name, value in event.items():
            low, high = (value.low, value.high) if isinstance(value, Range) else (value, value)
            if value is not None:
                kind = code(low)[0], type(low), isinstance(value, Range)
                columns.setdefault(name, {}).setdefault(kind, []).append((row, low, high))
    return Batch(
        len(events),
        {
            name: [piece(*kind, members, len(events)) for kind, members in kinds.items()]
            for name, kinds in columns.items()
        },
    )


def piece(section: Section, _: type, ranged: bool, members: Sequence[tuple[int, Scalar, Scalar]], rows: int) -> Piece:
    low = column([code(value)[1] for _, value, _ in members])
    high = column([code(value)[1] for _, _, value in members]) if ranged else None
    named = None if len(members) == rows else np.array([row for row, _, _ in members], np.int64)
    return Piece(section, named, low, high)
