"""One region at one peer: its state, its table, and what waits for its state to change.

PREPARED    from a split; says that there is nothing, until the region above is inner and says so
LEAF        active: takes entries and answers for events
SPLITTING   active, but new entries wait until the parts are there; then it is inner
INNER       has active regions below it
COLLECTING  inner, and asks its two halves for their tables, to become a leaf
CLOSING     a leaf again, which takes no entries until its halves have vanished
GIVEN       a half that gave its table away: it answers, but does not vouch for it, and takes no entries
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from fieldfare.dmm.entries import EntryTable
from fieldfare.dmm.messages import Visit
from fieldfare.dmm.spaces import RegionName
from fieldfare.dmm.zcodes import ROOT, ZCode
from fieldfare.pastry.ports import Contact

FIRST_VERSION = 1  # of a whole space that has not been divided yet


class RegionState(Enum):
    """See the module's text."""

    PREPARED = "prepared"
    LEAF = "leaf"
    SPLITTING = "splitting"
    INNER = "inner"
    COLLECTING = "collecting"
    CLOSING = "closing"
    GIVEN = "given"


_TRANSITIONS: dict[RegionState, frozenset[RegionState]] = {
    RegionState.PREPARED: frozenset({RegionState.LEAF, RegionState.INNER}),
    # A leaf is inner at once where a child was there all along.
    RegionState.LEAF: frozenset({RegionState.SPLITTING, RegionState.GIVEN, RegionState.INNER}),
    RegionState.SPLITTING: frozenset({RegionState.INNER, RegionState.LEAF}),
    RegionState.INNER: frozenset({RegionState.COLLECTING}),
    RegionState.COLLECTING: frozenset({RegionState.CLOSING, RegionState.INNER}),
    RegionState.CLOSING: frozenset({RegionState.LEAF}),
    RegionState.GIVEN: frozenset({RegionState.LEAF}),
}
_ANSWERING = frozenset({RegionState.LEAF, RegionState.SPLITTING, RegionState.CLOSING, RegionState.GIVEN})
_INNER = frozenset({RegionState.INNER, RegionState.COLLECTING})


@dataclass(frozen=True, slots=True)
class ChildReport:
    """What a half said of itself."""

    size: int | None  # None: it is inner
    version: int
    at: float


@dataclass(slots=True)
class Region:
    """A region that this peer keeps, for itself or as a replica for a neighbour."""

    name: RegionName
    state: RegionState
    version: int
    table: EntryTable | None  # an inner region has none
    complete_at: float  # before, entries may be missing
    sequence: int = 0  # counts the changes, so that replicas know what they have missed
    is_primary: bool = False  # this peer answers for it
    origin: ZCode = ""  # of a part of a split: the region that split
    rounds_waited: int = 0  # in a state in which it depends on another region
    waiting: set[ZCode] = field(default_factory=set)  # regions whose answers a split or a merge needs
    given: dict[ZCode, tuple[int, int]] = field(default_factory=dict)  # of halves: version and sequence
    reports: dict[ZCode, ChildReport] = field(default_factory=dict)  # of halves
    deferred: list[tuple[Contact, Visit]] = field(default_factory=list)  # until entries are taken again
    copied_lines: set[tuple[str, int]] = field(default_factory=set)  # that neighbours keep, if they keep senders only
    unsplit_size: int = 0  # the size at which no division was found that helps

    def turn(self, state: RegionState) -> None:
        """Go to another state."""
        if state not in _TRANSITIONS[self.state]:
            raise ValueError(f"{self.name} cannot go from {self.state.value} to {state.value}")
        self.state = state
        self.rounds_waited = 0
        if state in _INNER:
            self.table = None
        self.reports.clear()

    def renew_entries(self, expires_at: float) -> None:
        """Let all entries live on until then at least: while it splits or merges nobody can refresh them."""
        if self.table is not None:
            self.table.renew(expires_at)

    @property
    def answers(self) -> bool:
        """Whether events are matched here."""
        return self.state in _ANSWERING

    @property
    def is_inner(self) -> bool:
        """Whether the active regions lie below it."""
        return self.state in _INNER

    @property
    def size(self) -> int:
        """How many entries it has."""
        return 0 if self.table is None else len(self.table)

    def is_needless(self, now: float) -> bool:
        """Whether it is a whole space in which nobody wants anything. Without it events find that there is nothing."""
        is_whole = self.name.code == ROOT and self.version == FIRST_VERSION
        is_empty = self.table is not None and not len(self.table) and not self.table.lines
        return (
            is_whole and is_empty and self.state is RegionState.LEAF and now >= self.complete_at and not self.deferred
        )

    @property
    def kind(self) -> Literal["leaf", "inner", "prepared", "prepared inner"]:
        """What replicas keep of the state: a split or merge that its peer does not survive never happened."""
        if self.state is RegionState.PREPARED:
            return "prepared inner" if self.table is None else "prepared"
        return "inner" if self.is_inner else "leaf"
