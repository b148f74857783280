"""Operands -> expressions: literals filled in, types checked as far as they are known, constants computed.

Implicit conversions become explicit here, so that whatever evaluates an expression needs to know none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fieldfare.errors import ConditionError, ConditionSyntaxError, ConditionTypeError
from fieldfare.language import tree
from fieldfare.language.arithmetic import calculated
from fieldfare.language.checked_literals import check_literals
from fieldfare.language.functions import FUNCTIONS
from fieldfare.language.kinds import CAST_TYPES, NULL, Kind, cast
from fieldfare.language.list_functions import LIST_FUNCTIONS
from fieldfare.language.list_operands import looked_up
from fieldfare.language.literals import settled
from fieldfare.language.network_functions import block_bounds
from fieldfare.language.patterns import MalformedPatternError, parse_pattern
from fieldfare.language.scalars import RELATIONS, constant
from fieldfare.language.time_formats import known_format
from fieldfare.language.time_functions import known_unit
from fieldfare.language.times import DAY_MICROSECONDS, parse_date, parse_timestamp
from fieldfare.language.zones import zone_of
from fieldfare.model import (
    NOW,
    NOW_CALL,
    Arithmetic,
    Attribute,
    Call,
    Derived,
    Expression,
    Literal,
    Section,
    Variable,
)

NULL_LITERAL = Literal(Section.NULL, 0)
NOUNS = {
    Section.BOOLEAN: "a boolean",
    Section.NUMBER: "a number",
    Section.STRING: "a string",
    Section.TIME: "a date or timestamp",
    Section.NAN: "a list",
}
_NO_LISTS = "lists are not compared: write arrays_overlap(a, b), or size(array_except(a, b)) = 0 for a subset"
_ZERO = Literal(Section.NUMBER, 0)
_KINDS = {
    Section.BOOLEAN: Kind.BOOLEAN,
    Section.NUMBER: Kind.NUMBER,
    Section.STRING: Kind.TEXT,
    Section.TIME: Kind.TIME,
    Section.NAN: Kind.LIST,
}
_ZONE = "a zone, such as 'Europe/Berlin'"
_WORDS: dict[str, tuple[int, Callable[[str], Any], str]] = {  # arguments that must be literals of a known kind
    "date_trunc": (0, known_unit, "a unit, such as 'DAY'"),
    "from_utc_timestamp": (1, zone_of, _ZONE),
    "to_utc_timestamp": (1, zone_of, _ZONE),
    "date_format": (1, known_format, "a pattern of yyyy, MM, dd, HH, mm, ss, SSS, EEE, MMM, a and texts in quotes"),
}
_CHOICES = {"case", "coalesce", "greatest", "least"}
_READERS = {Kind.TIME: "time_of", Kind.DATE: "date_of"}
_COMMUTATIVE = {"+", "*", "=", "!="}


def axis_of(expression: Expression) -> str | Derived:
    """The axis that an expression's values lie on."""
    return expression.name if isinstance(expression, Attribute) else Derived.of(_normal(expression))


def _normal(expression: Expression) -> Expression:
    """The same expression for all that differ only in the order of what is added, multiplied or held equal."""
    if isinstance(expression, Arithmetic):
        sides = [_normal(expression.left), _normal(expression.right)]
        if expression.operator in _COMMUTATIVE:
            sides.sort(key=msgspec.msgpack.encode)
        return Arithmetic(expression.operator, *sides)
    if isinstance(expression, Call):
        parts = [_normal(part) for part in expression.arguments]
        if expression.function in _COMMUTATIVE and len(parts) == 2:
            parts.sort(key=msgspec.msgpack.encode)
        return Call(expression.function, tuple(parts))
    return expression


def names_in(expression: Expression) -> set[str]:
    """The attributes that an expression names."""
    if isinstance(expression, Attribute):
        return {expression.name}
    if isinstance(expression, Literal | Variable):
        return set()
    if expression == NOW_CALL:
        return {NOW}
    parts = expression.arguments if isinstance(expression, Call) else (expression.left, expression.right)
    return set().union(*map(names_in, parts))


def functions_in(expression: Expression) -> set[str]:
    """The functions that an expression calls; a cast with its type, as in `cast date`."""
    if isinstance(expression, Call):
        name = expression.function
        if name == "cast" and isinstance(expression.arguments[1], Literal):
            name = f"cast {expression.arguments[1].value}"
        return {name}.union(*map(functions_in, expression.arguments))
    if isinstance(expression, Arithmetic):
        return functions_in(expression.left) | functions_in(expression.right)
    return set()


def times_in(expression: Expression) -> bool:
    """Whether an expression names a point in time."""
    if isinstance(expression, Arithmetic):
        return times_in(expression.left) or times_in(expression.right)
    if isinstance(expression, Call):
        return any(map(times_in, expression.arguments))
    return isinstance(expression, Literal) and expression.section is Section.TIME


def has_call(expression: Expression) -> bool:
    """Whether an expression is more than arithmetic."""
    if isinstance(expression, Arithmetic):
        return has_call(expression.left) or has_call(expression.right)
    return isinstance(expression, Call)


@dataclass(frozen=True, slots=True)
class Expressions:
    """The operands of one condition, with its literals and what is known of its attributes' types."""

    text: str
    literals: Sequence[Literal]
    types: Mapping[str, Section]

    def of(self, operand: tree.Operand) -> Expression:
        """An operand with its literals filled in, and what is constant computed."""
        match operand:
            case tree.Name(name):
                return Attribute(name)
            case tree.Word(literal):
                return literal
            case tree.Slot():
                return self._slot_literal(operand)
            case tree.Variable(name):
                return Variable(name)
            case tree.Minus(inner):
                if isinstance(inner, tree.Slot) and inner.kind == "":
                    value = self.literals[inner.number].value
                    if not isinstance(value, str):
                        return Literal(Section.NUMBER, settled(-value))
                return self._arithmetic("-", _ZERO, self.of(inner), operand.position)
            case tree.Binary(symbol, left, right):
                return self._arithmetic(symbol, self.of(left), self.of(right), operand.position)
            case tree.Call():
                return self._call(operand)

    def kind(self, expression: Expression) -> Kind | None:
        """What is known of an expression's type."""
        if isinstance(expression, Literal):
            if expression.section is Section.NUMBER and isinstance(expression.value, int):
                return Kind.INTEGER
            return _KINDS.get(expression.section)
        if isinstance(expression, Attribute):
            section = self.types.get(expression.name)
            return None if section is None else _KINDS[section]
        if isinstance(expression, Arithmetic):
            return Kind.NUMBER
        if isinstance(expression, Variable):
            return None
        return self._call_kind(expression)

    def _call_kind(self, call: Call) -> Kind | None:
        if call.function in {"add_microseconds", "add_months"} and self._is_day(call):
            return Kind.DATE
        if call.function in FUNCTIONS:
            return FUNCTIONS[call.function].result
        if call.function in LIST_FUNCTIONS:
            return LIST_FUNCTIONS[call.function].result
        if call.function == "cast":
            return CAST_TYPES[str(call.arguments[1].value)] if isinstance(call.arguments[1], Literal) else None
        if call.function not in _CHOICES:
            return Kind.BOOLEAN
        values = call.arguments
        if call.function == "case":
            values = (*values[1::2], values[-1])
        kinds = {self.kind(value) for value in values if value != NULL_LITERAL}
        if kinds == {Kind.INTEGER, Kind.NUMBER}:
            return Kind.NUMBER
        return kinds.pop() if len(kinds) == 1 else None

    def _is_day(self, shifted: Call) -> bool:
        """Whether a date that an INTERVAL was added to is a date still."""
        date, amount = shifted.arguments
        days = amount.value if isinstance(amount, Literal) and not isinstance(amount.value, str) else math.nan
        is_whole = shifted.function == "add_months" or days % DAY_MICROSECONDS == 0
        return is_whole and self.kind(date) is Kind.DATE

    def expect(self, attribute: str, sections: Sequence[Section], position: int | None) -> None:
        """Raise an error where an attribute's type is known, and is none of these."""
        known = self.types.get(attribute)
        if known is not None and known not in sections:
            needed = " or ".join(NOUNS[section] for section in sections)
            reason = f"{attribute} is {NOUNS[known]}, and is used here as {needed}: they never compare"
            raise ConditionTypeError(reason, self.text, position)

    def incomparable(self, left: Kind, right: Kind, position: int | None) -> ConditionError:
        """The error for two sides that never compare."""
        nouns = [NOUNS[kind.section] for kind in (left, right)]
        hint = ": join comparisons with AND and OR" if Kind.BOOLEAN in (left, right) else ""
        return ConditionTypeError(f"{nouns[0]} and {nouns[1]} never compare{hint}", self.text, position)

    def pattern(self, pattern: str, escape: str, position: int | None) -> tuple[str | None, ...]:
        """A LIKE pattern, parsed."""
        if len(escape) != 1:
            raise ConditionSyntaxError("ESCAPE needs a string of one character", self.text, position)
        try:
            return parse_pattern(pattern, escape)
        except MalformedPatternError as error:
            raise ConditionSyntaxError(str(error), self.text, position) from error

    # Literals and arithmetic

    def _slot_literal(self, slot: tree.Slot) -> Literal:
        literal = self.literals[slot.number]
        if not isinstance(literal.value, str):
            return Literal(Section.NUMBER, settled(literal.value))
        if slot.kind == "":
            return literal
        instant = (parse_date if slot.kind == "DATE" else parse_timestamp)(literal.value)
        if instant is None:
            raise ConditionTypeError(f"{literal.value!r} is not a {slot.kind.lower()}", self.text, slot.position)
        return Literal(Section.TIME, instant)

    def _arithmetic(self, symbol: str, left: Expression, right: Expression, position: int | None) -> Expression:
        for side in (left, right):
            if isinstance(side, Attribute):
                self.expect(side.name, (Section.NUMBER,), position)
                continue
            kind = self.kind(side)
            if kind is not None and kind.section is not Section.NUMBER:
                instead = "; write cast(… AS double)" if kind is Kind.TEXT and not isinstance(side, Literal) else ""
                if kind in (Kind.DATE, Kind.TIME):
                    instead = ": add an INTERVAL, as in at + INTERVAL 1 DAY"
                raise ConditionTypeError(f"arithmetic with {NOUNS[kind.section]}{instead}", self.text, position)
        if NULL_LITERAL in (left, right):
            return NULL_LITERAL
        literals = (side.value for side in (left, right) if isinstance(side, Literal))
        numbers = [value for value in literals if not isinstance(value, str)]
        if len(numbers) < 2:
            return Arithmetic(symbol, left, right)
        value = calculated(symbol, *numbers)
        if value is None:
            return NULL_LITERAL
        if math.isnan(value):
            raise ConditionTypeError("this arithmetic gives no number", self.text, position)
        return Literal(Section.NUMBER, value)

    # Calls

    def _call(self, operand: tree.Call) -> Expression:
        name, position = operand.function, operand.position
        arguments = tuple(map(self.of, operand.arguments))
        if name in RELATIONS:
            return folded(self.comparison(name, arguments[0], arguments[1], position))
        if name == "ip_in":
            return self._in_block(arguments[0], arguments[1], position)
        if name == "cast":
            return folded(self._cast(arguments[0], arguments[1], position))
        if name in LIST_FUNCTIONS:
            self._expect_lists(name, arguments, position)
            return folded(looked_up(name, arguments))
        if name in FUNCTIONS:
            arguments = self._converted(name, arguments, position)
            if NULL_LITERAL in arguments:
                return NULL_LITERAL
            check_literals(self.text, operand, arguments)
        elif name in {"and", "or", "not"}:
            for argument in arguments:
                self._expect_boolean(argument, position)
        elif name == "case":
            for condition in arguments[:-1:2]:
                self._expect_boolean(condition, position)
        return folded(Call(name, arguments))

    def _expect_lists(self, name: str, arguments: Sequence[Expression], position: int | None) -> None:
        """Raise an error where an argument that must be a list is known to be something else."""
        for argument in arguments[: LIST_FUNCTIONS[name].lists]:
            kind = self.kind(argument)
            if kind not in (None, Kind.LIST) and argument != NULL_LITERAL:
                raise ConditionTypeError(f"{name} needs a list here, not {kind.value}", self.text, position)

    def _expect_boolean(self, expression: Expression, position: int | None) -> None:
        if self.kind(expression) not in (None, Kind.BOOLEAN):
            reason = "a value stands where a condition is needed: compare it with something"
            raise ConditionTypeError(reason, self.text, position)

    def _converted(self, name: str, arguments: tuple[Expression, ...], position: int | None) -> tuple[Expression, ...]:
        """The arguments of a function, checked against its parameters."""
        function = FUNCTIONS[name]
        converted: list[Expression] = []
        for number, argument in enumerate(arguments):
            parameter, kind = function.parameter(number), self.kind(argument)
            if kind is Kind.DATE and parameter is Kind.TEXT:
                converted.append(Call("date_text", (argument,)))
                continue
            converted.append(argument)
            if kind is None or argument == NULL_LITERAL:
                continue
            if (
                ((parameter is not Kind.TEXT or kind is Kind.LIST) and parameter.section is not kind.section)
                and not (parameter in (Kind.TIME, Kind.DATE) and kind is Kind.TEXT)
            ) or (parameter is Kind.INTEGER and isinstance(argument, Literal) and kind is not Kind.INTEGER):
                reason = f"{name} needs {parameter.value} here, not {kind.value}: write a CAST if one is meant"
                raise ConditionTypeError(reason, self.text, position)
        self._check_words(name, converted, position)
        return tuple(converted)

    def _check_words(self, name: str, arguments: Sequence[Expression], position: int | None) -> None:
        """Check arguments that say what a function does, and so must be literals."""
        if name in _WORDS:
            place, known, example = _WORDS[name]
            word = arguments[place]
            if not isinstance(word, Literal) or not known(str(word.value)):
                raise ConditionTypeError(f"{name} needs {example}", self.text, position)
        if name == "like":
            pattern, escape = arguments[1:]
            if isinstance(escape, Literal) and isinstance(pattern, Literal) and pattern != NULL_LITERAL:
                self.pattern(str(pattern.value), str(escape.value), position)

    def _cast(self, value: Expression, target: Expression, position: int | None) -> Expression:
        kind = self.kind(value)
        to = CAST_TYPES[str(target.value)] if isinstance(target, Literal) else Kind.TEXT
        if kind is Kind.DATE and to is Kind.TEXT:
            return Call("date_text", (value,))
        if kind is Kind.DATE and to in (Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN):
            raise ConditionTypeError(f"a date cannot be cast to {to.value}", self.text, position)
        return Call("cast", (value, target))

    def comparison(self, relation: str, left: Expression, right: Expression, position: int | None) -> Expression:
        """A comparison as an expression, which is true, false or NULL."""
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, right, relation = right, left, tree.MIRRORS[relation]
        if NULL_LITERAL in (left, right):
            return NULL_LITERAL
        left, right = self.coerced(left, right, position)
        readings = [right]
        if isinstance(right, Literal) and isinstance(right.value, str) and self.kind(left) is None:
            instant = parse_timestamp(right.value)
            if instant is not None:
                readings.append(Literal(Section.TIME, instant))
        return Call(relation, (left, *readings))

    def coerced(self, left: Expression, right: Expression, position: int | None) -> tuple[Expression, Expression]:
        """Both sides of a comparison, one of them cast to the other's type where Spark does that."""
        left, right = self._read_as_time(left, right), self._read_as_time(right, left)
        kind, other = self.kind(left), self.kind(right)
        if Kind.LIST in (kind, other):
            raise ConditionTypeError(_NO_LISTS, self.text, position)
        if kind is None or other is None or kind.section is other.section:
            return left, right
        has_attribute = isinstance(left, Attribute) or isinstance(right, Attribute)
        if kind is Kind.TEXT and not has_attribute:
            return self._cast_text(left, other, position), right
        if other is Kind.TEXT and not has_attribute:
            return left, self._cast_text(right, kind, position)
        raise self.incomparable(kind, other, position)

    def _read_as_time(self, side: Expression, other: Expression) -> Expression:
        """What is compared with a computed time, and may be a text, as times are in JSON: it is read as a time."""
        kind = self.kind(other)
        is_computed = kind in _READERS and not isinstance(other, Literal | Attribute)
        if kind is None or not is_computed or isinstance(side, Literal):
            return side
        own = self.kind(side)
        is_open = own is None or (own is Kind.TEXT and isinstance(side, Attribute))
        return Call(_READERS[kind], (side,)) if is_open else side

    def _cast_text(self, text: Expression, kind: Kind, position: int | None) -> Expression:
        """A text as the type that it is compared with."""
        target = {
            Kind.BOOLEAN: "boolean",
            Kind.INTEGER: "bigint",
            Kind.NUMBER: "double",
            Kind.DATE: "date",
            Kind.TIME: "timestamp",
        }[kind]
        if isinstance(text, Literal):
            value = cast((text.section, text.value), target)
            if value == NULL:
                raise self.incomparable(Kind.TEXT, kind, position)
            return Literal(*value)
        return Call("cast", (text, Literal(Section.STRING, target)))

    def _in_block(self, address: Expression, block: Expression, position: int | None) -> Expression:
        """An address in a block of addresses: between its first and its last."""
        bounds = block_bounds(str(block.value)) if isinstance(block, Literal) else None
        if bounds is None:
            reason = "ip_in needs an address and a block in quotes, such as '10.0.0.0/8' or '2001:db8::/32'"
            raise ConditionTypeError(reason, self.text, position)
        kind = self.kind(address)
        if kind not in (None, Kind.TEXT):
            raise ConditionTypeError("ip_in needs an address that is a string", self.text, position)
        sortable = Call("ip", (address,))
        first, last = (Literal(Section.STRING, bound) for bound in bounds)
        return folded(Call("and", (Call(">=", (sortable, first)), Call("<=", (sortable, last)))))


def folded(expression: Expression) -> Expression:
    """The literal that an expression without attributes is; a list is none."""
    if isinstance(expression, Literal) or not _is_constant(expression):
        return expression
    section, value = constant(expression)
    return expression if section is Section.NAN else Literal(section, value)


def _is_constant(expression: Expression) -> bool:
    if isinstance(expression, Attribute | Variable) or expression == NOW_CALL:
        return False
    if isinstance(expression, Arithmetic):
        return _is_constant(expression.left) and _is_constant(expression.right)
    return isinstance(expression, Literal) or all(map(_is_constant, expression.arguments))
