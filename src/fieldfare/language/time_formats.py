"""date_format: times written by a pattern of Java's, as far as its letters are here."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from fieldfare.language.times import civil

_SECOND = 1_000_000
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_PIECE = re.compile(r"'((?:[^']|'')*)'|(([a-zA-Z])\3*)|[^a-zA-Z'\[\]{}#]")
Writer = Callable[[int], str]


def _year(instant: int) -> int:
    year = civil(instant)[0]
    return year if year > 0 else 1 - year  # before the year 1 they are counted backwards


def _long_year(instant: int) -> str:
    year = _year(instant)
    return f"+{year}" if year > 9_999 else f"{year:04}"


def _weekday(instant: int) -> int:
    return (instant // 86_400_000_000 + 3) % 7


def _hour(instant: int) -> int:
    return instant // (3_600 * _SECOND) % 24


def _minute(instant: int) -> int:
    return instant // (60 * _SECOND) % 60


def _second(instant: int) -> int:
    return instant // _SECOND % 60


def _in_two(field: Writer | Callable[[int], int]) -> dict[int, Writer]:
    """One letter: as it is; two: with a zero before it."""
    return {1: lambda instant: str(field(instant)), 2: lambda instant: f"{field(instant):02}"}


_LETTERS: dict[str, dict[int, Writer]] = {
    "y": {4: _long_year, 2: lambda instant: f"{_year(instant) % 100:02}", 1: lambda instant: str(_year(instant))},
    "M": _in_two(lambda instant: civil(instant)[1])
    | {
        3: lambda instant: _MONTHS[civil(instant)[1] - 1][:3],
        4: lambda instant: _MONTHS[civil(instant)[1] - 1],
    },
    "d": _in_two(lambda instant: civil(instant)[2]),
    "H": _in_two(_hour),
    "h": _in_two(lambda instant: _hour(instant) % 12 or 12),
    "m": _in_two(_minute),
    "s": _in_two(_second),
    "S": {count: lambda instant, count=count: f"{instant % _SECOND:06}"[:count] for count in range(1, 7)},  # type: ignore[misc]
    "E": dict.fromkeys((1, 2, 3), lambda instant: _DAYS[_weekday(instant)][:3])
    | {4: lambda instant: _DAYS[_weekday(instant)]},
    "a": {1: lambda instant: "AM" if _hour(instant) < 12 else "PM"},
}


def date_format(instant: int, pattern: str) -> str | None:
    """A time by a pattern; None for one that is not known."""
    writers = known_format(pattern)
    return None if writers is None else "".join([write(instant) for write in writers])


@functools.lru_cache(maxsize=1_024)
def known_format(pattern: str) -> Sequence[Writer] | None:
    """What writes the parts of a pattern; None where some letter is not known."""
    writers: list[Writer] = []
    at = 0
    while at < len(pattern):
        found = _PIECE.match(pattern, at)
        if found is None:
            return None
        at = found.end()
        if found[2] is None:
            text = found[0] if found[1] is None else found[1].replace("''", "'") or "'"
            writers.append(lambda _, text=text: text)  # type: ignore[misc]
        elif len(found[2]) in _LETTERS.get(found[3], {}):
            writers.append(_LETTERS[found[3]][len(found[2])])
        else:
            return None
    return writers
