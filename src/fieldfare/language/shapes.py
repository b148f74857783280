"""The shape of a condition: its text without its literals. Each shape is parsed once.

Replacing a literal by another of its kind cannot change the tree, provided that the literal is one whole token; so a
shape counts as known only where the literals that the quick scan here finds are exactly those that the parser found.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from fieldfare.errors import ConditionError
from fieldfare.language import tree
from fieldfare.language.limits import Limits
from fieldfare.language.parse import parse

_STRING = r"""'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+\""""
_NAME = r"`[^`]*+(?:``[^`]*+)*+`"
_NUMBER = r"[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+(?![\w.])"
# A quote that is never closed takes all the rest: nothing behind it has a meaning.
_LITERAL = re.compile(rf"({_STRING}|{_NAME}|(?<![\w.]){_NUMBER})|['\"`].*+", re.DOTALL)
_KINDS = {**dict.fromkeys("0123456789", "number"), **dict.fromkeys("'\"", "string")}
_PATTERNS = {"number": f"({_NUMBER})", "string": f"({_STRING})"}
_NUMBER_BYTES = b"0123456789."
_DIGITS = frozenset("0123456789")
_KNOWN_SHAPES_MAX = 4_096
_SMALL_SHAPE_CHARACTERS = 4_096

Shape = tuple[
    str, ...
]  # what stands before the first literal, the first literal's kind, what stands after it, and so on


def scan(text: str) -> tuple[Shape, list[str]] | None:
    """The shape of a condition, and its literals; None where a quote is not closed."""
    parts: list[str] = _LITERAL.split(text)
    if None in parts:
        return None
    if "`" in text:
        parts = _with_names(parts)
    literals = parts[1::2]
    parts[1::2] = [_KINDS[literal[0]] for literal in literals]
    return tuple(parts), literals


def hint(text: str) -> bytes:
    """Something that two conditions of one shape nearly always share, and others rarely; much cheaper than a scan."""
    return _outside_quotes(text).encode("utf-8", "surrogatepass").translate(None, _NUMBER_BYTES)


def finer_hint(text: str) -> str:
    """The same for conditions whose attributes differ only in their digits, if their words stand apart."""
    return " ".join([word for word in _outside_quotes(text).split() if word[0] not in _DIGITS])


def _outside_quotes(text: str) -> str:
    return "'".join(text.split("'")[::2]) if "'" in text else text


def is_small(shape: Shape) -> bool:
    """Whether a shape is worth the memory to be remembered."""
    return sum(map(len, shape)) <= _SMALL_SHAPE_CHARACTERS


@functools.lru_cache(maxsize=1_024)
def matcher(shape: Shape) -> Callable[[str], re.Match[str] | None]:
    """A test whether a text has this shape, whose groups are its literals; faster than a scan."""
    pieces = [re.escape(part) if at % 2 == 0 else _PATTERNS[part] for at, part in enumerate(shape)]
    return re.compile("".join(pieces), re.DOTALL).fullmatch


def _with_names(parts: list[str]) -> list[str]:
    """The backquoted names put back: they are no literals."""
    result = parts[:1]
    for literal, following in zip(parts[1::2], parts[2::2], strict=True):
        if literal.startswith("`"):
            result[-1] += literal + following
        else:
            result += (literal, following)
    return result


@dataclass(frozen=True, slots=True)
class KnownShape:
    """A shape that was parsed before."""

    node: tree.Node | None  # None: conditions of this shape must be parsed each time
    boxes_max: int  # a condition of this shape has at most so many, and twice as many for each text that is a time


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes met so far, under some limits. Several threads may ask at once."""

    limits: Limits
    _known: dict[Shape, KnownShape] = field(default_factory=dict)

    def known(self, shape: Shape) -> KnownShape | None:
        """What is known of a shape; None where it was not met before."""
        return self._known.get(shape)

    def tree_of(self, shape: Shape, text: str) -> tree.Node | None:
        """The tree of a shape that `text` has; None where it must be parsed each time."""
        known = self._known.get(shape)
        if known is not None:
            return known.node
        node = self._parsed(text)
        if len(self._known) >= _KNOWN_SHAPES_MAX:
            self._known.clear()
        if is_small(shape):
            self._known[shape] = KnownShape(node, 0 if node is None else tree.boxes_at_most(node))
        return node

    def _parsed(self, text: str) -> tree.Node | None:
        try:
            parsed = parse(text, self.limits)
        except ConditionError:
            return None
        found = (literal.span() for literal in _LITERAL.finditer(text) if not literal.group().startswith("`"))
        return parsed.tree if parsed.is_reusable and tuple(found) == parsed.spans else None
