"""Dates and timestamps in text, read as Spark casts them, into microseconds since 1970-01-01 UTC.

A date needs its year only (four digits or more); the time of day may stop at the hour; a zone may follow the seconds,
and none means UTC. Text that is a time of day alone is no time here: Spark would take the day of the query.
"""

from __future__ import annotations

import calendar
import datetime
import re

from fieldfare.language.zones import OFFSET, offset_at_local, zone_of
from fieldfare.model import INT64_MAX, INT64_MIN

_DATE = r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_ZONE = rf"Z|(?:UTC|GMT|UT)?{OFFSET}|[A-Za-z][A-Za-z0-9_+/-]*"
_TIMESTAMP_TEXT = re.compile(
    _DATE + rf"(?:[ T]([0-9]{{1,2}})(?::([0-9]{{1,2}})(?::([0-9]{{1,2}})(?:\.([0-9]*))?(?: *({_ZONE}))?)?)?)?)?)?"
)
_DATE_TEXT = re.compile(_DATE + r"(?:[ T].*)?)?)?", re.DOTALL)
_BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))  # what Spark trims: spaces and control characters
DAY_MICROSECONDS = 86_400_000_000


def parse_date(text: str) -> int | None:
    """The midnight of a date in text, which a time may follow; None where it is not a date."""
    found = _DATE_TEXT.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    return _instant(_days(*found.groups()), 0)


def parse_timestamp(text: str) -> int | None:
    """The instant of a date or timestamp in text; None where it is neither."""
    found = _TIMESTAMP_TEXT.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    days = _days(year, month, day)
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    seconds = (clock[0] * 60 + clock[1]) * 60 + clock[2]
    region = zone_of(zone) if zone else None
    if zone and region is None:
        return None
    offset = offset_at_local(region, days * DAY_MICROSECONDS + seconds * 1_000_000) if region else 0
    return _instant(days, seconds * 1_000_000 - offset + int((fraction or "")[:6].ljust(6, "0")))


def civil(instant: int) -> tuple[int, int, int]:
    """Year, month and day, in the calendar of today for all years (Howard Hinnant's algorithm)."""
    shifted = instant // DAY_MICROSECONDS + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def format_timestamp(microseconds: int) -> str:
    """ISO text of an instant: the date alone where it is a midnight."""
    rest = microseconds % DAY_MICROSECONDS
    year, month, day = civil(microseconds)
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    date = f"{sign}{abs(year):04}-{month:02}-{day:02}"
    if rest == 0:
        return date
    seconds, fraction = divmod(rest, 1_000_000)
    clock = datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)
    return f"{date} {clock.isoformat()}"


def timestamp_text(microseconds: int) -> str:
    """A timestamp as Spark's cast to a string writes it: with the time of day, and no zeros after the fraction."""
    text = format_timestamp(microseconds)
    if microseconds % DAY_MICROSECONDS == 0:
        return f"{text} 00:00:00"
    return text.rstrip("0") if "." in text else text


def _instant(days: int | None, microseconds: int) -> int | None:
    if days is None:
        return None
    instant = days * DAY_MICROSECONDS + microseconds
    return instant if INT64_MIN <= instant <= INT64_MAX else None


def _days(year_text: str, month_text: str | None, day_text: str | None) -> int | None:
    """Days since 1970-01-01, in the calendar of today for all years."""
    year, month, day = int(year_text), int(month_text or 1), int(day_text or 1)
    if not 1 <= month <= 12:
        return None
    # The calendar repeats every 400 years, so any year has a twin that the standard library knows.
    twin = 2000 + year % 400
    if not 1 <= day <= calendar.monthrange(twin, month)[1]:
        return None
    cycles = (year - twin) // 400
    return (datetime.date(twin, month, day) - datetime.date(1970, 1, 1)).days + cycles * 146_097
