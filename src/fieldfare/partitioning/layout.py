"""A layout: the assignment of parts of the subscription space to matchers, immutable and versioned.

A part is a segment of a dimension, with an index of its own; BlueDove section III-A. The one law: to visit all the
parts of any one candidate of an event, each together with its dimension's shared part, finds every subscription
that the event matches. The shared part holds what is wide on the dimension, once instead of in most segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from fieldfare.boxes import BoxTable
from fieldfare.errors import LayoutError
from fieldfare.matching.batch import Batch
from fieldfare.partitioning.dimension import Dimension, box_segments
from fieldfare.partitioning.placement import NOBODY, Grouped, Placement, Ranges, Rules, placed, wide_owners

Kind = Literal["multi", "single", "replicated", "clusters"]
WIDE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Candidates:
    """For each event (row) and dimension (column) the parts that together can answer for the event.

    They are `count` parts from `first` on; after the last segment of the dimension comes its first one. Where it is
    known, `needed` says for each event and part whether a visit may find anything: then the others are skipped.
    """

    first: npt.NDArray[np.int32]
    count: npt.NDArray[np.int32]
    needed: npt.NDArray[np.bool_] | None = None


def joined(pieces: Sequence[Candidates]) -> Candidates:
    """The candidates of all events of several pieces; where nothing is known of a piece, all its visits are needed."""
    first, count = (np.concatenate([getattr(each, name) for each in pieces]) for name in ("first", "count"))
    known = [each.needed for each in pieces if each.needed is not None]
    if not known:
        return Candidates(first, count)
    parts = known[0].shape[1]
    needed = [np.ones((len(each.first), parts), np.bool_) if each.needed is None else each.needed for each in pieces]
    return Candidates(first, count, np.concatenate(needed))


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Dimensions, each cut into segments that matchers serve.

    Parts are numbered: first all segments, dimension by dimension, then one shared part for each dimension that has an
    attribute. A subscription that spans more than `wide_share` of a dimension's gauge is held in the shared part.
    """

    kind: Kind
    dimensions: tuple[Dimension, ...]
    version: int = 0
    wide_share: float = WIDE_SHARE

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise LayoutError("a layout needs a dimension; one without an attribute will do")
        if any(set(chain(*dimension.matchers)) != set(self.matchers) for dimension in self.dimensions):
            raise LayoutError("every matcher must serve a segment of every dimension")
        if not 0.0 <= self.wide_share <= 1.0:
            raise LayoutError(f"what share of a dimension is wide lies between 0 and 1; {self.wide_share} does not")

    @staticmethod
    def from_json(text: str | bytes) -> Layout:
        """The layout that `to_json` wrote."""
        try:
            return msgspec.json.decode(text, type=Layout)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise LayoutError(f"this is not a layout: {error}") from error

    def to_json(self) -> str:
        """The layout as text. Strings inside cuts are base64."""
        return msgspec.json.encode(self).decode()

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first part of each dimension; then the first shared part."""
        return (0, *np.cumsum([dimension.size for dimension in self.dimensions]).tolist())

    @cached_property
    def _shared_parts(self) -> tuple[int | None, ...]:
        named = np.cumsum([dimension.attribute is not None for dimension in self.dimensions]).tolist()
        numbers = zip(self.dimensions, named, strict=True)
        return tuple(None if d.attribute is None else self.starts[-1] + number - 1 for d, number in numbers)

    @property
    def part_count(self) -> int:
        """How many parts there are, the shared ones included."""
        return self.starts[-1] + sum(part is not None for part in self._shared_parts)

    @cached_property
    def matchers(self) -> tuple[int, ...]:
        """All the matchers, ascending."""
        return tuple(sorted(chain(*self.dimensions[0].matchers)))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of events that `candidates` reads."""
        return tuple(dimension.attribute for dimension in self.dimensions if dimension.attribute is not None)

    def is_shared(self, part: int) -> bool:
        """Whether a part belongs to a whole dimension, not to one segment."""
        return part >= self.starts[-1]

    def part_dimension(self, part: int) -> int:
        """The number of the dimension of a part."""
        if self.is_shared(part):
            return self._shared_parts.index(part)
        return int(np.searchsorted(self.starts, part, side="right")) - 1

    def part_segment(self, part: int) -> int:
        """The number of a part's segment within its dimension."""
        return part - self.starts[self.part_dimension(part)]

    def shared_part(self, dimension: int) -> int | None:
        """The shared part of a dimension; one without an attribute has none."""
        return self._shared_parts[dimension]

    def shared_part_of(self, part: int) -> int | None:
        """The shared part that is searched together with a part."""
        return None if self.is_shared(part) else self.shared_part(self.part_dimension(part))

    def matchers_of(self, part: int) -> tuple[int, ...]:
        """Those that serve a part, any of which can. A shared part is at hand for all."""
        if self.is_shared(part):
            return self.matchers
        return self.dimensions[self.part_dimension(part)].matchers[self.part_segment(part)]

    def candidates(self, batch: Batch) -> Candidates:
        """For each event, along each dimension, the parts that it must visit. Any one dimension is enough."""
        shape = batch.rows, len(self.dimensions)
        first, count = np.empty(shape, np.int32), np.empty(shape, np.int32)
        for number, dimension in enumerate(self.dimensions):
            low, high = dimension.event_segments(batch)
            first[:, number] = low + self.starts[number]
            count[:, number] = (
                dimension.hops if high is low else np.minimum(high - low + dimension.hops, dimension.size)
            )
        return Candidates(first, count)

    def place(self, table: BoxTable) -> Placement:
        """The boxes that each part holds."""
        grouped = Grouped.of(table)
        ranges, wide = [], []
        for dimension in self.dimensions:
            column = None if dimension.attribute is None else table.axes.get(dimension.attribute)
            ranges.append(box_segments(dimension.cuts, column, len(table)))
            gauged = box_segments(dimension.gauge, column, len(table))
            cells = len(dimension.gauge) + 1
            wide.append(wide_owners(grouped, *gauged, cells, self.wide_share * cells))
        first, last = (np.stack([pair[side] for pair in ranges]) for side in (0, 1))
        shifts = np.stack([dimension.shifts(table, grouped) for dimension in self.dimensions])
        return placed(grouped, Ranges(first, last), np.stack(wide), shifts, self._rules)

    @cached_property
    def _rules(self) -> Rules:
        groups = [group for dimension in self.dimensions for group in dimension.matchers]
        return Rules(
            np.array(self.starts[:-1], np.int64),
            np.array([dimension.size for dimension in self.dimensions], np.int64),
            np.array([NOBODY if part is None else part for part in self._shared_parts], np.int64),
            np.array([group[0] if len(group) == 1 else NOBODY for group in groups], np.int64),
            self._spares,
            np.array([len(self.matchers_of(part)) for part in range(self.part_count)], np.int64),
        )

    @cached_property
    def _spares(self) -> npt.NDArray[np.int64]:
        """For each matcher the parts that get a copy of what would otherwise be held by that matcher alone.

        Along every dimension but the first that is the part of the next matcher clockwise that has no copy yet.
        """
        spares = np.full((self.matchers[-1] + 1, len(self.dimensions) - 1), NOBODY, np.int64)
        for matcher in self.matchers:
            if not all((matcher,) in dimension.matchers for dimension in self.dimensions):
                continue  # whatever it holds, another matcher holds too
            taken = {matcher}
            for number, dimension in enumerate(self.dimensions[1:]):
                segment = dimension.matchers.index((matcher,))
                clockwise = [(segment + step) % dimension.size for step in range(1, dimension.size)]
                free = [other for other in clockwise if taken.isdisjoint(dimension.matchers[other])]
                if free:
                    taken.update(dimension.matchers[free[0]])
                    spares[matcher, number] = self.starts[number + 1] + free[0]
        return spares

    def part_key(self, part: int) -> str:
        """A name for what a part holds, safe as a file name: parts of equal keys hold the same boxes of a table.

        So a part that keeps its key from one version to the next keeps its index.
        """
        if self.is_shared(part):
            return _digest(self._measures, self.part_dimension(part))
        spared_by = np.flatnonzero((self._spares == part).any(axis=1)).tolist()
        spared = [[d.sources(d.segment_of(matcher)) for d in self.dimensions] for matcher in spared_by]
        number = self.part_dimension(part)
        return _digest(self._measures, number, self.dimensions[number].sources(self.part_segment(part)), sorted(spared))

    @cached_property
    def _measures(self) -> Sequence[object]:
        """What decides where a subscription is wide, and in which of several places it is stored."""
        return [self.wide_share, [(d.attribute, d.gauge, d.spread) for d in self.dimensions]]


def _digest(*description: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(description), digest_size=16).hexdigest()
