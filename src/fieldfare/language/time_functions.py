"""Functions of points in time, which are microseconds since 1970-01-01 UTC; a date is its midnight. The zone is UTC."""

from __future__ import annotations

from fieldfare.language.times import civil
from fieldfare.language.zones import offset_at, offset_at_local, zone_of
from fieldfare.model import INT64_MAX, INT64_MIN

_DAY = 86_400_000_000
_UNITS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1_000, "MICROSECOND": 1}
_TRUNCATIONS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MM", "MON"), "MONTH"),
    "WEEK": "WEEK",
    **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{unit: unit for unit in _UNITS},
}


def instant_of(year: int, month: int, day: int) -> int:
    """The midnight of a day."""
    shifted_year = year - (month <= 2)
    era, year_of_era = divmod(shifted_year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return (era * 146_097 + day_of_era - 719_468) * _DAY


def year(instant: int) -> int:
    """The year."""
    return civil(instant)[0]


def quarter(instant: int) -> int:
    """The quarter, from 1 to 4."""
    return (civil(instant)[1] + 2) // 3


def month(instant: int) -> int:
    """The month, from 1 to 12."""
    return civil(instant)[1]


def day(instant: int) -> int:
    """The day of the month."""
    return civil(instant)[2]


def day_of_year(instant: int) -> int:
    """The day of the year, from 1."""
    return (instant - instant_of(year(instant), 1, 1)) // _DAY + 1


def day_of_week(instant: int) -> int:
    """The day of the week: Sunday is 1."""
    return (instant // _DAY + 4) % 7 + 1


def weekday(instant: int) -> int:
    """The day of the week: Monday is 0."""
    return (instant // _DAY + 3) % 7


def hour(instant: int) -> int:
    """The hour of the day."""
    return instant // 3_600_000_000 % 24


def minute(instant: int) -> int:
    """The minute of the hour."""
    return instant // 60_000_000 % 60


def second(instant: int) -> int:
    """The second of the minute."""
    return instant // 1_000_000 % 60


def known_unit(unit: str) -> bool:
    """Whether DATE_TRUNC knows a unit."""
    return unit.upper() in _TRUNCATIONS


def truncated(unit: str, instant: int) -> int | None:
    """The start of the year, month and so on that an instant lies in."""
    kind = _TRUNCATIONS.get(unit.upper())
    if kind is None:
        return None
    if kind in _UNITS:
        return instant // _UNITS[kind] * _UNITS[kind]
    if kind == "DAY":
        return instant // _DAY * _DAY
    if kind == "WEEK":
        return _within(instant // _DAY * _DAY - weekday(instant) * _DAY)
    a_year, a_month, _ = civil(instant)
    first = {"YEAR": 1, "QUARTER": (a_month - 1) // 3 * 3 + 1, "MONTH": a_month}[kind]
    return _within(instant_of(a_year, first, 1))


def plus_microseconds(instant: int, microseconds: int) -> int | None:
    """So much later."""
    return _within(instant + microseconds)


def plus_months(instant: int, months: int) -> int | None:
    """So many months later: the same day, or the last of a shorter month."""
    a_year, a_month, a_day = civil(instant)
    years, month_from_0 = divmod(a_year * 12 + a_month - 1 + months, 12)
    start = instant_of(years, month_from_0 + 1, 1)
    end = instant_of(years + (month_from_0 == 11), (month_from_0 + 1) % 12 + 1, 1)
    return _within(start + min(a_day - 1, (end - start) // _DAY - 1) * _DAY + instant % _DAY)


def from_utc(instant: int, zone: str) -> int | None:
    """The local time of a zone at an instant, as if that were UTC."""
    region = zone_of(zone)
    return None if region is None else _within(instant + offset_at(region, instant))


def to_utc(local: int, zone: str) -> int | None:
    """The instant at which the clocks of a zone show a time."""
    region = zone_of(zone)
    return None if region is None else _within(local - offset_at_local(region, local))


def _within(instant: int) -> int | None:
    return instant if INT64_MIN <= instant <= INT64_MAX else None
