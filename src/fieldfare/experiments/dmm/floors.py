"""How few links could bring an event to all who want it: what the algorithms are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.simulation.transit_stub import TransitStub


def shortest_tree_links(network: TransitStub, source: str, targets: Sequence[str]) -> int:
    """Links of all shortest ways together, each counted once: what routers that multicast would need."""
    return len({link for target in targets for link in network.path(source, target)})


def direct_links(network: TransitStub, source: str, targets: Sequence[str]) -> int:
    """Links of all shortest ways, each counted as often as it is passed: one datagram for each target."""
    return sum(network.hops(source, target) for target in targets)


def spanning_tree_links(network: TransitStub, source: str, targets: Sequence[str]) -> int:
    """Links of the smallest tree in which only the source and the targets themselves send on, by Prim's algorithm."""
    far = {target: network.hops(source, target) for target in targets if target != source}
    total = 0
    while far:
        nearest = min(far, key=far.__getitem__)
        total += far.pop(nearest)
        for target, hops in far.items():
            between = network.hops(nearest, target)
            if between < hops:
                far[target] = between
    return total
