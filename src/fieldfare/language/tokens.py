"""Text -> tokens that the parser may see: within the limits, without comments, and each with its true place.

sqlglot's parser recurses and forgives: what would make it recurse too deep, guess or drop something is refused here,
where the place in the text is still known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

from fieldfare.errors import ConditionError, ConditionLimitError, ConditionSyntaxError, UnsupportedConditionError
from fieldfare.language.callable_names import CALLABLE, unknown_function
from fieldfare.language.names import BARE_FUNCTIONS, BARE_TIMES, with_names
from fieldfare.language.plain_calls import PARSED_CALLS

if TYPE_CHECKING:
    from fieldfare.language.limits import Limits

SUPPORTED = (
    "a condition may use = != < <= > >= <=> BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT, CASE, + - * / % || "
    "and the functions of docs/conditions.md"
)
LITERAL_TOKENS = (TokenType.NUMBER, TokenType.STRING)
_WORD_TOKENS = (*LITERAL_TOKENS, TokenType.IDENTIFIER, TokenType.VAR, TokenType.RAW_STRING, TokenType.HEX_STRING)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_SYMBOLS = {"(", ")", ",", ".", ";", "=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "!"}
_SYMBOLS |= {"||", "::", "[", "]", "->", "&", "|", "^", "~"}
_COMPARISONS = {"=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>"}
_SYMBOL_NOUNS = {
    **dict.fromkeys(("?", ":", "@", "$", "{"), "a parameter"),
}
_WORDS_BEFORE_PARENTHESIS = {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "DIV"}
_WORDS_BEFORE_PARENTHESIS |= {"CASE", "WHEN", "THEN", "ELSE"}
_DECIMAL_ONLY = "only decimal numbers are supported"
_PREFIXED = {
    TokenType.HEX_STRING: f"{_DECIMAL_ONLY}, and no binary values",
    TokenType.NATIONAL_STRING: "a string needs no N before it",
}
_OTHER_NUMBER = re.compile(r"0b[01_]+|0o[0-7_]+|[0-9][0-9_]*", re.IGNORECASE | re.ASCII)
_OTHER_QUOTES = frozenset("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u00b4")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CLOSED_QUOTES = re.compile(r"""(?:[^'"`]|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`)*+""", re.DOTALL)


class FieldfareConditions(Spark):
    """Spark's SQL without statements: in a condition, `show` and `if` are names like any other."""

    class Tokenizer(Spark.Tokenizer):
        """Reads no word as the start of a command, whose rest would be swallowed as one string."""

        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(SparkParser):
        """Reads no IF as a command, with a warning on standard error."""

        NO_PAREN_IF_COMMANDS = False
        # A call stays a name with its arguments: sqlglot would rewrite some into others.
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name in {"CAST", "TRY_CAST"} | PARSED_CALLS
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {
            TokenType.CURRENT_DATE: exp.CurrentDate,
            TokenType.CURRENT_TIMESTAMP: exp.CurrentTimestamp,
        }


DIALECT = FieldfareConditions()


def tokens_of(text: str, limits: Limits) -> list[Token]:
    """The tokens of a condition; a ConditionError where they cannot be a condition's."""
    if not isinstance(text, str):
        raise ConditionSyntaxError(f"a condition is a string, not {type(text).__name__}", repr(text))
    if len(text) > limits.characters_max:
        raise ConditionLimitError(
            f"the condition has {len(text)} characters and the limit is {limits.characters_max}: "
            "split it into several subscriptions, or raise characters_max",
            text,
        )
    surrogate = _SURROGATE.search(text)
    if surrogate:
        raise ConditionSyntaxError("the text is not valid Unicode: a lone surrogate", text, surrogate.start())
    if not text.strip():
        raise ConditionSyntaxError("the condition is empty; TRUE matches every event", text)
    tokens = _tokenised(text)
    _refuse_other_literals(tokens, text)
    tokens = with_names(_merged(tokens, text))
    _refuse_gaps(tokens, text)
    _refuse_statements(tokens, text)
    _refuse_depth(tokens, text, limits)
    return tokens


def _tokenised(text: str) -> list[Token]:
    try:
        return DIALECT.tokenize(text)
    except Exception as error:  # whatever a tokenizer of foreign make does with hostile text
        closed = _CLOSED_QUOTES.match(text)
        position = closed.end() if closed else len(text)
        if position < len(text):
            raise ConditionSyntaxError(f"the quote {text[position]} is not closed", text, position) from error
        raise ConditionSyntaxError("the text cannot be read as SQL", text) from error


def _merged(tokens: list[Token], text: str) -> list[Token]:
    """Each literal as one token: 5L comes as a cast, .5 as a dot and a number, 'it''s' as two strings."""
    merged: list[Token] = []
    for read in tokens:
        token = _retyped(read, TokenType.STRING) if read.token_type is TokenType.RAW_STRING else read
        last = merged[-1] if merged else None
        if last is None or token.start > last.end + 1:
            merged.append(token)
        elif token.start <= last.end:
            continue  # the pieces of a suffix stand where their number stands
        elif token.token_type is TokenType.STRING is last.token_type and text[token.start] == text[last.start]:
            merged[-1] = _joined(last, token, TokenType.STRING)
        elif last.token_type is TokenType.DOT and token.token_type is TokenType.NUMBER and _starts_number(merged, text):
            merged[-1] = _joined(last, token, TokenType.NUMBER)
        else:
            merged.append(token)
    return merged


def _retyped(token: Token, token_type: TokenType) -> Token:
    return Token(token_type, token.text, line=token.line, col=token.col, start=token.start, end=token.end)


def _joined(first: Token, second: Token, token_type: TokenType) -> Token:
    return Token(
        token_type, first.text + second.text, line=second.line, col=second.col, start=first.start, end=second.end
    )


def _starts_number(merged: list[Token], text: str) -> bool:
    """Whether the dot at the end begins a number, as in `> .5`, and does not join names, as in `a.b`."""
    before = text[merged[-1].start - 1 : merged[-1].start]
    return not (before.isalnum() or before in ("_", "`", ")", "]"))


def _refuse_other_literals(tokens: list[Token], text: str) -> None:
    """Refuse what looks like a literal, and would be read as the name of an attribute."""
    dotted = False
    for token in tokens:
        if token.token_type in _PREFIXED:
            raise UnsupportedConditionError(_PREFIXED[token.token_type], text, token.start)
        if token.token_type is TokenType.VAR and not dotted:
            reason = None
            if not _OTHER_QUOTES.isdisjoint(token.text):
                reason = "a string stands in straight quotes, ' or \""
            elif _OTHER_NUMBER.fullmatch(token.text) or (token.text[0].isdigit() and not token.text[0].isascii()):
                reason = f"{_DECIMAL_ONLY}: {token.text} is none; if an attribute has this name, put it in backquotes"
            if reason is not None:
                raise ConditionSyntaxError(reason, text, token.start)
        dotted = token.token_type is TokenType.DOT


def _refuse_gaps(tokens: list[Token], text: str) -> None:
    """Refuse what the tokenizer skipped: comments."""
    end = 0
    for start, next_end in [*((token.start, token.end + 1) for token in tokens), (len(text), len(text))]:
        gap = text[end:start]
        if gap and not gap.isspace():
            position = end + len(gap) - len(gap.lstrip())
            raise ConditionSyntaxError("comments are not allowed in a condition", text, position)
        end = next_end


def _refuse_statements(tokens: list[Token], text: str) -> None:
    """Refuse foreign operators, functions, subqueries and statements, where they start."""
    for before, token, following in zip([None, *tokens[:-1]], tokens, [*tokens[1:], None], strict=True):
        if _is_symbol(token) and token.text not in _SYMBOLS:
            raise _unsupported(_SYMBOL_NOUNS.get(token.text, f"the operator {token.text}"), text, token.start)
        if token.token_type is not TokenType.IDENTIFIER and token.text.upper() in BARE_FUNCTIONS - BARE_TIMES:
            raise unknown_function(token.text, text, token.start)
        if token.token_type is TokenType.SEMICOLON:
            raise ConditionSyntaxError("a condition is one expression, without a semicolon", text, token.start)
        if following is None:
            continue
        if _is_comparison(token) and _is_comparison(following):
            reason = f"something is missing between {token.text!r} and {following.text!r}"
            raise ConditionSyntaxError(reason, text, following.start)
        if token.token_type is TokenType.COMMA and following.token_type in _CLOSING:
            raise ConditionSyntaxError("something is missing after ','", text, token.start)
        if token.token_type is TokenType.L_PAREN and _is_query(following):
            raise _unsupported("a subquery", text, following.start)
        if following.token_type is TokenType.L_PAREN and _is_function(token) and not _is_like(token, before):
            raise unknown_function(token.text, text, token.start)


def _is_like(token: Token, before: Token | None) -> bool:
    """Whether it is the ANY or ALL of LIKE ANY ('a%', 'b%')."""
    return token.text.upper() in {"ANY", "ALL", "SOME"} and before is not None and before.text.upper().endswith("LIKE")


def _is_query(token: Token) -> bool:
    is_name = token.token_type is TokenType.IDENTIFIER
    return not is_name and token.text.upper() in {"SELECT", "WITH", "VALUES", "FROM"}


def _is_symbol(token: Token) -> bool:
    first = token.text[:1]
    return token.token_type not in _WORD_TOKENS and not (first.isalnum() or first == "_")


def _is_comparison(token: Token) -> bool:
    return _is_symbol(token) and token.text in _COMPARISONS


def _is_function(token: Token) -> bool:
    if token.token_type in LITERAL_TOKENS or token.text.upper() in _WORDS_BEFORE_PARENTHESIS:
        return False
    if token.token_type is not TokenType.IDENTIFIER and token.text.lower() in CALLABLE:
        return False
    return token.token_type is TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"


def _unsupported(noun: str, text: str, position: int) -> ConditionError:
    return UnsupportedConditionError(f"{noun} is not supported; {SUPPORTED}", text, position)


def _refuse_depth(tokens: list[Token], text: str, limits: Limits) -> None:
    """Refuse nesting over the limit: a parenthesis is a level, a CASE is one, and so is each prefix of an operand."""
    depth = prefixes = 0
    opened: list[int] = []
    for token in tokens:
        if token.token_type in _PREFIXES:
            prefixes += 1
        else:
            if token.token_type in (*_OPENING, TokenType.CASE):
                opened.append(prefixes + 1)
                depth += prefixes + 1
            elif token.token_type in (*_CLOSING, TokenType.END) and opened:
                depth -= opened.pop()
            prefixes = 0
        if depth + prefixes > limits.depth_max:
            raise too_deep(text, token.start, limits)


def too_deep(text: str, position: int | None, limits: Limits) -> ConditionLimitError:
    """The error for nesting over the limit."""
    return ConditionLimitError(
        f"the condition nests deeper than the limit of {limits.depth_max}: remove parentheses that are not needed, "
        "split it into several subscriptions, or raise depth_max",
        text,
        position,
    )
