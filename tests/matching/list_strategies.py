"""Conditions on lists, and events that have some."""

from __future__ import annotations

import datetime

from hypothesis import strategies as st

from fieldfare import Range

WORDS = ["a", "b", "c", "d", "2024", "é"]
_scalars = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from([0, 1, 2, 1.0, -0.0, 2.5, 2**53 + 1, 2.0**53, -(2**60), True, False, float("nan"), float("inf")]),
    st.none(),
    st.sampled_from([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.date(2024, 1, 2)]),
)
_members = st.one_of(
    _scalars, _scalars, _scalars, st.lists(_scalars, max_size=2), st.fixed_dictionaries({"p": _scalars})
)
_values = st.one_of(st.lists(_members, max_size=5), st.lists(_members, max_size=5), _scalars)
_texts = st.one_of(st.none(), st.text("aA bB-É_1.", max_size=8), st.integers(0, 20), st.just(Range(1, 3)))
events = st.fixed_dictionaries(
    {},
    optional={"tags": _values, "others": _values, "body": _texts, "x": st.integers(0, 3)},
)
_literals = st.sampled_from(["'a'", "'b'", "'c'", "'2024'", "'é'", "1", "0", "2.5", "9007199254740993", "1e300"])
_lists = st.sampled_from(["tags", "tags", "others", "words(body)", "array_union(tags, others)", "array('a', x)"])


@st.composite
def _leaves(draw: st.DrawFn) -> str:
    some, literal = draw(_lists), draw(_literals)
    wanted = ", ".join(draw(st.lists(_literals, min_size=1, max_size=3)))
    forms = [
        f"array_contains({some}, {literal})",
        f"array_contains({some}, {literal})",
        f"NOT array_contains({some}, {literal})",
        f"array_contains({some}, x)",
        f"array_contains({some}, NULL)",
        f"arrays_overlap({some}, array({wanted}))",
        f"arrays_overlap(array({wanted}, NULL), {some})",
        "arrays_overlap(tags, others)",
        f"size(array_except(array({wanted}), {some})) = 0",
        f"size(array_except({some}, array({wanted}))) = 0",
        f"size(array_intersect({some}, array({wanted}))) > 0",
        f"size({some}) {draw(st.sampled_from(['=', '>']))} {draw(st.integers(0, 3))}",
        f"{some} IS {draw(st.sampled_from(['', 'NOT ']))}NULL",
        f"array_contains({some}, {literal}) IS NULL",
        f"tags[{draw(st.integers(0, 2))}] = {literal}",
        f"element_at(tags, {draw(st.sampled_from([-1, 1, 2]))}) = {literal}",
        f"array_position(tags, {literal}) > 1",
        f"array_max(tags) = {literal}",
        f"size(array_distinct({some})) = 2",
        f"exists({some}, m -> m = {literal})",
        f"forall({some}, m -> m > {draw(st.integers(0, 2))} OR m = x)",
        f"exists(tags, m -> m.p = {literal})",
        f"tags[0].p = {literal}",
        f"tags = {literal}",
        "tags <=> NULL",
        f"x = {draw(st.integers(0, 3))}",
        "x > 1",
    ]
    return draw(st.sampled_from(forms))


conditions = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=4,
)
