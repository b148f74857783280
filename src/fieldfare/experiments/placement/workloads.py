"""Publishers and subscribers in a balanced tree of brokers: the paper's enterprise and random workloads.

Each publisher has its own stock, its own set of brokers with subscribers and, in the enterprise workload, its own main
office, all drawn at random; the paper does not say whether publishers share them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fieldfare.experiments.placement.settings import Distribution, Testbed
from fieldfare.experiments.placement.stock_quotes import Quotes, Rating, generate
from fieldfare.simulation.placement_tree import TreeShape

_SHARES: Mapping[Distribution, Mapping[Rating, float]] = {
    "enterprise": {Rating.LOW: 0.95, Rating.HIGH: 0.05},
    "random": {Rating.LOW: 0.70, Rating.MEDIUM: 0.25, Rating.HIGH: 0.05},
}


@dataclass(frozen=True, slots=True)
class Kind:
    """Publications that the same subscribers want."""

    deliveries: Mapping[str, int]  # by broker
    share: float  # of what the publisher publishes


@dataclass(frozen=True, slots=True)
class StockPublisher:
    """A publisher: where it begins, and the kind of each of its publications, one every `period_seconds`."""

    name: str
    place: str
    period_seconds: float
    phase_seconds: float
    kinds: Sequence[Kind]
    sequence: Sequence[int] = field(repr=False)  # of places in `kinds`
    quotes: Quotes = field(repr=False)  # what is published
    subscribers: Mapping[Rating, Mapping[str, int]]  # how many of each rating are at each broker

    @property
    def per_second(self) -> float:
        """Publications."""
        return 1.0 / self.period_seconds


@dataclass(frozen=True, slots=True)
class StockWorkload:
    """A tree and its publishers."""

    shape: TreeShape
    publishers: Sequence[StockPublisher]
    testbed: Testbed

    @property
    def places(self) -> dict[str, str]:
        """Where publishers begin."""
        return {publisher.name: publisher.place for publisher in self.publishers}


def balanced_tree(brokers: int, fan_out: int) -> TreeShape:
    """Every broker but the last ones has so many children."""
    return TreeShape([(f"b{(number - 1) // fan_out}", f"b{number}") for number in range(1, brokers)])


def stock_workload(
    testbed: Testbed, distribution: Distribution, spread: int, *, fan_out: int, minutes: int, seed: int
) -> StockWorkload:
    """A workload in which a publisher's subscribers are at `spread` brokers."""
    rng = np.random.default_rng(seed)
    shape = balanced_tree(testbed.brokers, fan_out)
    brokers = list(shape.neighbours)
    publishers = []
    for number in range(testbed.publishers):
        subscribers = _subscribers(testbed.subscribers_per_publisher, distribution, brokers, spread, rng)
        period_seconds = 60.0 / int(rng.integers(*testbed.publications_per_minute, endpoint=True))
        quotes = generate(int(minutes * 60 / period_seconds) + 1, rng)
        wanted = np.stack([quotes.wanted(rating) for rating in Rating])
        patterns, sequence = np.unique(wanted, axis=1, return_inverse=True)
        shares = np.bincount(sequence.ravel(), minlength=patterns.shape[1]) / len(quotes.volume)
        kinds = [
            Kind(_deliveries(subscribers, pattern), float(share))
            for pattern, share in zip(patterns.T, shares, strict=True)
        ]
        publishers.append(
            StockPublisher(
                f"stock{number}",
                str(rng.choice(brokers)),
                period_seconds,
                float(rng.uniform(0.0, period_seconds)),
                kinds,
                sequence.ravel().tolist(),
                quotes,
                subscribers,
            )
        )
    return StockWorkload(shape, publishers, testbed)


def _subscribers(
    count: int, distribution: Distribution, brokers: Sequence[str], spread: int, rng: np.random.Generator
) -> dict[Rating, Counter[str]]:
    """How many subscribers of each rating are at each broker."""
    chosen = [str(name) for name in rng.choice(brokers, size=min(spread, len(brokers)), replace=False)]
    found = {}
    for rating, share in _SHARES[distribution].items():
        among = chosen
        if distribution == "enterprise" and spread > 1:
            among = chosen[:1] if rating is Rating.HIGH else chosen[1:]
        found[rating] = Counter(str(name) for name in rng.choice(among, size=round(share * count)))
    return found


def _deliveries(subscribers: Mapping[Rating, Counter[str]], pattern: Sequence[bool]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for rating, counts in subscribers.items():
        if pattern[rating]:
            total.update(counts)
    return dict(total)
