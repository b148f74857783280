"""Why something that a client sent cannot be read, in words that a person understands.

msgspec says what it expected and where; of a name it would show a regular expression.
"""

from __future__ import annotations

from fieldfare.messages.frames import CONDITION_CHARACTERS_MAX, NAME_PATTERN

NAME_RULE = "a name has letters, digits and . _ - only, at most 128, and begins with a letter or a digit"
_IN_WORDS = {
    f"Expected `str` matching regex {NAME_PATTERN!r}": NAME_RULE,
    f"Expected `str` of length <= {CONDITION_CHARACTERS_MAX}": (
        f"a condition has at most {CONDITION_CHARACTERS_MAX:,} characters: split it into several subscriptions"
    ),
}


def in_words(error: Exception, place: str = "") -> str:
    """The reason of an error; `place` names the value where the error itself does not, because it is the whole."""
    expected, _, found = str(error).partition(" - at ")
    reason = _IN_WORDS.get(expected, expected)
    where = found or place
    return f"{reason} - at {where}" if where else reason
