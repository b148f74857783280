"""The best placements there are, by trying every broker for every publisher: what POP and GRAPE are compared with.

Messages and hops of publishers add up, so for these each publisher is tried by itself, and the best is exact. Delays
do not: where one publisher is changes the queues of all, and all joint placements cannot be tried. For these, each
publisher in turn goes where all deliveries together are fastest, until none can better it. That is the best that was
found, and not proven to be the best there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldfare.experiments.placement.load_model import LoadModel, Table, waiting
from fieldfare.experiments.placement.workloads import StockPublisher

Places = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one publisher adds at each broker (a column), with the publisher at each place (a row); per second."""

    received: Table
    sent: Table
    passing: Table  # deliveries that pass the broker on their way: a delivery is delayed there once


class BestPlacements:
    """Of one workload with one service time."""

    def __init__(self, model: LoadModel) -> None:
        self._model = model
        self._brokers = list(model.workload.shape.neighbours)
        self._numbers = {name: number for number, name in enumerate(self._brokers)}
        self._parts = [self._parts_of(publisher) for publisher in model.workload.publishers]

    def by_load(self) -> Places:
        """The fewest messages there can be."""
        return self._named([int(np.argmin(parts.received.sum(axis=1))) for parts in self._parts])

    def by_hops(self) -> Places:
        """The fewest hops of all deliveries there can be."""
        return self._named([int(np.argmin(parts.passing.sum(axis=1))) for parts in self._parts])

    def by_delay(self) -> Places:
        """The least delay that was found, from the other two on."""
        found = [self._descend([self._numbers[place] for place in start.values()]) for start in self._starts()]
        return self._named(min(found, key=lambda each: each[0])[1])

    def _starts(self) -> tuple[Places, Places]:
        return self.by_load(), self.by_hops()

    def _descend(self, places: list[int]) -> tuple[float, list[int]]:
        least, improves = float("inf"), True
        while improves:
            improves = False
            for number, tried in enumerate(self._parts):
                others = [each for each in zip(self._parts, places, strict=True) if each[0] is not tried]
                received = tried.received + sum(parts.received[place] for parts, place in others)
                sent = tried.sent + sum(parts.sent[place] for parts, place in others)
                passing = tried.passing + sum(parts.passing[place] for parts, place in others)
                delays = (self._seconds(received, sent) * passing).sum(axis=1)
                best = int(np.argmin(delays))
                if delays[best] < least * (1.0 - 1e-9):
                    improves = improves or best != places[number]
                    least, places[number] = float(delays[best]), best
        return least, places

    def _seconds(self, received: Table, sent: Table) -> Table:
        service = self._model.service
        matching = waiting(received, service.matching_seconds) + service.matching_seconds
        return matching + waiting(sent, service.sending_seconds) + service.sending_seconds + service.link_seconds

    def _parts_of(self, publisher: StockPublisher) -> _Parts:
        shape, size = self._model.workload.shape, len(self._brokers)
        parts = _Parts(np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size)))
        for place, name in enumerate(self._brokers):
            for kind in publisher.kinds:
                rate = publisher.per_second * kind.share
                ways = shape.ways(name, frozenset(kind.deliveries))
                beyond = {broker: kind.deliveries.get(broker, 0) for broker in ways}
                for broker, downstream in reversed(list(ways.items())):  # the farthest first
                    at = self._numbers[broker]
                    parts.received[place, at] += rate
                    parts.sent[place, at] += rate * (len(downstream) + kind.deliveries.get(broker, 0))
                    beyond[broker] += sum(beyond[neighbour] for neighbour in downstream)
                    parts.passing[place, at] += rate * beyond[broker]
        return parts

    def _named(self, places: list[int]) -> Places:
        publishers = self._model.workload.publishers
        return {publisher.name: self._brokers[place] for publisher, place in zip(publishers, places, strict=True)}
