"""The ways to run an application, as values.

Stable: the kinds and the fields of `Way`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from fieldfare.errors import InputError


class WayKind(StrEnum):
    """What stands already, from the least that has to be run to the most."""

    PROCESS = "process"  # an index inside the program: `fieldfare.Index`
    EDGE = "edge"  # one service: `fieldfare serve`
    STAR = "star"  # edges, and routing brokers between them: `fieldfare broker --role edge|routing`
    TREE = "tree"  # brokers without a cycle: `fieldfare broker --role tree`
    REPLICATED = "replicated"  # Spark, where every matcher holds everything
    MULTI = "multi"  # Spark, divided along several attributes
    SINGLE = "single"  # Spark, divided along one
    CLUSTERS = "clusters"  # Spark, R replicas in each cluster, an event visits H clusters
    PEERS = "peers"  # peers without a server: `fieldfare peer`

    @property
    def is_spark(self) -> bool:
        """Whether the pipeline runs it."""
        return self in {WayKind.REPLICATED, WayKind.MULTI, WayKind.SINGLE, WayKind.CLUSTERS}


class Way(msgspec.Struct, frozen=True):
    """One way to run an application.

    `nodes` are edges, tree brokers, matchers or peers; a routing broker is counted beside the edges of a star.
    `replicas` (R) and `hops` (H) are those of "Revisiting CBPS", for clusters.
    """

    kind: WayKind
    nodes: int = 1
    replicas: int = 1
    hops: int = 1

    def __post_init__(self) -> None:
        if self.nodes < 1 or not 1 <= self.replicas <= self.nodes or self.hops < 1:
            raise InputError(f"there is no way {self.kind} of {self.nodes} nodes with R {self.replicas}, H {self.hops}")
        if self.kind in {WayKind.PROCESS, WayKind.EDGE} and self.nodes != 1:
            raise InputError(f"{self.kind} is one node, not {self.nodes}")
        if self.hops > self.clusters:
            raise InputError(f"an event cannot visit {self.hops} of {self.clusters} clusters")

    @property
    def clusters(self) -> int:
        """X of the paper: N = X · R."""
        return self.nodes // self.replicas

    @property
    def load_indicator(self) -> float:
        """I of the paper, the busiest node's load to the mean's, in the worst case: H · R · I = N."""
        return self.clusters / self.hops

    def __str__(self) -> str:
        if self.kind is WayKind.CLUSTERS:
            return f"clusters of {self.nodes} (R {self.replicas}, H {self.hops})"
        return str(self.kind) if self.nodes == 1 else f"{self.kind} of {self.nodes}"
