"""The peers: engines of others, fed the same subscriptions in the layout that suits each best.

Each gets its events prepared in its own form before the clock starts, answers in batches, and must find ids, not only
how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from fieldfare.bench.measuring import ChangingEngine
from fieldfare.bench.workload import Workload
from fieldfare.errors import MissingDependencyError


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine to compare with. Its module is imported when it is needed, for its library may not be installed."""

    description: str
    module: str
    engine: str
    boxes_only: bool = False
    for_lists: tuple[str, str] | None = None  # the module and engine for workloads of lists
    regions_only: bool = False

    def knows(self, workload: Workload) -> bool:
        """Whether it can hold these subscriptions at all."""
        if workload.has_lists:
            return self.for_lists is not None
        if workload.is_regions or self.regions_only:
            return workload.is_regions and self.regions_only
        return self.engine != "" and (workload.is_boxes or not self.boxes_only)

    def build(self, workload: Workload, live: int) -> ChangingEngine:
        """The engine with the first `live` subscriptions of a workload."""
        place, name = self.for_lists if workload.has_lists and self.for_lists else (self.module, self.engine)
        try:
            module = import_module(place)
        except ModuleNotFoundError as error:
            advice = f"{error.name} is not installed: pip install 'fieldfare[bench]', or leave it out with --peer"
            raise MissingDependencyError(advice) from error
        engine: Callable[[Workload, int], ChangingEngine] = getattr(module, name)
        return engine(workload, live)


_LISTS = "fieldfare.bench.member_peers"
PEERS: dict[str, Peer] = {
    "numpy": Peer(
        "brute force by column",
        "fieldfare.bench.numpy_peer",
        "NumpyEngine",
        for_lists=(_LISTS, "NumpyMembersEngine"),
    ),
    "duckdb": Peer(
        "a join on one thread",
        "fieldfare.bench.duckdb_peer",
        "DuckdbEngine",
        for_lists=(_LISTS, "DuckdbMembersEngine"),
    ),
    "inverted": Peer("an inverted index by hand, for lists", "", "", for_lists=(_LISTS, "InvertedEngine")),
    "tantivy": Peer(
        "a search engine whose documents are subscriptions, for lists",
        "",
        "",
        for_lists=("fieldfare.bench.tantivy_peer", "TantivyEngine"),
    ),
    "rtree": Peer("libspatialindex, for boxes", "fieldfare.bench.rtree_peer", "RtreeEngine", boxes_only=True),
    "shapely": Peer("GEOS, for places", "fieldfare.bench.shapely_peer", "ShapelyEngine", regions_only=True),
    "h3": Peer("hexagonal cells by hand, for places", "fieldfare.bench.h3_peer", "H3Engine", regions_only=True),
}
