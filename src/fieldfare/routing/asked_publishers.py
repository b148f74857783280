"""What placement asks of the publishers that are connected here: to move to another edge, or to ping some.

Only a publisher that advertises something is asked: its client knows of moves. A client does what it is asked as well
as it can, and an answer may never come; whoever asks has to give up after a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from fieldfare.messages import Candidate, EdgesPinged, Identity, MovePublisher, PingEdges
from fieldfare.routing.moved_publisher import PublisherKey
from fieldfare.routing.ports import Replies
from fieldfare.routing.publisher_advertisements import PublisherAdvertisements
from fieldfare.routing.publisher_moves import PublisherMoves

_UNANSWERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class PingsAnswered:
    """How far edges are from a publisher."""

    publisher: PublisherKey
    number: int  # of the question
    round_trip_seconds: dict[str, float | None] = field(default_factory=dict)  # by the edges' names; None: no answer


@dataclass(frozen=True, slots=True)
class _Question:
    publisher: PublisherKey
    link: str
    candidates: Sequence[Candidate]


class AskedPublishers:
    """Questions to publishers. `on_pinged` is called with the answers to pings."""

    def __init__(self, advertisements: PublisherAdvertisements, moves: PublisherMoves, replies: Replies) -> None:
        self.on_pinged: Callable[[PingsAnswered], None] = lambda _: None
        self._advertisements, self._moves, self._replies = advertisements, moves, replies
        self._numbers = count(1)
        self._questions: OrderedDict[int, _Question] = OrderedDict()

    def move(self, publisher: PublisherKey, target: Candidate) -> bool:
        """Ask a publisher to move to another edge. False: it is not connected, or cannot be asked."""
        link = self._advertisements.link_of(publisher)
        if link is None:
            return False
        generation = self._moves.generation(publisher) + 1
        self._replies.send(link, MovePublisher(publisher[1], generation, target.name, target.url))
        return True

    def ping(self, publisher: PublisherKey, candidates: Sequence[Candidate]) -> int | None:
        """Ask a publisher how far some edges are. Returns the number of the question; None: it cannot be asked."""
        link = self._advertisements.link_of(publisher)
        if link is None:
            return None
        number = next(self._numbers)
        self._questions[number] = _Question(publisher, link, tuple(candidates))
        if len(self._questions) > _UNANSWERED_MAX:
            self._questions.popitem(last=False)
        self._replies.send(link, PingEdges(number, list(candidates)))
        return number

    def pinged(self, link: str, _: Identity, frame: EdgesPinged, __: float) -> None:
        """An answer came."""
        question = self._questions.get(frame.number)
        if question is None or question.link != link:
            return
        del self._questions[frame.number]
        names = [each.name for each in question.candidates]
        measured = dict(zip(names, frame.round_trip_seconds, strict=False))
        self.on_pinged(PingsAnswered(question.publisher, frame.number, measured))
