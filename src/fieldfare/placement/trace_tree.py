"""The brokers that had a part in a session of GRAPE, as a tree whose root is the publisher's first broker.

Brokers are numbered so that a parent comes before its children. Only links that both ends reported are followed, so
reports that contradict each other make a smaller tree, never a wrong one or an endless walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fieldfare.placement.placement_frames import BrokerDelays, BrokerName, BrokerReport


@dataclass(frozen=True, slots=True)
class TraceTree:
    """Columns, one entry for each broker."""

    published: int  # publications of the session
    brokers: Sequence[BrokerName]
    parents: Sequence[int]  # of the root: -1
    depths: Sequence[int]  # hops from the root
    delivered: Sequence[int]  # bit n: publication n was delivered to a subscriber of this broker
    deliveries: Sequence[int]
    down_seconds: Sequence[float]  # an event takes from being received by the parent to being received here
    up_seconds: Sequence[float]  # the same from here to the parent
    client_seconds: Sequence[float]  # from being received here to a local subscriber

    @property
    def total_deliveries(self) -> int:
        """To all subscribers, in the session."""
        return sum(self.deliveries)


def trace_tree(first_broker: BrokerName, reports: Sequence[BrokerReport], published: int) -> TraceTree | None:
    """The tree of the reports; None if the first broker's own is missing."""
    by_name = {report.broker: report for report in reports}
    if first_broker not in by_name:
        return None
    numbers = {first_broker: 0}
    order, parents, depths = [by_name[first_broker]], [-1], [0]
    for parent, report in enumerate(order):  # grows as it is walked
        for name in report.neighbours:
            child = by_name.get(name)
            if child is not None and name not in numbers and report.broker in child.neighbours:
                numbers[name] = len(order)
                order.append(child)
                parents.append(parent)
                depths.append(depths[parent] + 1)
    mask = (1 << published) - 1  # a bit beyond the session would count as a message that never was
    return TraceTree(
        published,
        [report.broker for report in order],
        parents,
        depths,
        [int.from_bytes(report.delivered, "little") & mask for report in order],
        [report.deliveries for report in order],
        [0.0, *(_seconds(order[parents[at]].delays, order[at].broker) for at in range(1, len(order)))],
        [0.0, *(_seconds(order[at].delays, order[parents[at]].broker) for at in range(1, len(order)))],
        [_handling(report.delays) + report.delays.client_seconds for report in order],
    )


def _handling(delays: BrokerDelays) -> float:
    return delays.input_seconds + delays.matching_seconds


def _seconds(delays: BrokerDelays, neighbour: BrokerName) -> float:
    return _handling(delays) + delays.output_seconds.get(neighbour, 0.0)
