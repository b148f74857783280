"""Dates and timestamps in text, read as Spark casts them, into microseconds since 1970-01-01 UTC.

A date needs its year only (four digits or more); the time of day may stop at the hour; a zone may follow the seconds,
and none means UTC. Text that is a time of day alone is no time here: Spark would take the day of the query.
"""

from __future__ import annotations

import calendar
import datetime
import re
import zoneinfo

from fieldfare.model import INT64_MAX, INT64_MIN

_DATE = r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_OFFSET = r"[+-](?:[0-9]{1,2}(?::[0-9]{1,2}){0,2}|[0-9]{4}|[0-9]{6})"
_ZONE = rf"Z|(?:UTC|GMT|UT)?{_OFFSET}|[A-Za-z][A-Za-z0-9_+/-]*"
_TIMESTAMP_TEXT = re.compile(
    _DATE + rf"(?:[ T]([0-9]{{1,2}})(?::([0-9]{{1,2}})(?::([0-9]{{1,2}})(?:\.([0-9]*))?(?: *({_ZONE}))?)?)?)?)?)?"
)
_DATE_TEXT = re.compile(_DATE + r"(?:[ T].*)?)?)?", re.DOTALL)
_BLANKS = "".join(map(chr, (*range(0x21), *range(0x7F, 0xA0))))  # what Spark trims: spaces and control characters
_ZONE_OFFSET_SECONDS_MAX = 18 * 3600
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
    offset_seconds = _zone_offset_seconds(zone, days, seconds) if zone else 0
    if offset_seconds is None:
        return None
    return _instant(days, (seconds - offset_seconds) * 1_000_000 + int((fraction or "")[:6].ljust(6, "0")))


def format_timestamp(microseconds: int) -> str:
    """ISO text of an instant: the date alone where it is a midnight."""
    days, rest = divmod(microseconds, DAY_MICROSECONDS)
    if not -719_162 <= days <= 2_932_896:  # the years 1 to 9999
        return f"{microseconds} microseconds since 1970"
    date = (datetime.date(1970, 1, 1) + datetime.timedelta(days)).isoformat()
    if rest == 0:
        return date
    seconds, fraction = divmod(rest, 1_000_000)
    clock = datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)
    return f"{date} {clock.isoformat()}"


def timestamp_text(microseconds: int) -> str:
    """A timestamp as Spark's cast to a string writes it: with the time of day, and no zeros after the fraction."""
    text = format_timestamp(microseconds)
    if microseconds % DAY_MICROSECONDS == 0 and text.count("-") == 2:
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


def _zone_offset_seconds(zone: str, days: int, seconds: int) -> int | None:
    """How far a zone is ahead of UTC at a local time; None where there is no such zone."""
    found = re.search(_OFFSET + r"\Z", zone)
    if found and zone[: found.start()] in ("", "UTC", "GMT", "UT"):
        sign, digits = found.group()[0], found.group()[1:]
        units = digits.split(":") if ":" in digits else [digits[at : at + 2] for at in range(0, len(digits), 2)]
        hours, minutes, rest = (int(unit) for unit in (*units, "0", "0")[:3])
        offset_seconds = hours * 3600 + minutes * 60 + rest
        if minutes > 59 or rest > 59 or offset_seconds > _ZONE_OFFSET_SECONDS_MAX:
            return None
        return -offset_seconds if sign == "-" else offset_seconds
    try:
        region = zoneinfo.ZoneInfo("UTC" if zone in ("Z", "UT") else zone)
        offset = (datetime.datetime(1970, 1, 1, tzinfo=region) + datetime.timedelta(days, seconds)).utcoffset()
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return None
    return None if offset is None else round(offset.total_seconds())
