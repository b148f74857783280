"""Workloads of lists: keywords in feeds, and alerts that must have every indicator of a subscription.

A condition is written twice from the same draws: as text for the index, as codes for peers and brute force.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.bench.workload import Codes, Size, WantedMembers, Workload, conditions_table, subscription_ids, zipf

VOCABULARY = 100_000
COMMON = 1_000  # the words that nobody subscribes to: they are in nearly every text
WORDS_MAX = 4  # of a subscription
TEXT_WORDS = (20, 200)
INDICATORS = 20_000
COMMON_INDICATORS = 200  # are in too many alerts to tell an attack by
PATTERNS, PATTERN_INDICATORS = 2_000, 12  # kinds of attacks, and what each of them leaves behind
SEEN_SHARE = 0.85  # of its pattern's indicators that an alert has
NOISE = (5, 18)  # indicators beside them
NEEDED_MAX = 6


def keywords(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """1 to 4 words of a vocabulary with Zipf's weights; an event has 20 to 200 words."""
    shares = zipf(VOCABULARY)
    rare = shares[COMMON:] / shares[COMMON:].sum()
    wanted = _drawn(size.subscriptions, (1, WORDS_MAX), rare, rng, first=COMMON)
    texts = [
        " AND ".join([f"array_contains(keywords, '{_word(code)}')" for code in codes.tolist()])
        for codes in np.split(wanted.codes, wanted.offsets[1:-1])
    ]
    return _workload(name, "keywords", wanted, texts, _drawn(size.events, TEXT_WORDS, shares, rng))


def alerts(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """1 to 6 indicators of an attack, which an alert must all have; an alert has most of those of one, and others."""
    shares = zipf(INDICATORS)
    rare = shares[COMMON_INDICATORS:] / shares[COMMON_INDICATORS:].sum()
    patterns = rng.choice(INDICATORS - COMMON_INDICATORS, (PATTERNS, PATTERN_INDICATORS), p=rare) + COMMON_INDICATORS
    wanted = _some_of(patterns, size.subscriptions, rng.integers(1, NEEDED_MAX + 1, size.subscriptions), rng)
    texts = []
    for codes in np.split(wanted.codes, wanted.offsets[1:-1]):
        needed = ", ".join([f"'{_word(code)}'" for code in codes.tolist()])
        texts.append(f"size(array_except(array({needed}), indicators)) = 0")
    seen = _some_of(patterns, size.events, rng.binomial(PATTERN_INDICATORS, SEEN_SHARE, size.events), rng)
    return _workload(name, "indicators", wanted, texts, _beside(seen, _drawn(size.events, NOISE, shares, rng)))


def _some_of(
    patterns: npt.NDArray[np.int64], rows: int, counts: npt.NDArray[np.int64], rng: np.random.Generator
) -> WantedMembers:
    """For each row so many indicators of one pattern, each at most once."""
    order = rng.random((rows, PATTERN_INDICATORS)).argsort(axis=1)
    mixed = np.take_along_axis(patterns[rng.integers(0, PATTERNS, rows)], order, axis=1)
    chosen = np.arange(PATTERN_INDICATORS)[None, :] < counts[:, None]
    return WantedMembers(np.concatenate([[0], np.cumsum(counts)]), mixed[chosen].astype(np.int32))


def _beside(one: WantedMembers, other: WantedMembers) -> WantedMembers:
    """The codes of two for each row."""
    rows = np.concatenate([np.repeat(np.arange(len(some.offsets) - 1), np.diff(some.offsets)) for some in (one, other)])
    order = np.argsort(rows, kind="stable")
    return WantedMembers(one.offsets + other.offsets, np.concatenate([one.codes, other.codes])[order])


def _word(code: int) -> str:
    """A word as long as words are: `w` and base 26."""
    letters = ""
    while True:
        code, letter = divmod(code, 26)
        letters += chr(ord("a") + letter)
        if not code:
            return f"w{letters}"


def _drawn(
    rows: int, counts: tuple[int, int], shares: npt.NDArray[np.float64], rng: np.random.Generator, first: int = 0
) -> WantedMembers:
    """For each row some codes, of which a row may draw one twice."""
    lengths = rng.integers(counts[0], counts[1] + 1, rows)
    places = np.searchsorted(np.cumsum(shares), rng.random(int(lengths.sum())))
    codes = (np.minimum(places, len(shares) - 1) + first).astype(np.int32)
    return WantedMembers(np.concatenate([[0], np.cumsum(lengths)]), codes)


def _workload(name: str, attribute: str, wanted: WantedMembers, texts: list[str], drawn: WantedMembers) -> Workload:
    ids = subscription_ids(len(texts))
    words = pa.array([_word(code) for code in range(VOCABULARY)])
    offsets: npt.NDArray[np.int64] = drawn.offsets
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), words.take(pa.array(drawn.codes)))
    values = np.empty(len(offsets) - 1, object)
    rows: list[Codes] = np.split(drawn.codes, offsets[1:-1])
    for row, codes in enumerate(rows):
        values[row] = codes
    events = pa.table({attribute: lists})
    return Workload(name, ids, {attribute: wanted}, {attribute: values}, events, conditions_table(ids, texts))
