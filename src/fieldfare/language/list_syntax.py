"""Lists and maps in sqlglot's tree -> our tree: `items[0]`, `map['key']`, `items[0].price`, `exists(items, i -> …)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from fieldfare.errors import ConditionError, UnsupportedConditionError
from fieldfare.language import tree
from fieldfare.model import Literal, Section

if TYPE_CHECKING:
    from collections.abc import Sequence


class Reader(Protocol):
    """What reads the parts of a list."""

    text: str
    variables: list[str]

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


def part_of_value(node: exp.Expression, reader: Reader, depth: int) -> tree.Operand | None:
    """A part of a list or map, or a variable; None for an attribute."""
    if isinstance(node, exp.Bracket):
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise UnsupportedConditionError("one place or key stands in [ ]", reader.text, reader.start(node))
        place = reader.operand(node.expressions[0], depth + 1)
        return tree.Call("element", (reader.operand(node.this, depth + 1), place), reader.start(node))
    if isinstance(node, exp.Identifier):
        return _variable(node, reader)
    if isinstance(node, exp.Dot) and not _is_name(node):
        name = tree.Word(Literal(Section.STRING, reader.word(node.expression)))
        return tree.Call("field", (reader.operand(node.this, depth + 1), name), reader.start(node))
    return None


def _is_name(node: exp.Expression) -> bool:
    """Whether a chain of dots begins with an attribute, so that all of it is a name."""
    while isinstance(node, exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)


def _variable(node: exp.Identifier, reader: Reader) -> tree.Variable:
    name = reader.word(node)
    if name not in reader.variables:
        raise reader.refusal(node)
    return tree.Variable(name, reader.start(node))


def quantified(name: str, nodes: Sequence[exp.Expression], reader: Reader, depth: int) -> tree.Operand:
    """A condition on the members of a list."""
    lists, function = nodes
    if not isinstance(function, exp.Lambda) or len(function.expressions) != 1:
        reason = f"{name} needs a list and a condition on its members, as in {name}(items, i -> i.price > 5)"
        raise UnsupportedConditionError(reason, reader.text, reader.start(function))
    variable = reader.word(function.expressions[0])
    if variable in reader.variables:
        reason = f"the variable {variable} is taken: choose another name"
        raise UnsupportedConditionError(reason, reader.text, reader.start(function))
    operand = reader.operand(lists, depth + 1)
    reader.variables.append(variable)
    condition = tree.operand_of(reader.condition(function.this))
    reader.variables.pop()
    return tree.Call(name, (operand, tree.Word(Literal(Section.STRING, variable)), condition), reader.start(lists))
