"""How a session's publisher moves to another edge, where another session of the same client goes on: a state machine.

    ADVERTISING   the target is told what will be published there: so it is reached, and allows it
    SEALING       the source is asked to seal the publisher; publications wait
    ADOPTING      the publications are the target's; they wait until it has what the source sealed
    DONE          they go on at the target
    GIVEN_UP      they go on at the source

Until the source is asked to seal, nothing has happened, and the move can be given up. After that it is finished,
however often connections break: only the source knows whether it sealed the publisher, so it is asked again, and what
it has sealed can go on only at the target. Publications are never renumbered, but for what no edge can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeAlias

from fieldfare.client.outputs import Output
from fieldfare.client.session import ClientSession
from fieldfare.errors import FieldfareError, NotConnectedError
from fieldfare.messages import Adopt, Advertise, EdgeFrame, List, Seal, Sealed, Unadvertise

Steps: TypeAlias = list[tuple[ClientSession, list[Output]]]  # what each session's owner is to do, in order


class PublisherMoveState(Enum):
    """How far a move has come."""

    ADVERTISING = auto()
    SEALING = auto()
    ADOPTING = auto()
    DONE = auto()
    GIVEN_UP = auto()


_S = PublisherMoveState
_NEXT: Mapping[PublisherMoveState, frozenset[PublisherMoveState]] = {
    _S.ADVERTISING: frozenset({_S.SEALING, _S.GIVEN_UP}),
    _S.SEALING: frozenset({_S.ADOPTING, _S.GIVEN_UP}),
    _S.ADOPTING: frozenset({_S.DONE, _S.GIVEN_UP}),
    _S.DONE: frozenset(),
    _S.GIVEN_UP: frozenset(),
}


class PublisherMove:
    """One move. It is the key of the requests that it makes: what they are answered with is told to it."""

    def __init__(self, source: ClientSession, target: ClientSession, name: str, url: str) -> None:
        self.state = PublisherMoveState.ADVERTISING
        self.error: FieldfareError | None = None  # why it was given up
        self._source, self._target, self._name, self._url = source, target, name, url
        self._unadvertised = 0  # topics that the target has not answered for

    @property
    def publishing(self) -> ClientSession:
        """The session that has the publications."""
        has_left = self.state in (PublisherMoveState.ADOPTING, PublisherMoveState.DONE)
        return self._target if has_left else self._source

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return not _NEXT[self.state]

    def _move(self, state: PublisherMoveState) -> None:
        if state not in _NEXT[self.state]:
            raise AssertionError(f"a move of a publisher went from {self.state.name} to {state.name}")
        self.state = state

    def begin(self, now: float) -> Steps:
        """Tell the target what will come."""
        frames: list[Advertise | List] = [*self._source.next_advertisements()]
        frames = frames or [List(0, "edges", count_max=1)]  # it is asked something, to know that it is there
        self._unadvertised = len(frames)
        return [(self._target, [output for frame in frames for output in self._target.request(self, frame, now)])]

    def completed(self, answer: EdgeFrame | None, now: float) -> Steps:
        """A request of this move was answered."""
        match self.state:
            case PublisherMoveState.ADVERTISING:
                self._unadvertised -= 1
                return [] if self._unadvertised else self._seal(now)
            case PublisherMoveState.SEALING if isinstance(answer, Sealed):
                return self._adopt(answer, now)
            case PublisherMoveState.ADOPTING:
                self._move(PublisherMoveState.DONE)
                return [(self._target, self._target.resume_publications(now)), (self._source, self._take_back(now))]
        return []

    def _seal(self, now: float) -> Steps:
        self._move(PublisherMoveState.SEALING)
        source = self._source
        source.hold_publications()
        frame = Seal(0, source.publisher, source.generation + 1, self._name, self._url)
        return [(source, source.request(self, frame, now))]

    def _adopt(self, answer: Sealed, now: float) -> Steps:
        source, target, sealed = self._source, self._target, answer.sealed
        if sealed.target != self._name:
            return self.failed(NotConnectedError(f"the publisher has moved to {sealed.target!r} before"), now)
        self._move(PublisherMoveState.ADOPTING)
        settled = source.sealed(sealed)
        target.take_publications(source)
        return [(source, settled), (target, target.request(self, Adopt(0, sealed), now))]

    def _take_back(self, now: float) -> list[Output]:
        """The source is told that what was advertised there does not come any more."""
        publisher, source = self._target.publisher, self._source
        frames = [Unadvertise(0, topic, publisher) for topic in self._target.advertised_topics]
        return [output for frame in frames for output in source.request(object(), frame, now)]

    def failed(self, error: FieldfareError, now: float) -> Steps:
        """A request of this move was refused for good, or the target was not reached in time: stay.

        What was sealed cannot stay: it goes on at the source as another publisher.
        """
        if self.is_over:
            return []
        has_left = self.publishing is self._target
        self._move(PublisherMoveState.GIVEN_UP)
        self.error = error
        source = self._source
        if not has_left:
            return [(source, source.resume_publications(now))]
        source.take_publications(self._target)
        return [(source, [*source.begin_anew(), *source.resume_publications(now)])]
