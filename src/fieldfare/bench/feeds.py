"""A workload of strings: feeds by topic, language and source, with negations.

A condition is written twice from the same draws: as text for the index, as columns for peers and brute force.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.bench.workload import (
    Choices,
    Column,
    Masks,
    Prefixes,
    Size,
    WantedMembers,
    WantedRanges,
    Workload,
    above,
    conditions_table,
    strings,
    subscription_ids,
    zipf,
)

SECTIONS = (
    "news", "tech", "finance", "science", "culture", "travel", "health", "law", "food", "music", "film", "games",
    "books", "city",
)  # fmt: skip
AREAS = ("sport", "politics", "europe", "asia", "africa", "america", "opinion", "research", "people", "places")
SUBJECTS = ("football", "markets", "climate", "energy", "schools", "museums", "railways", "robots")
KINDS = ("live", "report", "comment", "archive")
LEVEL_SHARES = (0.01, 0.09, 0.90)  # of subscriptions: on a section, on an area, on a subject
LANGUAGES = ("en", "es", "de", "fr", "pt", "it", "ja", "zh", "ru", "ar", "hi", "nl")
SOURCES = tuple(f"source-{number}" for number in range(40))
MISSING_SHARE = 0.03  # events without a language
UNASKED = np.uint64(2**64 - 1)


def feeds(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """`topic LIKE 'news/sport/%' AND language IN ('en', 'de') AND NOT source = 'x' AND score > 0.5`, or parts of it."""
    topics = tuple("/".join(path) for path in product(SECTIONS, AREAS, SUBJECTS, KINDS))
    topic = _topic_tests(topics, size.subscriptions, rng)
    language, language_texts = _language_tests(size.subscriptions, rng)
    source, source_texts = _source_tests(size.subscriptions, rng)
    scored = rng.random(size.subscriptions) < 0.3
    score = np.round(rng.uniform(0.2, 0.9, size.subscriptions), 2)
    score_texts = [
        f" AND score > {value}" if asked else "" for value, asked in zip(score.tolist(), scored, strict=True)
    ]
    tests = zip(topic.codes.tolist(), language_texts, source_texts, score_texts, strict=True)
    texts = [f"topic LIKE '{topic.prefixes[code]}%'" + "".join(others) for code, *others in tests]
    ids = subscription_ids(size.subscriptions)
    columns: dict[str, Column] = {
        "topic": topic,
        "language": Choices(LANGUAGES, language),
        "source": Choices(SOURCES, source),
        "score": above(score, scored),
    }
    values = _values(len(topics), size.events, rng)
    events = {
        attribute: values[attribute]
        if isinstance(column, WantedRanges | WantedMembers)
        else strings(column.vocabulary, values[attribute])
        for attribute, column in columns.items()
    }
    return Workload(name, ids, columns, values, pa.table(events), conditions_table(ids, texts))


def _values(topics: int, events: int, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    language = rng.choice(len(LANGUAGES), events, p=zipf(len(LANGUAGES))).astype(np.int32)
    language[rng.random(events) < MISSING_SHARE] = len(LANGUAGES)
    return {
        "topic": rng.permutation(topics).astype(np.int32)[rng.choice(topics, events, p=zipf(topics))],
        "language": language,
        "source": rng.integers(0, len(SOURCES), events, dtype=np.int32),
        "score": np.round(rng.beta(2.0, 2.0, events), 3),
    }


def _topic_tests(topics: tuple[str, ...], count: int, rng: np.random.Generator) -> Prefixes:
    """Prefixes of one to three levels; on each level some are popular, as Zipf says."""
    levels = [["/".join(path) + "/" for path in product(*names)] for names in _LEVELS]
    level = rng.choice(len(levels), count, p=LEVEL_SHARES)
    codes = np.empty(count, np.int32)
    start = 0
    for number, nodes in enumerate(levels):
        here = np.flatnonzero(level == number)
        codes[here] = start + rng.permutation(len(nodes))[rng.choice(len(nodes), len(here), p=zipf(len(nodes)))]
        start += len(nodes)
    return Prefixes(topics, tuple(prefix for nodes in levels for prefix in nodes), codes)


_LEVELS = ((SECTIONS,), (SECTIONS, AREAS), (SECTIONS, AREAS, SUBJECTS))


def _language_tests(count: int, rng: np.random.Generator) -> tuple[Masks, list[str]]:
    """60% name one to three languages, 20% refuse one, 20% do not ask."""
    kinds = rng.random(count).tolist()
    sizes = rng.integers(1, 4, count).tolist()
    draws = rng.choice(len(LANGUAGES), (count, 3), p=zipf(len(LANGUAGES))).tolist()
    masks, texts = np.full(count, UNASKED, np.uint64), [""] * count
    for row, (kind, size, draw) in enumerate(zip(kinds, sizes, draws, strict=True)):
        if kind < 0.6:
            wanted = sorted(set(draw[:size]))
            masks[row] = _bits(wanted)
            texts[row] = f" AND language IN ({_listed(LANGUAGES, wanted)})"
        elif kind < 0.8:
            masks[row] = _bits(code for code in range(len(LANGUAGES)) if code != draw[0])
            texts[row] = f" AND language != '{LANGUAGES[draw[0]]}'"
    return masks, texts


def _source_tests(count: int, rng: np.random.Generator) -> tuple[Masks, list[str]]:
    """25% refuse one source, 10% refuse two, the others do not ask."""
    kinds = rng.random(count).tolist()
    draws = rng.integers(0, len(SOURCES), (count, 2)).tolist()
    masks, texts = np.full(count, UNASKED, np.uint64), [""] * count
    for row, (kind, draw) in enumerate(zip(kinds, draws, strict=True)):
        if kind < 0.25:
            masks[row] = _bits(code for code in range(len(SOURCES)) if code != draw[0])
            texts[row] = f" AND NOT source = '{SOURCES[draw[0]]}'"
        elif kind < 0.35:
            masks[row] = _bits(code for code in range(len(SOURCES)) if code not in draw)
            texts[row] = f" AND source NOT IN ({_listed(SOURCES, draw)})"
    return masks, texts


def _bits(codes: Iterable[int]) -> int:
    return sum(1 << code for code in codes)


def _listed(vocabulary: tuple[str, ...], codes: list[int]) -> str:
    return ", ".join(f"'{vocabulary[code]}'" for code in codes)
