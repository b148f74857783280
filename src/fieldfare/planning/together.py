"""Several applications on one set of nodes, each in its own way, with its own R and H.

They are placed one after the other, the one that needs most first. A process has a core of its own; memory and network
of a node are divided. What an application takes from the others is the difference between what they could carry with
all the nodes and what they can with those that are left.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fieldfare.errors import ApplicationError
from fieldfare.planning.application import Application
from fieldfare.planning.choosing import Plan, best_of_kinds, chosen, plan
from fieldfare.planning.costs import Costs
from fieldfare.planning.nodes import Nodes, NodeSize
from fieldfare.planning.predicting import Prediction, processes_on, work_of


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """An application among others."""

    application: Application
    alone: Prediction  # with all nodes to itself
    placed: Prediction | None  # with what is left for it; None: nothing is
    cores: int  # that it takes
    memory_bytes: float
    network_bytes: float  # per second, of the node that carries most of it
    nodes: tuple[str, ...]

    @property
    def is_enough(self) -> bool:
        """Whether it gets what it needs beside the others."""
        return self.placed is not None and self.placed.is_enough


class Together(msgspec.Struct, frozen=True):
    """All of them, in the order in which they were given, and what is left."""

    shares: tuple[Share, ...]
    left: tuple[NodeSize, ...]

    @property
    def is_enough(self) -> bool:
        """Whether there is room for all."""
        return all(share.is_enough for share in self.shares)


def together(applications: Sequence[Application], costs: Costs, nodes: Nodes) -> Together:
    """Place applications on the nodes."""
    names = [application.name for application in applications]
    if len(set(names)) < len(names):
        raise ApplicationError("every application needs a name of its own, to be told from the others")
    plans = {application.name: plan(application, costs, nodes, with_thresholds=False) for application in applications}
    left, shares = nodes, {}
    for name in sorted(plans, key=lambda name: _need(plans[name]), reverse=True):
        shares[name], left = _share(plans[name], costs, left)
    return Together(tuple(shares[name] for name in names), left.sizes)


def _need(alone: Plan) -> tuple[float, float]:
    """Who has to be placed first: the one with most processes, then the one with most memory."""
    return alone.recommended.processes, alone.recommended.memory_bytes_per_node


def _share(alone: Plan, costs: Costs, left: Nodes) -> tuple[Share, Nodes]:
    application = alone.application
    roomy = tuple(size for size in left.sizes if _has_room(size))
    free = msgspec.structs.replace(left, sizes=roomy) if roomy else left
    placed = chosen(tuple(best_of_kinds(application, costs, free))) if roomy else None
    if placed is None or not placed.is_enough:
        nothing = Share(
            application=application,
            alone=alone.recommended,
            placed=placed,
            cores=0,
            memory_bytes=0.0,
            network_bytes=0.0,
            nodes=(),
        )
        return nothing, left
    work = work_of(application, placed.way, costs)
    used = processes_on(work, free, application.carried_events_per_second)
    taken = {
        size.name: (members + helpers, work.node_bytes + members * work.member_bytes + helpers * work.helper_bytes)
        for size, members, helpers in used
    }
    remaining = tuple(
        _without(size, *taken[size.name], placed.network_bytes_per_node) if size.name in taken else size
        for size in (*left.sizes, *(size for size, _, _ in used if size.name not in {each.name for each in left.sizes}))
    )
    share = Share(
        application=application,
        alone=alone.recommended,
        placed=placed,
        cores=sum(cores for cores, _ in taken.values()),
        memory_bytes=sum(memory for _, memory in taken.values()),
        network_bytes=placed.network_bytes_per_node,
        nodes=tuple(taken),
    )
    return share, msgspec.structs.replace(left, sizes=remaining)


def _without(size: NodeSize, cores: int, memory: float, network: float) -> NodeSize:
    """A node with what is left of it; a core that is taken is taken whole."""
    return msgspec.structs.replace(
        size,
        cores=max(0, size.cores - cores),
        memory_gib=max(0.0, size.memory_gib - memory / 1024**3),
        network_mbps=max(0.0, size.network_mbps - network * 8 / 1e6),
    )


def _has_room(size: NodeSize) -> bool:
    return size.cores > 0 and size.memory_gib > 0 and size.network_mbps > 0
