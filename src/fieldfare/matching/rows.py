"""Events that are dicts, turned into a batch of columns.

Only the attributes that some subscription asks about are read: anything else is carried by the caller and may be of
any type. A value that cannot be matched, in an attribute that is asked about, is an EventError.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.errors import EventError
from fieldfare.language.values import DEPTH_MAX, TOO_LARGE, decimal_number, instant_of, value_of
from fieldfare.matching.batch import Batch, Lists, Piece, Texts, Values
from fieldfare.model import INT64_MAX, INT64_MIN, NOW, Cut, Range, Section, section_start

_NoneType = type(None)
_COMMON = frozenset([float, int, bool, str, _NoneType])
_NUMBER, _STRING = Section.NUMBER, Section.STRING  # looked up once: an enum's member is slow to find
_NULL, NAN_CUT = section_start(Section.NULL), section_start(Section.NAN)  # the latter of NaN, and of lists

Event = Mapping[str, Any]
_Point = tuple[Section, float | int | bytes]

# What an open end of a range stands for.
_LOWEST: dict[Section, float | int | bytes] = {
    Section.BOOLEAN: 0,
    Section.NUMBER: -math.inf,
    Section.STRING: b"",
    Section.TIME: INT64_MIN,
}
_HIGHEST: dict[Section, float | int | bytes] = {
    Section.BOOLEAN: 1,
    Section.NUMBER: math.inf,
    Section.STRING: b"\xff",  # above all UTF-8
    Section.TIME: INT64_MAX,
}


def batch_of_rows(rows: Sequence[Event], attributes: Collection[str]) -> Batch:
    """A batch of events that are dicts."""
    return Batch(len(rows), {attribute: _pieces(rows, attribute) for attribute in attributes})


def with_now(batch: Batch, now: datetime.datetime) -> Batch:
    """The batch as of an instant, which is that of all of its events."""
    piece = Piece(Section.TIME, None, Values(np.full(batch.rows, instant_of(now), np.int64)))
    return Batch(batch.rows, {**batch.columns, NOW: [piece]})


def check_event(event: Event) -> None:
    """Raise an EventError if a value of an event cannot be matched, whatever subscriptions may ask about."""
    for attribute, value in event.items():
        if type(value) is list:
            _check_members(value, attribute, 1)
        elif value is not None:
            _ends(value, attribute)


def _check_members(values: Iterable[Any], attribute: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise EventError(attribute, f"lists are nested deeper than {DEPTH_MAX}")
    for value in values:
        if isinstance(value, list | tuple):
            _check_members(value, attribute, depth + 1)
        elif isinstance(value, Mapping):
            _check_members(value.values(), attribute, depth + 1)
        elif value is not None:
            _point(value, attribute)


def cuts_of(value: Any, attribute: str) -> tuple[Cut, Cut]:
    """The cuts just below the first and the last point of one value: one and the same object unless it is a range."""
    kind = type(value)
    cut: Cut
    if kind is float:
        cut = (_NUMBER, value) if value == value else NAN_CUT  # noqa: PLR0124  # NaN differs from itself
    elif kind is str:
        cut = _string(value, attribute)
    elif value is None:
        cut = _NULL
    elif kind is list or kind is tuple:
        cut = NAN_CUT
    else:
        section, low, high = _ends(value, attribute)
        if isinstance(value, Range):
            return (section, low), (section, high)
        cut = (section, low) if low == low else NAN_CUT  # noqa: PLR0124
    return cut, cut


def _pieces(rows: Sequence[Event], attribute: str) -> list[Piece]:
    """The values of one attribute, a piece for each type."""
    return column_pieces([row.get(attribute) for row in rows], attribute)


def point_of(value: Any, attribute: str) -> tuple[Section, Any]:
    """A value as expressions take it: a cut, or a list."""
    return value_of(value, attribute) if isinstance(value, list | tuple) else cuts_of(value, attribute)[0]


def column_pieces(values: list[Any], attribute: str) -> list[Piece]:
    """A column of values, a piece for each type."""
    kinds = list(map(type, values))
    distinct = set(kinds)
    if len(distinct) == 1 and (uniform := _uniform(kinds[0], values, None)) is not None:
        return [uniform]
    if list in distinct or tuple in distinct:
        return _with_lists(values, attribute)
    if distinct <= _COMMON:
        pieces = [_chosen(kind, values, kinds) for kind in distinct if kind is not _NoneType]
        if None not in pieces:
            return [piece for piece in pieces if piece is not None]
    return _mixed(values, attribute)


def _chosen(kind: type, values: list[Any], kinds: list[type]) -> Piece | None:
    """The values of one type among others."""
    numbers = [number for number, other in enumerate(kinds) if other is kind]
    return _uniform(kind, [values[number] for number in numbers], np.array(numbers, np.int64))


def _uniform(kind: type, values: list[Any], rows: npt.NDArray[np.int64] | None) -> Piece | None:
    """Values of one type that is common; None where it takes a closer look."""
    try:
        if kind is float:
            return Piece(Section.NUMBER, rows, Values(np.array(values, np.float64)))
        if kind is int:
            return Piece(Section.NUMBER, rows, Values(np.array(values, np.int64)))
        if kind is bool:
            return Piece(Section.BOOLEAN, rows, Values(np.array(values, np.int64)))
        if kind is str:
            return Piece(Section.STRING, rows, Values(texts=Texts.of([value.encode() for value in values])))
    except (OverflowError, UnicodeEncodeError):
        pass  # the closer look names the attribute
    return None


def _with_lists(values: list[Any], attribute: str) -> list[Piece]:
    """The lists, and the other values, as pieces."""
    places = [place for place, value in enumerate(values) if isinstance(value, list | tuple)]
    pieces = [list_piece([values[place] for place in places], np.array(places, np.int64), attribute)]
    others = [None if isinstance(value, list | tuple) else value for value in values]
    return pieces + _mixed(others, attribute)


def list_piece(lists: Sequence[Sequence[Any]], rows: npt.NDArray[np.int64] | None, attribute: str) -> Piece:
    """A piece of lists that are Python's."""
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(some) for some in lists], out=offsets[1:])

    def members() -> list[Piece]:
        flat = [member for some in lists for member in some]
        kinds = set(map(type, flat))
        if kinds - _COMMON:
            flat = [None if isinstance(member, list | tuple | Mapping) else member for member in flat]
        return column_pieces(flat, attribute)

    zeros = Values(np.zeros(len(lists), np.int64))
    return Piece(Section.NAN, rows, zeros, lists=Lists(offsets, members, lists.__getitem__))


def _mixed(values: list[Any], attribute: str) -> list[Piece]:
    groups: dict[tuple[Section, type, type, bool], tuple[list[int], list[Any], list[Any]]] = {}
    for number, value in enumerate(values):
        if value is None:
            continue
        section, low, high = _ends(value, attribute)
        kind = (section, type(low), type(high), isinstance(value, Range))
        numbers, lows, highs = groups.setdefault(kind, ([], [], []))
        numbers.append(number)
        lows.append(low)
        highs.append(high)
    return [
        Piece(section, np.array(numbers, np.int64), _values(lows), _values(highs) if ranged else None)
        for (section, _, _, ranged), (numbers, lows, highs) in groups.items()
    ]


def _values(points: list[Any]) -> Values:
    if isinstance(points[0], bytes):
        return Values(texts=Texts.of(points))
    return Values(np.array(points, np.float64 if isinstance(points[0], float) else np.int64))


def _ends(value: object, attribute: str) -> tuple[Section, float | int | bytes, float | int | bytes]:
    if not isinstance(value, Range):
        section, point = _point(value, attribute)
        return section, point, point
    ends = [_point(end, attribute) for end in (value.low, value.high) if end is not None]
    if not ends:
        raise EventError(attribute, "a range needs at least one end")
    section = ends[0][0]
    if ends[-1][0] is not section:
        raise EventError(attribute, f"the ends of a range must be of one type, not {value.low!r} and {value.high!r}")
    low = _LOWEST[section] if value.low is None else ends[0][1]
    high = _HIGHEST[section] if value.high is None else ends[-1][1]
    if not low <= high:  # type: ignore[operator]
        raise EventError(
            attribute, f"the range from {value.low!r} to {value.high!r} is empty: low must not exceed high"
        )
    return section, low, high


def _point(value: object, attribute: str) -> _Point:
    for known, convert in _CONVERSIONS:
        if isinstance(value, known):
            return convert(value, attribute)
    if isinstance(value, np.generic):
        return _point(value.item(), attribute)
    raise EventError(attribute, f"a value of type {type(value).__name__} cannot be matched; {_SUPPORTED}")


_SUPPORTED = "use a number, string, boolean, date, datetime, None, a list or fieldfare.Range"


def _integer(value: int, attribute: str) -> _Point:
    if not INT64_MIN <= value <= INT64_MAX:
        raise EventError(attribute, TOO_LARGE)
    return _NUMBER, int(value)


def decimal_point(value: Decimal, attribute: str) -> _Point:
    """A decimal as the integer or the nearest float that it is compared as."""
    return Section.NUMBER, decimal_number(value, attribute)


def _string(value: str, attribute: str) -> _Point:
    try:
        return _STRING, value.encode()
    except UnicodeEncodeError as error:
        raise EventError(attribute, "a string with a lone surrogate is not valid Unicode text") from error


def _date(value: datetime.date, _: str) -> _Point:
    return Section.TIME, instant_of(value)


# In this order: a bool is an int.
_CONVERSIONS: list[tuple[type, Callable[[Any, str], _Point]]] = [
    (bool, lambda value, _: (Section.BOOLEAN, int(value))),
    (float, lambda value, _: (Section.NUMBER, float(value))),
    (int, _integer),
    (str, _string),
    (datetime.date, _date),
    (Decimal, decimal_point),
]
