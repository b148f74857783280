"""A publisher's table at one broker (the paper's PPTable): running averages of where its deliveries are.

A link that a publication did not take had no deliveries, and that counts too: otherwise a neighbour with many
subscribers to few publications would seem to have more deliveries than it has. (The paper does not say which.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from fieldfare.placement.placement_frames import BrokerName


class DeliveryAverages:
    """Average deliveries of a traced publication that reached this broker: here, and beyond each neighbour.

    The first traces count alike; once there are many, the newest has a constant weight, and older ones fade.
    """

    def __init__(self, newest_weight: float, upstream: BrokerName | None = None) -> None:
        self._weight = newest_weight
        self.upstream = upstream  # where the publications came from; None at the first broker
        self._traces = 0
        self._squared_weights = 0.0  # of all traces in the average, summed; 1/n if n of them count alike
        self._variances: dict[BrokerName, float] = {}  # of what one trace would save with the publisher over that link
        self.local = 0.0
        self.beyond: dict[BrokerName, float] = {}

    @property
    def total(self) -> float:
        """Here and downstream."""
        return self.local + sum(self.beyond.values())

    def add(self, local: int, beyond: Mapping[BrokerName, int]) -> None:
        """One more trace."""
        self._traces += 1
        weight = max(self._weight, 1.0 / self._traces)
        total, total_so_far = local + sum(beyond.values()), self.total
        self._squared_weights = (1.0 - weight) ** 2 * self._squared_weights + weight**2
        self.local += weight * (local - self.local)
        for neighbour in self.beyond.keys() | beyond.keys():
            newest, so_far = beyond.get(neighbour, 0), self.beyond.get(neighbour, 0.0)
            self.beyond[neighbour] = so_far + weight * (newest - so_far)
            unexpected = (2 * newest - total) - (2 * so_far - total_so_far)
            variance = self._variances.get(neighbour, 0.0)
            self._variances[neighbour] = (1.0 - weight) * (variance + weight * unexpected**2)

    def saving_error(self, neighbour: BrokerName) -> float:
        """The standard error of the hops that an event's deliveries are spared with the publisher at that neighbour."""
        sample = 1.0 - self._squared_weights
        variance = self._variances.get(neighbour, 0.0)
        return math.sqrt(variance / sample * self._squared_weights) if sample > 0.0 else 0.0
