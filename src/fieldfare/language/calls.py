"""Calls, CASE and INTERVAL in sqlglot's tree -> our tree: each name is checked, and many are spelled out as others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from fieldfare.errors import ConditionError, ConditionSyntaxError, UnsupportedConditionError
from fieldfare.language import tree
from fieldfare.language.callable_names import CALLABLE, unknown_function
from fieldfare.language.functions import FUNCTIONS, SYNONYMS
from fieldfare.language.kinds import CAST_TYPES
from fieldfare.language.list_functions import LIST_FUNCTIONS, LIST_SYNONYMS, QUANTIFIERS
from fieldfare.language.list_syntax import quantified
from fieldfare.language.place_calls import PARTS_OF_PLACES, PLACE_NAMES, PLACE_TESTS, place_condition, place_operand
from fieldfare.language.plain_calls import FIELDS
from fieldfare.language.spelled_calls import spelled_out
from fieldfare.model import INT64_MAX, Literal, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

CASTS = {
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.TEXT: "string",
    exp.DType.VARCHAR: "string",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp",
}
_COUNTS = {  # of the arguments of what is spelled out here: at least, at most
    "coalesce": (1, 1_000),
    "greatest": (2, 1_000),
    "least": (2, 1_000),
    "if": (3, 3),
    "ifnull": (2, 2),
    "nvl": (2, 2),
    "nullif": (2, 2),
    "equal_null": (2, 2),
    "nvl2": (3, 3),
    "btrim": (1, 2),
    **dict.fromkeys(("date_part", "datepart"), (2, 2)),
    "extract": (1, 1),
    **dict.fromkeys(("to_date", "to_timestamp", "try_to_date", "try_to_timestamp"), (1, 1)),
    **dict.fromkeys(("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"), (2, 2)),
    "isnull": (1, 1),
    "isnotnull": (1, 1),
    "mod": (2, 2),
    "ip_in": (2, 2),
    **dict.fromkeys(("current_date", "curdate"), (0, 0)),
    **{name: (function.least, function.most) for name, function in LIST_FUNCTIONS.items()},
    **dict.fromkeys(QUANTIFIERS, (2, 2)),
    **dict.fromkeys(PLACE_TESTS, (2, 2)),
    **dict.fromkeys(PARTS_OF_PLACES, (1, 4)),
    **dict.fromkeys(CAST_TYPES, (1, 1)),
}
_MICROSECONDS = {
    "WEEK": 604_800_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_MONTHS = {"YEAR": 12, "MONTH": 1}
_AMOUNT = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_TODAY = {"current_date", "curdate"}
_NULL = tree.Word(Literal(Section.NULL, 0))


class Reader(Protocol):
    """What reads the parts of a call."""

    text: str
    variables: list[str]  # of the lambdas around
    is_reusable: bool  # with other literals; not where one is part of the tree

    def condition(self, node: exp.Expression) -> tree.Node:
        """What is true, false or unknown."""

    def operand(self, node: exp.Expression, depth: int = 0) -> tree.Operand:
        """What has a value."""

    def word(self, node: exp.Expression) -> str:
        """One part of a name."""

    def start(self, node: exp.Expression) -> int | None:
        """Where a node begins in the text."""

    def refusal(self, node: exp.Expression) -> ConditionError:
        """The error for a node that is not supported."""


def condition_of_call(node: exp.Expression, reader: Reader) -> tree.Node:
    """A call or CASE where a condition is needed: choices between conditions are conditions themselves."""
    if isinstance(node, exp.Case | exp.If):
        branches, default = _branches(node, reader)
        whens = tuple((condition, reader.condition(value)) for condition, value in branches)
        return _light(tree.Case(whens, tree.Constant(None) if default is None else reader.condition(default)))
    name, arguments = _checked_call(node, reader)
    if name == "if":
        condition, value, otherwise = map(reader.condition, arguments)
        return _light(tree.Case(((condition, value),), otherwise))
    if name in {"coalesce", "ifnull", "nvl"}:
        parts = [reader.condition(part) for part in arguments]
        if 5 * sum(map(tree.weight, parts)) > tree.EXPANDED_MAX:
            return tree.Truth(tree.Call("coalesce", tuple(map(tree.operand_of, parts)), reader.start(node)))
        result = parts[-1]
        for part in reversed(parts[:-1]):
            known = tree.Or((tree.Asked(part, tree.Side.TRUE), tree.Asked(part, tree.Side.FALSE)))
            result = tree.Case(((known, part),), result)
        return result
    if name in {"isnull", "isnotnull"}:
        missing = tree.Missing(reader.operand(arguments[0], 1))
        return missing if name == "isnull" else tree.Not(missing)
    if name == "equal_null":
        left, right = (reader.operand(part, 1) for part in arguments)
        return tree.Compare(tree.NULL_SAFE_EQUAL, left, right)
    in_box = place_condition(name, arguments, reader)
    return in_box or tree.Truth(operand_of_call(node, reader, 0))


def _light(case: tree.Case) -> tree.Node:
    """A choice between conditions, as an operand if spelling it out would make it large."""
    return case if tree.weight(case) <= tree.EXPANDED_MAX else tree.Truth(tree.operand_of(case))


def operand_of_call(node: exp.Expression, reader: Reader, depth: int) -> tree.Operand:
    """A call or CASE as a value."""
    position = reader.start(node)
    if isinstance(node, exp.Case | exp.If):
        branches, default = _branches(node, reader)
        parts: list[tree.Operand] = []
        for condition, value in branches:
            parts += (tree.operand_of(condition), reader.operand(value, depth + 1))
        parts.append(_NULL if default is None else reader.operand(default, depth + 1))
        return tree.Call("case", tuple(parts), position)
    name, nodes = _checked_call(node, reader)
    if name in QUANTIFIERS:
        return quantified(name, nodes, reader, depth)
    if name == "if":
        return operand_of_call(exp.If(this=nodes[0], true=nodes[1], false=nodes[2]), reader, depth)
    if name in {"date_part", "datepart", "extract"}:
        return operand_of_call(field_call(name, nodes, reader), reader, depth)
    if name in PLACE_NAMES:
        return place_operand(name, nodes, reader, depth)
    arguments = tuple(reader.operand(part, depth + 1) for part in nodes)
    return bare_call(name, position) if name in _TODAY else spelled_out(name, arguments, position)


def bare_call(name: str, position: int | None) -> tree.Operand:
    """The time of now, or its day, which SQL lets be called without parentheses."""
    now = tree.Call("current_timestamp", (), position)
    return tree.Call("cast", (now, tree.Word(Literal(Section.STRING, "date"))), position) if "date" in name else now


def _branches(
    node: exp.Case | exp.If, reader: Reader
) -> tuple[list[tuple[tree.Node, exp.Expression]], exp.Expression | None]:
    """The conditions of a CASE with their values, and the value of its ELSE."""
    if isinstance(node, exp.If):
        return [(reader.condition(node.this), node.args["true"])], node.args.get("false")
    subject = node.this
    branches = []
    for branch in node.args["ifs"]:
        if subject is None:
            condition = reader.condition(branch.this)
        else:
            condition = tree.Compare("=", reader.operand(subject), reader.operand(branch.this))
        branches.append((condition, branch.args["true"]))
    return branches, node.args.get("default")


def _checked_call(node: exp.Expression, reader: Reader) -> tuple[str, Sequence[exp.Expression]]:
    """The name of a call as functions.py has it, and its arguments; an error where it is not a sound call."""
    name = str(node.this).lower() if isinstance(node.this, str) else ""
    if name not in CALLABLE:
        raise unknown_function(str(node.this), reader.text, reader.start(node))
    name = LIST_SYNONYMS.get(name, SYNONYMS.get(name, name))
    arguments = node.expressions
    if name in _COUNTS:
        least, most = _COUNTS[name]
        is_right = least <= len(arguments) <= most
    else:
        is_right = FUNCTIONS[name].takes(len(arguments))
    if not is_right:
        reason = f"{name} cannot be called with {len(arguments)} argument{'s' * (len(arguments) != 1)}"
        raise ConditionSyntaxError(reason, reader.text, reader.start(node))
    return name, arguments


def field_call(name: str, nodes: Sequence[exp.Expression], reader: Reader) -> exp.Expression:
    """date_part('year', at) as year(at)."""
    reader.is_reusable = False
    field = nodes[0].this if isinstance(nodes[0], exp.Literal) and len(nodes) == 2 else ""
    if str(field).lower() not in FIELDS:
        reason = f"{name} of this field is not supported: write year(at), weekofyear(at), dayofweek(at) or second(at)"
        raise UnsupportedConditionError(reason, reader.text, reader.start(nodes[0]))
    return exp.Anonymous(this=FIELDS[str(field).lower()], expressions=[nodes[1]])


@dataclass(frozen=True, slots=True)
class Shift:
    """An INTERVAL: a number of months, or of microseconds."""

    months: int
    microseconds: int

    def applied(self, operand: tree.Operand, kind: type[exp.Expression], reader: Reader) -> tree.Operand:
        """The operand plus or minus the interval."""
        if not issubclass(kind, exp.Add | exp.Sub):
            raise UnsupportedConditionError("an INTERVAL can only be added or subtracted", reader.text)
        sign = 1 if issubclass(kind, exp.Add) else -1
        function, amount = ("add_months", self.months) if self.months else ("add_microseconds", self.microseconds)
        literal = tree.Word(Literal(Section.NUMBER, sign * amount))
        return tree.Call(function, (operand, literal), operand.position)


def interval_of(node: exp.Expression, reader: Reader) -> Shift:
    """An INTERVAL of one unit, such as INTERVAL 1 DAY or INTERVAL '90' MINUTES."""
    amount, unit = node.this, node.args.get("unit")
    sign = 1
    while isinstance(amount, exp.Neg | exp.Paren):
        sign = -sign if isinstance(amount, exp.Neg) else sign
        amount = amount.this
    text = str(amount.this) if isinstance(amount, exp.Literal) else ""
    name = str(unit.this).upper() if isinstance(unit, exp.Var) else ""
    name = name.removesuffix("S")
    if not _AMOUNT.fullmatch(text) or name not in {*_MICROSECONDS, *_MONTHS}:
        reason = "an INTERVAL is a number and one unit, such as INTERVAL 1 DAY; add several one after the other"
        raise UnsupportedConditionError(reason, reader.text, reader.start(node))
    number = Decimal(text) * sign
    if number != int(number) and name != "SECOND":
        raise UnsupportedConditionError(f"a fraction of a {name} is not supported", reader.text, reader.start(node))
    if name in _MONTHS:
        return Shift(int(number) * _MONTHS[name], 0)
    microseconds = int(number * _MICROSECONDS[name])
    if abs(microseconds) > INT64_MAX:
        raise UnsupportedConditionError(
            "an INTERVAL is at most 2^63 microseconds, about 292,000 years", reader.text, reader.start(node)
        )
    return Shift(0, microseconds)
