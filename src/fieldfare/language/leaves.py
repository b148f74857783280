"""Leaves of a condition -> products: where one comparison, LIKE or IS NULL is true, false, not true or not false.

A leaf is a set of intervals on an axis, an attribute's or that of an expression, which is computed for each event. What
compares two attributes, and patterns with % inside, are residual tests; their truth is an axis too, where it is asked
where they are not true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldfare.errors import ConditionTypeError
from fieldfare.language import tree
from fieldfare.language.expressions import NULL_LITERAL, Expressions, axis_of, folded, has_call, names_in
from fieldfare.language.intervals import Intervals, compared, complement, outside, section_interval, spans
from fieldfare.language.inverses import inverted
from fieldfare.language.kinds import Kind
from fieldfare.language.members import member_sets
from fieldfare.language.patterns import Pattern, prefix_end, split_prefix
from fieldfare.language.places import region_of
from fieldfare.language.times import parse_timestamp
from fieldfare.language.tree import Side
from fieldfare.model import (
    MISSING,
    PRESENT,
    Arithmetic,
    Attribute,
    AxisKey,
    Call,
    Comparison,
    Derived,
    DerivedWithin,
    Expression,
    InRegion,
    Like,
    Literal,
    Section,
    Test,
)

_BOOLEANS = (Literal(Section.BOOLEAN, 0), Literal(Section.BOOLEAN, 1))


@dataclass(frozen=True, slots=True)
class Product:
    """A conjunction before it is multiplied out: for each axis the set it must be in, and the residual tests."""

    sets: Mapping[AxisKey, Intervals]
    tests: tuple[Test, ...] = ()


EVERYTHING = Product({})


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of one condition, with its literals and what is known of its attributes' types."""

    text: str
    literals: Sequence[Literal]
    types: Mapping[str, Section]
    expressions: Expressions

    @staticmethod
    def of(text: str, literals: Sequence[Literal], types: Mapping[str, Section]) -> Leaves:
        """The leaves of a condition."""
        return Leaves(text, literals, types, Expressions(text, literals, types))

    def products(self, leaf: tree.Leaf, side: Side) -> list[Product]:
        """Where a leaf is on a side."""
        if side is Side.TRUE or side is Side.FALSE:
            return self._decided(leaf, truth=side is Side.TRUE)
        if isinstance(leaf, tree.Missing) or (isinstance(leaf, tree.Compare) and leaf.operator == tree.NULL_SAFE_EQUAL):
            return self._decided(leaf, truth=side is Side.NOT_FALSE)  # these are never unknown
        products = self._decided(leaf, truth=side is Side.NOT_TRUE)
        if not products:
            return [EVERYTHING]
        if len(products) == 1 and not products[0].tests and len(products[0].sets) <= 1:
            return [Product({axis: outside(sets, self._section(axis))}) for axis, sets in products[0].sets.items()]
        truth = self.expressions.of(tree.operand_of(leaf))
        inside = compared("=", Section.BOOLEAN, int(side is Side.NOT_TRUE))
        return [Product({axis_of(truth): outside(inside, Section.BOOLEAN)})]

    def _section(self, axis: AxisKey) -> Section | None:
        """The one section that an expression's values are in; None of an attribute, which may be anything."""
        kind = None if isinstance(axis, str) else self.expressions.kind(axis.expression)
        return None if kind is None else kind.section

    def _decided(self, leaf: tree.Leaf, *, truth: bool) -> list[Product]:
        """Where a leaf is true; or, if `truth` is not, where it is false."""
        match leaf:
            case tree.Compare():
                return self._compare(leaf, truth=truth)
            case tree.Match():
                return self._like(leaf, truth=truth)
            case tree.Missing(operand):
                expression = self.expressions.of(operand)
                if isinstance(expression, Literal):
                    return [EVERYTHING] if (expression == NULL_LITERAL) is truth else []
                return _product(axis_of(expression), (MISSING if truth else PRESENT,))
            case tree.Truth(operand):
                return self._truth(operand, truth=truth)

    def _truth(self, operand: tree.Operand, *, truth: bool) -> list[Product]:
        """Where an operand that is a condition itself is true, or false."""
        expression = self.expressions.of(operand)
        if isinstance(expression, Attribute):
            self.expressions.expect(expression.name, (Section.BOOLEAN,), operand.position)
        elif self.expressions.kind(expression) not in (None, Kind.BOOLEAN):
            reason = "a value stands where a condition is needed: compare it with something"
            raise ConditionTypeError(reason, self.text, operand.position)
        if isinstance(expression, Literal):
            return [EVERYTHING] if expression == _BOOLEANS[truth] else []
        sets = member_sets(expression) if truth else None
        if sets is not None:
            return list(map(Product, sets))
        found = inverted(expression, truth=truth)
        if found is not None:
            return _product(*found)
        in_region = _region_products(expression) if truth else None
        if in_region is not None:
            return in_region
        return _product(axis_of(expression), compared("=", Section.BOOLEAN, int(truth)))

    def _compare(self, node: tree.Compare, *, truth: bool) -> list[Product]:
        left, right, relation = self.expressions.of(node.left), self.expressions.of(node.right), node.operator
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, right, relation = right, left, tree.MIRRORS[relation]
        position = node.right.position if node.right.position is not None else node.left.position
        null_safe = relation == tree.NULL_SAFE_EQUAL
        if isinstance(left, Attribute) and isinstance(right, Literal) and not null_safe:
            if right.section is Section.NULL:
                return []
            relation = relation if truth else tree.INVERSES[relation]
            return _product(left.name, self._literal_intervals(relation, left, right, position))
        if NULL_LITERAL in (left, right):
            return self._compare_null(left, right, null_safe=null_safe, truth=truth)
        if not isinstance(left, Attribute) or not isinstance(right, Literal):
            left, right = self.expressions.coerced(left, right, position)
        if isinstance(left, Literal) and isinstance(right, Literal):
            value = folded(Call("=" if null_safe else relation, (left, right)))
            return [EVERYTHING] if value == _BOOLEANS[truth] else []
        if isinstance(right, Literal):
            if null_safe:
                equal = self._literal_intervals("=", left, right, position)
                return _product(axis_of(left), equal if truth else complement(equal))
            relation = relation if truth else tree.INVERSES[relation]
            indexed = _indexed(Call(relation, (left, right))) if isinstance(left, Call) else None
            if indexed is not None:
                return indexed
            return _product(axis_of(left), self._literal_intervals(relation, left, right, position))
        return self._compare_two(relation, left, right, truth=truth)

    def _compare_null(self, left: Expression, right: Expression, *, null_safe: bool, truth: bool) -> list[Product]:
        if not null_safe:
            return []
        if isinstance(left, Literal) and isinstance(right, Literal):
            return [EVERYTHING] if (left == right) is truth else []
        other = left if right == NULL_LITERAL else right
        return _product(axis_of(other), (MISSING if truth else PRESENT,))

    def _compare_two(self, relation: str, left: Expression, right: Expression, *, truth: bool) -> list[Product]:
        """A comparison of two expressions, neither a literal."""
        is_plain = not has_call(left) and not has_call(right)
        if relation == tree.NULL_SAFE_EQUAL:
            if isinstance(left, Attribute) and isinstance(right, Attribute):
                return _null_safe_equal(left, right) if truth else _null_safe_unequal(left, right)
            both = Call("and", (Call("isnull", (left,)), Call("isnull", (right,))))
            safe = Call("coalesce", (Call("=", (left, right)), both))
            return _product(axis_of(safe), compared("=", Section.BOOLEAN, int(truth)))
        if is_plain:
            return [_residual(relation if truth else tree.INVERSES[relation], left, right)]
        return _product(axis_of(Call(relation, (left, right))), compared("=", Section.BOOLEAN, int(truth)))

    def _literal_intervals(self, relation: str, left: Expression, literal: Literal, position: int | None) -> Intervals:
        """The values that stand in a relation to a literal: text that is also a time meets strings and times."""
        values: dict[Section, float | bytes] = {}
        if isinstance(literal.value, str):
            values[Section.STRING] = literal.value.encode()
            instant = parse_timestamp(literal.value)
            if instant is not None:
                values[Section.TIME] = instant
        else:
            values[literal.section] = literal.value
        if isinstance(left, Attribute):
            self.expressions.expect(left.name, tuple(values), position)
            known = self.types.get(left.name)
        else:
            kind = self.expressions.kind(left)
            known = None if kind is None else kind.section
        pieces = (compared(relation, section, value) for section, value in values.items() if known in (None, section))
        return tuple(interval for piece in pieces for interval in piece)

    def _like(self, node: tree.Match, *, truth: bool) -> list[Product]:
        position = node.pattern.position
        operand, literal = self.expressions.of(node.operand), self.expressions.of(node.pattern)
        if isinstance(operand, Attribute):
            self.expressions.expect(operand.name, (Section.STRING,), position)
        if NULL_LITERAL in (operand, literal):
            return []
        if isinstance(literal, Literal) and not isinstance(literal.value, str):
            raise ConditionTypeError("a LIKE pattern is a string", self.text, position)
        if self.expressions.kind(operand) not in (None, Kind.TEXT):
            raise ConditionTypeError("LIKE is for a string: write a CAST if one is meant", self.text, position)
        if isinstance(operand, Literal) or not isinstance(literal, Literal):
            return self._truth(tree.operand_of(node), truth=truth)
        escape = "\\" if node.escape is None else str(self.literals[node.escape.number].value)
        place = position if node.escape is None or len(escape) == 1 else node.escape.position
        text = str(literal.value).lower() if node.ignores_case else str(literal.value)
        pattern = self.expressions.pattern(text, escape, place)
        if node.ignores_case:
            operand = Call("lower", (operand,))
        return _like_products(operand, pattern, escape, text, truth=truth)


def _like_products(operand: Expression, pattern: Pattern, escape: str, text: str, *, truth: bool) -> list[Product]:
    axis = axis_of(operand)
    start, rest = split_prefix(pattern)
    if not rest:
        return _product(axis, compared("=" if truth else "!=", Section.STRING, start.encode()))
    if rest == (None,):
        return _product(axis, prefix_intervals(start.encode(), truth=truth))
    end, before = split_prefix(pattern[::-1])
    if truth and before == (None,):  # '%end' is a prefix of the text from its last character to its first
        return _product(axis_of(Call("mirrored", (operand,))), prefix_intervals(end.encode(), truth=True))
    intervals = prefix_intervals(start.encode(), truth=True) if truth else (section_interval(Section.STRING),)
    if isinstance(operand, Attribute):
        return [Product({axis: intervals}, (Like(operand.name, pattern, negated=not truth),))]
    literals = Literal(Section.STRING, text), Literal(Section.STRING, escape)
    is_like = axis_of(Call("like", (operand, *literals)))
    return _product(is_like, compared("=", Section.BOOLEAN, int(truth)))


def _indexed(comparison: Call) -> list[Product] | None:
    """A comparison of a call with a literal, as members of lists, on a plain axis or in a region; None: as none."""
    sets = member_sets(comparison)
    if sets is not None:
        return list(map(Product, sets))
    found = inverted(comparison, truth=True)
    return _product(*found) if found is not None else _region_products(comparison)


def _region_products(expression: Expression) -> list[Product] | None:
    """Where the point of a test lies in its region: boxes, and the test; None where it is no such test."""
    found = region_of(expression)
    if found is None:
        return None
    x, y, region, extents = found
    if axis_of(x) == axis_of(y) or isinstance(x, Literal) or isinstance(y, Literal):
        return None
    if isinstance(x, Attribute) and isinstance(y, Attribute):
        test: Test = InRegion(x.name, y.name, region)
    else:
        test = DerivedWithin(Derived.of(expression), compared("=", Section.BOOLEAN, 1))
    return [Product({axis_of(x): xs, axis_of(y): ys}, (test,)) for xs, ys in extents]


def prefix_intervals(prefix: bytes, *, truth: bool) -> Intervals:
    """The strings that start with a prefix; or, if `truth` is not, those that do not."""
    strings = section_interval(Section.STRING)
    if not prefix:
        return (strings,) if truth else ()
    low, high = (Section.STRING, prefix), (Section.STRING, prefix_end(prefix))
    return spans((low, high)) if truth else spans((strings.low, low), (high, strings.high))


def _product(axis: AxisKey, intervals: Intervals) -> list[Product]:
    return [Product({axis: intervals})] if intervals else []


def _residual(relation: str, left: Expression, right: Expression) -> Product:
    """A test that the index cannot do; what it can do is to require values that may pass."""
    names = sorted(names_in(left) | names_in(right))
    numbers = isinstance(left, Arithmetic) or isinstance(right, Arithmetic)
    needed = section_interval(Section.NUMBER) if numbers else PRESENT
    return Product(dict.fromkeys(names, (needed,)), (Comparison(relation, left, right),))


def _null_safe_equal(left: Attribute, right: Attribute) -> list[Product]:
    both_missing = Product({left.name: (MISSING,), right.name: (MISSING,)})
    return [_residual("=", left, right), both_missing]


def _null_safe_unequal(left: Attribute, right: Attribute) -> list[Product]:
    """Unequal in one section, or in two different sections; and NaN equals nothing."""
    if left == right:
        return _product(left.name, (section_interval(Section.NAN),))
    products = [_residual("!=", left, right), *_product(left.name, (section_interval(Section.NAN),))]
    for section in (Section.NULL, Section.BOOLEAN, Section.NUMBER, Section.STRING, Section.TIME):
        inside = section_interval(section)
        outside = (PRESENT,) if section is Section.NULL else complement((inside,))
        products.append(Product({left.name: (inside,), right.name: outside}))
    return products
