"""Random layouts of every kind, and what must hold of any."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st
from tests.matching.strategies import MIXED, Event, named, ranges

from fieldfare import Index
from fieldfare.boxes import BoxTable
from fieldfare.language import compile_many
from fieldfare.matching.rows import batch_of_rows
from fieldfare.model import Cut, Range, Scalar, Section
from fieldfare.partitioning.cuts import Cutting
from fieldfare.partitioning.dimension import Dimension
from fieldfare.partitioning.elastic import merge, split
from fieldfare.partitioning.indexes import PartIndexes
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.layouts import clusters, multi_dimensional, replicated, single_dimension
from fieldfare.partitioning.summary import Summary

ATTRIBUTES = [name for kind in MIXED for name in kind.attributes]

# Conditions over any operator and type leave most attributes open, and few events match. These constrain two numbers
# and a string within small ranges, so that subscriptions crowd, meet events, and fall on one matcher.

DENSE = ["x", "y", "s"]
_LETTERS = "abcdefgh"


def _on(name: str) -> st.SearchStrategy[str]:
    low = st.integers(0, 7)
    wrap = (lambda place: repr(_LETTERS[place])) if name == "s" else str
    near = st.builds(lambda a, width: f"{name} BETWEEN {wrap(a)} AND {wrap(min(7, a + width))}", low, st.integers(0, 2))
    others = st.sampled_from(["", f"{name} IS NULL", f"{name} > {wrap(3)}", f"{name} != {wrap(4)}"])
    return st.one_of(near, near, near, low.map(lambda a: f"{name} = {wrap(a)}"), others)


@named
def dense_conditions() -> st.SearchStrategy[str]:
    conjunctions = st.tuples(*(_on(name) for name in DENSE)).map(lambda tests: " AND ".join(filter(None, tests)))
    return st.lists(conjunctions.filter(bool), min_size=1, max_size=2).map(" OR ".join)


def dense_events(*, ranged: bool) -> st.SearchStrategy[Event]:
    letters, numbers = list[Scalar](_LETTERS), list[Scalar](range(8))
    values: dict[str, st.SearchStrategy[Scalar | Range]] = {}
    for name, pool in {"x": numbers, "y": numbers, "s": letters}.items():
        values[name] = st.sampled_from(pool) | ranges(pool) if ranged else st.sampled_from(pool)
    return st.fixed_dictionaries({}, optional=values)


def compiled(texts: Sequence[str]) -> BoxTable:
    result = compile_many(texts)
    assert not result.errors
    return result.table


@st.composite
def layouts(draw: st.DrawFn, table: BoxTable, rows: Sequence[Event], attributes: Sequence[str]) -> Layout:
    """A layout for some boxes, of any kind, after some splits and merges."""
    layout = draw(st.one_of(made(table, rows, attributes), by_hand(attributes)))
    for _ in range(draw(st.integers(0, 3))):
        layout = draw(changed(layout, table))
    return layout


@st.composite
def changed(draw: st.DrawFn, layout: Layout, table: BoxTable) -> Layout:
    matcher = draw(st.sampled_from(layout.matchers))
    if len(layout.matchers) > 1 and draw(st.booleans()):
        return merge(layout, matcher, table)[0]
    return split(layout, matcher, table)[0]


@st.composite
def made(draw: st.DrawFn, table: BoxTable, rows: Sequence[Event], attributes: Sequence[str]) -> Layout:
    """What the constructors make."""
    matchers = draw(st.integers(1, 6))
    dimensions = draw(st.none() | st.lists(st.sampled_from(attributes), min_size=1, max_size=3, unique=True))
    sample = batch_of_rows(rows, attributes) if draw(st.booleans()) else None
    cutting = Cutting(draw(st.sampled_from(["quantile", "equal"])), sample)
    wide_share = draw(st.sampled_from([0.0, 0.3, 0.5, 1.0]))
    one = dimensions[0] if dimensions else None
    match draw(st.integers(0, 3)):
        case 0:
            return replicated(matchers)
        case 1:
            return single_dimension(table, matchers, dimension=one, cutting=cutting, wide_share=wide_share)
        case 2:
            replicas, hops = draw(st.integers(1, matchers)), draw(st.integers(1, 4))
            return clusters(table, matchers, replicas=replicas, hops=hops, dimension=one, cutting=cutting)
        case _:
            return multi_dimensional(table, matchers, dimensions=dimensions, cutting=cutting, wide_share=wide_share)


CUTS: list[Cut] = [
    *((section, 0) for section in (Section.NAN, Section.BOOLEAN)),
    (Section.BOOLEAN, 1),
    *((Section.NUMBER, value) for value in (-1.5, 0.0, 1.0, 3.0, 5.0, 2.0**53, 2**53 + 1, 2**63 - 1, 2.0**63)),
    *((Section.STRING, value) for value in (b"", b"a", b"a\x00", b"ab", b"d", "é".encode(), b"\xc4")),
    *((Section.TIME, value) for value in (-1, 1_704_067_200_000_000)),
]


@st.composite
def by_hand(draw: st.DrawFn, attributes: Sequence[str]) -> Layout:
    """Any cuts at all, with any number of matchers for each segment and any hops."""
    chosen = draw(st.lists(st.sampled_from(attributes), min_size=1, max_size=3, unique=True))
    matchers = draw(st.integers(1, 5))
    dimensions = []
    for attribute in chosen:
        cuts = draw(st.sets(st.sampled_from(CUTS), max_size=matchers - 1).map(sorted))
        extra = draw(st.lists(st.integers(0, len(cuts)), min_size=matchers, max_size=matchers))
        groups: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
        for place, matcher in enumerate(draw(st.permutations(range(matchers)))):
            groups[place if place < len(groups) else extra[place]].append(matcher)
        hops, gauge = draw(st.integers(1, len(groups))), draw(st.sets(st.sampled_from(CUTS)).map(sorted))
        dimensions.append(Dimension(attribute, tuple(cuts), tuple(map(tuple, groups)), hops, tuple(gauge)))
    return Layout("multi", tuple(dimensions), wide_share=draw(st.sampled_from([0.0, 0.3, 0.6, 1.0])))


def visited(layout: Layout, first: int, count: int, dimension: int) -> list[int]:
    """The parts of a candidate."""
    start, size = layout.starts[dimension], layout.dimensions[dimension].size
    return [start + (first - start + step) % size for step in range(count)]


def check_law(layout: Layout, texts: Sequence[str], rows: Sequence[Event]) -> None:
    """Every candidate of every event finds what one index of all subscriptions finds, and no visit an id twice.

    Also without the visits that a summary of the parts says to skip; one visit is left in any case.
    """
    table = compiled(texts)
    parts = PartIndexes(layout, pa.array(range(len(texts))), table)
    whole = [sorted(ids) for ids in Index(dict(enumerate(texts))).match_rows(rows).to_pylist()]
    candidates = layout.candidates(batch_of_rows(rows, layout.attributes))
    narrowed = [
        Summary.of(layout, table, parts.placement, boxes_max).narrowed(layout, candidates, rows).needed
        for boxes_max in (1, 64)
    ]
    for number, (row, expected) in enumerate(zip(rows, whole, strict=True)):
        for dimension in range(len(layout.dimensions)):
            first, count = int(candidates.first[number, dimension]), int(candidates.count[number, dimension])
            visits = visited(layout, first, count, dimension)
            assert 1 <= len(visits) == len(set(visits))
            for part in visits:
                found = parts.visit(part, [row])[0]
                assert len(found) == len(set(found))
            assert sorted(parts.match(visits, row)) == expected
            for needed in narrowed:
                assert needed is not None
                left = [part for part in visits if needed[number, part]]
                assert left
                assert sorted(parts.match(left, row)) == expected
