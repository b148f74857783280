"""Functions of whole days and of the seconds since 1970, one value at a time; a date is its midnight."""

from __future__ import annotations

import math

from fieldfare.language.time_functions import instant_of, truncated, weekday
from fieldfare.language.times import DAY_MICROSECONDS, civil, parse_date
from fieldfare.model import INT64_MAX, INT64_MIN

_SECOND = 1_000_000
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def date_add(instant: int, days: int) -> int | None:
    """So many days later, as a date."""
    return _within((instant // DAY_MICROSECONDS + days) * DAY_MICROSECONDS)


def date_sub(instant: int, days: int) -> int | None:
    """So many days earlier, as a date."""
    return date_add(instant, -days)


def datediff(end: int, start: int) -> int:
    """How many days a date is after another."""
    return end // DAY_MICROSECONDS - start // DAY_MICROSECONDS


def last_day(instant: int) -> int | None:
    """The last day of the month."""
    year, month, _ = civil(instant)
    return _within(instant_of(year + (month == 12), month % 12 + 1, 1) - DAY_MICROSECONDS)


def week_of_year(instant: int) -> int:
    """The number of the week, of which the first has the year's first Thursday."""
    thursday = instant // DAY_MICROSECONDS * DAY_MICROSECONDS + (3 - weekday(instant)) * DAY_MICROSECONDS
    return (thursday - instant_of(civil(thursday)[0], 1, 1)) // DAY_MICROSECONDS // 7 + 1


def day_name(instant: int) -> str:
    """The day of the week, in three letters."""
    return _DAYS[weekday(instant)]


def month_name(instant: int) -> str:
    """The month, in three letters."""
    return _MONTHS[civil(instant)[1] - 1]


def make_date(year: int, month: int, day: int) -> int | None:
    """A date by its parts; NULL where there is none."""
    sign = "-" if year < 0 else "+"
    return parse_date(f"{sign}{abs(year):04}-{month}-{day}") if abs(year) < 10**7 and month > 0 and day > 0 else None


def trunc(instant: int, unit: str) -> int | None:
    """The first day of the year, quarter, month or week; NULL for another unit."""
    is_unit = unit.upper() in {"YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MM", "MON", "WEEK"}
    return truncated(unit, instant) if is_unit else None


def unix_timestamp(instant: int) -> int:
    """Seconds since 1970, without what is left of a second."""
    return instant // _SECOND if instant >= 0 else -(-instant // _SECOND)


def unix_seconds(instant: int) -> int:
    """Seconds since 1970, rounded down."""
    return instant // _SECOND


def unix_millis(instant: int) -> int:
    """Milliseconds since 1970, rounded down."""
    return instant // 1_000


def unix_micros(instant: int) -> int:
    """Microseconds since 1970."""
    return instant


def unix_date(instant: int) -> int:
    """Days since 1970."""
    return instant // DAY_MICROSECONDS


def timestamp_seconds(seconds: float) -> int | None:
    """The time so many seconds after 1970."""
    if isinstance(seconds, int):
        return _within(seconds * _SECOND)
    product = seconds * _SECOND
    return min(max(int(product), INT64_MIN), INT64_MAX) if math.isfinite(product) else None


def timestamp_millis(milliseconds: int) -> int | None:
    """The time so many milliseconds after 1970."""
    return _within(milliseconds * 1_000)


def timestamp_micros(microseconds: int) -> int:
    """The time so many microseconds after 1970."""
    return microseconds


def _within(instant: int) -> int | None:
    return instant if INT64_MIN <= instant <= INT64_MAX else None
