"""Compiling from several threads, and telling beforehand how much work a condition is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, example, given, settings
from tests.matching.strategies import conditions

from fieldfare.language import compile, effort, shapes, tree  # noqa: A004
from fieldfare.language.column_leaves import may_be_time
from fieldfare.language.limits import Limits
from fieldfare.language.parse import parse


@given(conditions())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None, max_examples=300)
@example("NOT (a <=> b) AND NOT (c <=> '2024-01-01')")
@example("day NOT IN ('2024-01-01', '2024-01-03') AND NOT day LIKE 'a%'")
def test_a_condition_has_no_more_boxes_than_its_shape_allows(text: str) -> None:
    scanned = shapes.scan(text)
    assert scanned is not None
    bound = tree.boxes_at_most(parse(text, Limits()).tree) << sum(map(may_be_time, scanned[1]))
    assert len(compile(text).boxes) <= bound


def test_effort_is_known_for_known_shapes() -> None:
    assert effort(["effort_a > 1 AND effort_b < 2"]) is None
    compile("effort_a > 7 AND effort_b < 9")
    once = effort(["effort_a > 1 AND effort_b < 2"])
    assert once is not None
    assert effort(["effort_a > 1 AND effort_b < 2"] * 3) == 3 * once
    compile("effort_a != 7 AND effort_b != 9")
    more = effort(["effort_a != 7 AND effort_b != 9"])
    assert more is not None
    assert more > once


@pytest.mark.parametrize("text", ["effort_a >", "effort_a = 'x", 5, None])
def test_effort_of_what_is_not_sound_is_not_known(text: object) -> None:
    assert effort([text]) is None


@pytest.fixture
def eager_switching() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_switching")
def test_threads_that_share_the_known_shapes_compile_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_KNOWN_SHAPES_MAX", 3)  # so that they are forgotten all the time
    texts = [f"shape{number % 7} > {number} OR other = 'a{number}'" for number in range(300)]
    expected = [compile(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(compile, texts)) == expected
