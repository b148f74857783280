"""What a peer keeps and does for others, and how such numbers are spread over all peers of a ring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeerLoad:
    """State, as it is now, and work since the peer's start."""

    entries_max: int  # the limit that the peer has set itself
    entries: int  # at the leaves for which it answers
    regions: int  # for which it answers, inner ones included
    copied_entries: int  # that it keeps for its neighbours
    path_entries: int  # that it keeps as a hop of multicasts
    messages: int  # that came from other peers
    visits: int  # to its regions
    matched_events: int
    refused_entries: int  # for which it had no room
    splits: int
    merges: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number is spread over peers."""

    mean: float
    median: float
    nine_tenths: float  # as many have at most this
    largest: float
    share_of_top_tenth: float  # of the sum: what the tenth of the peers has that has most

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Spread:
        """The spread of some numbers, one for each peer."""
        ordered = sorted(numbers)
        if not ordered:
            return cls(0.0, 0.0, 0.0, 0.0, 0.0)
        total, count = sum(ordered), len(ordered)
        top = ordered[count - max(1, count // 10) :]
        return cls(
            mean=total / count,
            median=ordered[count // 2],
            nine_tenths=ordered[min(count - 1, count * 9 // 10)],
            largest=ordered[-1],
            share_of_top_tenth=sum(top) / total if total else 0.0,
        )
