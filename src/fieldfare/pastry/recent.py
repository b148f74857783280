"""What has come already: frames and messages are remembered for some time, so that repeats are recognised.

Numbers of frames hold the time at which they were sent first. Of each sender the latest is remembered for longer: a
frame that is much older has been recorded by somebody, and is played again.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum

from fieldfare.pastry.ports import NodeId

_SENDERS_MAX = 10_000
_LATE_NUMBERS = 25_000 << 20  # in milliseconds: a frame may come so much later than others
FRAME_SECONDS = 30.0  # a frame is given up long before
_GENERATION_MAX = 100_000


class Recent:
    """Two generations: when the younger one is old or large enough, the older one is forgotten.

    So what came is remembered for at least `seconds`, if there is not too much of it.
    """

    __slots__ = ("_began_at", "_older", "_seconds", "_younger")

    def __init__(self, seconds: float = FRAME_SECONDS) -> None:
        self._seconds = seconds
        self._younger: set[Hashable] = set()
        self._older: set[Hashable] = set()
        self._began_at = 0.0

    def is_new(self, item: Hashable, now: float) -> bool:
        """Whether this has not been seen; from now on it has."""
        if item in self._younger or item in self._older:
            return False
        if now - self._began_at > self._seconds or len(self._younger) >= _GENERATION_MAX:
            self._older, self._younger, self._began_at = self._younger, set(), now
        self._younger.add(item)
        return True

    def __contains__(self, item: Hashable) -> bool:
        return item in self._younger or item in self._older


class Age(Enum):
    """What the number of a frame says about it."""

    NEWEST = "it was sent after all that came from there before"
    LATE = "it was overtaken, or comes again"
    TOO_OLD = "somebody has recorded it"


class LatestNumbers:
    """The latest number of each sender, and when it came. The senders that were heard first are forgotten first."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: dict[NodeId, tuple[int, float]] = {}

    def age(self, sender: NodeId, number: int, now: float) -> Age:
        """How old a frame is, by the clock that its sender counts with."""
        latest = self._latest.get(sender)
        if latest is None or number > latest[0]:
            if latest is None and len(self._latest) >= _SENDERS_MAX:
                del self._latest[next(iter(self._latest))]
            self._latest[sender] = number, now
            return Age.NEWEST
        oldest = latest[0] + (int((now - latest[1]) * 1000) << 20) - _LATE_NUMBERS
        return Age.LATE if number >= oldest else Age.TOO_OLD
