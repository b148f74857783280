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
from fieldfare.language.callable_names import unknown_function
from fieldfare.language.calls import CASTS, bare_call, condition_of_call, interval_of, operand_of_call
from fieldfare.language.list_syntax import part_of_value
from fieldfare.language.plain_calls import plain_call
from fieldfare.language.tokens import DIALECT, LITERAL_TOKENS, SUPPORTED, tokens_of, too_deep
from fieldfare.model import NOW, Literal, Section

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
    exp.TryCast: {"to", "safe"},
    exp.ILike: {"negate"},
    exp.DPipe: {"safe"},
    exp.Anonymous: {"expressions"},
    exp.If: {"true", "false"},
    exp.Case: {"ifs", "default"},
    exp.Interval: {"unit"},
    exp.Bracket: {"expressions"},
}
_BITWISE: dict[type[exp.Expression], str] = {
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    exp.BitwiseNot: "bit_not",
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
    ((exp.Any, exp.All), {"ANY", "ALL", "SOME"}, "ANY and ALL are not supported: use IN, or AND and OR"),
    (exp.Interval, {"INTERVAL"}, "an INTERVAL is supported only after + and -, as in at + INTERVAL 1 DAY"),
    (exp.Concat, set(), "two strings side by side are not supported: write them as one"),
    ((exp.HexString, exp.BitString), set(), "only decimal numbers are supported"),
    (
        (exp.Lambda, exp.JSONExtract),
        {"->"},
        "an arrow is supported only in exists and forall: exists(items, i -> i > 5)",
    ),
    (
        exp.Array,
        {"["},
        "[ ] stands behind an attribute: write array(1, 2) for a list, and get(array(1, 2), 0) for its first member",
    ),
    (exp.Tuple, set(), "a list of values is supported only after IN"),
    (exp.Between, {"SYMMETRIC"}, "BETWEEN SYMMETRIC is not supported: give the smaller value first"),
]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A condition's tree, and where its literals stand in the text, by number: from start up to end."""

    tree: tree.Node
    spans: tuple[tuple[int, int], ...]
    is_reusable: bool = True  # with other literals; the number in an INTERVAL is part of the tree


def parse(text: str, limits: Limits) -> Parsed:
    """The tree of a condition; a ConditionError, with the place in the text, where it is not one."""
    tokens = tokens_of(text, limits)
    expression = _expression(text, tokens, limits)
    spans = tuple((token.start, token.end + 1) for token in tokens if token.token_type in LITERAL_TOKENS)
    reader = _Reader(text, tokens, limits)
    return Parsed(reader.condition(expression), spans, reader.is_reusable)


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


def _text_word(text: str) -> tree.Word:
    return tree.Word(Literal(Section.STRING, text))


def _is_condition(node: exp.Expression) -> bool:
    """Whether a node is true, false or unknown whatever its parts are."""
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.Is | exp.Between | exp.In | exp.Escape)


class _Reader:
    """Takes over sqlglot's tree."""

    def __init__(self, text: str, tokens: list[Token], limits: Limits) -> None:
        self.text = text
        self.tokens = tokens
        self.limits = limits
        literals = (token for token in tokens if token.token_type in LITERAL_TOKENS)
        self.slots = {token.start: number for number, token in enumerate(literals)}
        self.is_reusable = True
        self.variables: list[str] = []  # of the lambdas around

    def condition(self, node: exp.Expression) -> tree.Node:
        """What is true, false or unknown."""
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
        if isinstance(node, exp.Column | exp.Dot | exp.Bracket | exp.Identifier):
            return tree.Truth(self.operand(node))
        if isinstance(node, exp.Anonymous | exp.Case | exp.If):
            return condition_of_call(node, self)
        if isinstance(node, exp.TryCast):
            return tree.Truth(self.operand(node))
        if type(node) in _COMPARISONS:
            operator = _COMPARISONS[type(node)]
            return tree.Compare(operator, self.operand(node.this), self.operand(node.expression))
        if isinstance(node, exp.NullSafeNEQ):
            left, right = self.operand(node.this), self.operand(node.expression)
            return tree.Not(tree.Compare(tree.NULL_SAFE_EQUAL, left, right))
        return self._predicate(node)

    def _predicate(self, node: exp.Expression) -> tree.Node:
        if isinstance(node, exp.Between):
            operand, low, high = (self.operand(node.args[part]) for part in ("this", "low", "high"))
            return tree.And((tree.Compare(">=", operand, low), tree.Compare("<=", operand, high)))
        if isinstance(node, exp.In):
            operand, items = self.operand(node.this), node.expressions
            if not items:
                raise ConditionSyntaxError("IN needs a list of values in parentheses", self.text, self.start(node))
            return tree.Or(tuple(tree.Compare("=", operand, self.operand(item)) for item in items))
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Like | exp.ILike):
            return self._like(node, None)
        if isinstance(node, exp.RegexpLike):
            operands = self.operand(node.this), self.operand(node.expression)
            return tree.Truth(tree.Call("rlike", operands, operands[1].position))
        if isinstance(node, exp.Escape) and isinstance(node.this, exp.Like | exp.ILike):
            escape = self.operand(node.expression)
            if not isinstance(escape, tree.Slot):
                raise ConditionSyntaxError("ESCAPE needs a string of one character", self.text, self.start(node))
            return self._like(self._checked(node.this), escape)
        if isinstance(node, exp.Literal | exp.Neg | exp.DPipe | exp.IntDiv) or type(node) in _ARITHMETIC | _BITWISE:
            raise self._no_condition(node)
        if self._is_time(node):
            raise self._no_condition(node)
        raise self.refusal(node)

    def _no_condition(self, node: exp.Expression) -> ConditionError:
        reason = "a value stands where a condition is needed: compare it with something"
        return ConditionTypeError(reason, self.text, self.start(node))

    def _is(self, node: exp.Is) -> tree.Node:
        right = exp.Null() if self._is_unknown(node.expression) else node.expression
        if not isinstance(right, exp.Boolean | exp.Null):
            raise UnsupportedConditionError("IS takes NULL, TRUE, FALSE or UNKNOWN", self.text, self.start(node))
        if _is_condition(node.this):
            part = self.condition(node.this)
            if isinstance(right, exp.Boolean):
                return tree.Asked(part, tree.Side.TRUE if right.this else tree.Side.FALSE)
            if 2 * tree.weight(part) > tree.EXPANDED_MAX:
                return tree.Missing(tree.operand_of(part))
            return tree.And((tree.Asked(part, tree.Side.NOT_TRUE), tree.Asked(part, tree.Side.NOT_FALSE)))
        if isinstance(right, exp.Boolean):
            return tree.Compare(tree.NULL_SAFE_EQUAL, self.operand(node.this), self.operand(right))
        return tree.Missing(self.operand(node.this))

    def _is_unknown(self, node: exp.Expression) -> bool:
        """Whether it is the word UNKNOWN, which stands behind IS for NULL."""
        start = self.start(node)
        return isinstance(node, exp.Column) and start is not None and self.text[start:].upper().startswith("UNKNOWN")

    def _like(self, node: exp.Expression, escape: tree.Slot | None) -> tree.Node:
        operand, ignores_case = self.operand(node.this), isinstance(node, exp.ILike)
        patterns = [node.expression]
        if isinstance(node.expression, exp.Any | exp.All):
            listed = node.expression.this
            patterns = listed.expressions if isinstance(listed, exp.Tuple) else [listed.this]
            if not isinstance(listed, exp.Tuple | exp.Paren) or not patterns:
                raise ConditionSyntaxError("LIKE ANY and ALL need patterns in parentheses", self.text, self.start(node))
        matches = (tree.Match(operand, self.operand(pattern), escape, ignores_case) for pattern in patterns)
        parts = tuple(tree.Not(match) if node.args.get("negate") else match for match in matches)
        if len(parts) == 1:
            return parts[0]
        return tree.And(parts) if isinstance(node.expression, exp.All) else tree.Or(parts)

    def operand(self, node: exp.Expression, depth: int = 0) -> tree.Operand:
        """A value: an attribute, a literal, arithmetic, a call; or a condition, which is true, false or NULL."""
        node = self._checked(node)
        if depth > self.limits.depth_max:
            raise too_deep(self.text, self.start(node), self.limits)
        if isinstance(node, exp.Column | exp.Dot | exp.Bracket | exp.Identifier):
            return part_of_value(node, self, depth) or self._name(node)
        if isinstance(node, exp.Literal):
            return self._slot(node)
        if isinstance(node, exp.Boolean):
            return tree.Word(Literal(Section.BOOLEAN, int(node.this)))
        if isinstance(node, exp.Null):
            return tree.Word(Literal(Section.NULL, 0))
        if isinstance(node, exp.Neg):
            operand = self.operand(node.this, depth + 1)
            return tree.Minus(operand, operand.position)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, depth)
        if self._is_time(node):
            return self._slot(node.this, _TIME_TYPES[node.args["to"].this])
        if _is_condition(node):
            return tree.operand_of(self.condition(node))
        return self._called(node, depth)

    def _arithmetic(self, node: exp.Expression, depth: int) -> tree.Operand:
        for side, other in (("expression", "this"), ("this", "expression")):
            if isinstance(node.args[side], exp.Interval):
                self.is_reusable = False
                if side == "this" and not isinstance(node, exp.Add):
                    raise self.refusal(node.args[side])
                shift = interval_of(self._checked(node.args[side]), self)
                return shift.applied(self.operand(node.args[other], depth + 1), type(node), self)
        left, right = self.operand(node.this, depth + 1), self.operand(node.expression, depth + 1)
        return tree.Binary(_ARITHMETIC[type(node)], left, right, left.position)

    def _called(self, node: exp.Expression, depth: int) -> tree.Operand:
        if isinstance(node, exp.DPipe | exp.IntDiv):
            left, right = self.operand(node.this, depth + 1), self.operand(node.expression, depth + 1)
            return tree.Call("concat" if isinstance(node, exp.DPipe) else "div", (left, right), left.position)
        if isinstance(node, exp.TryCast):
            target = CASTS.get(node.args["to"].this)
            if target is None:
                kind = node.args["to"].sql("spark")
                reason = f"a cast to {kind} is not supported: use {', '.join(sorted(set(CASTS.values())))}"
                raise UnsupportedConditionError(reason, self.text, self._place({"CAST", "TRY_CAST"}, node))
            return tree.Call("cast", (self.operand(node.this, depth + 1), _text_word(target)), self.start(node))
        if isinstance(node, exp.Anonymous | exp.Case | exp.If):
            return operand_of_call(node, self, depth)
        if type(node) in _BITWISE:
            return self._bitwise(node, depth)
        if isinstance(node, exp.CurrentTimestamp | exp.CurrentDate):
            return bare_call(node.key, None)
        raise self.refusal(node)

    def _bitwise(self, node: exp.Expression, depth: int) -> tree.Operand:
        sides = [side for side in (node.this, node.args.get("expression")) if side is not None]
        if any(type(side) in set(_BITWISE) - {type(node), exp.BitwiseNot} for side in sides):
            reason = "different bitwise operators side by side: put parentheses around what is to be done first"
            raise ConditionSyntaxError(reason, self.text, self.start(node))
        operands = tuple(self.operand(side, depth + 1) for side in sides)
        return tree.Call(_BITWISE[type(node)], operands, operands[0].position)

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
            raise self.refusal(node)
        return tree.Slot(self.slots[start], start, kind)

    def _name(self, node: exp.Expression) -> tree.Name:
        start = self.start(node)
        words: list[str] = []
        while isinstance(node, exp.Dot):  # beyond four parts, sqlglot nests to the left
            words.insert(0, self.word(node.expression))
            node = self._checked(node.this)
        if not isinstance(node, exp.Column):
            raise self.refusal(node)
        parts = (node.args.get(part) for part in ("catalog", "db", "table", "this"))
        words[:0] = [self.word(part) for part in parts if part is not None]
        return tree.Name(".".join(words), start)

    def word(self, node: exp.Expression) -> str:
        """One part of a name, as the text has it."""
        if not isinstance(node, exp.Identifier):
            raise ConditionSyntaxError("no attribute's name: put it in backquotes", self.text, self.start(node))
        word = self.text[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else str(node.this)
        word = word[1:-1].replace("``", "`") if word.startswith("`") else word
        if not word:
            raise ConditionSyntaxError("an attribute's name is empty", self.text, self.start(node))
        if word == NOW:
            reason = f"no attribute can be called {NOW}: without backquotes it is the time of now"
            raise ConditionSyntaxError(reason, self.text, self.start(node))
        return word

    def _checked(self, node: exp.Expression) -> exp.Expression:
        """The node without its parentheses, if it has no options that we would silently ignore."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Expression):
            raise ConditionSyntaxError("something is missing", self.text)
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Identifier):
            return node
        node = plain_call(node)
        known = _OPTIONS.get(type(node), set()) | {"this", "expression"}
        if any(value and option not in known for option, value in node.args.items()):
            raise self.refusal(node)
        return node

    def refusal(self, node: exp.Expression) -> ConditionError:
        """The error for something that a condition may not contain."""
        for kinds, words, reason in _REFUSALS:
            if isinstance(node, kinds):
                return UnsupportedConditionError(reason, self.text, self._place(words, node))
        if isinstance(node, exp.Anonymous):
            return unknown_function(str(node.this), self.text, self._place({str(node.this).upper()}, node))
        return UnsupportedConditionError(f"{node.key} is not supported; {SUPPORTED}", self.text, self.start(node))

    def _place(self, words: set[str], node: exp.Expression) -> int | None:
        unquoted = (token for token in self.tokens if token.token_type is not TokenType.IDENTIFIER)
        found = (token.start for token in unquoted if token.text.upper() in words)
        return next(found, self.start(node))

    def start(self, node: exp.Expression) -> int | None:
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
