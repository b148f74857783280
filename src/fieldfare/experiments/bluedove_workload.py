"""BlueDove's workload (section IV-B) with the knobs its experiments turn: deviation, width, skew of the messages.

Four attributes of length 1,000; each has one hot spot, and ranges lie around it by a cropped normal distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.boxes import BoxTable
from fieldfare.matching.arrow import batch_of_table
from fieldfare.matching.batch import Batch
from fieldfare.matching.bounds import box_table
from fieldfare.matching.index import Index

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

ATTRIBUTES = ("a0", "a1", "a2", "a3")
HOT_SPOTS = (125.0, 375.0, 625.0, 875.0)  # spread evenly over the domain
DOMAIN_LENGTH = 1000.0
NARROW_WIDTH = 1.0  # a subscription lies in one segment, as in the paper's own account of its baseline


@dataclass(frozen=True, slots=True)
class Spec:
    """What to generate. On the first `skewed_attributes` events follow the subscriptions' own hot spots."""

    subscriptions: int = 40_000
    width: float = 250.0
    deviation: float = 250.0
    skewed_attributes: int = 0
    events: int = 65_536
    seed: int = 1


@dataclass(frozen=True, slots=True)
class BluedoveWorkload:
    """Subscriptions as one row of bounds for each attribute, and events."""

    low: Floats  # attributes x subscriptions
    high: Floats
    values: Floats  # attributes x events

    @property
    def table(self) -> BoxTable:
        """The subscriptions, as layouts take them."""
        return box_table(self.low.shape[1], self._bounds(slice(None)))

    @property
    def batch(self) -> Batch:
        """The events, as layouts take them."""
        return batch_of_table(self.events(slice(None)), ATTRIBUTES)

    def events(self, rows: slice | Places) -> pa.Table:
        """Some of the events, as a pipeline has them."""
        return pa.table({name: values[rows] for name, values in zip(ATTRIBUTES, self.values, strict=True)})

    def index(self, boxes: Places) -> Index:
        """An index of some of the subscriptions."""
        return Index.from_boxes(boxes, self._bounds(boxes))

    def _bounds(self, boxes: slice | Places) -> dict[str, tuple[Floats, Floats]]:
        return {
            name: (low[boxes], high[boxes]) for name, low, high in zip(ATTRIBUTES, self.low, self.high, strict=True)
        }


def generate(spec: Spec) -> BluedoveWorkload:
    """The workload; the same spec gives the same one.

    A range that would stick out of the domain is moved inside, so that it keeps its width.
    """
    rng = np.random.default_rng(spec.seed)
    centres = np.stack([_cropped_normal(spot, spec.deviation, spec.subscriptions, rng) for spot in HOT_SPOTS])
    low = np.clip(centres - spec.width / 2, 0.0, DOMAIN_LENGTH - spec.width)
    values = rng.uniform(0.0, DOMAIN_LENGTH, (len(HOT_SPOTS), spec.events))
    for attribute in range(spec.skewed_attributes):
        values[attribute] = _cropped_normal(HOT_SPOTS[attribute], spec.deviation, spec.events, rng)
    return BluedoveWorkload(low, low + spec.width, values)


def _cropped_normal(mean: float, deviation: float, count: int, rng: np.random.Generator) -> Floats:
    """Normal draws inside the domain; those outside are drawn again."""
    draws = rng.normal(mean, deviation, count)
    while len(outside := np.flatnonzero((draws < 0.0) | (draws >= DOMAIN_LENGTH))):
        draws[outside] = rng.normal(mean, deviation, len(outside))
    return draws
