"""LIKE's kernel against a plain table of answers, and against time."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fieldfare.language import text_functions
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


def seconds(text: str, pattern: Pattern) -> float:
    started = time.perf_counter()
    match(text, pattern)
    return time.perf_counter() - started


def test_hostile_patterns_take_linear_time() -> None:
    hostile = [
        parsed("%" + "a%" * 50 + "b"),
        parsed("%" + "a" * 60 + "b%"),
        parsed("%" + "_" * 60 + "b%"),
        parsed("%a_" * 30),
    ]
    for pattern in hostile:
        small, large = (min(seconds("a" * size, pattern) for _ in range(3)) for size in (100_000, 1_000_000))
        assert large < 40 * small + 0.05  # quadratic would be 100 times


def test_a_pattern_that_an_event_brings_may_be_long() -> None:
    def seconds_for(size: int) -> float:
        started = time.process_time()
        assert text_functions.like("x" * size, "x" * size, "\\") is True
        return time.process_time() - started

    small, large = min(seconds_for(20_000 + more) for more in range(3)), seconds_for(400_000)
    assert large < 80 * small + 0.05  # quadratic would be 400 times
