"""A publisher that came to this edge, or is leaving it: a state machine.

    never moved ─▶ SETTLING ─▶ SEALING ─▶ SEALED ─▶ ADOPTING ─▶ HERE ─▶ SETTLING …
    never here  ─▶ ADOPTING ─▶ HERE

Where something cannot be stored, it is again what it was before. Of a publisher that never moved nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from fieldfare.messages import Earlier, Follows, LogId, Ref, SealedPublisher

PublisherKey: TypeAlias = tuple[str, str]  # its tenant and its name


class MoveState(Enum):
    """Whether a publisher may publish here."""

    HERE = auto()  # it may
    SETTLING = auto()  # it leaves: what it published before is on its way to the log
    SEALING = auto()  # it leaves: that it does is on its way to the log
    SEALED = auto()  # it has left
    ADOPTING = auto()  # it comes: what it brings is on its way to the log


_S = MoveState
_NEXT: Mapping[MoveState, frozenset[MoveState]] = {
    _S.HERE: frozenset({_S.SETTLING, _S.ADOPTING}),
    _S.SETTLING: frozenset({_S.SEALING, _S.HERE}),
    _S.SEALING: frozenset({_S.SEALED, _S.HERE}),
    _S.SEALED: frozenset({_S.ADOPTING}),
    _S.ADOPTING: frozenset({_S.HERE, _S.SEALED}),
}


@dataclass(frozen=True, slots=True)
class EarlierEvents:
    """A publisher's events of a topic in another log."""

    upto: Earlier
    expired_at: float  # when none of them lives any more


@dataclass(slots=True, eq=False)
class MovedPublisher:
    """One publisher."""

    key: PublisherKey
    state: MoveState = MoveState.HERE
    generation: int = 0  # how often it has moved
    at: float = 0.0  # when it was sealed or adopted last
    sealed: SealedPublisher | None = None  # what it took along when it left, or brought when it came
    has_left: bool = False  # which of them the log says last
    earlier: dict[str, dict[LogId, EarlierEvents]] = field(default_factory=dict)  # by topic, in other logs
    requests: list[tuple[str, Ref]] = field(default_factory=list)  # by link: those to be answered when it has moved

    def move(self, state: MoveState) -> None:
        """It has come one step further, or back."""
        if state not in _NEXT[self.state]:
            raise AssertionError(f"a publisher went from {self.state.name} to {state.name}")
        self.state = state

    def follows(self, topic: str, now: float) -> Follows:
        """After which events of other logs an event comes that it publishes now."""
        earlier = self.earlier.get(topic)
        return {} if earlier is None else {log: each.upto for log, each in earlier.items() if each.expired_at > now}

    def take_requests(self) -> list[tuple[str, Ref]]:
        """Those to be answered now."""
        taken, self.requests = self.requests, []
        return taken

    def seal(self, sealed: SealedPublisher, at: float) -> None:
        """The log has it that it left."""
        self.sealed, self.at, self.generation, self.has_left = sealed, at, sealed.generation, True
        self.earlier.clear()

    def adopt(self, sealed: SealedPublisher, at: float, own_log: LogId) -> None:
        """The log has it that it came. Events of this log itself lie before all that come now."""
        self.sealed, self.at, self.generation, self.has_left = sealed, at, sealed.generation, False
        self.earlier = {
            each.topic: {
                before.log: EarlierEvents(Earlier(before.position, before.edge), at + before.seconds_left)
                for before in each.predecessors
                if before.log != own_log
            }
            for each in sealed.topics
        }


@dataclass(frozen=True, slots=True)
class SettlingPublisher:
    """Waits for all that is on its way to the log."""

    moved: MovedPublisher
    sealed_as: SealedPublisher  # without topics: where it goes


@dataclass(frozen=True, slots=True)
class SealOfPublisher:
    """The record that a publisher left, on its way to the log."""

    moved: MovedPublisher
    sealed: SealedPublisher
    at: float


@dataclass(frozen=True, slots=True)
class AdoptionOfPublisher:
    """The record that a publisher came, on its way to the log."""

    moved: MovedPublisher
    sealed: SealedPublisher
    at: float
    before: MoveState
