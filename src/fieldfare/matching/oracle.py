"""What a condition means, said as plainly as possible: the slow, obviously right judge of the index.

It walks SQL's own syntax tree over one event, with Python values and three-valued logic (None is unknown). It
shares no code with the compiler, so that both would have to be wrong in the same way to agree.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from fieldfare.errors import UnsupportedConditionError
from fieldfare.matching import oracle_functions as functions
from fieldfare.matching import oracle_lists as lists
from fieldfare.matching import oracle_places
from fieldfare.model import Range, Scalar, SubscriptionId


@dataclass(frozen=True, order=True)
class Time:
    """A point in time; a date is its midnight."""

    microseconds: int


Truth = bool | None
Value = bool | int | float | str | Time | None | Any  # lists and dicts too
Point = Mapping[str, Value]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_INT64 = range(-(2**63), 2**63)


def match(subscriptions: Mapping[SubscriptionId, str], event: Mapping[str, Scalar | Range]) -> list[SubscriptionId]:
    """The ids of the subscriptions that an event satisfies, in their order."""
    return [subscription_id for subscription_id, condition in subscriptions.items() if holds(condition, event)]


def holds(condition: str, event: Mapping[str, Scalar | Range]) -> bool:
    """Whether an event satisfies a condition; with ranges, whether some point of them does.

    For ranges this is exact only if the condition compares attributes with literals and has no % but at the end of
    a LIKE pattern: then its truth changes only at the literals, and trying them and what lies between is enough.
    """
    tree = _parsed(condition)
    marks = list(_marks(tree))
    choices = [
        [(name, point) for point in (_points(value, marks) if isinstance(value, Range) else [_value(value)])]
        for name, value in event.items()
    ]
    return any(_truth(tree, dict(point)) is True for point in itertools.product(*choices))


class _Dialect(Spark):
    """Spark's SQL, in which a call is a name and its arguments."""

    class Parser(SparkParser):
        """Rewrites no function into another."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser for name, parser in SparkParser.FUNCTION_PARSERS.items() if name == "CAST"
        }


@functools.lru_cache(maxsize=4096)
def _parsed(condition: str) -> exp.Expr:
    return sqlglot.parse_one(condition, read=_Dialect)


def _truth(node: exp.Expr, event: Point) -> Truth:
    """The truth of a condition: True, False or None."""
    if node.args.get("negate"):
        positive = node.copy()
        positive.set("negate", None)
        return _not(_truth(positive, event))
    match node:
        case exp.Paren():
            return _truth(node.this, event)
        case exp.Not():
            return _not(_truth(node.this, event))
        case exp.And():
            return _and(_truth(node.this, event), _truth(node.expression, event))
        case exp.Or():
            return _not(_and(_not(_truth(node.this, event)), _not(_truth(node.expression, event))))
        case _:
            return _predicate(node, event)


def _predicate(node: exp.Expr, event: Point) -> Truth:
    """The truth of one comparison, or of an attribute that is itself a truth."""
    match node:
        case exp.Is(expression=exp.Null()):
            return _operand(node.this, event) is None
        case exp.Is(expression=exp.Boolean()) if not isinstance(node.this, exp.Column):
            return _truth(node.this, event) is bool(node.expression.this)
        case exp.NullSafeEQ():
            return _null_safe_equal(node, event)
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _compare(type(node), node.this, node.expression, event)
        case exp.Between():
            above = _compare(exp.GTE, node.this, node.args["low"], event)
            return _and(above, _compare(exp.LTE, node.this, node.args["high"], event))
        case exp.In():
            differs: Truth = True
            for alternative in node.expressions:
                differs = _and(differs, _compare(exp.NEQ, node.this, alternative, event))
            return _not(differs)
        case exp.Like():
            return _like(_operand(node.this, event), _operand(node.expression, event), "\\")
        case exp.ILike():
            texts = (_text(_operand(side, event)) for side in (node.this, node.expression))
            lowered = [None if text is None else text.lower() for text in texts]
            return _like(lowered[0], lowered[1], "\\")
        case exp.RegexpLike():  # patterns that Python and Java read alike
            text, pattern = _operand(node.this, event), _operand(node.expression, event)
            both = isinstance(text, str) and isinstance(pattern, str)
            return re.search(pattern, text) is not None if both else None  # type: ignore[arg-type]
        case exp.Escape(this=exp.Like() as like):
            answer = _like(_operand(like.this, event), _operand(like.expression, event), node.expression.this)
            return _not(answer) if like.args.get("negate") else answer
        case _:
            value = _operand(node, event)
            return value if isinstance(value, bool) else None


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _and(left: Truth, right: Truth) -> Truth:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


# Comparisons


def _section(value: Value) -> type | None:
    """What a value can be compared with; None: with nothing."""
    if value is None or isinstance(value, list | dict) or (isinstance(value, float) and math.isnan(value)):
        return None
    return float if type(value) is int else type(value)


def _pair(left: exp.Expr, right: exp.Expr, event: Point) -> tuple[Value, Value]:
    """Both sides' values. A quoted date becomes a time where the other side is one."""
    values = _operand(left, event), _operand(right, event)
    for at, (side, other) in enumerate(((left, right), (right, left))):
        target = _target(side) if other.is_string else None
        if target is not None:  # a call gives a type, which a quoted text is read as
            cast = _cast(other.this, target)
            return (values[0], cast) if at == 0 else (cast, values[1])
    if isinstance(values[0], Time) and right.is_string:
        return values[0], _parsed_time(right.this)
    if isinstance(values[1], Time) and left.is_string:
        return _parsed_time(left.this), values[1]
    return values


def _target(node: exp.Expr) -> str | None:
    """The type of a call, if it is no text."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.TryCast):
        kind = node.args["to"].sql("spark").lower()
        return None if kind == "string" else str(kind)
    name = node.this.lower() if isinstance(node, exp.Anonymous) else ""
    if name in functions.NUMBER_RESULT or name in functions.TIME_FIELDS:
        return "double"
    return {"date": "date", "date_trunc": "timestamp", "from_utc_timestamp": "timestamp"}.get(name)


def _compare(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr, event: Point) -> Truth:
    a, b = _pair(left, right, event)
    if _section(a) is None or _section(a) is not _section(b):
        return None
    below: bool = a < b  # type: ignore[operator]  # of one section, so ordered; Python compares int and float exactly
    answers: dict[type[exp.Binary], bool] = {
        exp.EQ: a == b,
        exp.NEQ: a != b,
        exp.LT: below,
        exp.LTE: below or a == b,
        exp.GT: not below and a != b,
        exp.GTE: not below,
    }
    return answers[operator]


def _null_safe_equal(node: exp.Expr, event: Point) -> bool:
    a, b = _pair(node.this, node.expression, event)
    if a is None or b is None:
        return a is b
    return _section(a) is not None and _section(a) is _section(b) and a == b


def _like(text: Value, pattern: Value, escape: str) -> Truth:
    if not isinstance(text, str) or not isinstance(pattern, str):
        return None
    expression = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped not in ("%", "_", escape):
                return None
            expression += re.escape(escaped)
        else:
            expression += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return re.fullmatch(expression, text, re.DOTALL) is not None


# Values


def _operand(node: exp.Expr, event: Point) -> Value:
    """The value of an expression: an attribute, a literal, or arithmetic."""
    match node:
        case exp.Paren():
            return _operand(node.this, event)
        case exp.Bracket() | exp.Identifier() | exp.Dot() if not isinstance(node, exp.Dot) or not _is_name(node):
            return _part(node, event)
        case exp.Column() | exp.Dot():
            return event.get(".".join(part.name for part in node.parts))
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal(is_string=True):
            return str(node.this)
        case exp.Literal():
            return _number(node.this)
        case exp.Neg(this=exp.Literal(is_string=False)):
            return _number("-" + node.this.this)
        case exp.Neg():
            return _arithmetic(exp.Sub, 0, _operand(node.this, event))
        case exp.Cast(this=exp.Literal(is_string=True)) if not isinstance(node, exp.TryCast):
            return _parsed_time(node.this.this)
        case exp.Add(expression=exp.Interval() as interval) | exp.Sub(expression=exp.Interval() as interval):
            when = _time(_operand(node.this, event))
            amount = Decimal(interval.this.this) * (1 if isinstance(node, exp.Add) else -1)
            unit = interval.args["unit"].name.upper().removesuffix("S")
            return None if when is None else Time(functions.shifted(when.microseconds, amount, unit))
        case _:
            return _calculated(node, event)


def _calculated(node: exp.Expr, event: Point) -> Value:
    """The value of arithmetic, a cast, a choice, a call, or a condition."""
    match node:
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return _arithmetic(type(node), _operand(node.this, event), _operand(node.expression, event))
        case exp.TryCast():
            cast = _cast(_present(_operand(node.this, event)), node.args["to"].sql("spark").lower())
            return cast[:10] if isinstance(cast, str) and _target(node.this) == "date" else cast
        case exp.DPipe():
            return _called("concat", [_operand(node.this, event), _operand(node.expression, event)])
        case exp.IntDiv():
            return _called("div", [_operand(node.this, event), _operand(node.expression, event)])
        case exp.Case():
            return _case(node, event)
        case exp.If():
            return _operand(node.args["true" if _truth(node.this, event) is True else "false"], event)
        case exp.Anonymous(expressions=[some, exp.Lambda() as function]):
            return _quantified(node.this.lower(), _operand(some, event), function, event)
        case exp.Anonymous():
            arguments = [_operand(part, event) for part in node.expressions]
            name = node.this.lower()
            return _of_lists(name, arguments) if name in lists.NAMES else _called(name, arguments, node)
        case exp.Predicate() | exp.Connector() | exp.Not() | exp.Is() | exp.Between() | exp.In() | exp.Escape():
            return _truth(node, event)
        case _:
            raise UnsupportedConditionError(f"the oracle does not know {type(node).__name__}", node.sql("spark"))


# Lists


def _is_name(node: exp.Expr) -> bool:
    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)


def _part(node: exp.Expr, event: Point) -> Value:
    """A variable, a member of a list by its place, a field of an object, or a key of a map."""
    if isinstance(node, exp.Identifier):
        return event.get(node.name)
    key = node.expression.name if isinstance(node, exp.Dot) else _operand(node.expressions[0], event)
    if isinstance(node.this, exp.Column) and isinstance(key, str):
        return event.get(".".join([*(part.name for part in node.this.parts), key]))
    inner = _operand(node.this, event)
    if isinstance(inner, dict):
        return _value(inner.get(key))
    return lists.called("get", [inner, key]) if not isinstance(key, str) else None


def _quantified(name: str, some: Value, function: exp.Lambda, event: Point) -> Truth:
    if not isinstance(some, list):
        return None
    variable = function.expressions[0].name
    truths = {_truth(function.this, {**event, variable: member}) for member in some}
    if name == "exists":
        return True if True in truths else None if None in truths else False
    return False if False in truths else None if None in truths else True


def _of_lists(name: str, arguments: list[Value]) -> Value:
    arguments = [_present(argument) for argument in arguments]
    if name == "words" and arguments[0] is not None:
        arguments = [None if isinstance(arguments[0], list) else functions.text(arguments[0])]
    return lists.called(name, arguments)


# Functions


def _present(value: Value) -> Value:
    """A value in an expression: NaN counts as NULL there."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _text(value: Value) -> str | None:
    return None if _present(value) is None else functions.text(value)


def _time(value: Value) -> Time | None:
    return _parsed_time(value) if isinstance(value, str) else value if isinstance(value, Time) else None


def _case(node: exp.Case, event: Point) -> Value:
    for branch in node.args["ifs"]:
        subject = node.this
        held = _truth(branch.this, event) if subject is None else _compare(exp.EQ, subject, branch.this, event)
        if held is True:
            return _present(_operand(branch.args["true"], event))
    default = node.args.get("default")
    return None if default is None else _present(_operand(default, event))


def _cast(value: Value, kind: str) -> Value:
    if value is None:
        return None
    match kind:
        case "string":
            return functions.text(value)
        case "boolean":
            return value if isinstance(value, bool) else functions.to_boolean(value)
        case "date" | "timestamp":
            if isinstance(value, int | float):
                return None if kind == "date" or isinstance(value, bool) else Time(int(value * 1_000_000))
            when = _time(value)
            return when if when is None or kind == "timestamp" else Time(functions.truncated("DAY", when.microseconds))
        case "double":
            return functions.to_float(value)
        case _:
            return functions.to_integer(value, kind)


def _called(name: str, arguments: list[Value], node: exp.Expr | None = None) -> Value:
    """The value of a call."""
    arguments = [_present(argument) for argument in arguments]
    name = functions.SYNONYMS.get(name, name)
    match name:
        case "coalesce" | "ifnull" | "nvl":
            return next((argument for argument in arguments if argument is not None), None)
        case "if" if node is not None:
            return arguments[1] if arguments[0] is True else arguments[2]
        case "nullif":
            same = _section(arguments[0]) is _section(arguments[1]) and arguments[0] == arguments[1]
            return None if same else arguments[0]
        case "isnull" | "isnotnull":
            return (arguments[0] is None) is (name == "isnull")
        case "greatest" | "least":
            known = [argument for argument in arguments if argument is not None]
            if len({_section(argument) for argument in known}) != 1:
                return None
            return max(known) if name == "greatest" else min(known)
        case "date" | "timestamp" | "int" | "bigint" | "double" | "string" | "boolean":
            return _cast(arguments[0], name)
    if None in arguments:
        return None
    if name in functions.TIME_FIELDS or name in {"date_trunc", "from_utc_timestamp"}:
        when = _time(arguments[1 if name == "date_trunc" else 0])
        return None if when is None else _of_time(name, when.microseconds, arguments)
    if name in {"abs", "ceil", "floor", "round", "div", "pmod", "power", "sqrt", "sign", "mod"}:
        if any(_section(argument) is not float for argument in arguments):
            return None
        number: float | None = functions.of_numbers(name, *arguments)
        return number
    return _of_others(name, arguments)


def _of_others(name: str, arguments: list[Value]) -> Value:
    """A call about places or texts."""
    found: Value
    if name.startswith("st_"):
        found = oracle_places.called(name, arguments)
    else:
        found = functions.of_texts(name, [functions.text(argument) for argument in arguments], arguments)
    return found


def _of_time(name: str, microseconds: int, arguments: list[Value]) -> Value:
    if name == "date_trunc":
        return Time(functions.truncated(str(arguments[0]), microseconds))
    if name == "from_utc_timestamp":
        return Time(functions.local(microseconds, str(arguments[1])))
    return functions.time_field(name, microseconds)


def _number(text: str) -> int | float:
    if text.lstrip("-").isdigit() and int(text) in _INT64:
        return int(text)
    return float(text)


def _arithmetic(operator: type[exp.Expr], a: Value, b: Value) -> int | float | None:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return None
    if _section(a) is not float or _section(b) is not float:
        return None
    if operator in (exp.Div, exp.Mod) and b == 0:
        return None
    if operator is exp.Div or isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
    if operator is exp.Mod:
        if isinstance(a, float):
            return math.fmod(a, b) if not math.isinf(a) else None
        return int(math.copysign(1, a)) * (abs(a) % abs(int(b)))
    result = a + b if operator is exp.Add else a - b if operator is exp.Sub else a * b if operator is exp.Mul else a / b
    return result if isinstance(result, float) or result in _INT64 else None


def _value(value: Scalar) -> Value:
    """An event's value as the language sees it."""
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value() and int(value) in _INT64
        return int(value) if whole else float(value)
    if isinstance(value, list):
        return [_present(_value(member)) for member in value]
    if isinstance(value, datetime.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return Time((zoned - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date):
        return _value(datetime.datetime.combine(value, datetime.time()))
    return value


_CLOCK = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?\s*(\S*)"
_TIME = re.compile(rf"\s*(\d{{4}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[T ](?:{_CLOCK})?)?)?)?\s*")


def _parsed_time(text: str) -> Time | None:
    """A quoted date or timestamp, year first; None where the text is neither."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (
        int(part or default) for part, default in zip(found.groups(), "011000", strict=False)
    )
    microsecond = int((found[7] or "0").ljust(6, "0")[:6])
    try:
        zone = datetime.datetime.strptime(found[8], "%z").tzinfo if found[8] else datetime.UTC
        moment = datetime.datetime(year, month, day, hour, minute, second, microsecond, zone)
    except ValueError:
        return None
    return Time((moment - _EPOCH) // datetime.timedelta(microseconds=1))


# Ranges


def _marks(tree: exp.Expr) -> Iterator[Value]:
    """The values at which the condition's truth may change: every constant in it, and the ends of LIKE prefixes."""
    for node in tree.find_all(exp.Literal, exp.Neg, exp.Cast, exp.Binary):
        if isinstance(node, exp.Like):
            prefix = str(node.expression.this).removesuffix("%")
            yield prefix
            if prefix:
                yield prefix[:-1] + _next_character(prefix[-1])
        elif not isinstance(node, exp.Predicate | exp.Connector) and not node.find(exp.Column):
            yield _operand(node, {})
            if node.is_string:
                yield _parsed_time(node.this)


def _next_character(character: str) -> str:
    after = ord(character) + 1
    return chr(0xE000 if after == 0xD800 else min(after, 0x10FFFF))


def _points(ends: Range, marks: list[Value]) -> list[Value]:
    """Enough points of a range: its ends, the marks in it, and one point in each gap between these."""
    low, high = _value(ends.low), _value(ends.high)
    section = _section(low) or _section(high)
    if section is bool:
        known: list[Value] = [False, True]
    elif section is str:
        strings = {value for value in (low, high, *marks, "") if isinstance(value, str)}
        known = [*strings, *(value + "\x00" for value in strings)]
    elif section is Time:
        times = {value.microseconds for value in (low, high, *marks) if isinstance(value, Time)}
        known = [Time(near) for time in times for near in (time - 1, time, time + 1)]
    else:
        values = (low, high, *marks, -math.inf, math.inf)
        numbers = sorted({value for value in values if isinstance(value, int | float) and _section(value) is float})
        known = [*numbers, *(_between(a, b) for a, b in itertools.pairwise(numbers))]
    return [
        value
        for value in known
        if (low is None or low <= value) and (high is None or value <= high)  # type: ignore[operator]  # one section
    ]


def _between(a: float, b: float) -> float:
    """A number between two, or one of them where there is none between."""
    if math.isinf(a) and math.isinf(b):
        return 0.0
    if math.isinf(a) or math.isinf(b):
        most = math.nextafter(math.inf, 0)
        return max(a, -most) if math.isinf(a) else min(b, most)
    middle = (Fraction(a) + Fraction(b)) / 2
    return float(middle) if a < float(middle) < b else min(max(math.floor(middle), a), b)
