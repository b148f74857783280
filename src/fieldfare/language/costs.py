"""What a condition costs an event: what the index searches, what is computed once, and what is tested for each box.

The decisions that this names are those that matching makes, which takes them from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fieldfare.language.expression_text import expression_text
from fieldfare.language.functions import FUNCTIONS
from fieldfare.language.list_functions import LIST_CALLS
from fieldfare.model import (
    AllOf,
    AnyOf,
    Arithmetic,
    Attribute,
    Call,
    Condition,
    DerivedWithin,
    Expression,
    Literal,
    Test,
)

DERIVED_AXES_MAX = 64  # of a part of an index
BOXES_MIN = 16  # that make a derived axis worth its cost, where they have other intervals too
COLUMN_FUNCTIONS = frozenset(
    {  # that are a few operations on arrays where the values have the type they need
        "abs",
        "add_microseconds",
        "bit_and",
        "bit_or",
        "bit_xor",
        "date_of",
        "time_of",
        "ceil",
        "day",
        "dayofweek",
        "floor",
        "hour",
        "lower",
        "minute",
        "month",
        "quarter",
        "second",
        "sign",
        "sqrt",
        "st_contains",
        "st_covers",
        "st_distancesphere",
        "upper",
        "weekday",
        "year",
    }
)
_SINGLY = {"greatest", "least"}
_COLUMN_CASTS = {"date", "timestamp"}  # of times


def is_column_call(call: Call) -> bool:
    """Whether a call of a list function is answered in columns: its size, or whether it has a literal."""
    match call:
        case Call("size", (lists,)):
            return _is_simple(lists)
        case Call("array_contains", (lists, Literal())):
            return _is_simple(lists)
    return False


def _is_simple(lists: Expression) -> bool:
    match lists:
        case Attribute() | Call("words", (Attribute(),)):
            return True
    return False


def single_functions(expression: Expression) -> set[str]:
    """The functions in an expression that are called value by value; all else is done in columns."""
    if isinstance(expression, Arithmetic):
        return single_functions(expression.left) | single_functions(expression.right)
    if not isinstance(expression, Call) or is_column_call(expression):
        return set()
    name = expression.function
    if name in LIST_CALLS:  # whatever stands in it is evaluated with it
        return {name}
    found: set[str] = set().union(*map(single_functions, expression.arguments))
    return {*found, name} if _is_single(expression) else found


def _is_single(call: Call) -> bool:
    if call.function == "cast":
        target = call.arguments[1]
        return not (isinstance(target, Literal) and target.value in _COLUMN_CASTS)
    return call.function in _SINGLY or (
        call.function in FUNCTIONS and call.function not in COLUMN_FUNCTIONS | {"current_timestamp"}
    )


def cost_lines(condition: Condition) -> Iterator[str]:
    """What finds the boxes of a condition, what is computed for each event, and what is left to be tested."""
    boxes = condition.boxes
    names = sorted({name for box in boxes for name in box.intervals})
    if names:
        yield f"the index searches {_listed(names)}"
    if any(box.members for box in boxes):
        yield "the index searches lists by the rarest member that a box asks for"
    for axis in sorted({axis for box in boxes for axis in box.derived}):
        line = (
            f"{_shortened(expression_text(axis.expression))} is computed once for each event, {_way([axis.expression])}"
        )
        if all(box.intervals for box in boxes if axis in box.derived):
            line += f"; a test where fewer than {BOXES_MIN} boxes of an index use it"
        yield line
    tests = {test for box in boxes for test in box.tests}
    if tests:
        count = f"{len(tests)} tests are" if len(tests) > 1 else "1 test is"
        yield f"{count} made for each event and box that the rest leaves, {_way(_expressions_in(tests))}"


def _way(expressions: Iterable[Expression]) -> str:
    singly = sorted({_SHOWN.get(name, name) for expression in expressions for name in single_functions(expression)})
    return f"value by value ({', '.join(singly)})" if singly else "in columns"


_SHOWN = {"add_months": "INTERVAL", "date_text": "cast", "mirrored": "LIKE", "like": "LIKE", "rlike": "RLIKE"}
_SHOWN |= {"bit_not": "~"}
_SHOWN |= {"ip": "ip_in", "element": "[]", "field": "[]"}


def _expressions_in(tests: Iterable[Test]) -> Iterator[Expression]:
    for test in tests:
        if isinstance(test, DerivedWithin):
            yield test.axis.expression
        elif isinstance(test, AllOf | AnyOf):
            yield from _expressions_in(test.tests)


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]} …"
