"""Replicas by popularity: a cluster that has more to do gets more of the matchers, by their measured speeds.

"Revisiting CBPS", section 4.2, would have a subscription replicated the more, the more events it matches, and nodes
that differ used by what they can do. Subscriptions of a cluster lie together, so the cluster is what gets replicas:
each gets one matcher, and then the next goes to whichever cluster is furthest behind its share of the load.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from fieldfare.errors import LayoutError
from fieldfare.partitioning.layout import Layout


def by_load(layout: Layout, loads: npt.ArrayLike, speeds: npt.ArrayLike | None = None) -> Layout:
    """A layout of one dimension with its matchers divided anew among the same segments.

    `loads` are the seconds of work that come to each segment in the same time, `speeds` those of the matchers in
    ascending order of their numbers; the fastest are given out first.
    """
    (dimension,) = layout.dimensions if len(layout.dimensions) == 1 else (None,)
    if dimension is None:
        raise LayoutError("matchers can only be divided anew along one dimension: in others they serve other segments")
    work = np.asarray(loads, np.float64)
    speed = np.ones(len(layout.matchers)) if speeds is None else np.asarray(speeds, np.float64)
    if work.shape != (dimension.size,) or not (np.isfinite(work) & (work >= 0)).all():
        raise LayoutError(f"{dimension.size} segments need as many loads, none below 0")
    if speed.shape != (len(layout.matchers),) or not (np.isfinite(speed) & (speed > 0)).all():
        raise LayoutError(f"{len(layout.matchers)} matchers need as many speeds, all above 0")
    groups: list[list[int]] = [[] for _ in range(dimension.size)]
    power = np.zeros(dimension.size)
    for place in np.argsort(-speed, kind="stable").tolist():
        empty = power == 0.0
        behind = np.where(empty, np.inf, work / np.where(empty, 1.0, power))
        segment = int(np.lexsort((-work, -behind))[0])  # of several without a matcher, that with the most work
        groups[segment].append(layout.matchers[place])
        power[segment] += speed[place]
    divided = msgspec.structs.replace(dimension, matchers=tuple(tuple(sorted(group)) for group in groups))
    return msgspec.structs.replace(layout, dimensions=(divided,), version=layout.version + 1)


def work_of_busiest(layout: Layout, loads: npt.ArrayLike) -> float:
    """The work of the busiest matcher, where the matchers of a segment share its load evenly."""
    (dimension,) = layout.dimensions
    return float((np.asarray(loads, np.float64) / [len(group) for group in dimension.matchers]).max())
