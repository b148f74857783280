"""Calls that are spelled out as others: `nvl2(a, b, c)` is a CASE, `try_add(a, b)` a sum, `to_date(a)` a cast."""

from __future__ import annotations

from collections.abc import Callable

from fieldfare.language import tree
from fieldfare.language.kinds import CAST_TYPES
from fieldfare.model import Literal, Section

Operands = tuple[tree.Operand, ...]
_NULL = tree.Word(Literal(Section.NULL, 0))


def spelled_out(name: str, arguments: Operands, position: int | None) -> tree.Operand:
    """A call by a name that functions.py knows, or something that means the same."""
    spell = _SPELLED.get(name)
    return tree.Call(name, arguments, position) if spell is None else spell(arguments, position)


def _known(operand: tree.Operand, position: int | None) -> tree.Operand:
    return tree.Call("not", (tree.Call("isnull", (operand,), position),), position)


def _call(name: str) -> Callable[[Operands, int | None], tree.Operand]:
    return lambda arguments, position: tree.Call(name, arguments, position)


def _characters_last(name: str) -> Callable[[Operands, int | None], tree.Operand]:
    return lambda arguments, position: tree.Call(name, arguments[::-1], position)


def _operator(symbol: str) -> Callable[[Operands, int | None], tree.Operand]:
    return lambda sides, position: tree.Binary(symbol, sides[0], sides[1], position)


def _cast(target: str) -> Callable[[Operands, int | None], tree.Operand]:
    word = tree.Word(Literal(Section.STRING, target))
    return lambda arguments, position: tree.Call("cast", (*arguments, word), position)


def _null_if(arguments: Operands, position: int | None) -> tree.Operand:
    return tree.Call("case", (tree.Call("=", arguments, position), _NULL, arguments[0]), position)


def _equal_null(arguments: Operands, _: int | None) -> tree.Operand:
    return tree.operand_of(tree.Compare(tree.NULL_SAFE_EQUAL, *arguments))


def _nvl2(arguments: Operands, position: int | None) -> tree.Operand:
    return tree.Call("case", (_known(arguments[0], position), *arguments[1:]), position)


def _located(arguments: Operands, position: int | None) -> tree.Operand:
    """A start that is NULL finds nothing, which is place 0."""
    if len(arguments) < 3 or isinstance(arguments[2], tree.Slot):
        return tree.Call("locate", arguments, position)
    start = tree.Call("coalesce", (arguments[2], tree.Word(Literal(Section.NUMBER, 0))), position)
    return tree.Call("locate", (*arguments[:2], start), position)


_SPELLED: dict[str, Callable[[Operands, int | None], tree.Operand]] = {
    **{name: _cast(name) for name in CAST_TYPES},
    **dict.fromkeys(("to_date", "try_to_date"), _cast("date")),
    **dict.fromkeys(("to_timestamp", "try_to_timestamp"), _cast("timestamp")),
    **dict.fromkeys(("mod", "try_mod"), _operator("%")),
    "try_add": _operator("+"),
    "try_subtract": _operator("-"),
    "try_multiply": _operator("*"),
    "try_divide": _operator("/"),
    **dict.fromkeys(("ifnull", "nvl"), _call("coalesce")),
    "nullif": _null_if,
    "nvl2": _nvl2,
    "equal_null": _equal_null,
    "isnotnull": lambda arguments, position: _known(arguments[0], position),
    "btrim": _call("trim"),
    **{name: _characters_last(name) for name in ("trim", "ltrim", "rtrim")},
    "locate": _located,
    "unix_timestamp": lambda arguments, position: tree.Call(
        "unix_timestamp", arguments or (tree.Call("current_timestamp", (), position),), position
    ),
}
