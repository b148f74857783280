"""Codes of values keep the order of the axis, whatever the types, and intervals become ranges of codes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.dmm.axis_codes import DomainAxis, GeneralAxis
from fieldfare.errors import AxisDomainError
from fieldfare.matching.rows import cuts_of
from fieldfare.model import INT64_MAX, INT64_MIN, Cut, Interval, Section, cut_above, cut_below, section_start

numbers = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.integers(2**53 - 3, 2**53 + 9),
    st.floats(allow_nan=False),
    st.integers(-300, 300).map(lambda number: number / 4),
)
texts = st.text(max_size=3) | st.text("ab\x00", max_size=12)
values = st.one_of(st.none(), st.just(math.nan), st.booleans(), numbers, texts, st.datetimes(), st.dates())
points = values.map(lambda value: cuts_of(value, "a")[0])
axes = st.one_of(
    st.just(GeneralAxis()),
    st.just(DomainAxis(1, 256)),
    st.builds(DomainAxis, st.integers(-9, 0), st.integers(1, 300), st.sampled_from([0.25, 1, 3])),
)


@given(axes, points, points)
def test_order_is_kept_over_all_types(axis: GeneralAxis | DomainAxis, one: Cut, other: Cut) -> None:
    low, high = sorted((one, other))
    assert 0 <= axis.code_of(low) <= axis.code_of(high) < 1 << axis.bits


@given(axes, points, points, points)
def test_values_in_an_interval_have_codes_in_its_range(
    axis: GeneralAxis | DomainAxis, one: Cut, other: Cut, inside: Cut
) -> None:
    (low_section, low), (high_section, high) = sorted((one, other))
    interval = Interval(cut_below(low_section, low), cut_above(high_section, high))
    first, last = axis.codes_of(interval)
    assert first <= last
    for point in (one, other, inside):
        if interval.low <= point < interval.high:
            assert first <= axis.code_of(point) <= last


@given(numbers)
def test_a_single_number_has_a_single_code(number: float) -> None:
    section, value = cuts_of(number, "a")[0]
    interval = Interval(cut_below(section, value), cut_above(section, value))
    for axis in (GeneralAxis(), DomainAxis(1, 256)):
        code = axis.code_of((section, value))
        assert axis.codes_of(interval) == (code, code)


@given(texts, texts)
def test_what_is_below_a_string_ends_at_its_code_only_if_a_string_below_has_it(text: str, other: str) -> None:
    axis, start = GeneralAxis(), section_start(Section.STRING)
    end = text.encode()
    if not end:
        return
    last = axis.codes_of(Interval(start, (Section.STRING, end)))[1]
    code = axis.code_of((Section.STRING, end))
    assert last in (code, code - 1)
    if other.encode() < end:
        assert axis.code_of((Section.STRING, other.encode())) <= last
    shorter = end[:-1]
    if axis.code_of((Section.STRING, shorter)) == code:
        assert last == code


def test_the_domain_of_the_experiments_has_eight_bits() -> None:
    axis = DomainAxis(1, 256)
    assert (axis.bits, axis.cells) == (8, 256)
    assert [axis.code_of(cuts_of(value, "a")[0]) for value in (1, 1.5, 2, 256, 300, -5, "x", None)] == [
        0,
        0,
        1,
        255,
        255,
        0,
        255,
        0,
    ]


def test_neighbours_and_types_are_told_apart_without_a_declaration() -> None:
    ascending = [None, math.nan, False, True, -math.inf, -1, 0, 1, 1.0001, 2**53, math.inf, "", "a", "ab", "b"]
    codes = [GeneralAxis().code_of(cuts_of(value, "a")[0]) for value in ascending]
    assert codes == sorted(set(codes))


@pytest.mark.parametrize("domain", [(1, 1, 1), (2, 1, 1), (0, math.inf, 1), (0, 1, 0), (0, 1, math.nan), (0, 1e300, 1)])
def test_bad_domains_are_refused(domain: tuple[float, float, float]) -> None:
    with pytest.raises(AxisDomainError):
        DomainAxis(*domain)
