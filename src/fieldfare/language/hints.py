"""What a condition may have meant: a name spelled almost like one that is there, a text without its quotes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator

from fieldfare.model import AllOf, AnyOf, Attribute, Comparison, Condition, Test

_LIKENESS_MIN = 0.7  # of two names, as difflib measures it: `spead` and `speed` have 0.8


def likely_name(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant: the same in another case, or else one that looks much like it."""
    same = next((other for other in known if is_other_case(name, other)), None)
    return same or next(iter(difflib.get_close_matches(name, known, 1, _LIKENESS_MIN)), None)


def is_other_case(name: str, other: str) -> bool:
    """Whether two names differ, and in upper and lower case only."""
    return name != other and name.casefold() == other.casefold()


def position_of(name: str, condition: str) -> int | None:
    """Where a name stands in a condition; None where it is not written as it is."""
    found = re.search(rf"(?<![\w.`]){re.escape(name)}(?![\w.`])", condition)
    return None if found is None else found.start()


def unquoted_words(condition: Condition) -> list[str]:
    """Words that an attribute is compared with, as in `symbol = YHOO`, and that may have been meant as texts."""
    tests = _comparisons(test for box in condition.boxes for test in box.tests)
    words = dict.fromkeys(
        test.right.name
        for test in tests
        if test.operator in {"=", "!="} and isinstance(test.left, Attribute) and isinstance(test.right, Attribute)
    )
    return [word for word in words if word.isidentifier() and position_of(word, condition.text) is not None]


def in_quotes(word: str) -> str:
    """The question whether a word was meant as a text."""
    return f"did you mean '{word}' in quotes?"


def _comparisons(tests: Iterable[Test]) -> Iterator[Comparison]:
    for test in tests:
        if isinstance(test, AllOf | AnyOf):
            yield from _comparisons(test.tests)
        elif isinstance(test, Comparison):
            yield test
