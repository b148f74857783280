"""A matcher joins or leaves: BlueDove section III-C.

Who joins takes the upper half of a loaded matcher's segment on every dimension; who leaves hands its segments to the
neighbours. A segment that several matchers serve gains or loses one of them instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from fieldfare.boxes import BoxTable
from fieldfare.errors import LayoutError
from fieldfare.model import Cut
from fieldfare.partitioning.cuts import middle_cut
from fieldfare.partitioning.dimension import Dimension, box_segments
from fieldfare.partitioning.layout import Layout


@dataclass(frozen=True, slots=True)
class Move:
    """Boxes that one matcher held and another now needs, on one dimension."""

    dimension: int
    from_matcher: int
    to_matcher: int
    from_key: str  # of the part that held them, in the layout as it was
    to_key: str  # of the part that holds them now
    boxes: int


Change = tuple[Layout, tuple[Move, ...]]


def split(layout: Layout, matcher: int, table: BoxTable, new_matcher: int | None = None) -> Change:
    """Let a new matcher, the next number unless it is given, take half of what a matcher holds."""
    joining = layout.matchers[-1] + 1 if new_matcher is None else new_matcher
    if joining in layout.matchers:
        raise LayoutError(f"matcher {joining} is in the layout already")
    halved = tuple(_halved(dimension, matcher, joining, table) for dimension in layout.dimensions)
    new = msgspec.structs.replace(layout, dimensions=halved, version=layout.version + 1)
    held = np.diff(new.place(table).starts)
    moves = []
    for number in range(len(halved)):
        source, target = _part(layout, number, matcher), _part(new, number, joining)
        keys = layout.part_key(source), new.part_key(target)
        moves.append(Move(number, matcher, joining, *keys, int(held[target])))
    return new, tuple(moves)


def merge(layout: Layout, matcher: int, table: BoxTable) -> Change:
    """Let a matcher leave: what it alone holds goes to the segment below or, from the first segment, above."""
    if layout.matchers == (matcher,):
        raise LayoutError("the last matcher cannot leave")
    remaining = tuple(_without(dimension, matcher) for dimension in layout.dimensions)
    new = msgspec.structs.replace(layout, dimensions=remaining, version=layout.version + 1)
    held = np.diff(layout.place(table).starts)
    moves = []
    for number, dimension in enumerate(layout.dimensions):
        segment, source = dimension.segment_of(matcher), _part(layout, number, matcher)
        heirs = dimension.matchers[_neighbour(segment)] if dimension.matchers[segment] == (matcher,) else ()
        for heir in heirs:
            keys = layout.part_key(source), new.part_key(_part(new, number, heir))
            moves.append(Move(number, matcher, heir, *keys, int(held[source])))
    return new, tuple(moves)


def _part(layout: Layout, dimension: int, matcher: int) -> int:
    return layout.starts[dimension] + layout.dimensions[dimension].segment_of(matcher)


def _halved(dimension: Dimension, matcher: int, joining: int, table: BoxTable) -> Dimension:
    segment = dimension.segment_of(matcher)
    group = dimension.matchers[segment]
    cut = _middle(dimension, segment, table) if len(group) == 1 else None
    groups = [(*group, joining)] if cut is None else [group, (joining,)]
    return _changed(
        dimension,
        (*dimension.cuts[:segment], *(() if cut is None else (cut,)), *dimension.cuts[segment:]),
        (*dimension.matchers[:segment], *groups, *dimension.matchers[segment + 1 :]),
    )


def _middle(dimension: Dimension, segment: int, table: BoxTable) -> Cut | None:
    if dimension.attribute is None:
        return None
    column = table.axes.get(dimension.attribute)
    first, last = box_segments(dimension.cuts, column, len(table))
    return middle_cut(column, (first <= segment) & (segment <= last), *dimension.bounds(segment))


def _neighbour(segment: int) -> int:
    return segment - 1 if segment else 1


def _without(dimension: Dimension, leaving: int) -> Dimension:
    segment = dimension.segment_of(leaving)
    group = tuple(matcher for matcher in dimension.matchers[segment] if matcher != leaving)
    if group:
        groups = (*dimension.matchers[:segment], group, *dimension.matchers[segment + 1 :])
        return _changed(dimension, dimension.cuts, groups)
    cut = max(segment - 1, 0)  # the one between the segment and its neighbour
    return _changed(
        dimension,
        dimension.cuts[:cut] + dimension.cuts[cut + 1 :],
        dimension.matchers[:segment] + dimension.matchers[segment + 1 :],
    )


def _changed(dimension: Dimension, cuts: tuple[Cut, ...], groups: tuple[tuple[int, ...], ...]) -> Dimension:
    return msgspec.structs.replace(dimension, cuts=cuts, matchers=groups, hops=min(dimension.hops, len(groups)))
