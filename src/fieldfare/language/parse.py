"""SQL text -> tree. sqlglot parses; what it made is taken over node by node, and only what is known to be right.

Every kind of node, and every option of a node, that is not listed here is refused: sqlglot reads far more SQL than a
condition may contain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import ParseError, TokenType, exp

from fieldfare.errors import ConditionError, ConditionSyntaxError, ConditionTypeError, UnsupportedConditionError
from fieldfare.language import tree
from fieldfare.language.tokens import DIALECT, LITERAL_TOKENS, SUPPORTED, tokens_of, too_deep
from fieldfare.model import Literal, Section

if TYPE_CHECKING:
    from sqlglot import Token

    from fieldfare.language.limits import Limits

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: tree.NULL_SAFE_EQUAL,
}
_ARITHMETIC: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_OPTIONS: dict[type[exp.Expression], set[str]] = {  # beyond `this` and `expression`
    exp.Div: {"typed", "safe"},
    exp.Like: {"negate"},
    exp.Between: {"low", "high"},
    exp.In: {"expressions"},
    exp.Column: {"table", "db", "catalog"},
    exp.Cast: {"to"},
}
_TIME_TYPES = {
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMP: "TIMESTAMP",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
    exp.DType.TIMESTAMPLTZ: "TIMESTAMP",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
}
# What people may try, the words by which to find it in the text, and what to say.
_REFUSALS: list[tuple[type[exp.Expression] | tuple[type[exp.Expression], ...], set[str], str]] = [
    (exp.RegexpLike, {"RLIKE", "REGEXP"}, "a regular expression is not supported: use LIKE"),
    (exp.ILike, {"ILIKE"}, "ILIKE is not supported: use LIKE, which heeds case"),
    ((exp.Case, exp.If), {"CASE", "IF"}, "CASE and IF are not supported: use AND, OR and NOT"),
    ((exp.Cast, exp.TryCast), {"CAST", "TRY_CAST"}, "a cast is not supported: write the literal in its own type"),
    ((exp.Any, exp.All), {"ANY", "ALL", "SOME"}, "ANY and ALL are not supported: use IN, or AND and OR"),
    (exp.Interval, {"INTERVAL"}, "an INTERVAL is not supported: write the date itself"),
    (exp.IntDiv, {"DIV"}, "DIV is not supported: x DIV y is (x - x % y) / y"),
    (exp.Concat, set(), "two strings side by side are not supported: write them as one"),
    ((exp.HexString, exp.BitString), set(), "only decimal numbers are supported"),
    (exp.Tuple, set(), "a list of values is supported only after IN"),
    (exp.Between, {"SYMMETRIC"}, "BETWEEN SYMMETRIC is not supported: give the smaller value first"),
]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A condition's tree, and where its literals stand in the text, by number: from start up to end."""

    tree: tree.Node
    spans: tuple[tuple[int, int], ...]


def parse(text: str, limits: Limits) -> Parsed:
    """The tree of a condition; a ConditionError, with the place in the text, where it is not one."""
    tokens = tokens_of(text, limits)
    expression = _expression(text, tokens, limits)
    spans = tuple((token.start, token.end + 1) for token in tokens if token.token_type in LITERAL_TOKENS)
    return Parsed(_Reader(text, tokens, limits).condition(expression), spans)


def _expression(text: str, tokens: list[Token], limits: Limits) -> exp.Expression:
    try:
        parsed = DIALECT.parser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise _syntax_error(text, tokens, error) from error
    except RecursionError as error:
        raise too_deep(text, None, limits) from error
    except Exception as error:  # whatever a parser of foreign make does with hostile text
        raise ConditionSyntaxError("the text cannot be read as SQL", text) from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Expression):
        raise ConditionSyntaxError("the text is not one SQL expression", text)
    return parsed[0]


def _syntax_error(text: str, tokens: list[Token], error: ParseError) -> ConditionSyntaxError:
    details = error.errors[0] if error.errors else {}
    description, word = str(details.get("description", error)), details.get("highlight") or ""
    place = (details.get("line"), details.get("col"))
    position = next((token.start for token in tokens if (token.line, token.col) == place), None)
    if description.startswith("Required keyword"):
        reason = f"something is missing beside {word!r}"
    elif description.startswith("Expecting"):
        reason = f"{description[0].lower()}{description[1:]} after {word!r}"
    else:
        reason = f"not understood: {word!r}"
    return ConditionSyntaxError(reason, text, position)


class _Reader:
    """Takes over sqlglot's tree."""

    def __init__(self, text: str, tokens: list[Token], limits: Limits) -> None:
        self.text = text
        self.tokens = tokens
        self.limits = limits
        literals = (token for token in tokens if token.token_type in LITERAL_TOKENS)
        self.slots = {token.start: number for number, token in enumerate(literals)}

    def condition(self, node: exp.Expression) -> tree.Node:
        node = self._checked(node)
        if isinstance(node, exp.And | exp.Or):
            parts = tuple(self.condition(part) for part in _chain(node))
            return tree.And(parts) if isinstance(node, exp.And) else tree.Or(parts)
        if isinstance(node, exp.Not):
            return tree.Not(self.condition(node.this))
        if isinstance(node, exp.Boolean):
            return tree.Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return tree.Constant(None)
        if isinstance(node, exp.Column | exp.Dot):
            return tree.Truth(self._name(node))
        if type(node) in _COMPARISONS:
            operator = _COMPARISONS[type(node)]
            return tree.Compare(operator, self._operand(node.this), self._operand(node.expression))
        if isinstance(node, exp.NullSafeNEQ):
            left, right = self._operand(node.this), self._operand(node.expression)
            return tree.Not(tree.Compare(tree.NULL_SAFE_EQUAL, left, right))
        return self._predicate(node)

    def _predicate(self, node: exp.Expression) -> tree.Node:
        if isinstance(node, exp.Between):
            operand, low, high = (self._operand(node.args[part]) for part in ("this", "low", "high"))
            return tree.And((tree.Compare(">=", operand, low), tree.Compare("<=", operand, high)))
        if isinstance(node, exp.In):
            operand, items = self._operand(node.this), node.expressions
            if not items:
                raise ConditionSyntaxError("IN needs a list of values in parentheses", self.text, self._start(node))
            return tree.Or(tuple(tree.Compare("=", operand, self._operand(item)) for item in items))
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Like):
            return self._like(node, None)
        if isinstance(node, exp.Escape) and isinstance(node.this, exp.Like):
            escape = self._operand(node.expression)
            if not isinstance(escape, tree.Slot):
                raise ConditionSyntaxError("ESCAPE needs a string of one character", self.text, self._start(node))
            return self._like(self._checked(node.this), escape)
        if type(node) in _ARITHMETIC or isinstance(node, exp.Literal | exp.Neg) or self._is_time(node):
            reason = "a value stands where a condition is needed: compare it with something"
            raise ConditionTypeError(reason, self.text, self._start(node))
        raise self._refusal(node)

    def _is(self, node: exp.Is) -> tree.Node:
        right = node.expression
        if isinstance(right, exp.Boolean):
            return tree.Compare(tree.NULL_SAFE_EQUAL, self._operand(node.this), self._operand(right))
        attribute = self._operand(node.this)
        if not isinstance(right, exp.Null) or not isinstance(attribute, tree.Name):
            raise UnsupportedConditionError("IS NULL is for an attribute alone", self.text, self._start(node))
        return tree.Missing(attribute)

    def _like(self, node: exp.Expression, escape: tree.Slot | None) -> tree.Node:
        attribute, pattern = self._operand(node.this), self._operand(node.expression)
        if not isinstance(attribute, tree.Name):
            raise UnsupportedConditionError("LIKE is for an attribute alone", self.text, self._start(node))
        if not isinstance(pattern, tree.Slot | tree.Word):
            raise UnsupportedConditionError("LIKE needs a pattern in quotes", self.text, pattern.position)
        match = tree.Match(attribute, pattern, escape)
        return tree.Not(match) if node.args.get("negate") else match

    def _operand(self, node: exp.Expression, depth: int = 0) -> tree.Operand:
        node = self._checked(node)
        if depth > self.limits.depth_max:
            raise too_deep(self.text, self._start(node), self.limits)
        if isinstance(node, exp.Column | exp.Dot):
            return self._name(node)
        if isinstance(node, exp.Literal):
            return self._slot(node)
        if isinstance(node, exp.Boolean):
            return tree.Word(Literal(Section.BOOLEAN, int(node.this)))
        if isinstance(node, exp.Null):
            return tree.Word(Literal(Section.NULL, 0))
        if isinstance(node, exp.Neg):
            operand = self._operand(node.this, depth + 1)
            return tree.Minus(operand, operand.position)
        if type(node) in _ARITHMETIC:
            left, right = self._operand(node.this, depth + 1), self._operand(node.expression, depth + 1)
            return tree.Binary(_ARITHMETIC[type(node)], left, right, left.position)
        if self._is_time(node):
            return self._slot(node.this, _TIME_TYPES[node.args["to"].this])
        if isinstance(node, exp.Predicate | exp.Connector | exp.Not):
            reason = "a comparison cannot be compared: join comparisons with AND and OR"
            raise UnsupportedConditionError(reason, self.text, self._start(node))
        raise self._refusal(node)

    def _is_time(self, node: exp.Expression) -> bool:
        """Whether it is DATE '…' or TIMESTAMP '…', which unlike date('…') and CAST(…) leaves no place of its own."""
        return (
            type(node) is exp.Cast
            and isinstance(node.this, exp.Literal)
            and node.args["to"].this in _TIME_TYPES
            and "start" not in node.meta
        )

    def _slot(self, node: exp.Expression, kind: str = "") -> tree.Slot:
        start = node.meta.get("start")
        if start is None or start not in self.slots:
            raise self._refusal(node)
        return tree.Slot(self.slots[start], start, kind)

    def _name(self, node: exp.Expression) -> tree.Name:
        start = self._start(node)
        words: list[str] = []
        while isinstance(node, exp.Dot):  # beyond four parts, sqlglot nests to the left
            words.insert(0, self._word(node.expression))
            node = self._checked(node.this)
        if not isinstance(node, exp.Column):
            raise self._refusal(node)
        parts = (node.args.get(part) for part in ("catalog", "db", "table", "this"))
        words[:0] = [self._word(part) for part in parts if part is not None]
        return tree.Name(".".join(words), start)

    def _word(self, node: exp.Expression) -> str:
        """One part of a name, as the text has it."""
        if not isinstance(node, exp.Identifier):
            raise ConditionSyntaxError("no attribute's name: put it in backquotes", self.text, self._start(node))
        word = self.text[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else str(node.this)
        word = word[1:-1].replace("``", "`") if word.startswith("`") else word
        if not word:
            raise ConditionSyntaxError("an attribute's name is empty", self.text, self._start(node))
        return word

    def _checked(self, node: exp.Expression) -> exp.Expression:
        """The node without its parentheses, if it has no options that we would silently ignore."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Expression):
            raise ConditionSyntaxError("something is missing", self.text)
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Identifier):
            return node
        known = _OPTIONS.get(type(node), set()) | {"this", "expression"}
        if any(value and option not in known for option, value in node.args.items()):
            raise self._refusal(node)
        return node

    def _refusal(self, node: exp.Expression) -> ConditionError:
        for kinds, words, reason in _REFUSALS:
            if isinstance(node, kinds):
                return UnsupportedConditionError(reason, self.text, self._place(words, node))
        if isinstance(node, exp.Func):
            names = set(node.sql_names())
            reason = f"the function {min(names)} is not supported; {SUPPORTED}"
            return UnsupportedConditionError(reason, self.text, self._place(names, node))
        return UnsupportedConditionError(f"{node.key} is not supported; {SUPPORTED}", self.text, self._start(node))

    def _place(self, words: set[str], node: exp.Expression) -> int | None:
        unquoted = (token for token in self.tokens if token.token_type is not TokenType.IDENTIFIER)
        found = (token.start for token in unquoted if token.text.upper() in words)
        return next(found, self._start(node))

    def _start(self, node: exp.Expression) -> int | None:
        """Where the leftmost thing that has a place begins."""
        return min((part.meta["start"] for part in node.walk() if "start" in part.meta), default=None)


def _chain(node: exp.And | exp.Or) -> list[exp.Expression]:
    """The parts of a chain of ANDs, or of ORs, which sqlglot nests to the left, thousands deep."""
    parts: list[exp.Expression] = []
    waiting: list[exp.Expression] = [node]
    while waiting:
        part = waiting.pop()
        while isinstance(part, exp.Paren):
            part = part.this
        if type(part) is type(node):
            waiting += (part.expression, part.this)
        else:
            parts.append(part)
    return parts
