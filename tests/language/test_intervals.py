"""Sets of intervals behave as sets of values."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.language.intervals import Intervals, compared, complement, contains, intersection, union
from fieldfare.model import MISSING, Cut, Interval, Section, section_start

cuts = st.one_of(
    st.sampled_from([section_start(section) for section in Section if section > Section.NULL]),
    st.integers(0, 4).map(lambda number: (Section.NUMBER, float(number))),
    st.sampled_from([b"a", b"a\0", b"b"]).map(lambda text: (Section.STRING, text)),
)
intervals = st.tuples(cuts, cuts).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: Interval(*pair))
sets = st.lists(intervals, max_size=4).map(union)
POINTS: list[Cut] = [
    *(section_start(section) for section in Section if section < Section.END),
    *((Section.NUMBER, number / 2) for number in range(10)),
    *((Section.STRING, text) for text in (b"a", b"a\0", b"aa", b"b", b"c")),
]


def members(values: Intervals) -> list[Cut]:
    return [point for point in POINTS if any(interval.low <= point < interval.high for interval in values)]


@given(st.lists(intervals, max_size=5))
def test_union(given_intervals: list[Interval]) -> None:
    united = union(given_intervals)
    assert members(united) == members(tuple(given_intervals))
    assert all(one.high <= other.low for one, other in itertools.pairwise(united))


@given(sets, sets)
def test_intersection(left: Intervals, right: Intervals) -> None:
    assert members(intersection(left, right)) == [point for point in members(left) if point in members(right)]
    assert intersection(left, right) == intersection(right, left)


@given(sets)
def test_complement(values: Intervals) -> None:
    assert members(complement(values)) == [point for point in POINTS if point not in members(values)]
    assert complement(values)[0] == MISSING


@given(sets, sets)
def test_contains(outer: Intervals, inner: Intervals) -> None:
    if contains(outer, inner):
        assert set(members(inner)) <= set(members(outer))
    assert contains(outer, intersection(outer, inner))


def test_touching_intervals_become_one_within_a_section() -> None:
    below, above = compared("<", Section.NUMBER, 5.0), compared(">=", Section.NUMBER, 5.0)
    assert len(union([*below, *above])) == 1
    strings = compared(">=", Section.STRING, b"")
    assert len(union([*above, *strings])) == 2
