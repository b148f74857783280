"""The values of expressions for many events, in columns: for derived axes and for residual tests alike.

The values of an expression are *runs*, each of one section and for some rows of a batch; a row in no run is NULL. So a
function sees columns of one type, and what chooses (CASE, coalesce) only divides rows. What depends on a range may be
anything, unless it is arithmetic: such rows are in a run of the section END.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.language.functions import FUNCTIONS
from fieldfare.language.list_functions import LIST_CALLS
from fieldfare.language.scalars import RELATIONS
from fieldfare.matching.batch import Batch, Piece, Values
from fieldfare.matching.column_functions import (
    Contents,
    cast_column,
    constant_operand,
    contents_of,
    extreme_of,
    mapped,
    results_of,
)
from fieldfare.matching.list_evaluation import values_for
from fieldfare.matching.list_kernels import KNOWN, UNDECIDED, answers
from fieldfare.matching.operands import Mask, Operand, Strings, arithmetic, chosen, compare, taken
from fieldfare.model import NOW, Arithmetic, Attribute, Call, Derived, Expression, Literal, Section, Variable

Rows = npt.NDArray[np.int64]  # ascending
Truths = npt.NDArray[np.int8]
_FALSE, _TRUE, _UNKNOWN, _ANYTHING = range(4)


class Run(NamedTuple):
    """Values of one section, for some rows; none of them is NULL."""

    rows: Rows
    operand: Operand


class Computed(NamedTuple):
    """An expression's values for a batch: pieces as an attribute has them, and the rows that may be anything."""

    pieces: Sequence[Piece]
    anything: Rows


def computed(axis: Derived, batch: Batch) -> Computed:
    """The values on a derived axis, computed once for a batch."""
    found = batch.computed.get(axis)
    if found is None:
        found = batch.computed[axis] = computed_for(axis, batch, np.arange(batch.rows, dtype=np.int64))
    return found


def computed_for(axis: Derived, batch: Batch, rows: Rows) -> Computed:
    """The same for some rows only."""
    runs = _Evaluation(batch).runs(axis.expression, rows)
    anything = [run.rows for run in runs if run.operand.section is Section.END]
    pieces = [
        Piece(
            operand.section,
            None if len(run_rows) == batch.rows else run_rows,
            _values(operand.low),
            _values(operand.high) if operand.ranged else None,
        )
        for run_rows, operand in runs
        if operand.section is not Section.END
    ]
    return Computed(pieces, np.concatenate([np.empty(0, np.int64), *anything]))


def _values(column: npt.NDArray[np.int64] | Strings) -> Values:
    if isinstance(column, Strings):
        return Values(texts=column.texts, codes=column.choice.astype(np.int32))
    return Values(column)


class _Evaluation:
    """Evaluates expressions on the rows of one batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def runs(self, expression: Expression, rows: Rows) -> list[Run]:
        """The values of an expression, for some rows."""
        if isinstance(expression, Attribute):
            return self._attribute(expression.name, rows)
        if isinstance(expression, Variable):
            raise TypeError(f"the variable {expression.name} has a value for each member only")
        if isinstance(expression, Literal):
            if expression.section is Section.NULL:
                return []
            return [Run(rows, constant_operand(expression, len(rows)))]
        if isinstance(expression, Arithmetic):
            return self._arithmetic(expression, rows)
        return self._call(expression, rows)

    def _attribute(self, name: str, rows: Rows) -> list[Run]:
        runs = []
        for piece in self._batch.columns.get(name, ()):
            run_rows, places = _rows_in(piece, rows)
            if len(run_rows):
                runs.append(_known(run_rows, chosen(piece.section, piece.low, piece.high, places)))
        return runs

    def _arithmetic(self, expression: Arithmetic, rows: Rows) -> list[Run]:
        runs = []
        sides = [self.runs(expression.left, rows), self.runs(expression.right, rows)]
        for common, (left, right) in _together(sides):
            if Section.END in (left.section, right.section):
                runs.append(_anything(common))
                continue
            result = arithmetic(expression.operator, left, right)
            if result.section is not Section.NULL:
                runs.append(_known(common, result))
        return runs

    def _call(self, call: Call, rows: Rows) -> list[Run]:
        match call.function, call.arguments:
            case "current_timestamp", _:
                return self._attribute(NOW, rows)
            case (("and" | "or" | "not" | "isnull"), _):
                return _runs_of_truths(self.truths(call, rows), rows)
            case "case", (*whens, default):
                return self._case(whens, default, rows)
            case "coalesce", arguments:
                return self._coalesce(arguments, rows)
            case (("greatest" | "least"), arguments):
                return self._extreme(call.function, arguments, rows)
            case "cast", (value, Literal(_, str(target))):
                runs = self.runs(value, rows)
                found = [_made(run.rows, cast_column(run.operand, target)) for run in runs if _is_point(run.operand)]
                return [*(run for some in found for run in some), *_uncertain(runs)]
            case relation, (left, *readings) if relation in RELATIONS:
                return self._comparison(relation, left, readings, rows)
            case name, _ if name in LIST_CALLS:
                return self._list_call(call, rows)
            case _:
                return self._function(call, rows)

    def truths(self, expression: Expression, rows: Rows) -> Truths:
        """For each row whether a condition is true, false, unknown, or may be any of these."""
        if isinstance(expression, Call):
            match expression.function, expression.arguments:
                case ("and" | "or") as operator, parts:
                    return _joined([self.truths(part, rows) for part in parts], is_all=operator == "and")
                case "not", (part,):
                    return _INVERSE[self.truths(part, rows)]
                case "isnull", (part,):
                    return self._nulls(part, rows)
        truths = np.full(len(rows), _UNKNOWN, np.int8)
        for run_rows, operand in self.runs(expression, rows):
            at = _places_in(rows, run_rows)
            if operand.section is Section.END:
                truths[at] = _ANYTHING
            elif operand.section is Section.BOOLEAN and not isinstance(operand.low, Strings):
                truths[at] = _ANYTHING if operand.ranged else operand.low
        return truths

    def _nulls(self, part: Expression, rows: Rows) -> Truths:
        truths = np.full(len(rows), _TRUE, np.int8)
        if isinstance(part, Attribute):  # NaN is a value here, as in `x IS NULL`
            for piece in self._batch.columns.get(part.name, ()):
                truths[_places_in(rows, _rows_in(piece, rows)[0])] = _FALSE
            return truths
        for run_rows, operand in self.runs(part, rows):
            truths[_places_in(rows, run_rows)] = _ANYTHING if operand.section is Section.END else _FALSE
        return truths

    def _case(self, whens: Sequence[Expression], default: Expression, rows: Rows) -> list[Run]:
        runs: list[Run] = []
        left = rows
        for condition, value in zip(whens[::2], whens[1::2], strict=True):
            truths = self.truths(condition, left)
            holding, uncertain = left[truths == _TRUE], left[truths == _ANYTHING]
            if len(holding):
                runs += self.runs(value, holding)
            if len(uncertain):
                runs.append(_anything(uncertain))
            left = left[(truths == _FALSE) | (truths == _UNKNOWN)]
        return runs + self.runs(default, left) if len(left) else runs

    def _coalesce(self, arguments: Sequence[Expression], rows: Rows) -> list[Run]:
        runs: list[Run] = []
        left = rows
        for argument in arguments:
            found = self.runs(argument, left)
            runs += found
            open_rows = np.ones(len(left), np.bool_)
            for run in found:
                open_rows[_places_in(left, run.rows)] = False
            left = left[open_rows]
            if not len(left):
                break
        return runs

    def _extreme(self, function: str, arguments: Sequence[Expression], rows: Rows) -> list[Run]:
        found = [self.runs(argument, rows) for argument in arguments]
        uncertain = np.unique(
            np.concatenate([np.empty(0, np.int64), *(run.rows for runs in found for run in _uncertain(runs))])
        )
        columns: list[Contents] = []
        for runs in found:
            column: Contents = [None] * len(rows)
            for run_rows, operand in runs:
                if _is_point(operand):
                    at = np.searchsorted(rows, run_rows).tolist()
                    for place, content in zip(at, contents_of(operand), strict=True):
                        column[place] = (operand.section, content)
            columns.append(column)
        certain = ~np.isin(rows, uncertain)
        runs_made = _made(rows, extreme_of(function, columns, certain))
        return [*runs_made, _anything(uncertain)] if len(uncertain) else runs_made

    def _comparison(self, relation: str, left: Expression, readings: Sequence[Expression], rows: Rows) -> list[Run]:
        runs = []
        for reading in readings:
            for common, (one, other) in _together([self.runs(left, rows), self.runs(reading, rows)]):
                if not _is_point(one) or not _is_point(other):
                    runs.append(_anything(common))
                elif one.section is other.section and one.section is not Section.NAN:
                    holds = compare(relation, one, other).astype(np.int64)
                    runs.append(Run(common, _operand(Section.BOOLEAN, holds)))
        return runs

    def _list_call(self, call: Call, rows: Rows) -> list[Run]:
        """A function of lists: in columns where that is known, else value by value."""
        runs: list[Run] = []
        found = answers(call, self._batch)
        if found is not None:
            section = Section.NUMBER if call.function == "size" else Section.BOOLEAN
            known, rows = rows[found.states[rows] == KNOWN], rows[found.states[rows] == UNDECIDED]
            runs = [Run(known, _operand(section, found.values[known]))] if len(known) else []
        if len(rows):
            values, uncertain = values_for(call, self._batch, rows)
            runs += _made(rows, results_of(values))
            runs += [_anything(rows[uncertain])] if uncertain.any() else []
        return runs

    def _function(self, call: Call, rows: Rows) -> list[Run]:
        function = FUNCTIONS[call.function]
        found = [self.runs(part, rows) for part in call.arguments]
        runs: list[Run] = []
        for common, operands in _together(found):
            if not all(map(_is_point, operands)):
                runs.append(_anything(common))
            else:
                literals = [part.value if isinstance(part, Literal) else None for part in call.arguments]
                runs += _made(common, mapped(call.function, function, operands, literals))
        return runs


_INVERSE = np.array([_TRUE, _FALSE, _UNKNOWN, _ANYTHING], np.int8)


def _joined(truths: Sequence[Truths], *, is_all: bool) -> Truths:
    deciding = _FALSE if is_all else _TRUE
    stacked = np.stack(truths)
    result = np.full(stacked.shape[1], _TRUE if is_all else _FALSE, np.int8)
    for value in (_UNKNOWN, _ANYTHING, deciding):  # from the weakest to the strongest
        result[(stacked == value).any(axis=0)] = value
    return result


def _runs_of_truths(truths: Truths, rows: Rows) -> list[Run]:
    runs = []
    certain = truths < _UNKNOWN
    if certain.any():
        runs.append(Run(rows[certain], _operand(Section.BOOLEAN, truths[certain].astype(np.int64))))
    if (truths == _ANYTHING).any():
        runs.append(_anything(rows[truths == _ANYTHING]))
    return runs


def _operand(section: Section, values: npt.NDArray[np.int64]) -> Operand:
    return Operand(section, values, values, np.ones(len(values), np.bool_))


def _anything(rows: Rows) -> Run:
    return Run(rows, _operand(Section.END, np.zeros(len(rows), np.int64)))


def _uncertain(runs: Sequence[Run]) -> list[Run]:
    return [_anything(run.rows) for run in runs if not _is_point(run.operand)]


def _is_point(operand: Operand) -> bool:
    return operand.section is not Section.END and not operand.ranged


def _known(rows: Rows, operand: Operand) -> Run:
    """A run without the rows whose value is not known."""
    if operand.known.all():
        return Run(rows, operand)
    at = np.flatnonzero(operand.known)
    return Run(rows[at], taken(operand, at))


def _made(
    rows: Rows, results: Sequence[tuple[Section, npt.NDArray[np.int64], npt.NDArray[np.int64] | Strings]]
) -> list[Run]:
    """The runs of what a function gave: for each section and type the places of its results, and these."""
    made = []
    for section, at, column in results:
        if len(at):
            run_rows = rows if len(at) == len(rows) else rows[at]
            made.append(Run(run_rows, Operand(section, column, column, np.ones(len(at), np.bool_))))
    return made


def _rows_in(piece: Piece, rows: Rows) -> tuple[Rows, Rows]:
    """The rows that a piece has values for, and the places of these values."""
    if piece.rows is None:
        return rows, rows
    if not len(piece.rows):
        return rows[:0], rows[:0]
    at = np.minimum(np.searchsorted(piece.rows, rows), len(piece.rows) - 1)
    present: Mask = piece.rows[at] == rows
    return rows[present], at[present].astype(np.int64)


def _places_in(rows: Rows, some: Rows) -> Rows | slice:
    """Where some of the rows stand among them."""
    return slice(None) if len(some) == len(rows) else np.searchsorted(rows, some)


def _together(sides: Sequence[Sequence[Run]]) -> list[tuple[Rows, list[Operand]]]:
    """The rows that have a value on every side, divided so that each part lies in one run of each side."""
    parts: list[tuple[Rows, list[Operand]]] = [(run.rows, [run.operand]) for run in sides[0]]
    for runs in sides[1:]:
        joined = []
        for rows, operands in parts:
            for run in runs:
                if len(run.rows) == len(rows) and (run.rows is rows or np.array_equal(run.rows, rows)):
                    joined.append((rows, [*operands, run.operand]))
                    continue
                common, at, other_at = np.intersect1d(rows, run.rows, assume_unique=True, return_indices=True)
                if len(common):
                    joined.append(
                        (common, [*(taken(operand, at) for operand in operands), taken(run.operand, other_at)])
                    )
        parts = joined
    return parts
