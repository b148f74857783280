"""A publication on its way: events that were checked and are new, and how far they have come.

    topic matched here, kept        STORING ──────────────────────────────▶ READY ─▶ ACCEPTED
    topic matched here, not kept    RESERVING ────────────────────────────▶ READY ─▶ ACCEPTED
    topic matched by Spark here     RESERVING ─▶ QUEUED ─▶ HANDING ─▶ REMEMBERING ─▶ ACCEPTED

One that Spark matches at another edge goes the way of those that are matched here. From all but READY a failure of the
log or of the pipeline leads to REFUSED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from msgspec import Raw

from fieldfare.messages import Beside, EventsStored, Publish
from fieldfare.routing.topic import Topic


class PublicationState(Enum):
    """What a publication waits for."""

    STORING = auto()  # its record, to be in the log
    RESERVING = auto()  # the log, to know that positions are used which it does not hold
    QUEUED = auto()  # its publisher's earlier events, to be with the pipeline
    HANDING = auto()  # the pipeline, to have it
    REMEMBERING = auto()  # the log, to have the numbers and ids by which a repetition is found
    READY = auto()  # those before it in its topic, to be matched
    ACCEPTED = auto()
    REFUSED = auto()


_S = PublicationState
_NEXT: Mapping[PublicationState, frozenset[PublicationState]] = {
    _S.STORING: frozenset({_S.READY, _S.REFUSED}),
    _S.RESERVING: frozenset({_S.READY, _S.QUEUED, _S.REFUSED}),
    _S.QUEUED: frozenset({_S.HANDING, _S.REFUSED}),
    _S.HANDING: frozenset({_S.REMEMBERING, _S.REFUSED}),
    _S.REMEMBERING: frozenset({_S.ACCEPTED, _S.REFUSED}),
    _S.READY: frozenset({_S.ACCEPTED}),
    _S.ACCEPTED: frozenset(),
    _S.REFUSED: frozenset(),
}
NOT_SAFE = frozenset({_S.STORING, _S.RESERVING, _S.QUEUED, _S.HANDING})  # a crash would take it


@dataclass(slots=True, eq=False)
class Publication:
    """The part of a Publish frame that did not come before."""

    topic: Topic
    link: str
    frame: Publish
    rows: list[dict[str, Any]]
    record: EventsStored
    events: list[Raw]
    names: list[str]
    ids: list[str]  # the names, where the publisher gave them
    sequence: int | None  # of the first event
    state: PublicationState
    carried: list[Beside | None] | None = None  # beside the attributes of each event; None: nothing
    size_bytes: int = field(init=False)
    is_for_pipeline: bool = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = sum(map(len, self.record.deliveries))
        self.is_for_pipeline = self.topic.is_home

    @property
    def last_numbers(self) -> dict[str, int]:
        """The last number of its publisher, if it numbers its events."""
        if self.sequence is None or self.frame.publisher is None:
            return {}
        following = self.frame.upto or self.sequence + len(self.rows)
        return {self.frame.publisher: following - 1}

    @property
    def queue(self) -> tuple[Topic, str]:
        """Queue key: a named publisher's events stay in order; others are independent."""
        return self.topic, self.frame.publisher or f"{self.record.position}"

    def move(self, state: PublicationState) -> None:
        """It has come one step further."""
        if state not in _NEXT[self.state]:
            raise AssertionError(f"a publication went from {self.state.name} to {state.name}")
        self.state = state


@dataclass(frozen=True, slots=True)
class Repetition:
    """A publication of which all came before: it is accepted when the earlier one is, which may be under way."""

    link: str
    frame: Publish


@dataclass(frozen=True, slots=True)
class PassedNumbers:
    """A publication without events: its publisher, which reads another log, goes on further on there."""

    topic: Topic
    link: str
    frame: Publish
    publisher: str
    sequence: int
    last: int


@dataclass(slots=True, eq=False)
class ImportedEvents:
    """Events from another log on their way into this one. They go the way of publications: STORING, READY, ACCEPTED."""

    topic: Topic
    record: EventsStored
    rows: list[dict[str, Any]]
    is_replayed: bool = False  # they are for one subscription, which reads them from the log
    is_reserving: bool = False  # they wait for the log to know that positions are used which it does not hold
    state: PublicationState = PublicationState.STORING

    @property
    def size_bytes(self) -> int:
        """The size of all events together."""
        return sum(map(len, self.record.deliveries))
