r"""Regular expressions as Java, and so Spark's RLIKE, reads them -> RE2, which answers in linear time.

Most they read alike. What they do not is spelled out in RE2's words (`.` and line ends, \s, (?i) of ASCII letters, $
before a last line end); what RE2 cannot say, or Java's versions read differently, is refused.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_CLASSES = {  # what \d, \s and \w are in Java without flags, as inclusive ranges
    "d": [("0", "9")],
    "s": [("\t", "\r"), (" ", " ")],
    "w": [("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")],
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_LAST = chr(0x10FFFF)
_NEVER = r"[^\x{0}-\x{10FFFF}]"
_HEX = frozenset(string.hexdigits)
_INSTEAD = {
    "b": r"\b depends on Java's version: write (^|\W) and (\W|$)",
    "B": r"\B depends on Java's version",
    "G": r"\G has no meaning in a condition",
    "k": "a back reference takes more than linear time",
    "p": r"\p{…} depends on the version of Unicode: write the characters, as in [a-zäöü]",
    "P": r"\P{…} depends on the version of Unicode: write the characters, as in [^a-z]",
}

Ranges = list[tuple[str, str]]


class JavaPatternError(ValueError):
    """A pattern is malformed or refused. `position` counts characters of the pattern from 0."""

    def __init__(self, reason: str, position: int) -> None:
        self.reason = reason
        self.position = position
        super().__init__(reason)

    def __reduce__(self) -> tuple[type[JavaPatternError], tuple[str, int]]:
        return type(self), (self.reason, self.position)


@dataclass(frozen=True, slots=True)
class Translated:
    r"""The pattern for RE2, to be searched in a text; and, if it has a $, another for the text without its line end.

    In Java $ also matches before a last line end. The second pattern has no \z, which would match there too.
    """

    whole: str
    before_line_end: str | None


def translated(pattern: str) -> Translated:
    """A Java pattern in RE2's words; a JavaPatternError where it is refused."""
    reader = _Reader(pattern)
    whole = reader.read()
    if not reader.has_dollar:
        return Translated(whole, None)
    return Translated(whole, _Reader(pattern, ends_early=True).read())


class _Reader:
    def __init__(self, pattern: str, *, ends_early: bool = False) -> None:
        self.pattern = pattern
        self.at = 0
        self.end_of_text = _NEVER if ends_early else r"\z"
        self.has_dollar = False
        self.ignores_case = False
        self.dot_is_all = False

    def read(self) -> str:
        parts: list[str] = []
        outer: list[tuple[bool, bool]] = []  # the flags outside of each open group
        while self.at < len(self.pattern):
            start, character = self.at, self.pattern[self.at]
            self.at += 1
            if character == "(":
                outer.append((self.ignores_case, self.dot_is_all))
                if self._opened(start):
                    parts.append("(?:")
                else:
                    outer.pop()
            elif character == ")":
                if not outer:
                    raise JavaPatternError("')' without '('", start)
                self.ignores_case, self.dot_is_all = outer.pop()
                parts.append(")")
            elif character in "*+?{":
                if not parts or parts[-1] in ("(?:", "|"):
                    raise JavaPatternError(f"{character!r} has nothing to repeat", start)
                parts.append(self._quantifier(start))
            else:
                parts.append(self._single(character, start))
        if outer:
            raise JavaPatternError("'(' without ')'", len(self.pattern))
        return "".join(parts)

    def _single(self, character: str, start: int) -> str:
        """What matches one character or one place, or separates alternatives."""
        match character:
            case "|":
                return "|"
            case "^":
                return r"\A"
            case "$":
                return self._dollar(start)
            case ".":
                return r"(?s:.)" if self.dot_is_all else f"[^{_LINE_ENDS}]"
            case "[":
                return self._class(start)
            case "\\":
                return self._escape(start)
        return self._literal(character)

    def _opened(self, start: int) -> bool:
        """Read what follows an opening parenthesis; whether it is a group, and not flags alone."""
        rest = self.pattern[self.at :]
        if not rest.startswith("?"):
            return True
        if rest.startswith("?:"):
            self.at += 2
            return True
        if rest.startswith("?<") and rest[2:3].isascii() and rest[2:3].isalpha():
            end = rest.find(">")
            if not rest[2:end].isalnum():
                raise JavaPatternError("the name of a group is letters and digits", start)
            self.at += end + 1
            return True
        flags = rest[1:]
        count = len(flags) - len(flags.lstrip(string.ascii_letters + "-"))
        if count == 0 or flags[count : count + 1] not in (")", ":") or flags[count : count + 1] == "":
            reason = "looking ahead or behind, and atomic groups, take more than linear time or are not supported"
            raise JavaPatternError(reason, start)
        self._set_flags(flags[:count], start)
        self.at += count + 2
        return flags[count] == ":"

    def _set_flags(self, flags: str, start: int) -> None:
        value = True
        for flag in flags:
            if flag == "-" and value:
                value = False
            elif flag == "i":
                self.ignores_case = value
            elif flag == "s":
                self.dot_is_all = value
            else:
                raise JavaPatternError(f"the flag {flag} is not supported: only i and s are", start)

    def _quantifier(self, start: int) -> str:
        symbol = self.pattern[start]
        if symbol == "{":
            end = self.pattern.find("}", self.at)
            low, comma, high = self.pattern[self.at : end].partition(",") if end > 0 else ("", "", "")
            is_sound = low.isdigit() and low.isascii() and (high == "" or (high.isdigit() and high.isascii()))
            if not is_sound:
                raise JavaPatternError("'{' is repetition, as in {2} or {2,5}: write \\{ for the character", start)
            symbol = f"{{{low}{comma}{high}}}"
            self.at = end + 1
        following = self.pattern[self.at : self.at + 1]
        if following == "+":
            raise JavaPatternError("possessive repetition is not supported", start)
        if following == "?":
            self.at += 1
        elif following and following in "*{":
            raise JavaPatternError("repetition of a repetition is not supported: use a group", self.at)
        return symbol

    def _dollar(self, start: int) -> str:
        """The end, or before a last line end: only where nothing that could match follows."""
        rest = self.pattern[self.at :]
        if rest and rest[0] not in ")|":
            raise JavaPatternError("only ')' and '|' may follow $", start)
        while rest.startswith(")"):
            rest = rest[1:]
        if rest and rest[0] != "|":
            raise JavaPatternError("nothing may follow a group that ends with $", start)
        self.has_dollar = True
        return r"\z"

    # Characters and classes

    def _escape(self, start: int) -> str:
        if self.pattern[self.at : self.at + 1] == "Q":
            self.at += 1
            end = self.pattern.find("\\E", self.at)
            end = len(self.pattern) if end < 0 else end
            quoted = self.pattern[self.at : end]
            self.at = end + 2
            return "".join(map(self._literal, quoted))
        letter = self.pattern[self.at : self.at + 1]
        if letter in ("A", "z", "Z") and letter:
            self.at += 1
            return {"A": r"\A", "z": self.end_of_text}.get(letter) or self._dollar(start)
        found = self._escaped(start)
        return _written(found, negated=False) if isinstance(found, list) else self._literal(found)

    def _escaped(self, start: int) -> str | Ranges:
        """The character, or the characters, of an escape."""
        if self.at >= len(self.pattern):
            raise JavaPatternError("the pattern ends with a backslash", start)
        letter = self.pattern[self.at]
        self.at += 1
        if letter.lower() in _CLASSES:
            ranges = _CLASSES[letter.lower()]
            return ranges if letter.islower() else _complement(ranges)
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            return self._coded(letter, start)
        if letter.isascii() and letter.isalnum():
            reason = "a back reference takes more than linear time" if letter.isdigit() and letter != "0" else ""
            raise JavaPatternError(_INSTEAD.get(letter) or reason or f"\\{letter} is not supported", start)
        return letter

    def _coded(self, letter: str, start: int) -> str:
        rest = self.pattern[self.at :]
        if letter == "x" and rest.startswith("{") and "}" in rest:
            digits, length = rest[1 : rest.index("}")], rest.index("}") + 1
        else:
            length = 2 if letter == "x" else 4
            digits = rest[:length] if len(rest) >= length else ""
        if not digits or not set(digits) <= _HEX or int(digits, 16) > 0x10FFFF or 0xD800 <= int(digits, 16) < 0xE000:
            raise JavaPatternError(f"\\{letter} needs the digits of a character", start)
        self.at += length
        return chr(int(digits, 16))

    def _literal(self, character: str) -> str:
        if self.ignores_case and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        return _code(character)

    def _class(self, start: int) -> str:
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        ranges: Ranges = []
        while True:
            character = self.pattern[self.at : self.at + 1]
            if character == "":
                raise JavaPatternError("'[' without ']'", start)
            if character == "]":
                if not ranges:
                    raise JavaPatternError("a class of characters is empty: write \\] for the character", self.at)
                self.at += 1
                break
            ranges += self._item()
        if self.ignores_case:
            ranges += [other for one in list(ranges) for other in _other_case(*one)]
        return _written(ranges, negated=negated)

    def _item(self) -> Ranges:
        """A character, a range of them, or what an escape stands for."""
        first = self._class_character()
        if isinstance(first, list):
            return first
        if self.pattern[self.at : self.at + 1] != "-" or self.pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return [(first, first)]
        place = self.at
        self.at += 1
        last = self._class_character()
        if isinstance(last, list) or last < first:
            raise JavaPatternError("a range of characters goes from a lower to a higher one", place)
        return [(first, last)]

    def _class_character(self) -> str | Ranges:
        start, character = self.at, self.pattern[self.at]
        self.at += 1
        if character == "[" or self.pattern[start : start + 2] == "&&":
            reason = "a class inside a class, and &&, are not supported: write the characters, or use two conditions"
            raise JavaPatternError(reason, start)
        if character == "\\":
            if self.pattern[self.at : self.at + 1] in ("Q", "E"):
                raise JavaPatternError("\\Q in a class is not supported", start)
            return self._escaped(start)
        return character


def _other_case(first: str, last: str) -> Ranges:
    """The ASCII letters of a range, in the other case."""
    found: Ranges = []
    for low, high, change in (("a", "z", str.upper), ("A", "Z", str.lower)):
        start, end = max(first, low), min(last, high)
        if start <= end:
            found.append((change(start), change(end)))
    return found


def _complement(ranges: Ranges) -> Ranges:
    found: Ranges = []
    after = "\x00"
    for first, last in ranges:
        if after < first:
            found.append((after, chr(ord(first) - 1)))
        after = chr(ord(last) + 1)
    return [*found, (after, _LAST)]


def _code(character: str) -> str:
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else f"\\x{{{ord(character):x}}}"


def _written(ranges: Ranges, *, negated: bool) -> str:
    return f"[{'^' * negated}{''.join(f'{_code(first)}-{_code(last)}' for first, last in ranges)}]"
