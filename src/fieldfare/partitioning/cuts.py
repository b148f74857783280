"""Where to cut an axis into segments: evenly by what subscriptions ask for and events bring, or into equal widths.

Quantiles are taken from the ends of intervals, which are where an event's answer changes, and from a sample of events
where there is one. A value that many ask for gets a segment of its own, and what is left is divided evenly again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, Cuts
from fieldfare.matching.batch import Batch, Values
from fieldfare.model import Cut, Section, cut_below, section_start

GAUGE_CELLS = 16
SAMPLED = 8_192  # values that a quantile is taken from; a segment of twenty then errs by about 5%


class Ends(NamedTuple):
    """Weights at cuts: what begins there lies above the cut, what ends there lies below it."""

    above: Mapping[Cut, float]
    below: Mapping[Cut, float]

    @property
    def weight(self) -> float:
        """All of it."""
        return sum(self.above.values()) + sum(self.below.values())

    def joined(self, other: Ends) -> Ends:
        """Both together, each with the same weight in all."""
        scale = self.weight / other.weight if self.weight and other.weight else 1.0
        above, below = (
            Counter(mine) + Counter({cut: scale * weight for cut, weight in theirs.items()})
            for mine, theirs in zip(self, other, strict=True)
        )
        return Ends(above, below)


@dataclass(frozen=True, slots=True)
class Cutting:
    """How axes are cut: into segments that hold about as many ends of intervals and events, or of equal width."""

    segments: Literal["quantile", "equal"] = "quantile"
    sample: Batch | None = None  # some events

    def cuts(self, attribute: str, column: AxisColumn | None, segments: int) -> tuple[Cut, ...]:
        """Cuts that divide an attribute's axis into so many segments, or fewer where it has fewer values."""
        if self.segments == "equal" and (equal := _equal_cuts(column, segments)):
            return equal
        return _quantile_cuts(_ends_of_boxes(column).joined(_ends_of_events(self.sample, attribute)), segments)

    def gauge(self, attribute: str, column: AxisColumn | None) -> tuple[Cut, ...]:
        """Cuts between which about as many events lie each: a subscription that spans most of them meets most events.

        Without a sample, numbers are taken to be spread evenly between the ends that subscriptions name.
        """
        events = _ends_of_events(self.sample, attribute)
        if events.above:
            return _quantile_cuts(events, GAUGE_CELLS)
        return _equal_cuts(column, GAUGE_CELLS) or _quantile_cuts(_ends_of_boxes(column), GAUGE_CELLS)


def middle_cut(column: AxisColumn | None, chosen: npt.NDArray[np.bool_], low: Cut, high: Cut) -> Cut | None:
    """A cut that halves what lies between two others: the median of the ends of the chosen boxes, else the middle."""
    if column is not None:
        kept = np.flatnonzero(chosen[column.boxes])
        held = AxisColumn(column.boxes[kept], column.low.take(kept), column.high.take(kept))
        above, below = (
            Counter({cut: weight for cut, weight in ends.items() if low < cut < high}) for ends in _ends_of_boxes(held)
        )
        if above or below:
            return _quantile_cuts(Ends(above, below), 2)[0]
    if low[0] is high[0] is Section.NUMBER:
        middle = (Section.NUMBER, float(low[1]) / 2 + float(high[1]) / 2)
        return middle if low < middle < high else None
    return None


def _quantile_cuts(ends: Ends, segments: int) -> tuple[Cut, ...]:
    """Some of the ends, such that about the same weight lies between each and the next."""
    cuts, before = _dividing(ends)
    if len(cuts) < segments:
        return tuple(cuts)
    chosen, place, done = [], -1, 0.0
    for remaining in range(segments, 1, -1):
        aim = done + (ends.weight - done) / remaining
        above = int(np.searchsorted(before, aim))
        nearest = (
            above - 1 if above == len(cuts) or (above and before[above] - aim > aim - before[above - 1]) else above
        )
        place = min(max(nearest, place + 1), len(cuts) - remaining + 1)
        chosen.append(cuts[place])
        done = before[place]
    return tuple(chosen)


def _dividing(ends: Ends) -> tuple[list[Cut], npt.NDArray[np.float64]]:
    """The cuts that have some weight on either side, each with a different weight below it; and those weights."""
    cuts = sorted({*ends.above, *ends.below})
    before = (
        np.cumsum([ends.below.get(cut, 0.0) for cut in cuts])
        + np.cumsum([0.0, *(ends.above.get(cut, 0.0) for cut in cuts)])[:-1]
    )
    kept = (before > 0.0) & (before < ends.weight) & (before != np.append(before[1:], np.inf))
    if not kept.any():  # such as where all ask for `price > 5`, and 5 is all there is to cut at
        return cuts, before
    return [cut for cut, keep in zip(cuts, kept.tolist(), strict=True) if keep], before[kept]


def _ends_of_boxes(column: AxisColumn | None) -> Ends:
    """The ends of intervals that lie inside a section; the others come from conditions that are open on a side."""
    if column is None:
        return Ends(Counter(), Counter())
    stride = max(1, -(-len(column.boxes) // SAMPLED))
    low, high = (
        zip(map(Section, cuts.sections[::stride].tolist()), cuts.values[::stride].tolist(), strict=True)
        for cuts in (column.low, column.high)
    )
    return Ends(Counter(_inside(low)), Counter(_inside(high)))


def _ends_of_events(sample: Batch | None, attribute: str) -> Ends:
    """The values of an attribute, and the lower ends of its ranges."""
    events: Counter[Cut] = Counter()
    for piece in sample.columns.get(attribute, ()) if sample is not None else ():
        events.update(_inside(cut_below(piece.section, value) for value in _sampled(piece.low)))
    return Ends(events, Counter())


def _sampled(values: Values) -> list[Any]:
    if values.texts is None:
        numbers: list[Any] = values.numbers[:: max(1, -(-len(values.numbers) // SAMPLED))].tolist()
        return numbers
    codes = np.arange(len(values.texts)) if values.codes is None else values.codes
    return [values.texts[code] for code in codes[:: max(1, -(-len(codes) // SAMPLED))].tolist()]


def _inside(cuts: Iterable[Cut]) -> Iterable[Cut]:
    for section, value in cuts:
        is_end = section is Section.END or (section, value) == section_start(section)
        if not is_end and not (isinstance(value, float) and not math.isfinite(value)):
            yield section, value + 0.0 if value == 0 and isinstance(value, float) else value


def _equal_cuts(column: AxisColumn | None, segments: int) -> tuple[Cut, ...]:
    """Cuts at equal distances between the smallest and the largest number that a box begins or ends at."""
    numbers = np.concatenate([_numbers(cuts) for cuts in (column.low, column.high)]) if column else np.empty(0)
    if not len(numbers) or numbers.min() == numbers.max():
        return ()
    shares = np.arange(1, segments) / segments
    places = np.unique(numbers.min() * (1.0 - shares) + numbers.max() * shares + 0.0)
    return tuple((Section.NUMBER, place) for place in places.tolist())


def _numbers(cuts: Cuts) -> npt.NDArray[np.float64]:
    numbers = cuts.values[cuts.sections == Section.NUMBER].astype(np.float64)
    finite: npt.NDArray[np.float64] = numbers[np.isfinite(numbers)]
    return finite
