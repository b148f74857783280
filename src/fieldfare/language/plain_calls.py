"""SQL's own ways to write calls -> plain calls.

They are `trim(BOTH 'x' FROM s)`, `position('x' IN s)` and `extract(YEAR FROM at)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Sequence

PARSED_CALLS = {"CAST", "TRY_CAST", "TRIM", "POSITION", "EXTRACT"}
_OPTIONS: dict[type[exp.Expression], set[str]] = {
    exp.Trim: {"this", "expression", "position"},
    exp.StrPosition: {"this", "substr", "position"},
    exp.Extract: {"this", "expression"},
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
FIELDS = {
    **{name: name for name in ("year", "quarter", "month", "day", "hour", "minute", "dayofweek")},
    **dict.fromkeys(("y", "years", "yr", "yrs"), "year"),
    "qtr": "quarter",
    **dict.fromkeys(("mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("d", "days"), "day"),
    "dow": "dayofweek",
    "doy": "dayofyear",
    **dict.fromkeys(("h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("m", "min", "mins", "minutes"), "minute"),
}


def plain_call(node: exp.Expression) -> exp.Expression:
    """A call as a name and its arguments; any other node as it is."""
    known = _OPTIONS.get(type(node))
    if known is None or any(value and option not in known for option, value in node.args.items()):
        return node
    if isinstance(node, exp.Trim):
        name = _TRIMS.get(str(node.args.get("position") or "").upper(), "trim")
        return _call(name, [node.expression, node.this])
    if isinstance(node, exp.StrPosition):
        return _call("position", [node.args["substr"], node.this, node.args.get("position")])
    if isinstance(node, exp.Extract) and isinstance(node.this, exp.Var):
        field = FIELDS.get(node.this.name.lower())
        return _call("extract", [node.expression]) if field is None else _call(field, [node.expression])
    return node


def _call(name: str, arguments: Sequence[exp.Expression | None]) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[argument for argument in arguments if argument is not None])
