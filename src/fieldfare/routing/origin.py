"""Another edge's log as this edge sees it: up to where its events of a topic are here, and which ranges may be taken.

    ... cursor | on its way to this log ... | taking

A range is taken if it continues `taking` and was matched with a version of this edge's interest that is not older than
required. What is required grows when a subscription is acknowledged: of an origin that confirmed the version before,
for the events after the position at which it did; of the others for all that is not taken yet.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fieldfare.messages import Follows, LogId, Position, Version
from fieldfare.routing.ports import START
from fieldfare.routing.publication import ImportedEvents
from fieldfare.routing.topic import Topic

_ALWAYS: Position = START - 1  # before all positions, START included


@dataclass(slots=True, eq=False)
class Arrival:
    """A part of a range on its way to this log. When it is stored, the cursor may move."""

    origin: Origin
    upto: Position
    imported: ImportedEvents | None  # None: nothing in it is wanted
    is_safe: bool = False


@dataclass(slots=True, eq=False)
class Origin:
    """A log from which events of a topic come. Without a cursor it is not known yet where they begin."""

    log: LogId
    topic: Topic
    cursor: Position | None = None
    taking: Position = START
    links: list[str] = field(default_factory=list)  # over which it can be reached, the latest last
    resumed_link: str | None = None  # the one over which it was told where to go on
    asked_at: float | None = None  # when it was told to go on, if nothing came since
    is_cursor_unwritten: bool = False
    is_taken_untold: bool = False
    arrivals: deque[Arrival] = field(default_factory=deque)
    held: Follows | None = None  # its next event comes after these positions of other logs, which are not reached yet
    confirmed: list[tuple[Version, Position]] = field(default_factory=list)  # versions, and from where on
    _required: list[tuple[Position, Version]] = field(default_factory=list)  # after a position, at least a version

    @property
    def is_reachable(self) -> bool:
        """Whether there is a way to it."""
        return bool(self.links)

    @property
    def required_version(self) -> Version:
        """The version with which all that comes next may be matched."""
        return max((version for _, version in self._required), default=0)

    def begin(self, cursor: Position) -> None:
        """Events after this position come from there."""
        self.cursor = self.taking = cursor

    # Versions

    def confirm(self, version: Version, position: Position) -> None:
        """It matches with this version of the interest after a position."""
        if not self.confirmed or version > self.confirmed[-1][0]:
            self.confirmed.append((version, position))

    def has_confirmed(self, version: Version) -> bool:
        """Whether it matches with this version or a later one."""
        return bool(self.confirmed) and self.confirmed[-1][0] >= version

    def require(self, version: Version) -> None:
        """From now on, what comes has to be matched with this version, or a later one."""
        after = next((position for confirmed, position in self.confirmed if confirmed >= version), _ALWAYS)
        self._required.append((after, version))
        self.confirmed = [item for item in self.confirmed if item[0] >= version]

    def accepts(self, upto: Position, version: Version) -> bool:
        """Whether a range up to a position, matched with a version, may be taken."""
        return all(version >= required or upto <= after for after, required in self._required)

    # Ranges

    def arrive(self, arrival: Arrival) -> None:
        """A part of a range is taken."""
        self.taking = arrival.upto
        self.arrivals.append(arrival)

    def settle(self) -> bool:
        """Move the cursor over all that is safe. Whether it moved."""
        before = self.cursor
        while self.arrivals and self.arrivals[0].is_safe:
            self.cursor = self.arrivals.popleft().upto
        if self.cursor == before:
            return False
        passed = [item for item in self._required if self.has_got(item[0])]
        if len(passed) > 1:  # behind the cursor only the highest matters
            later = [item for item in self._required if item not in passed]
            self._required = [(_ALWAYS, max(version for _, version in passed)), *later]
        return True

    def has_got(self, position: Position) -> bool:
        """Whether all up to a position of that log is safe here."""
        return self.cursor is not None and self.cursor >= position

    def go_back(self) -> None:
        """What was on its way to this log did not get there: take it again."""
        self.arrivals.clear()
        self.held = None  # what was held comes again as well
        self.taking = self.cursor if self.cursor is not None else START
