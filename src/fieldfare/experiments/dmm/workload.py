"""The paper's subscriptions and publications, drawn at random, and which of them match, by comparing all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfare.experiments.dmm.settings import ATTRIBUTES, VALUE_MAX, VALUE_MIN

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DrawnSubscription:
    """A range for each of some attributes."""

    ranges: dict[str, Range]

    @property
    def condition(self) -> str:
        """As a subscriber writes it."""
        return " AND ".join(f"{name} BETWEEN {low} AND {high}" for name, (low, high) in sorted(self.ranges.items()))


def draw_subscriptions(count: int, rng: random.Random, dimensions: int | None = None) -> list[DrawnSubscription]:
    """One to five attributes each. With `dimensions` so many, of which only the first tells publications apart."""
    drawn = []
    for _ in range(count):
        names = rng.sample(ATTRIBUTES, dimensions or rng.randint(1, 5))
        ranges = {name: _range(rng) for name in names}
        if dimensions is not None:
            ranges |= dict.fromkeys(names[1:], (VALUE_MIN, VALUE_MAX))
        drawn.append(DrawnSubscription(ranges))
    return drawn


def _range(rng: random.Random) -> Range:
    one, other = rng.randint(VALUE_MIN, VALUE_MAX), rng.randint(VALUE_MIN, VALUE_MAX)
    return min(one, other), max(one, other)


def draw_event(rng: random.Random, *, has_all: bool = False) -> dict[str, int]:
    """Values of one to ten attributes, or of all."""
    names = rng.sample(ATTRIBUTES, len(ATTRIBUTES) if has_all else rng.randint(1, len(ATTRIBUTES)))
    return {name: rng.randint(VALUE_MIN, VALUE_MAX) for name in names}


class Oracle:
    """Which subscriptions an event satisfies, found by comparing it with all of them."""

    def __init__(self, subscriptions: Sequence[DrawnSubscription]) -> None:
        anything = (-1, VALUE_MAX)  # an absent attribute has the value -1
        bounds = [[each.ranges.get(name, anything) for name in ATTRIBUTES] for each in subscriptions]
        self._bounds = np.array(bounds, np.int64).reshape(-1, len(ATTRIBUTES), 2)

    def matching(self, event: dict[str, int]) -> list[int]:
        """The numbers of those that are satisfied."""
        values = np.array([event.get(name, -1) for name in ATTRIBUTES])
        inside = (self._bounds[:, :, 0] <= values) & (values <= self._bounds[:, :, 1])
        return [int(number) for number in np.flatnonzero(inside.all(axis=1))]
