"""Which words of a condition are names of attributes, although SQL uses them for something else.

Spark takes nearly every word as a column: `from = 'Köln' AND values > 3`. So a word is a name where an operand must
stand, and where what follows can follow a name. Only AND, OR, NOT, TRUE, FALSE and NULL are never names without
backquotes, nor are the functions that Spark calls without parentheses.
"""

from __future__ import annotations

from sqlglot import Token, TokenType

_NEVER_NAMES = {"AND", "OR", "NOT", "TRUE", "FALSE", "NULL"}
BARE_FUNCTIONS = {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "CURRENT_PATH"}
BARE_TIMES = {"CURRENT_DATE", "CURRENT_TIMESTAMP"}
_BARE_VALUES = {"TRUE", "FALSE", "NULL", *BARE_TIMES}
_AFTER_A_NAME = {
    "=",
    "==",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "<=>",
    "+",
    "-",
    "*",
    "/",
    "%",
    ")",
    ",",
    ".",
    "||",
    "&",
    "|",
    "^",
    "::",
    "[",
    "]",
    "->",
}
_WORDS_AFTER_A_NAME = {"AND", "OR", "NOT", "IS", "IN", "BETWEEN", "LIKE", "RLIKE", "REGEXP", "ILIKE", "DIV"}
_WORDS_AFTER_A_NAME |= {"AS", "WHEN", "THEN", "ELSE", "END"}
_PAIRS = {("DISTINCT", "FROM"), ("BETWEEN", "SYMMETRIC")}  # the second word belongs to the first
_VALUES = (TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET)


def with_names(tokens: list[Token]) -> list[Token]:
    """The tokens, in which each word that is a name is an identifier, as if it stood in backquotes."""
    marked: list[Token] = []
    needs_operand = True
    for number, token in enumerate(tokens):
        before = marked[-1] if marked else None
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        is_part = before is not None and before.token_type is TokenType.DOT
        if is_word(token) and (
            is_part or (needs_operand and _is_name(token, before, following) and not _is_interval(tokens[number:][:4]))
        ):
            marked.append(_identifier(token))
            needs_operand = False
            continue
        marked.append(token)
        if token.text.upper() == "END" and not needs_operand:
            continue  # of a CASE, which is an operand
        if token.text.upper() != "NOT":  # x NOT IN (…), but also NOT x: what is needed stays the same
            needs_operand = not (_is_value(token) or (needs_operand and token.token_type is TokenType.VAR))
    return marked


def is_word(token: Token) -> bool:
    """Whether a token is a word, and neither a literal nor a name in backquotes."""
    first = token.text[:1]
    return token.token_type not in _VALUES and (first.isalpha() or first == "_")


def _is_interval(tokens: list[Token]) -> bool:
    """Whether they are INTERVAL -1 DAY, and not an attribute's name, a minus and a number."""
    match tokens:
        case [word, minus, number, unit]:
            is_sum = word.text.upper() != "INTERVAL" or minus.text != "-" or number.token_type is not TokenType.NUMBER
            return not is_sum and is_word(unit) and unit.text.upper() not in _WORDS_AFTER_A_NAME
    return False


def _is_name(token: Token, before: Token | None, following: Token | None) -> bool:
    word = token.text.upper()
    if word in _NEVER_NAMES or word in BARE_FUNCTIONS:
        return False
    if before is not None and is_word(before) and (before.text.upper(), word) in _PAIRS:
        return False
    if before is not None and (before.text == "::" or (is_word(before) and before.text.upper() == "AS")):
        return False  # the type of a cast
    if before is not None and is_word(before) and before.text.upper() == "CASE" and word == "WHEN":
        return False
    if following is None:
        return True
    if word == "CASE" and is_word(following) and following.text.upper() == "WHEN":
        return False
    if following.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return False
    return following.text in _AFTER_A_NAME or (is_word(following) and following.text.upper() in _WORDS_AFTER_A_NAME)


def _is_value(token: Token) -> bool:
    return token.token_type in _VALUES or token.text.upper() in _BARE_VALUES


def _identifier(token: Token) -> Token:
    return Token(TokenType.IDENTIFIER, token.text, line=token.line, col=token.col, start=token.start, end=token.end)
