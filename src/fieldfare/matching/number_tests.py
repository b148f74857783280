"""Comparisons of numbers, times and booleans on (event, box) pairs, one pair after the other in one compiled loop.

Each test is a *record*: the number of its group, and its literals. A group's shape is a small program for a stack. So
a pair reads one record and one row of event values, in place of a pass over columns for each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.matching.batch import Batch, Piece
from fieldfare.matching.residual_groups import Group, Parameter, Places
from fieldfare.model import Attribute, Section

FAILED, PASSED, OPEN = range(3)  # what is known of a pair; an open one has tests that are none of these
_NULL, _INTEGER, _FLOAT, _BOOLEAN, _TIME, _OTHER = range(6)  # kinds of values; others are texts and ranges
_KINDS = {Section.BOOLEAN: _BOOLEAN, Section.TIME: _TIME}
_SECTIONS = {Section.BOOLEAN, Section.NUMBER, Section.TIME}
_VALUE, _LITERAL = 0, 1
_STEPS = {step: code for code, step in enumerate(["+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">="], 2)}
_PLUS, _MINUS, _TIMES, _DIVIDE = (_STEPS[symbol] for symbol in "+-*/")
_FIRST_RELATION = _STEPS["="]
_INT64_MIN = np.int64(-(2**63))


class NumberTests(NamedTuple):
    """Programs, and records of tests. At records[starts[i]] is how many tests box i has; the tests follow."""

    attributes: tuple[str, ...]
    program_starts: Places  # group g is the steps from program_starts[g] on; none of one that is not known here
    steps: Places  # for each step its code, and the number of its value or literal
    literal_kinds: npt.NDArray[np.uint8]  # of each step
    literal_counts: Places  # of each group
    records: npt.NDArray[np.int64]
    starts: Places
    depth: int  # of the stack


def number_tests(
    groups: Sequence[Group], starts: Places, groups_of: npt.NDArray[np.int32], places: Places
) -> NumberTests | None:
    """The tests of boxes as records; None if no group is known here."""
    known = [is_known(group) for group in groups]
    if not any(known):
        return None
    used = [group for group, one in zip(groups, known, strict=True) if one]
    attributes = tuple(sorted({name for group in used for name in group.attributes}))
    steps: list[tuple[int, int]] = []
    kinds: list[int] = []
    program_starts = [0]
    for group, one in zip(groups, known, strict=True):
        literals = 0
        for step in group.shape if one else ():
            kind = _NULL
            if isinstance(step, Attribute):
                steps.append((_VALUE, attributes.index(step.name)))
            elif isinstance(step, Parameter):
                steps.append((_LITERAL, literals))
                kind = _KINDS.get(step.section, _INTEGER if step.kind == "int" else _FLOAT)
                literals += 1
            else:
                steps.append((_STEPS[step], 0))
            kinds.append(kind)
        program_starts.append(len(steps))
    program_starts.append(len(steps))  # of the combined tests, which have no group
    counts = np.array([*(len(group.columns) if one else 0 for group, one in zip(groups, known, strict=True)), 0])
    box_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    ends = np.concatenate([[0], np.cumsum(1 + counts[groups_of])])
    record_starts = ends[starts[:-1]] + np.arange(len(starts) - 1)
    first = ends[:-1] + box_of + 1  # of each test
    records = np.empty(int(ends[-1]) + len(starts) - 1, np.int64)
    records[record_starts] = np.diff(starts)
    records[first] = groups_of
    for number, group in enumerate(groups):
        if known[number]:
            tests = np.flatnonzero(groups_of == number)
            for at, (column,) in enumerate(group.columns, 1):
                records[first[tests] + at] = column[places[tests]].view(np.int64)
    return NumberTests(
        attributes,
        np.array(program_starts, np.int64),
        np.array(steps, np.int64).reshape(-1),
        np.array(kinds, np.uint8),
        counts.astype(np.int64),
        records,
        record_starts,
        max(len(group.shape) for group in used),
    )


def is_known(group: Group) -> bool:
    """Whether a group's tests compare numbers, times, booleans and attributes only."""
    return all(
        isinstance(step, Attribute)
        or (isinstance(step, Parameter) and step.kind in {"int", "float"} and step.section in _SECTIONS)
        or (isinstance(step, str) and step in _STEPS)
        for step in group.shape
    )


def judged(tests: NumberTests, rows: Places, boxes: Places, batch: Batch) -> npt.NDArray[np.uint8]:
    """What is known of each pair of an event and a box; of a box of -1, which has no tests, that it passes."""
    width = len(tests.attributes)
    kinds = np.zeros((batch.rows, width), np.uint8)
    values = np.zeros((batch.rows, width), np.int64)
    for number, name in enumerate(tests.attributes):
        for piece in batch.columns.get(name, ()):
            _fill(piece, kinds[:, number], values[:, number])
    states = np.empty(len(rows), np.uint8)
    stack = np.empty(tests.depth, np.int64)
    stack_kinds = np.empty(tests.depth, np.uint8)
    _judge(*tests[1:7], rows, boxes, kinds, values, stack, stack.view(np.float64), stack_kinds, states)
    return states


def _fill(piece: Piece, kinds: npt.NDArray[np.uint8], values: npt.NDArray[np.int64]) -> None:
    rows: Any = slice(None) if piece.rows is None else piece.rows
    if piece.section is Section.NAN:
        return
    if piece.low.texts is not None or piece.high is not None:
        kinds[rows] = _OTHER
        return
    numbers = piece.low.numbers
    values[rows] = numbers.view(np.int64)
    if numbers.dtype == np.float64:
        kinds[rows] = np.where(np.isnan(numbers), _NULL, _FLOAT)
    else:
        kinds[rows] = _KINDS.get(piece.section, _INTEGER)


# The kernel. A value is 64 bits, read as an integer or as a float by its kind.


@njit(cache=True, nogil=True, inline="always")
def _is_number(kind):  # type: ignore[no-untyped-def]
    return kind == _INTEGER or kind == _FLOAT  # noqa: PLR1714  # a tuple would be made for each


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _product(left, right):  # type: ignore[no-untyped-def]
    """A product of integers, and whether it stays within 64 bits."""
    product = np.int64(np.uint64(left) * np.uint64(right))  # of unsigned ones, because they may wrap around
    if -(2**31) <= left < 2**31 and -(2**31) <= right < 2**31:
        return product, True
    if left == 0 or right == 0:
        return product, True
    if (left == -1 and right == _INT64_MIN) or (right == -1 and left == _INT64_MIN):
        return product, False
    return product, product // right == left


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _calculate_integers(code, left, right):  # type: ignore[no-untyped-def]
    """The result, and whether there is one."""
    if code == _PLUS:
        result = np.int64(np.uint64(left) + np.uint64(right))
        return result, (left ^ result) & (right ^ result) >= 0
    if code == _MINUS:
        result = np.int64(np.uint64(left) - np.uint64(right))
        return result, (left ^ right) & (left ^ result) >= 0
    if code == _TIMES:
        return _product(left, right)
    if right == 0:
        return left, False
    if right == -1:
        return np.int64(0), True
    result = left % right
    if result != 0 and (left < 0) != (right < 0):
        result -= right  # the sign is the dividend's
    return result, True


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _calculate_floats(code, left, right):  # type: ignore[no-untyped-def]
    if code == _PLUS:
        result = left + right
    elif code == _MINUS:
        result = left - right
    elif code == _TIMES:
        result = left * right
    elif right == 0.0:
        return left, False
    elif code == _DIVIDE:
        result = left / right
    else:
        result = np.fmod(left, right)
    return result, not np.isnan(result)


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _order_of_mixed(integer, number):  # type: ignore[no-untyped-def]
    """-1, 0 or 1 where an integer is below, equal to or above a float, exactly."""
    rounded = np.float64(integer)
    if rounded != number:
        return np.int64(rounded > number) - np.int64(rounded < number)
    if number >= 2.0**63:
        return np.int64(-1)
    whole = np.int64(number)
    return np.int64(integer > whole) - np.int64(integer < whole)


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _order_of(left, right, left_float, right_float, left_kind, right_kind):  # type: ignore[no-untyped-def]
    """-1, 0 or 1; 2 where values do not compare."""
    if left_kind == _FLOAT and right_kind == _FLOAT:
        return np.int64(left_float > right_float) - np.int64(left_float < right_float)
    if left_kind == right_kind and left_kind != _NULL:
        return np.int64(left > right) - np.int64(left < right)
    if left_kind == _INTEGER and right_kind == _FLOAT:
        return _order_of_mixed(left, right_float)
    if left_kind == _FLOAT and right_kind == _INTEGER:
        return -_order_of_mixed(right, left_float)
    return np.int64(2)


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _holds(code, order):  # type: ignore[no-untyped-def]
    if order == 2:
        return False
    if code == _FIRST_RELATION:
        return order == 0
    if code == _FIRST_RELATION + 1:
        return order != 0
    if code == _FIRST_RELATION + 2:
        return order < 0
    if code == _FIRST_RELATION + 3:
        return order <= 0
    if code == _FIRST_RELATION + 4:
        return order > 0
    return order >= 0


@njit(cache=True, nogil=True, error_model="numpy")
def _judge(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917  # a kernel takes arrays
    program_starts,
    steps,
    literal_kinds,
    literal_counts,
    records,
    starts,
    rows,
    boxes,
    kinds,
    values,
    stack,
    floats,
    stack_kinds,
    states,
):
    for pair in range(len(rows)):
        state = PASSED
        box, row = boxes[pair], rows[pair]
        at, left_over = np.int64(0), np.int64(0)
        if box >= 0:
            at = starts[box]
            left_over = records[at]
            at += 1
        while left_over > 0:
            left_over -= 1
            group = records[at]
            first, last = program_starts[group], program_starts[group + 1]
            holds, is_open, top = False, first == last, 0
            for step in range(first, last):
                code, operand = steps[2 * step], steps[2 * step + 1]
                if code == _VALUE:
                    stack[top] = values[row, operand]
                    stack_kinds[top] = kinds[row, operand]
                    is_open |= kinds[row, operand] == _OTHER
                    top += 1
                    continue
                if code == _LITERAL:
                    stack[top] = records[at + 1 + operand]
                    stack_kinds[top] = literal_kinds[step]
                    top += 1
                    continue
                top -= 1
                left, right = stack[top - 1], stack[top]
                left_float, right_float = floats[top - 1], floats[top]
                left_kind, right_kind = stack_kinds[top - 1], stack_kinds[top]
                if code >= _FIRST_RELATION:
                    holds = _holds(code, _order_of(left, right, left_float, right_float, left_kind, right_kind))
                elif not (_is_number(left_kind) and _is_number(right_kind)):
                    stack_kinds[top - 1] = _NULL
                elif left_kind == _INTEGER and right_kind == _INTEGER and code != _DIVIDE:
                    result, is_answer = _calculate_integers(code, left, right)
                    stack[top - 1] = result
                    stack_kinds[top - 1] = _INTEGER if is_answer else _NULL
                else:
                    number, is_answer = _calculate_floats(
                        code,
                        np.float64(left) if left_kind == _INTEGER else left_float,
                        np.float64(right) if right_kind == _INTEGER else right_float,
                    )
                    floats[top - 1] = number
                    stack_kinds[top - 1] = _FLOAT if is_answer else _NULL
            if is_open:
                state = OPEN
            elif not holds:
                state = FAILED
                break
            at += 1 + literal_counts[group]
        states[pair] = state
