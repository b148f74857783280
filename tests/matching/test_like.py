"""LIKE's kernel against a plain table of answers, and the steps it takes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fieldfare.language import text_functions
from fieldfare.language.long_patterns import is_like
from fieldfare.matching import like as kernels
from fieldfare.matching.batch import Texts
from fieldfare.matching.like import Patterns

Pattern = tuple[str | None, ...]


def like(text: str, pattern: Pattern) -> bool:
    """Whether the first i characters are like the first j items, for all i and j: nothing to get wrong."""
    table = [[False] * (len(pattern) + 1) for _ in range(len(text) + 1)]
    for i in range(len(text) + 1):
        for j in range(len(pattern) + 1):
            if j == 0:
                table[i][j] = i == 0
            elif pattern[j - 1] is None:
                table[i][j] = table[i][j - 1] or (i > 0 and table[i - 1][j])
            else:
                table[i][j] = i > 0 and table[i - 1][j - 1] and pattern[j - 1] in ("", text[i - 1])
    return table[-1][-1]


def match(text: str, pattern: Pattern) -> bool:
    zero = np.zeros(1, np.int64)
    return bool(Patterns.of([pattern]).match(zero, Texts.of([text.encode()]), zero)[0])


def parsed(pattern: str) -> Pattern:
    return tuple({"%": None, "_": ""}.get(character, character) for character in pattern)


# Few letters, so that texts and patterns often agree; 1 to 4 bytes each, some sharing bytes with others.
LETTERS = "ab\n\x00éèਊ😀😁"
TEXTS = st.text(LETTERS, max_size=12) | st.text(max_size=5)
PATTERNS = st.lists(st.sampled_from([None, None, "", *LETTERS]), max_size=10).map(tuple)


@given(TEXTS, PATTERNS)
@settings(max_examples=1000)
@example("", ())
@example("", (None,))
@example("", (None, None))
@example("", ("",))
@example("😀", ("",))
@example("é", ("", ""))
@example("aé", (None, "", None, ""))
@example("éa", ("", None, "a"))
@example("a", ("a", None, "a"))
def test_equals_the_table(text: str, pattern: Pattern) -> None:
    assert match(text, pattern) == like(text, pattern)


@given(st.text("ab", max_size=300), st.lists(st.sampled_from("ab_"), min_size=60, max_size=200), st.data())
@settings(max_examples=200)
def test_segments_longer_than_a_word(text: str, items: list[str], data: st.DataObject) -> None:
    middle = "".join(items)
    if text and data.draw(st.booleans()):  # cut the segment out of the text, so that it is found
        start = data.draw(st.integers(0, len(text) - 1))
        wild = data.draw(st.sets(st.integers(0, 200)))
        middle = "".join("_" if i in wild else c for i, c in enumerate(text[start:]))
    pattern = parsed(f"%{middle}%")
    assert match(text, pattern) == like(text, pattern)


@given(st.lists(st.tuples(TEXTS, PATTERNS), max_size=8))
def test_many_pairs_at_once(pairs: list[tuple[str, Pattern]]) -> None:
    texts = Texts.of([text.encode() for text, _ in pairs])
    patterns = Patterns.of([pattern for _, pattern in pairs])
    grid = np.indices((len(pairs), len(pairs))).reshape(2, -1)
    matched = patterns.match(grid[0], texts, grid[1])
    assert matched.tolist() == [like(pairs[t][0], pairs[p][1]) for p, t in grid.T.tolist()]


HOSTILE = ["%" + "a%" * 50 + "b%", "%" + "a" * 60 + "b%", "%" + "_" * 60 + "b%", "%a_" * 30 + "%b%"]


class CountedBytes:
    """Bytes that count how often one of them is read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.reads = np.frombuffer(data, np.uint8), 0

    def __getitem__(self, at: int) -> np.uint8:
        self.reads += 1
        return np.uint8(self.data[at])


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_pattern_reads_the_text_once(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kernel in ("_continues", "_after_prefix", "_before_suffix", "_after_first"):
        monkeypatch.setattr(kernels, kernel, getattr(kernels, kernel).py_func)
    patterns, text, size = Patterns.of([parsed(pattern)]), CountedBytes(b"a" * 1_000), 1_000
    zero, matched = np.zeros(1, np.int64), np.empty(1, np.bool_)
    match_pairs: Any = kernels.match_pairs
    match_pairs.py_func(
        patterns.data, patterns.offsets, patterns.segments, zero, text, np.array([0, size]), zero, 1, matched
    )  # fmt: skip
    assert matched[0] == match("a" * size, parsed(pattern))
    assert size <= text.reads < 2 * size  # once, and a few bytes of ends and of _ again


def python_steps(function: Callable[..., Any], *given: object) -> int:
    """The lines that Python executes, whatever the machine does meanwhile."""
    steps = 0

    def count(_frame: FrameType, what: str, _given: object) -> Callable[..., Any]:
        nonlocal steps
        steps += what == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        function(*given)
    finally:
        sys.settrace(before)
    return steps


LONG = ["{x}", "%{x}b%", "%{x}_b%", "{x}%{x}", "%_{x}%", "{x}_b"]


@pytest.mark.parametrize("shape", LONG)
def test_a_pattern_that_an_event_brings_may_be_long(shape: str) -> None:
    def steps(size: int) -> int:
        return python_steps(text_functions.like, "x" * 2 * size, shape.format(x="x" * size), "\\")

    assert 0 < steps(4_000) < 4.5 * steps(1_000)  # quadratic would be 16 times
    compiled = text_functions.compiled_pattern(shape.format(x="x" * 1_000), "\\")
    assert not isinstance(compiled, re.Pattern) or "*" not in compiled.pattern  # no long segment at place after place


@given(TEXTS, PATTERNS)
@settings(max_examples=1000)
def test_long_patterns_equal_the_table(text: str, pattern: Pattern) -> None:
    assert is_like(text, (*pattern, None)) == like(text, (*pattern, None))
    assert is_like(text, (None, *pattern)) == like(text, (None, *pattern))


@given(st.text("abé", max_size=300), st.lists(st.sampled_from("abé_"), min_size=60, max_size=200), st.data())
@settings(max_examples=200)
def test_one_value_at_a_time(text: str, items: list[str], data: st.DataObject) -> None:
    segment = "".join(items)
    if data.draw(st.booleans()):
        text += segment.replace("_", "é") + text
    pattern = f"%{segment}%"
    assert text_functions.like(text, pattern, "\\") == like(text, parsed(pattern)) == match(text, parsed(pattern))
