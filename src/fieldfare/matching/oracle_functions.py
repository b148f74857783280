"""What functions mean, for the oracle: written once more, as plainly as possible, on Python's own types."""

from __future__ import annotations

import calendar
import datetime
import ipaddress
import math
import re
import zoneinfo
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WORDS = {
    **dict.fromkeys(["t", "true", "y", "yes", "1"], True),
    **dict.fromkeys(["f", "false", "n", "no", "0"], False),
}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

SYNONYMS = {"substr": "substring", "char_length": "length", "ceiling": "ceil", "pow": "power", "dayofmonth": "day"}
NUMBER_RESULT = {"length", "locate", "instr", "abs", "ceil", "floor", "round", "div", "pmod", "power", "sqrt", "sign"}
NUMBER_RESULT |= {"st_distancesphere", "exp", "ln", "log", "log10", "log2", "ascii", "octet_length", "weekofyear"}
NUMBER_RESULT |= {"datediff", "date_diff", "unix_date", "unix_timestamp", "unix_seconds", "unix_millis", "unix_micros"}
NUMBER_RESULT |= {"try_add", "try_subtract", "try_multiply", "try_divide"}
TIME_FIELDS = {"year", "quarter", "month", "day", "dayofyear", "dayofweek", "weekday", "hour", "minute", "second"}


def moment(microseconds: int) -> datetime.datetime:
    """An instant as a datetime."""
    return EPOCH + datetime.timedelta(microseconds=microseconds)


def instant(value: datetime.datetime) -> int:
    """A datetime as microseconds."""
    return (value - EPOCH) // datetime.timedelta(microseconds=1)


def text(value: Any) -> str:
    """A value as a cast to a string writes it; an instant as a timestamp."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, float):
        return _float_text(value)
    when = moment(value.microseconds)
    return when.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0") + (f".{when.microsecond:06}".rstrip("0").rstrip("."))


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0.0"
    if 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else plain + ".0"
    mantissa, _, exponent = f"{Decimal(repr(value)):e}".lower().partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def substring(value: str, start: int, count: int | None = None) -> str:
    """Some characters: the first has number 1, and negative numbers count from the end."""
    characters = dict(enumerate(value, 1))
    first = start if start > 0 else len(value) + 1 + start if start < 0 else 1
    end = first + (2**31 - 1 if count is None else count)
    return "".join(character for number, character in characters.items() if first <= number < end)


def rounded(value: float, places: int = 0) -> float:
    """Halves away from zero, in decimal."""
    exact = Decimal(str(value))
    unit = Decimal(1).scaleb(-places)
    result = (exact / unit).to_integral_value(ROUND_HALF_UP) * unit
    return int(result) if isinstance(value, int) else float(result)


def pmod(left: float, right: float) -> float | None:
    """The remainder, with the divisor added once where it is negative."""
    if right == 0 or math.isinf(left):
        return None

    def remainder(a: float, b: float) -> float:
        if isinstance(a, int) and isinstance(b, int):
            return a - b * int(Decimal(a) / Decimal(b)) if abs(a) < 2**40 and abs(b) < 2**40 else _exact(a, b)
        return math.fmod(a, b)

    first = remainder(left, right)
    if first >= 0 or first == right == -math.inf:
        return first if first >= 0 else None
    total = first + right
    if isinstance(total, int):
        total = (total + 2**63) % 2**64 - 2**63
    return None if math.isinf(total) else remainder(total, right)


def _exact(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a - b * quotient


def div(left: float, right: float) -> int | None:
    """The quotient of integers, cut off."""
    if right == 0 or isinstance(left, float) or isinstance(right, float):
        return None
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def time_field(name: str, microseconds: int) -> int:
    """A field of a timestamp."""
    when = moment(microseconds)
    answers: dict[str, Callable[[], int]] = {
        "quarter": lambda: math.ceil(when.month / 3),
        "dayofyear": lambda: when.timetuple().tm_yday,
        "dayofweek": lambda: when.isoweekday() % 7 + 1,
        "weekday": when.weekday,
    }
    field: int = answers[name]() if name in answers else getattr(when, name)
    return field


def truncated(unit: str, microseconds: int) -> int:
    """The start of what an instant lies in."""
    when = moment(microseconds)
    unit = unit.upper()
    if unit == "WEEK":
        when = truncate_to(when, "DAY") - datetime.timedelta(days=when.weekday())
    elif unit == "QUARTER":
        when = truncate_to(when.replace(day=1, month=(when.month - 1) // 3 * 3 + 1), "DAY")
    else:
        when = truncate_to(when, unit)
    return instant(when)


def truncate_to(when: datetime.datetime, unit: str) -> datetime.datetime:
    """A datetime with its smaller fields at their start."""
    fields: dict[str, Any] = {"microsecond": 0}
    for name, start in (
        ("SECOND", "second"),
        ("MINUTE", "minute"),
        ("HOUR", "hour"),
        ("DAY", "day"),
        ("MONTH", "month"),
    ):
        if unit == name:
            break
        fields[start] = 1 if start in {"day", "month"} else 0
    return when.replace(**fields)


def shifted(microseconds: int, amount: Decimal, unit: str) -> int:
    """An instant so much later."""
    when = moment(microseconds)
    if unit in {"MONTH", "YEAR"}:
        months = when.year * 12 + when.month - 1 + int(amount) * (12 if unit == "YEAR" else 1)
        year, month = months // 12, months % 12 + 1
        return instant(when.replace(year=year, month=month, day=min(when.day, calendar.monthrange(year, month)[1])))
    return microseconds + int(amount * {
        "WEEK": 604_800_000_000, "DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000,
        "SECOND": 1_000_000, "MILLISECOND": 1_000, "MICROSECOND": 1,
    }[unit])  # fmt: skip


def local(microseconds: int, zone: str) -> int:
    """What clocks in a zone show at an instant."""
    return instant(moment(microseconds).astimezone(_zone(zone)).replace(tzinfo=datetime.UTC))


def utc_of(microseconds: int, zone: str) -> int:
    """The instant at which clocks in a zone show a time."""
    return instant(moment(microseconds).replace(tzinfo=_zone(zone)))


def _zone(name: str) -> datetime.tzinfo:
    """A zone by its name, or an offset such as +02:00."""
    if name[0] not in "+-":
        return zoneinfo.ZoneInfo(name)
    ahead = datetime.datetime.strptime(name, "%z").utcoffset()
    return datetime.timezone(ahead or datetime.timedelta())


def in_block(address: str, block: str) -> bool | None:
    """Whether an address lies in a block of addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    found = getattr(found, "ipv4_mapped", None) or found
    return found in ipaddress.ip_network(block)


def to_boolean(value: Any) -> bool | None:
    """CAST AS boolean."""
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower())
    return value != 0 if isinstance(value, int | float) else None


def to_integer(value: Any, kind: str) -> int | None:
    """CAST AS an integer type; None where it does not fit."""
    if isinstance(value, str):
        number = int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value, re.ASCII) else None
    elif isinstance(value, bool | int | float):
        number = None if isinstance(value, float) and not math.isfinite(value) else int(value)
        number = number - 1 if number == 2**63 and kind == "bigint" else number  # the nearest float of 2^63 - 1
    else:
        number = math.floor(Decimal(value.microseconds) / 1_000_000)
    return number if number is not None and -(2 ** (_BITS[kind] - 1)) <= number < 2 ** (_BITS[kind] - 1) else None


def to_float(value: Any) -> float | None:
    """CAST AS double."""
    if isinstance(value, str):
        try:
            return float(value) if "_" not in value and "nan" not in value.lower() else None
        except ValueError:
            return None
    return float(value) if isinstance(value, bool | int | float) else value.microseconds / 1_000_000


def of_numbers(name: str, *numbers: Any) -> Any:
    """A function of numbers."""
    first = numbers[0]
    if name in {"ceil", "floor"} and math.isinf(first):
        return None
    answers: dict[str, Callable[[], Any]] = {
        "abs": lambda: abs(first),
        "ceil": lambda: math.ceil(first),
        "floor": lambda: math.floor(first),
        "round": lambda: first if math.isinf(first) else rounded(*numbers),
        "div": lambda: div(*numbers),
        "pmod": lambda: pmod(*numbers),
        "mod": lambda: (pmod(abs(first), abs(numbers[1])) or 0) * (-1 if first < 0 else 1) if numbers[1] else None,
        "power": lambda: float(first) ** float(numbers[1]),
        "sqrt": lambda: None if first < 0 else math.sqrt(first),
        "sign": lambda: math.copysign(1, first) if first else 0,
        "exp": lambda: math.exp(first) if first < 709 else math.inf,
        "ln": lambda: math.log(first) if first > 0 else None,
        "log": lambda: _logarithm(*numbers),
        "log10": lambda: math.log10(first) if first > 0 else None,
        "log2": lambda: _logarithm(2, first),
        "try_add": lambda: first + numbers[1],
        "try_subtract": lambda: first - numbers[1],
        "try_multiply": lambda: first * numbers[1],
        "try_divide": lambda: first / numbers[1] if numbers[1] else None,
    }
    result = answers[name]()
    return None if isinstance(result, int) and not -(2**63) <= result < 2**63 else result


def _logarithm(base: float, number: float | None = None) -> float | None:
    if number is None:
        return math.log(base) if base > 0 else None
    return math.log(number) / math.log(base) if number > 0 and base > 0 and base != 1 else None


def of_bits(operator: str, numbers: list[Any]) -> int | None:
    """A bitwise operation of integers."""
    if not all(type(number) is int for number in numbers):
        return None
    first, second = numbers[0], numbers[-1]
    answers = {
        "BitwiseAnd": first & second,
        "BitwiseOr": first | second,
        "BitwiseXor": first ^ second,
        "BitwiseNot": -first - 1,
    }
    return int(answers[operator])


def of_texts(name: str, texts: list[str], values: list[Any]) -> bool | int | str | None:
    """A function of texts; `values` are its arguments as they were before they became texts."""
    first, second = texts[0], texts[1] if len(texts) > 1 else ""
    answers: dict[str, Callable[[], bool | int | str | None]] = {
        "lower": first.lower,
        "upper": first.upper,
        "length": lambda: len(first),
        "trim": lambda: _trimmed(*texts[::-1], start=True, end=True),
        "ltrim": lambda: _trimmed(*texts[::-1], start=True),
        "rtrim": lambda: _trimmed(*texts[::-1], end=True),
        "btrim": lambda: _trimmed(*texts, start=True, end=True),
        "lpad": lambda: (
            _padded(first, values[1], *texts[2:])[::-1][: max(values[1], 0)][::-1]
            if len(first) < values[1]
            else first[: max(values[1], 0)]
        ),
        "rpad": lambda: (first + _padded("", values[1], *texts[2:]))[: max(values[1], 0)],
        "repeat": lambda: "".join(first for _ in range(values[1])),
        "initcap": lambda: re.sub("[^ ]+", lambda word: word[0].capitalize(), first),
        "substring_index": lambda: _until(first, second, values[2]),
        "split_part": lambda: _part(first, second, values[2]),
        "translate": lambda: "".join(_other(character, second, texts[2]) for character in first),
        "ascii": lambda: ord(first[0]) if first else 0,
        "octet_length": lambda: len(first.encode()),
        "left": lambda: substring(first, 1, values[1]),
        "right": lambda: substring(first, -values[1]) if values[1] > 0 else "",
        "substring": lambda: substring(first, *values[1:]),
        "concat": lambda: "".join(texts),
        "replace": lambda: "".join(texts[2:]).join(first.split(second)) if second else first,
        "reverse": lambda: "".join(reversed(first)),
        "startswith": lambda: first[: len(second)] == second,
        "endswith": lambda: substring(first, -len(second)) == second if second else True,
        "contains": lambda: second in first,
        "locate": lambda: _place(first, second, *values[2:]),
        "instr": lambda: _place(second, first),
        "ip_in": lambda: in_block(first, second),
    }
    return answers[name]()


def _trimmed(text: str, characters: str = " ", *, start: bool = False, end: bool = False) -> str:
    kept = [place for place, character in enumerate(text) if character not in characters]
    if not kept:
        return ""
    return text[kept[0] if start else 0 : kept[-1] + 1 if end else len(text)]


def _padded(text: str, size: int, pad: str = " ") -> str:
    """What is put before a text, and the text."""
    missing = max(size - len(text), 0)
    return "".join(pad[place % len(pad)] for place in range(missing)) + text if pad else text


def _until(text: str, separator: str, count: int) -> str:
    if not separator or not count:
        return ""
    parts = text.split(separator)
    return separator.join(parts[: min(count, len(parts))] if count > 0 else parts[max(len(parts) + count, 0) :])


def _part(text: str, separator: str, number: int) -> str | None:
    parts = dict(enumerate(text.split(separator) if separator else [text], 1))
    return None if not number else parts.get(number if number > 0 else len(parts) + 1 + number, "")


def _other(character: str, characters: str, others: str) -> str:
    place = characters.find(character)
    return character if place < 0 else others[place : place + 1]


def _place(search: str, value: str, start: int = 1) -> int:
    if search == "":
        return int(start > 0)
    places = range(start, len(value) + 2) if start > 0 else range(0)
    return next((place for place in places if value[place - 1 :].startswith(search)), 0)
