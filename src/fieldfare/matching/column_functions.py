"""Functions on columns of one type: a few operations on arrays where there are some, else value by value.

A result is a list of (section, places, column): the places are those of the rows for which there is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.language.functions import Function
from fieldfare.language.kinds import Kind, argument, result
from fieldfare.language.kinds import cast as cast_value
from fieldfare.matching.batch import Texts
from fieldfare.matching.operands import Numbers, Operand, Strings
from fieldfare.matching.region_tests import distance_kernel, polygon_kernel
from fieldfare.model import INT64_MIN, Literal, Section

Places = npt.NDArray[np.int64]
Results = list[tuple[Section, Places, Numbers | Strings]]
Contents = list[Any]
_DAY = 86_400_000_000


def constant_operand(literal: Literal, count: int) -> Operand:
    """The same value for many rows."""
    column: Numbers | Strings
    if isinstance(literal.value, str):
        column = Strings(Texts.of([literal.value.encode()]), np.zeros(count, np.int64))
    else:
        column = np.full(count, literal.value, np.float64 if isinstance(literal.value, float) else np.int64)
    return Operand(literal.section, column, column, np.ones(count, np.bool_))


def contents_of(operand: Operand) -> Contents:
    """The values as Python has them; texts are str."""
    if isinstance(operand.low, Strings):
        return _decoded(operand.low)
    found: Contents = operand.low.tolist()
    return found


def _decoded(strings: Strings) -> list[str]:
    texts = strings.texts
    buffers = [None, pa.py_buffer(np.ascontiguousarray(texts.offsets)), pa.py_buffer(texts.data)]
    array = pa.Array.from_buffers(pa.large_string(), len(texts), buffers)
    if len(texts) == len(strings.choice) and (strings.choice == np.arange(len(texts))).all():
        whole: list[str] = array.to_pylist()
        return whole
    listed: list[str] = array.take(pa.array(strings.choice)).to_pylist()
    return listed


def results_of(values: Sequence[tuple[Section, Any]]) -> Results:
    """Values of any sections, in columns."""
    groups: dict[tuple[Section, type], tuple[list[int], list[Any]]] = {}
    for place, (section, content) in enumerate(values):
        if section is not Section.NULL:
            places, contents = groups.setdefault((section, type(content)), ([], []))
            places.append(place)
            contents.append(content)
    return [
        (section, np.array(places, np.int64), column_of(contents, kind if section is not Section.NAN else tuple))
        for (section, kind), (places, contents) in groups.items()
    ]


def column_of(contents: Sequence[Any], kind: type) -> Numbers | Strings:
    """Values of one Python type as a column; lists leave only their places."""
    if kind is tuple:
        return np.zeros(len(contents), np.int64)
    if kind is str:
        return Strings(Texts.of([content.encode() for content in contents]), np.arange(len(contents)))
    return np.array(contents, np.float64 if kind is float else np.int64)


def cast_column(operand: Operand, target: str) -> Results:
    """CAST of a column."""
    if operand.section is Section.TIME and target in {"date", "timestamp"} and not isinstance(operand.low, Strings):
        times = operand.low if target == "timestamp" else operand.low - operand.low % _DAY
        at = np.flatnonzero(times <= operand.low)  # the midnight before the first instants is none
        return [(Section.TIME, at, times[at])]
    section = operand.section
    return results_of([cast_value((section, content), target) for content in contents_of(operand)])


def extreme_of(function: str, columns: Sequence[Contents], certain: npt.NDArray[np.bool_]) -> Results:
    """GREATEST or LEAST of columns of (section, value) or None, for the rows that are certain."""
    choose = max if function == "greatest" else min
    values = []
    for row, is_certain in zip(zip(*columns, strict=True), certain.tolist(), strict=True):
        present = [value for value in row if value is not None] if is_certain else []
        if len({section for section, _ in present}) == 1 and present[0][0] is not Section.NAN:
            values.append((present[0][0], choose(content for _, content in present)))
        else:
            values.append((Section.NULL, 0))
    return results_of(values)


def mapped(name: str, function: Function, operands: Sequence[Operand], literals: Sequence[Any]) -> Results:
    """A function of columns. `literals` are the arguments that are the same in every row, and else None."""
    kinds = [function.parameter(number) for number in range(len(operands))]
    if not function.converts and any(
        operand.section is not kind.section for operand, kind in zip(operands, kinds, strict=True)
    ):
        return []
    if name in _KERNELS and all(operand.section is kind.section for operand, kind in zip(operands, kinds, strict=True)):
        found = _KERNELS[name](*(_given(*pair) for pair in zip(operands, literals, strict=True)))
        if found is not None:
            section = function.result.section
            return [(section, *_answered(found))]
    return _mapped_singly(function, kinds, operands, literals)


def _given(operand: Operand, literal: Any) -> Any:
    return operand.low if literal is None else literal


def _answered(found: Any) -> tuple[Places, Numbers | Strings]:
    """All results, or those that a mask says are answers."""
    if isinstance(found, Strings):
        return np.arange(len(found.choice)), found
    if not isinstance(found, tuple):
        return np.arange(len(found)), found
    at = np.flatnonzero(found[1])
    return at, found[0][at]


def _mapped_singly(
    function: Function, kinds: Sequence[Kind], operands: Sequence[Operand], literals: Sequence[Any]
) -> Results:
    varying = [number for number, literal in enumerate(literals) if literal is None]
    if len(varying) == 1 and isinstance(operands[varying[0]].low, Strings):
        strings = cast("Strings", operands[varying[0]].low)
        distinct, back = np.unique(strings.choice, return_inverse=True)
        if 2 * len(distinct) <= len(strings.choice):  # the same few texts over and over: each is worked on once
            few = Strings(strings.texts, distinct)
            one = Operand(Section.STRING, few, few, np.ones(len(distinct), np.bool_))
            narrowed = [one if number == varying[0] else operand for number, operand in enumerate(operands)]
            return _spread(_mapped_singly(function, kinds, narrowed, literals), len(distinct), back)
    arguments = []
    count = len(operands[varying[0]].known) if varying else len(operands[0].known)
    for kind, operand, literal in zip(kinds, operands, literals, strict=True):
        if literal is not None:
            content = argument(kind, (operand.section, literal))
            arguments.append([content] * count)
        elif operand.section is kind.section and kind is not Kind.INTEGER:
            arguments.append(contents_of(operand))
        else:
            arguments.append([argument(kind, (operand.section, content)) for content in contents_of(operand)])
    call, kind = function.call, function.result
    values = [(Section.NULL, 0) if None in row else result(kind, call(*row)) for row in zip(*arguments, strict=True)]
    return results_of(values)


def _spread(results: Results, count: int, back: npt.NDArray[np.intp]) -> Results:
    """The results for distinct values, put where the values stood."""
    spread: Results = []
    for section, places, column in results:
        number_of = np.full(count, -1, np.int64)
        number_of[places] = np.arange(len(places))
        numbers = number_of[back]
        at = np.flatnonzero(numbers >= 0)
        chosen = numbers[at]
        if isinstance(column, Strings):
            spread.append((section, at, Strings(column.texts, column.choice[chosen])))
        else:
            spread.append((section, at, column[chosen]))
    return spread


# Kernels


def _days(times: Numbers) -> npt.NDArray[np.datetime64]:
    return (times // _DAY).astype("datetime64[D]")


def _year(times: Numbers) -> Numbers:
    years: Numbers = _days(times).astype("datetime64[Y]").astype(np.int64)
    return years + 1970


def _month(times: Numbers) -> Numbers:
    return _days(times).astype("datetime64[M]").astype(np.int64) % 12 + 1


def _day_of_month(times: Numbers) -> Numbers:
    days = _days(times)
    before: Numbers = (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
    return before + 1


def _absolute(numbers: Numbers) -> Any:
    return np.abs(numbers), numbers != INT64_MIN if numbers.dtype == np.int64 else np.ones(len(numbers), np.bool_)


def _to_integer(round_off: Callable[[Numbers], Numbers]) -> Callable[[Numbers], Any]:
    def rounded(numbers: Numbers) -> Any:
        if numbers.dtype == np.int64:
            return numbers
        whole = round_off(numbers)
        inside = (whole >= -(2.0**63)) & (whole < 2.0**63)
        return np.where(inside, whole, 0.0).astype(np.int64), inside

    return rounded


def _square_root(numbers: Numbers) -> Any:
    with np.errstate(invalid="ignore"):
        return np.sqrt(numbers.astype(np.float64)), numbers >= 0


def _later(times: Numbers, microseconds: Any) -> Any:
    with np.errstate(over="ignore"):
        later = times + np.int64(microseconds)
    return later, (times ^ later) & (np.int64(microseconds) ^ later) >= 0


def _bitwise(change: Callable[[Any, Any], Numbers]) -> Callable[[Any, Any], Numbers | None]:
    """A change of integers; None where some are floats."""

    def changed(left: Any, right: Any) -> Numbers | None:
        is_integer = all(np.asarray(side).dtype == np.int64 for side in (left, right))
        return change(left, right) if is_integer else None

    return changed


def _ascii_kernel(change: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]) -> Callable[[Strings], Any]:
    """A change of single bytes, where all are ASCII; else None."""

    def changed(strings: Strings) -> Strings | None:
        data = strings.texts.data
        if len(data) and int(data.max()) >= 0x80:
            return None
        return Strings(Texts(strings.texts.offsets, change(data)), strings.choice)

    return changed


def _shifted(first: str, last: str, by: int) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]:
    table = np.arange(256, dtype=np.uint8)
    table[ord(first) : ord(last) + 1] += np.int8(by).astype(np.uint8)
    return lambda data: table[data]


_KERNELS: dict[str, Callable[..., Any]] = {
    "lower": _ascii_kernel(_shifted("A", "Z", 32)),
    "upper": _ascii_kernel(_shifted("a", "z", -32)),
    "year": _year,
    "quarter": lambda times: (_month(times) + 2) // 3,
    "month": _month,
    "day": _day_of_month,
    "dayofweek": lambda times: (times // _DAY + 4) % 7 + 1,
    "weekday": lambda times: (times // _DAY + 3) % 7,
    "hour": lambda times: times // 3_600_000_000 % 24,
    "minute": lambda times: times // 60_000_000 % 60,
    "second": lambda times: times // 1_000_000 % 60,
    "abs": _absolute,
    "ceil": _to_integer(np.ceil),
    "floor": _to_integer(np.floor),
    "sqrt": _square_root,
    "sign": lambda numbers: np.sign(numbers).astype(np.float64),
    "add_microseconds": _later,
    "bit_and": _bitwise(np.bitwise_and),
    "bit_or": _bitwise(np.bitwise_or),
    "bit_xor": _bitwise(np.bitwise_xor),
    "time_of": lambda times: times,
    "date_of": lambda times: times,
    "st_covers": polygon_kernel("st_covers"),
    "st_contains": polygon_kernel("st_contains"),
    "st_distancesphere": distance_kernel,
}
