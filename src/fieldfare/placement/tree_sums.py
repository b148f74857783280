"""Messages and delays of a session, had the publisher been at any one of its brokers: linear in the tree.

The paper computes both anew for each candidate (its Algorithms 1 to 3), in O(N²). Here a pass up the tree sums over
subtrees, and a pass down moves the publisher from a parent to its child, which changes only the link between them:
what the far side wants no longer crosses it, and what the near side wants now does.
"""

from __future__ import annotations

from fieldfare.placement.trace_tree import TraceTree


def total_messages(tree: TraceTree) -> list[int]:
    """For each broker: what all brokers receive in the session if the publisher is there (Algorithms 2 and 3).

    A broker receives what it or a broker beyond it delivers; the publisher's own broker receives every publication.
    """
    below = wanted_below(tree)
    above = wanted_above(tree, below)
    totals = [0] * len(below)
    totals[0] = tree.published + sum(wanted.bit_count() for wanted in below[1:])
    for at in range(1, len(below)):
        totals[at] = totals[tree.parents[at]] - below[at].bit_count() + above[at].bit_count()
    return totals


def wanted_below(tree: TraceTree) -> list[int]:
    """For each broker: the publications that are wanted in its subtree, as bits."""
    below = list(tree.delivered)
    for at in range(len(below) - 1, 0, -1):
        below[tree.parents[at]] |= below[at]
    return below


def wanted_above(tree: TraceTree, below: list[int]) -> list[int]:
    """For each broker: the publications that are wanted outside its subtree.

    What a bit vector holds cannot be taken out of a union again, so the siblings before and after are joined apart.
    """
    above = [0] * len(below)
    so_far = list(tree.delivered)  # for each parent: itself, and the children that were visited
    for at in range(1, len(below)):
        above[at] = so_far[tree.parents[at]]
        so_far[tree.parents[at]] |= below[at]
    after = [0] * len(below)  # for each parent: the children that were visited, from the last on
    for at in range(len(below) - 1, 0, -1):
        above[at] |= after[tree.parents[at]]
        after[tree.parents[at]] |= below[at]
    for at in range(1, len(below)):
        above[at] |= above[tree.parents[at]]
    return above


def total_delays(tree: TraceTree) -> list[float]:
    """For each broker: seconds from it to the subscribers, summed over all deliveries of the session (Algorithm 1)."""
    below = list(tree.deliveries)
    for at in range(len(below) - 1, 0, -1):
        below[tree.parents[at]] += below[at]
    everything = below[0]
    totals = [0.0] * len(below)
    for at, deliveries in enumerate(tree.deliveries):
        totals[0] += deliveries * tree.client_seconds[at] + (below[at] * tree.down_seconds[at] if at else 0.0)
    for at in range(1, len(below)):
        crossing_back = (everything - below[at]) * tree.up_seconds[at]
        totals[at] = totals[tree.parents[at]] - below[at] * tree.down_seconds[at] + crossing_back
    return totals
