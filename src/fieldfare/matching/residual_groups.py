"""Residual tests by their shape, which is the test with each literal replaced by a parameter.

A million subscriptions ask the same few questions with different literals. The literals of a group of tests of one
shape are columns, and all pairs of event and test that meet the same shape are answered together, by a few operations
on columns of event values and of literals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from fieldfare.matching.batch import Batch, Piece, Texts, Values
from fieldfare.matching.like import Patterns
from fieldfare.matching.operands import Mask, Operand, Strings, arithmetic, chosen, compare
from fieldfare.matching.region_tests import hold_in_batch, hold_of_operands, region_column, region_test
from fieldfare.model import Arithmetic, Attribute, Comparison, Expression, InRegion, Like, Literal, Section

Array = npt.NDArray[Any]
Places = npt.NDArray[np.int64]


class Parameter(msgspec.Struct, frozen=True, tag=True):
    """The place of a literal in a shape. Its kind, int, float, str or pattern, says what its column holds."""

    section: Section
    kind: str


SimpleTest = Comparison | Like | InRegion
Step = Attribute | Parameter | str  # a string is an operator; it takes the results of the two steps before it
Shape = tuple[Step, ...]  # postfix: weight, 2, price, *, <


class Group(msgspec.Struct, frozen=True, eq=False):
    """The tests of one shape: test i has the literals number i of the columns, one column for each parameter."""

    shape: Shape
    columns: tuple[tuple[Array, ...], ...]  # numbers: the values; strings: Texts' arrays; patterns: Patterns' arrays

    @property
    def attributes(self) -> list[str]:
        """The attributes that the shape names."""
        return sorted({step.name for step in self.shape if isinstance(step, Attribute)})

    def test(self, number: int) -> SimpleTest:
        """Test `number`, as it was before it was taken apart."""
        stack: list[Expression] = []
        columns = iter(self.columns)
        *steps, last = self.shape
        for step in steps:
            if isinstance(step, Attribute):
                stack.append(step)
            elif isinstance(step, Parameter):
                stack.append(Literal(step.section, _literal(step, next(columns), number)))
            else:
                right = stack.pop()
                stack.append(Arithmetic(step, stack.pop(), right))
        if last == _REGION:
            x, y = stack
            return region_test(_name(x), _name(y), next(columns), number)
        if isinstance(last, Parameter):
            return Like(self.attributes[0], Patterns(*next(columns)).pattern(number), last.kind == "not like")
        right = stack.pop()
        return Comparison(cast("str", last), stack.pop(), right)

    def holds(self, rows: Places, tests: Places, batch: Batch) -> Mask:
        """Whether test `tests[i]` of this group holds for event `rows[i]`, for every i."""
        if self.shape[-1] == _REGION:
            x, y = self.shape[:2]
            quick = hold_in_batch(_name(x), _name(y), self.columns[0], tests, rows, batch)
            if quick is not None:
                return quick
        held = np.zeros(len(rows), np.bool_)
        for pairs, pieces in _uniform(rows, [(name, batch.columns.get(name, ())) for name in self.attributes]):
            operands = {
                name: chosen(piece.section, piece.low, piece.high, _places(piece, rows[pairs]))
                for name, piece in pieces.items()
            }
            held[pairs] = self._evaluated(operands, tests[pairs])
        return held

    def _evaluated(self, operands: Mapping[str, Operand], tests: Places) -> Mask:
        """The shape's answer where each attribute is of one section."""
        stack: list[Operand] = []
        columns = iter(self.columns)
        *steps, last = self.shape
        for step in steps:
            if isinstance(step, Attribute):
                stack.append(operands[step.name])
            elif isinstance(step, Parameter):
                stack.append(_literals(step, next(columns), tests))
            else:
                right = stack.pop()
                stack.append(arithmetic(step, stack.pop(), right))
        if last == _REGION:
            return hold_of_operands(stack[0], stack[1], next(columns), tests)
        if isinstance(last, Parameter):
            return _like(stack.pop(), Patterns(*next(columns)), tests, negated=last.kind == "not like")
        right = stack.pop()
        return compare(cast("str", last), stack.pop(), right)


# From tests to groups


def shape_of(test: SimpleTest) -> tuple[Shape, tuple[Any, ...]]:
    """A test's shape, and the literals that fill its parameters."""
    if isinstance(test, Like):
        return (Attribute(test.attribute), _NOT_LIKE if test.negated else _LIKE), (test.pattern,)
    if isinstance(test, InRegion):
        return (Attribute(test.x), Attribute(test.y), _REGION), (test.region,)
    steps: list[Step] = []
    literals: list[Any] = []
    _unfold(test.left, steps, literals)
    _unfold(test.right, steps, literals)
    steps.append(test.operator)
    return tuple(steps), tuple(literals)


_LIKE, _NOT_LIKE = Parameter(Section.STRING, "like"), Parameter(Section.STRING, "not like")

_REGION = Parameter(Section.NUMBER, "region")


def _name(step: Step | Expression) -> str:
    return cast("Attribute", step).name


def _unfold(expression: Expression, steps: list[Step], literals: list[Any]) -> None:
    if isinstance(expression, Attribute):
        steps.append(expression)
    elif isinstance(expression, Literal):
        value = int(expression.value) if isinstance(expression.value, bool) else expression.value
        steps.append(Parameter(expression.section, type(value).__name__))
        literals.append(value)
    elif isinstance(expression, Arithmetic):
        _unfold(expression.left, steps, literals)
        _unfold(expression.right, steps, literals)
        steps.append(expression.operator)
    else:
        raise TypeError(f"a comparison has no part such as {expression}")


def group_of(shape: Shape, literals: Sequence[tuple[Any, ...]]) -> Group:
    """The group of tests of one shape, given the literals of each."""
    parameters = [step for step in shape if isinstance(step, Parameter)]
    columns = zip(*literals, strict=True) if parameters else ()
    return Group(
        shape, tuple(_column(parameter, column) for parameter, column in zip(parameters, columns, strict=True))
    )


def _column(parameter: Parameter, literals: Sequence[Any]) -> tuple[Array, ...]:
    if parameter.kind in ("like", "not like"):
        patterns = Patterns.of(literals)
        return patterns.data, patterns.offsets, patterns.segments
    if parameter == _REGION:
        return region_column(literals)
    if parameter.kind == "str":
        texts = Texts.of([literal.encode() for literal in literals])
        return texts.offsets, texts.data
    return (np.array(literals, np.int64 if parameter.kind == "int" else np.float64),)


def _literal(parameter: Parameter, column: tuple[Array, ...], number: int) -> float | str:
    if parameter.kind == "str":
        return Texts(*column)[number].decode()
    value: float = column[0][number].item()
    return value


def _literals(parameter: Parameter, column: tuple[Array, ...], tests: Places) -> Operand:
    values = Values(texts=Texts(*column)) if parameter.kind == "str" else Values(column[0])
    return chosen(parameter.section, values, None, tests)


# From pairs to columns


def grouped(numbers: Array) -> Iterator[tuple[int, Places]]:
    """Each number that occurs, and the places where it does."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    for start, members in zip(starts.tolist(), np.split(order, starts[1:]), strict=False):
        yield int(numbers[order[start]]), members


def _uniform(rows: Places, columns: Sequence[tuple[str, Sequence[Piece]]]) -> Iterator[tuple[Places, dict[str, Piece]]]:
    """Splits pairs so that within a part each attribute has its values in one piece; NULLs are left out."""
    parts: list[tuple[Places, dict[str, Piece]]] = [(np.arange(len(rows)), {})]
    for name, pieces in columns:
        parts = [
            (pairs[present], {**before, name: piece})
            for pairs, before in parts
            for piece in pieces
            if piece.section is not Section.NAN  # lists compare with nothing
            if len(present := np.flatnonzero(_present(piece, rows[pairs])))
        ]
    yield from parts


def _present(piece: Piece, rows: Places) -> Mask:
    if piece.rows is None:
        return np.ones(len(rows), np.bool_)
    if not len(piece.rows):
        return np.zeros(len(rows), np.bool_)
    found: Mask = piece.rows[np.minimum(np.searchsorted(piece.rows, rows), len(piece.rows) - 1)] == rows
    return found


def _places(piece: Piece, rows: Places) -> Places:
    return rows if piece.rows is None else np.searchsorted(piece.rows, rows).astype(np.int64)


def _like(values: Operand, patterns: Patterns, tests: Places, *, negated: bool) -> Mask:
    """A range of more than one string always passes: some string in it may be like the pattern, or unlike it."""
    if not isinstance(values.low, Strings) or not isinstance(values.high, Strings):
        return np.zeros(len(tests), np.bool_)
    matched: Mask = patterns.match(tests, values.low.texts, values.low.choice) != negated
    if values.ranged:
        matched |= compare("!=", values, values)
    return matched
