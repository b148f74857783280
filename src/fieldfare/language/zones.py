"""Time zones by the names that Spark takes: regions, offsets such as +02:00 and UTC+2, and Java's short names.

Instants are microseconds since 1970-01-01 UTC; local times are counted from the same midnight on a zone's clocks.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

OFFSET = r"[+-](?:[0-9]{1,2}(?::[0-9]{1,2})?|[0-9]{1,2}:[0-9]{2}:[0-9]{2}|[0-9]{4}|[0-9]{6})"
_OFFSET_NAME = re.compile(rf"(?:UTC|GMT|UT)?({OFFSET})")
_NAME_CHARACTERS_MAX = 64
_OFFSET_SECONDS_MAX = 18 * 3600
_SHORT_NAMES = {  # java.time.ZoneId.SHORT_IDS
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "UT": "UTC",
    "VST": "Asia/Ho_Chi_Minh",
    "Z": "UTC",
}
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  # on a zone's clocks
_SECOND = 1_000_000
_CYCLE = 146_097 * 86_400 * _SECOND  # 400 years, after which the calendar repeats
_FIRST, _LAST = (round((datetime.datetime(year, 1, 1) - _EPOCH).total_seconds()) * _SECOND for year in (2, 9_999))  # noqa: DTZ001


def zone_of(name: str) -> datetime.tzinfo | None:
    """A time zone by its name; None where there is none."""
    return _zone(name) if len(name) <= _NAME_CHARACTERS_MAX else None  # names from events fill no memory


@functools.lru_cache(maxsize=1_024)
def _zone(name: str) -> datetime.tzinfo | None:
    name = _SHORT_NAMES.get(name, name)
    found = _OFFSET_NAME.fullmatch(name)
    if found:
        seconds = _offset_seconds(found[1])
        return None if seconds is None else datetime.timezone(datetime.timedelta(seconds=seconds))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset_seconds(text: str) -> int | None:
    digits = text[1:]
    units = digits.split(":") if ":" in digits else [digits[at : at + 2] for at in range(0, len(digits), 2)]
    hours, minutes, rest = (int(unit) for unit in (*units, "0", "0")[:3])
    seconds = hours * 3600 + minutes * 60 + rest
    if minutes > 59 or rest > 59 or seconds > _OFFSET_SECONDS_MAX:
        return None
    return -seconds if text[0] == "-" else seconds


def offset_at(zone: datetime.tzinfo, instant: int) -> int:
    """How far a zone is ahead of UTC at an instant, in microseconds."""
    utc = (_EPOCH + datetime.timedelta(microseconds=_known_year(instant))).replace(tzinfo=datetime.UTC)
    return _microseconds(utc.astimezone(zone).utcoffset())


def offset_at_local(zone: datetime.tzinfo, local: int) -> int:
    """The same at a local time: one that the clocks skip or repeat is read as before they change."""
    return _microseconds(
        (_EPOCH + datetime.timedelta(microseconds=_known_year(local))).replace(tzinfo=zone).utcoffset()
    )


def _known_year(instant: int) -> int:
    """An instant with the same offset in a year that the standard library knows: rules repeat with the calendar."""
    if instant < _FIRST:
        return instant + -(-(_FIRST - instant) // _CYCLE) * _CYCLE
    if instant > _LAST:
        return instant - -(-(instant - _LAST) // _CYCLE) * _CYCLE
    return instant


def _microseconds(offset: datetime.timedelta | None) -> int:
    return 0 if offset is None else offset // datetime.timedelta(microseconds=1)
