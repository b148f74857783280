"""Which layout is wanted, as plain data: what a command line says, and what another process is told to build."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from fieldfare.boxes import BoxTable
from fieldfare.errors import LayoutError
from fieldfare.partitioning.elastic import merge, split
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.layouts import clusters, multi_dimensional, replicated, single_dimension
from fieldfare.partitioning.replicas import by_load


class LayoutKind(StrEnum):
    """The layouts by name."""

    REPLICATED = "replicated"
    MULTI = "multi"
    SINGLE = "single"
    CLUSTERS = "clusters"


class LayoutPlan(msgspec.Struct, frozen=True):
    """A kind of layout for a number of matchers. Dimensions are chosen from the subscriptions unless they are named."""

    kind: LayoutKind = LayoutKind.REPLICATED
    matchers: int = 1
    dimensions: tuple[str, ...] = ()
    replicas: int = 1
    hops: int = 1

    def __post_init__(self) -> None:
        if self.matchers < 1:
            raise LayoutError(f"a layout needs at least 1 matcher, not {self.matchers}")

    def layout(self, boxes: BoxTable) -> Layout:
        """The layout for these subscriptions."""
        first = next(iter(self.dimensions), None)
        match self.kind:
            case LayoutKind.REPLICATED:
                return replicated(self.matchers)
            case LayoutKind.MULTI:
                return multi_dimensional(boxes, self.matchers, dimensions=self.dimensions or None)
            case LayoutKind.SINGLE:
                return single_dimension(boxes, self.matchers, dimension=first)
            case LayoutKind.CLUSTERS:
                return clusters(boxes, self.matchers, replicas=self.replicas, hops=self.hops, dimension=first)


class Reshape(msgspec.Struct, frozen=True):
    """An earlier layout, with one matcher split or merged away, with matchers divided anew, or as it is."""

    earlier: str  # the layout as JSON
    split: int | None = None
    merge: int | None = None
    loads: tuple[float, ...] | None = None  # of each segment, by which matchers are divided among them

    @staticmethod
    def same(layout: Layout) -> Reshape:
        """The layout as it is, for other subscriptions."""
        return Reshape(layout.to_json())

    def layout(self, boxes: BoxTable) -> Layout:
        """The layout that results."""
        layout = Layout.from_json(self.earlier)
        if self.split is not None:
            return split(layout, self.split, boxes)[0]
        if self.merge is not None:
            return merge(layout, self.merge, boxes)[0]
        return layout if self.loads is None else by_load(layout, self.loads)
