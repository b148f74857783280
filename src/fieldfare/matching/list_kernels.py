"""`array_contains(list, literal)` and `size(list)` in columns: what is asked of lists most, beside the index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.language.costs import is_column_call
from fieldfare.matching.batch import Batch, Piece
from fieldfare.matching.column_functions import constant_operand
from fieldfare.matching.list_columns import ListColumn, lists_of
from fieldfare.matching.operands import chosen, compare
from fieldfare.model import Call, Derived, Literal, Section

NULL, KNOWN, UNDECIDED = range(3)


class Answers(NamedTuple):
    """For each row of a batch an integer or truth, and whether it is known, NULL, or to be found value by value."""

    values: npt.NDArray[np.int64]
    states: npt.NDArray[np.int8]


def answers(call: Call, batch: Batch) -> Answers | None:
    """The values of a call for a whole batch; None where it is no such call."""
    if not is_column_call(call):
        return None
    match call:
        case Call("size", (lists,)):
            literal: Literal | None = None
        case Call("array_contains", (lists, Literal(section) as wanted)):
            if section is Section.NULL:
                return None
            literal = wanted
        case _:
            return None
    found = lists_of(Derived.of(lists), batch)
    values, states = np.zeros(batch.rows, np.int64), np.full(batch.rows, NULL, np.int8)
    for column in found.columns:
        rows = slice(None) if column.rows is None else column.rows
        answered = _sizes(column) if literal is None else _contains(column, literal)
        if column.choice is not None:
            answered = Answers(answered.values[column.choice], answered.states[column.choice])
        values[rows], states[rows] = answered
    states[found.anything] = UNDECIDED
    return Answers(values, states)


def _sizes(column: ListColumn) -> Answers:
    sizes = np.diff(column.offsets)
    return Answers(sizes, np.full(len(sizes), KNOWN, np.int8))


def _contains(column: ListColumn, literal: Literal) -> Answers:
    """A list without the literal surely lacks it only if all its members are known: none is NULL, or an object."""
    members = int(column.offsets[-1])
    equal, known = np.zeros(members, np.bool_), np.zeros(members, np.bool_)
    for piece in column.pieces:
        if piece.section is not Section.NAN and piece.high is None:
            _compare(piece, literal, equal, known)
    has, complete = _count(equal, column.offsets) > 0, _count(~known, column.offsets) == 0
    states = np.where(has | complete, np.int8(KNOWN), np.int8(UNDECIDED))
    return Answers(has.astype(np.int64), states)


def _compare(piece: Piece, literal: Literal, equal: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> None:
    count = len(known) if piece.rows is None else len(piece.rows)
    rows = slice(None) if piece.rows is None else piece.rows
    operand = chosen(piece.section, piece.low, None, np.arange(count))
    known[rows] = operand.known
    if piece.section is literal.section:
        equal[rows] = compare("=", operand, constant_operand(literal, count))


def _count(marked: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many members of each list are marked."""
    before = np.concatenate([[0], np.cumsum(marked)])
    counts: npt.NDArray[np.int64] = before[offsets[1:]] - before[offsets[:-1]]
    return counts
