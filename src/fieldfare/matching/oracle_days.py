"""What functions of days and of seconds since 1970 mean, for the oracle: on Python's own dates."""

from __future__ import annotations

import calendar
import datetime
import math
import re
from collections.abc import Callable
from typing import Any

_EPOCH = datetime.date(1970, 1, 1)
_DAY = 86_400_000_000
DATE_RESULT = {"date_add", "date_sub", "last_day", "trunc", "make_date", "to_date"}
DAY_FUNCTIONS = {"date_add", "date_sub", "datediff", "date_diff", "last_day", "trunc", "weekofyear", "dayname"}
DAY_FUNCTIONS |= {"monthname", "unix_date"}
INSTANT_FUNCTIONS = {"unix_timestamp", "unix_seconds", "unix_millis", "unix_micros"}
FROM_NUMBERS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}


def of_days(name: str, microseconds: int, others: list[Any]) -> Any:
    """A function of a date: a number, a text or another date."""
    day = _EPOCH + datetime.timedelta(microseconds // _DAY)
    other: Any = others[0] if others else None
    answers: dict[str, Callable[[], Any]] = {
        "date_add": lambda: day + datetime.timedelta(other),
        "date_sub": lambda: day - datetime.timedelta(other),
        "datediff": lambda: (day - (_EPOCH + datetime.timedelta(other // _DAY))).days,
        "date_diff": lambda: (day - (_EPOCH + datetime.timedelta(other // _DAY))).days,
        "last_day": lambda: day.replace(day=calendar.monthrange(day.year, day.month)[1]),
        "trunc": lambda: _start(day, other.upper()),
        "weekofyear": lambda: day.isocalendar().week,
        "dayname": lambda: calendar.day_abbr[day.weekday()],
        "monthname": lambda: calendar.month_abbr[day.month],
        "unix_date": lambda: (day - _EPOCH).days,
    }
    return answers[name]()


def _start(day: datetime.date, unit: str) -> datetime.date | None:
    if unit == "WEEK":
        return day - datetime.timedelta(day.weekday())
    months = {"YEAR": 1, "YYYY": 1, "YY": 1, "QUARTER": (day.month - 1) // 3 * 3 + 1}
    months |= dict.fromkeys(("MONTH", "MM", "MON"), day.month)
    return day.replace(month=months[unit], day=1) if unit in months else None


def of_instant(name: str, microseconds: int) -> int:
    """The seconds, or parts of seconds, since 1970."""
    if name == "unix_timestamp":
        return math.trunc(microseconds / 1_000_000)
    return microseconds // {"unix_seconds": 1_000_000, "unix_millis": 1_000, "unix_micros": 1}[name]


def formatted(microseconds: int, pattern: str) -> str:
    """A time by a pattern of Java's letters."""
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)  # noqa: DTZ001
    meanings = {
        "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": str(when.month), "dd": "%d",
        "d": str(when.day), "HH": "%H", "hh": "%I", "h": str(when.hour % 12 or 12), "mm": "%M", "ss": "%S",
        "SSS": f"{when.microsecond // 1000:03}", "EEEE": "%A", "EEE": "%a", "a": "%p",
    }  # fmt: skip
    texts = re.split("'((?:[^']|'')*)'", pattern)
    texts[::2] = [re.sub("([a-zA-Z])\\1*", lambda letters: meanings[letters[0]], text) for text in texts[::2]]
    texts[1::2] = [text.replace("''", "'") for text in texts[1::2]]
    return when.strftime("".join(texts))


def made(year: int, month: int, day: int) -> datetime.date | None:
    """A date of parts; None where there is none."""
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None
