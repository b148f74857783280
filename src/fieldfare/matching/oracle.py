"""What a condition means, said as plainly as possible: the slow, obviously right judge of the index.

It walks SQL's own syntax tree over one event, with Python values and three-valued logic (None is unknown). It
shares no code with the compiler, so that both would have to be wrong in the same way to agree.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from fieldfare.errors import UnsupportedConditionError
from fieldfare.matching import oracle_days as days
from fieldfare.matching import oracle_functions as functions
from fieldfare.matching import oracle_lists as lists
from fieldfare.matching.oracle_ranges import marks, points
from fieldfare.matching.oracle_values import (
    Time,
    Value,
    arithmetic,
    called,
    cast,
    like,
    number,
    parsed_time,
    present,
    section,
    text_of,
    time_of,
    value_of,
)
from fieldfare.model import NOW, Range, Scalar, SubscriptionId

_Truth = bool | None
_Point = Mapping[str, Value]


def match(subscriptions: Mapping[SubscriptionId, str], event: Mapping[str, Scalar | Range]) -> list[SubscriptionId]:
    """The ids of the subscriptions that an event satisfies, in their order."""
    return [subscription_id for subscription_id, condition in subscriptions.items() if holds(condition, event)]


def holds(condition: str, event: Mapping[str, Scalar | Range]) -> bool:
    """Whether an event satisfies a condition; with ranges, whether some point of them does.

    For ranges this is exact only if the condition compares attributes with literals and has no % but at the end of
    a LIKE pattern: then its truth changes only at the literals, and trying them and what lies between is enough.
    """
    tree = _parsed(condition)
    ends = list(marks(tree, lambda node: _operand(node, {})))
    choices = [
        [(name, point) for point in (points(value, ends) if isinstance(value, Range) else [value_of(value)])]
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


def _truth(node: exp.Expr, event: _Point) -> _Truth:
    """The truth of a condition: True, False or None."""
    if node.args.get("negate") and not isinstance(node.expression, exp.Any | exp.All):
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


def _predicate(node: exp.Expr, event: _Point) -> _Truth:
    """The truth of one comparison, or of an attribute that is itself a truth."""
    match node:
        case exp.Is(expression=exp.Column(this=exp.Identifier(this=str(word)))) if word.upper() == "UNKNOWN":
            return _operand(node.this, event) is None
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
            differs: _Truth = True
            for alternative in node.expressions:
                differs = _and(differs, _compare(exp.NEQ, node.this, alternative, event))
            return _not(differs)
        case exp.Like() | exp.ILike() | exp.Escape():
            return _like(node, event)
        case exp.RegexpLike():  # patterns that Python and Java read alike
            text, pattern = _operand(node.this, event), _operand(node.expression, event)
            both = isinstance(text, str) and isinstance(pattern, str)
            return re.search(pattern, text) is not None if both else None  # type: ignore[arg-type]
        case _:
            value = _operand(node, event)
            return value if isinstance(value, bool) else None


def _like(node: exp.Expr, event: _Point) -> _Truth:
    """The truth of LIKE and ILIKE."""
    match node:
        case _ if isinstance(node.expression, exp.Any | exp.All):
            return _like_several(node, event)
        case exp.Like():
            return like(_operand(node.this, event), _operand(node.expression, event), "\\")
        case exp.ILike():
            texts = (text_of(_operand(side, event)) for side in (node.this, node.expression))
            lowered = [None if text is None else text.lower() for text in texts]
            return like(lowered[0], lowered[1], "\\")
        case exp.Escape(this=exp.Like() as inner):
            answer = like(_operand(inner.this, event), _operand(inner.expression, event), node.expression.this)
            return _not(answer) if inner.args.get("negate") else answer
    raise UnsupportedConditionError(f"the oracle does not know {type(node).__name__}", node.sql("spark"))


def _like_several(node: exp.Expr, event: _Point) -> _Truth:
    """LIKE ANY or ALL of some patterns."""
    listed = node.expression.this
    patterns = listed.expressions if isinstance(listed, exp.Tuple) else [listed.this]
    negate = node.args.get("negate")
    truths = [_truth(type(node)(this=node.this, expression=pattern, negate=negate), event) for pattern in patterns]
    if isinstance(node.expression, exp.All):
        return functools.reduce(_and, truths)
    return _not(functools.reduce(_and, map(_not, truths)))


def _not(truth: _Truth) -> _Truth:
    return None if truth is None else not truth


def _and(left: _Truth, right: _Truth) -> _Truth:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


# Comparisons


_NOW = {"current_timestamp", "now", "localtimestamp"}
_TODAY = {"current_date", "curdate"}


def _pair(left: exp.Expr, right: exp.Expr, event: _Point) -> tuple[Value, Value]:
    """Both sides' values. A text becomes a time where the other side is computed to be one; a quoted one always."""
    values = _operand(left, event), _operand(right, event)
    for at, (side, other) in enumerate(((left, right), (right, left))):
        value, kind = values[at], _target(other)
        if isinstance(value, str) and not side.is_string and kind in {"date", "timestamp"}:
            values = (cast(value, kind), values[1]) if at == 0 else (values[0], cast(value, kind))
    for at, (side, other) in enumerate(((left, right), (right, left))):
        target = _target(side) if other.is_string else None
        if target is not None:  # a call gives a type, which a quoted text is read as
            read = cast(other.this, target)
            return (values[0], read) if at == 0 else (read, values[1])
    if isinstance(values[0], Time) and right.is_string:
        return values[0], parsed_time(right.this)
    if isinstance(values[1], Time) and left.is_string:
        return parsed_time(left.this), values[1]
    return values


def _target(node: exp.Expr) -> str | None:
    """The type of a call, if it is no text."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.TryCast):
        kind = node.args["to"].sql("spark").lower()
        return None if kind == "string" else str(kind)
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
        is_whole = node.expression.args["unit"].name.upper().removesuffix("S") in {"DAY", "WEEK", "MONTH", "YEAR"}
        return "date" if is_whole and _target(node.this) == "date" else "timestamp"
    name = node.this.lower() if isinstance(node, exp.Anonymous) else node.key
    if name in _NOW | _TODAY | {"currenttimestamp", "currentdate"}:
        return "date" if "date" in name else "timestamp"
    if name in functions.NUMBER_RESULT or name in functions.TIME_FIELDS:
        return "double"
    if name in days.DATE_RESULT:
        return "date"
    if name in days.FROM_NUMBERS or name == "to_timestamp":
        return "timestamp"
    return {
        "date": "date",
        "date_trunc": "timestamp",
        "from_utc_timestamp": "timestamp",
        "to_utc_timestamp": "timestamp",
    }.get(name)


def _compare(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr, event: _Point) -> _Truth:
    a, b = _pair(left, right, event)
    if section(a) is None or section(a) is not section(b):
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


def _null_safe_equal(node: exp.Expr, event: _Point) -> bool:
    a, b = _pair(node.this, node.expression, event)
    if a is None or b is None:
        return a is b
    return section(a) is not None and section(a) is section(b) and a == b


# Values


def _operand(node: exp.Expr, event: _Point) -> Value:
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
        case exp.Literal(is_string=True) | exp.RawString():
            return str(node.this)
        case exp.Literal():
            return number(node.this)
        case exp.Neg(this=exp.Literal(is_string=False)):
            return number("-" + node.this.this)
        case exp.Neg():
            return arithmetic(exp.Sub, 0, _operand(node.this, event))
        case exp.Cast(this=exp.Literal(is_string=True)) if not isinstance(node, exp.TryCast):
            return parsed_time(node.this.this)
        case exp.Add(expression=exp.Interval() as interval) | exp.Sub(expression=exp.Interval() as interval):
            when = time_of(_operand(node.this, event))
            amount = Decimal(interval.this.this) * (1 if isinstance(node, exp.Add) else -1)
            unit = interval.args["unit"].name.upper().removesuffix("S")
            return None if when is None else Time(functions.shifted(when.microseconds, amount, unit))
        case _:
            return _calculated(node, event)


def _calculated(node: exp.Expr, event: _Point) -> Value:
    """The value of arithmetic, a cast, a choice, a call, or a condition."""
    match node:
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return arithmetic(type(node), _operand(node.this, event), _operand(node.expression, event))
        case exp.TryCast():
            found = cast(present(_operand(node.this, event)), node.args["to"].sql("spark").lower())
            return found[:10] if isinstance(found, str) and _target(node.this) == "date" else found
        case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor() | exp.BitwiseNot():
            sides = [node.this] if isinstance(node, exp.BitwiseNot) else [node.this, node.expression]
            return functions.of_bits(type(node).__name__, [_operand(side, event) for side in sides])
        case exp.DPipe() | exp.IntDiv():
            name = "concat" if isinstance(node, exp.DPipe) else "div"
            return called(name, [_operand(node.this, event), _operand(node.expression, event)])
        case exp.Case():
            return _case(node, event)
        case exp.If():
            return _operand(node.args["true" if _truth(node.this, event) is True else "false"], event)
        case exp.Anonymous(expressions=[some, exp.Lambda() as function]):
            return _quantified(node.this.lower(), _operand(some, event), function, event)
        case exp.CurrentTimestamp() | exp.CurrentDate():
            return _now(event, is_day=isinstance(node, exp.CurrentDate))
        case exp.Anonymous() if node.this.lower() in _NOW | _TODAY:
            return _now(event, is_day=node.this.lower() in _TODAY)
        case exp.Anonymous():
            arguments = [_operand(part, event) for part in node.expressions]
            name = node.this.lower()
            return _of_lists(name, arguments) if name in lists.NAMES else called(name, arguments)
        case exp.Predicate() | exp.Connector() | exp.Not() | exp.Is() | exp.Between() | exp.In() | exp.Escape():
            return _truth(node, event)
        case _:
            raise UnsupportedConditionError(f"the oracle does not know {type(node).__name__}", node.sql("spark"))


def _now(event: _Point, *, is_day: bool) -> Value:
    """The time of now, an attribute of the event."""
    now = event.get(NOW)
    return cast(now, "date") if is_day else now


# Lists


def _is_name(node: exp.Expr) -> bool:
    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)


def _part(node: exp.Expr, event: _Point) -> Value:
    """A variable, a member of a list by its place, a field of an object, or a key of a map."""
    if isinstance(node, exp.Identifier):
        return event.get(node.name)
    key = node.expression.name if isinstance(node, exp.Dot) else _operand(node.expressions[0], event)
    if isinstance(node.this, exp.Column) and isinstance(key, str):
        return event.get(".".join([*(part.name for part in node.this.parts), key]))
    inner = _operand(node.this, event)
    if isinstance(inner, dict):
        return value_of(inner.get(key))
    return lists.called("get", [inner, key]) if not isinstance(key, str) else None


def _quantified(name: str, some: Value, function: exp.Lambda, event: _Point) -> _Truth:
    if not isinstance(some, list):
        return None
    variable = function.expressions[0].name
    truths = {_truth(function.this, {**event, variable: member}) for member in some}
    if name == "exists":
        return True if True in truths else None if None in truths else False
    return False if False in truths else None if None in truths else True


def _of_lists(name: str, arguments: list[Value]) -> Value:
    arguments = [present(argument) for argument in arguments]
    if name == "words" and arguments[0] is not None:
        arguments = [None if isinstance(arguments[0], list) else functions.text(arguments[0])]
    return lists.called(name, arguments)


# Functions


def _case(node: exp.Case, event: _Point) -> Value:
    for branch in node.args["ifs"]:
        subject = node.this
        held = _truth(branch.this, event) if subject is None else _compare(exp.EQ, subject, branch.this, event)
        if held is True:
            return present(_operand(branch.args["true"], event))
    default = node.args.get("default")
    return None if default is None else present(_operand(default, event))
