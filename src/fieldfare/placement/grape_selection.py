"""GRAPE, phase 2 (section IV-B): which broker is best for a publisher, by its priority and weight.

Of the metric that has priority, a broker may be worse than the best by what the weight leaves open: scaled from 0 for
the best to 100 for the worst, at most 100 - weight. Of the brokers within that, the other metric decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fieldfare.placement.options import GrapeOptions, Priority
from fieldfare.placement.passages import Measure, Relocation
from fieldfare.placement.placement_frames import BrokerName, PublisherName
from fieldfare.placement.saving_error import messages_error, seconds_error
from fieldfare.placement.trace_tree import TraceTree
from fieldfare.placement.tree_sums import total_delays, total_messages

_ROUNDING = 1e-9  # of a scaled metric: sums in another order differ by as much
_CHOICES_MAX = 8  # that damping may choose from
_MEASURES: Mapping[Priority, Measure] = {"load": "messages", "delay": "seconds"}


@dataclass(frozen=True, slots=True)
class RatedBroker:
    """What an event of the session would have cost on average, with the publisher at this broker."""

    broker: BrokerName
    hops: int  # from the publisher's broker; 0 is that one
    messages: float  # received by all brokers together
    delay_seconds: float  # from the publisher to the subscribers, summed over its deliveries
    number: int  # in the tree
    way_seconds: float = 0.0  # of that delay, from the publisher to this broker, once
    is_kept: bool = True  # within what the weight leaves open, of the metric that has priority

    def cost(self, priority: Priority) -> float:
        """One of the two metrics."""
        return self.messages if priority == "load" else self.delay_seconds


def rank(
    tree: TraceTree, options: GrapeOptions, publisher_seconds: Mapping[BrokerName, float] | None = None
) -> list[RatedBroker]:
    """The brokers of a session, the best first. Where two are alike, the nearer to the publisher's broker is better.

    `publisher_seconds`: measured one-way delays from the publisher; brokers without one are unreachable and dropped.
    """
    rated = _rate(tree, publisher_seconds)
    if not rated:
        return []
    first: Priority = options.priority
    second: Priority = "delay" if first == "load" else "load"
    limit = 100.0 - options.weight_percent + _ROUNDING
    kept, dropped = [], []
    for broker, worse_percent in zip(rated, scaled([each.cost(first) for each in rated]), strict=True):
        if worse_percent <= limit:
            kept.append(broker)
        else:
            dropped.append(replace(broker, is_kept=False))
    kept.sort(key=lambda each: (_rounded(each.cost(second)), _rounded(each.cost(first)), each.hops, each.broker))
    dropped.sort(key=lambda each: (_rounded(each.cost(first)), _rounded(each.cost(second)), each.hops, each.broker))
    return kept + dropped


def scaled(values: Sequence[float]) -> list[float]:
    """(x - min) / (max - min) * 100; all 0 if they are all alike."""
    low, high = min(values), max(values)
    width = high - low
    return [(value - low) / width * 100.0 if width > _ROUNDING * abs(high) else 0.0 for value in values]


def relocations(
    publisher: PublisherName, tree: TraceTree, ranked: Sequence[RatedBroker], options: GrapeOptions, rate: float
) -> list[Relocation]:
    """The best of those brokers that are better than the publisher's own; `rate` is in events per second.

    If its own broker is dropped by the metric that has priority, that is what a relocation saves; else the other one.
    """
    own_place = next((place for place, each in enumerate(ranked) if each.hops == 0), None)
    if own_place is None:  # the publisher cannot tell what it has, so not either what it would gain
        return []
    own, first = ranked[own_place], options.priority
    second: Priority = "delay" if first == "load" else "load"
    decisive = second if own.is_kept else first
    better = [each for each in ranked[:own_place] if each.cost(decisive) < own.cost(decisive)]
    return [
        Relocation(
            publisher,
            each.broker,
            each.hops,
            _MEASURES[decisive],
            own.cost(decisive),
            each.cost(decisive),
            tree.total_deliveries / tree.published,
            rate,
            _error(tree, own, each, decisive),
        )
        for each in better[:_CHOICES_MAX]
    ]


def _error(tree: TraceTree, own: RatedBroker, other: RatedBroker, priority: Priority) -> float:
    if priority == "load":
        return messages_error(tree, other.number)
    return seconds_error(tree, other.number, own.way_seconds - other.way_seconds)


def _rate(tree: TraceTree, publisher_seconds: Mapping[BrokerName, float] | None) -> list[RatedBroker]:
    deliveries = tree.total_deliveries
    columns = zip(tree.brokers, tree.depths, total_messages(tree), total_delays(tree), strict=True)
    rated = []
    for number, (broker, hops, messages, seconds) in enumerate(columns):
        way_seconds = 0.0 if publisher_seconds is None else publisher_seconds.get(broker, math.nan)
        if math.isfinite(way_seconds):
            delay_seconds = (seconds + deliveries * way_seconds) / tree.published
            rated.append(RatedBroker(broker, hops, messages / tree.published, delay_seconds, number, way_seconds))
    return rated


def _rounded(cost: float) -> float:
    """For comparing: two sums of the same terms in another order must not differ."""
    return float(f"{cost:.9g}")
