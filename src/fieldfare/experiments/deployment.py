"""A layout in use: which subscriptions each part holds, who serves it, and which parts each event may visit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fieldfare.experiments.bluedove_workload import BluedoveWorkload, Floats, Places
from fieldfare.partitioning.layout import Candidates, Layout
from fieldfare.partitioning.placement import Placement


@dataclass(frozen=True)
class Deployment:
    """Where subscriptions lie and events may go. A part that an event visits is a segment of one dimension."""

    layout: Layout
    placement: Placement
    candidates: Candidates

    @property
    def segments(self) -> int:
        """How many parts events are sent to."""
        return self.layout.starts[-1]

    @cached_property
    def matcher_of(self) -> npt.NDArray[np.int64]:
        """The matcher that serves each part."""
        return np.array([self.layout.matchers_of(part)[0] for part in range(self.segments)], np.int64)

    @cached_property
    def searched(self) -> Floats:
        """How many subscriptions lie in each part: what a scan compares with an event that is sent there."""
        return np.array([len(self.boxes(part)) for part in range(self.segments)], np.float64)

    def boxes(self, part: int) -> Places:
        """The subscriptions that are searched in a part, with those that its dimension shares."""
        shared = self.layout.shared_part_of(part)
        held = [self.placement.boxes_of(number) for number in (part, shared) if number is not None]
        return np.concatenate(held).astype(np.int64)

    def rows(self, part: int) -> Places:
        """The events that may be sent to a part."""
        dimension = self.layout.part_dimension(part)
        return np.flatnonzero(self.candidates.first[:, dimension] == part)


def deploy(workload: BluedoveWorkload, layout: Layout) -> Deployment:
    """Place a workload's subscriptions, and find out where its events may go."""
    return Deployment(layout, layout.place(workload.table), layout.candidates(workload.batch))
