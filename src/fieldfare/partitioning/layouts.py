"""The layouts by name: mPartition, the baselines it is compared with, and clusters.

Segment j of every dimension belongs to matcher j. Where an attribute has too few values for as many segments, its
segments are shared among the matchers, in order, so that each still serves one segment of every dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fieldfare.boxes import BoxTable
from fieldfare.errors import LayoutError
from fieldfare.partitioning.choosing import chosen_attributes
from fieldfare.partitioning.cuts import Cutting
from fieldfare.partitioning.dimension import Dimension, Spread
from fieldfare.partitioning.layout import WIDE_SHARE, Layout

_QUANTILES = Cutting()


def replicated(matchers: int) -> Layout:
    """Every matcher holds everything."""
    return Layout("replicated", (Dimension(None, (), _spread(matchers, 1)),))


def multi_dimensional(
    table: BoxTable,
    matchers: int,
    *,
    dimensions: Sequence[str] | None = None,
    cutting: Cutting = _QUANTILES,
    wide_share: float = WIDE_SHARE,
) -> Layout:
    """mPartition, BlueDove section III-A: every dimension is divided among all matchers, so an event has a choice.

    The dimensions are chosen from the data unless they are given. Where no attribute is of use there is one part.
    """
    attributes = chosen_attributes(table, cutting.sample) if dimensions is None else dimensions
    if not attributes:
        return replicated(matchers)
    if len(set(attributes)) < len(attributes):
        raise LayoutError(f"every dimension must be another attribute, not {', '.join(attributes)}")
    divided = tuple(_dimension(table, attribute, cutting, _spread(matchers, matchers)) for attribute in attributes)
    return Layout("multi", divided, wide_share=wide_share)


def single_dimension(
    table: BoxTable,
    matchers: int,
    *,
    dimension: str | None = None,
    cutting: Cutting = _QUANTILES,
    wide_share: float = WIDE_SHARE,
) -> Layout:
    """One dimension, divided among all matchers: BlueDove's peer-to-peer baseline. An event has no choice."""
    attribute = dimension or next(iter(chosen_attributes(table, cutting.sample)), None)
    if attribute is None:
        return replicated(matchers)
    divided = _dimension(table, attribute, cutting, _spread(matchers, matchers))
    return Layout("single", (divided,), wide_share=wide_share)


def clusters(
    table: BoxTable,
    matchers: int,
    *,
    replicas: int = 1,
    hops: int = 1,
    dimension: str | None = None,
    cutting: Cutting = _QUANTILES,
) -> Layout:
    """One dimension, divided among clusters of `replicas` matchers; an event visits at most `hops` clusters.

    "Revisiting CBPS", section 4.2. Replicas share the events among them, hops the subscriptions: by the next best
    attribute, where there is one, so that events can skip clusters.
    """
    if not 1 <= replicas <= matchers or hops < 1:
        raise LayoutError(f"{matchers} matchers cannot be clusters of {replicas} with {hops} hops")
    found = chosen_attributes(table, cutting.sample)
    attribute = dimension or next(iter(found), None)
    if attribute is None:
        return replicated(matchers)
    divided = _dimension(table, attribute, cutting, _spread(matchers, matchers // replicas), hops)
    other = next((each for each in found if each != attribute), None)
    if divided.hops > 1 and other is not None:
        spread = Spread(other, cutting.cuts(other, table.axes.get(other), divided.hops))
        divided = msgspec.structs.replace(divided, spread=spread)
    return Layout("clusters", (divided,))


def _dimension(
    table: BoxTable, attribute: str, cutting: Cutting, groups: tuple[tuple[int, ...], ...], hops: int = 1
) -> Dimension:
    column = table.axes.get(attribute)
    cuts = cutting.cuts(attribute, column, len(groups))
    if len(cuts) + 1 < len(groups):
        groups = _spread(sum(map(len, groups)), len(cuts) + 1)
    return Dimension(attribute, cuts, groups, min(hops, len(groups)), cutting.gauge(attribute, column))


def _spread(matchers: int, segments: int) -> tuple[tuple[int, ...], ...]:
    """All matchers over so many segments, in order and evenly."""
    if matchers < 1:
        raise LayoutError(f"a layout needs at least 1 matcher, not {matchers}")
    bounds = [-(-segment * matchers // segments) for segment in range(segments + 1)]
    return tuple(tuple(range(bounds[segment], bounds[segment + 1])) for segment in range(segments))
