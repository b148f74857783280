"""Generated stock quotes, and the paper's three kinds of subscription to them.

The paper's quotes are real ones from Yahoo! Finance. Ours are random, with spreads and volumes chosen so that the
conditions which the paper prints take the shares that it states: about a tenth, a half, and all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.float64]
_HIGH_LOW = (0.15, 0.10)  # the limit of the low-rated condition, and the share of quotes beyond it
_VOLUME = (1e6, 0.71)  # two conditions of the medium-rated, independent of each other: half of the quotes meet both
_OPEN_CLOSE = (0.025, 0.71)
_SPREAD = 0.8  # of the logarithm of each value


class Rating(IntEnum):
    """How much of its publisher's traffic a subscriber takes."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


@dataclass(frozen=True, slots=True)
class Quotes:
    """The columns of one stock's quotes that subscriptions ask for."""

    high_low_difference: Column
    open_close_difference: Column
    volume: Column

    def wanted(self, rating: Rating) -> npt.NDArray[np.bool_]:
        """Which quotes a subscription takes: the paper's examples, word for word."""
        if rating is Rating.LOW:
            return np.asarray(self.high_low_difference > _HIGH_LOW[0])
        if rating is Rating.MEDIUM:
            return np.asarray((self.volume > _VOLUME[0]) & (self.open_close_difference > _OPEN_CLOSE[0]))
        return np.ones(len(self.volume), np.bool_)

    def event(self, number: int) -> dict[str, float]:
        """One quote's attributes."""
        return {
            "high_low_difference": float(self.high_low_difference[number]),
            "open_close_difference": float(self.open_close_difference[number]),
            "volume": float(self.volume[number]),
        }


CONDITIONS: Mapping[Rating, str] = {
    Rating.LOW: f"high_low_difference > {_HIGH_LOW[0]}",
    Rating.MEDIUM: f"volume > {_VOLUME[0]:.0f} AND open_close_difference > {_OPEN_CLOSE[0]}",
    Rating.HIGH: "volume IS NOT NULL",
}


def generate(count: int, rng: np.random.Generator) -> Quotes:
    """Quotes of one stock."""
    return Quotes(*(_exceeding(*each, count, rng) for each in (_HIGH_LOW, _OPEN_CLOSE, _VOLUME)))


def _exceeding(limit: float, share: float, count: int, rng: np.random.Generator) -> Column:
    """Values of a log-normal distribution, of which a share is beyond a limit."""
    middle = limit / np.exp(_SPREAD * NormalDist().inv_cdf(1.0 - share))
    return np.asarray(middle * np.exp(_SPREAD * rng.standard_normal(count)))
