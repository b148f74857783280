"""The publications of one topic that have no answer yet, and their numbers.

A publication keeps its number until an edge says that it has nothing from that number on: only then can a new number
not make one event two. So a publication that failed leaves no gap for long, and one that was sent twice is taken once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from fieldfare.client.outputs import Key
from fieldfare.messages import Publish, Ref


@dataclass(slots=True, eq=False)
class Publication:
    """A publication, as it is to be sent but for its ref and its number."""

    key: Key
    outbox: Outbox
    frame: Publish
    first: int  # the number of its first event
    nbytes: int
    times_sent: int = 0
    ref: Ref | None = None  # while it is in flight

    @property
    def end(self) -> int:
        """The number after its last event."""
        return self.first + len(self.frame.events)

    def sent(self, ref: Ref) -> Publish:
        """The frame to send now."""
        self.times_sent += 1
        self.ref = ref
        return replace(self.frame, ref=ref, sequence=self.first)

    def hold(self) -> None:
        """It was not taken, and is to be sent again."""
        self.ref = None
        self.outbox.is_held = True


@dataclass(slots=True, eq=False)
class Outbox:
    """A topic's unanswered publications, the oldest first."""

    publisher: str
    is_held: bool = False  # some are to be sent again, and new ones wait behind them
    times_busy: int = 0
    _next: int = 0
    _unanswered: dict[Publication, None] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Publication]:
        return iter(self._unanswered)

    def add(self, key: Key, frame: Publish) -> Publication:
        """Take a publication, and number its events."""
        nbytes = sum(memoryview(event).nbytes for event in frame.events)
        publication = Publication(key, self, replace(frame, publisher=self.publisher), self._next, nbytes)
        self._unanswered[publication] = None
        self._next = publication.end
        return publication

    def is_first(self, publication: Publication) -> bool:
        """Whether nothing before it waits for an answer."""
        return next(iter(self._unanswered)) is publication

    @property
    def is_stalled(self) -> bool:
        """Whether what is to be sent again waits for nothing that is in flight before it."""
        return self.is_held and all(publication.ref is None for publication in islice(self._unanswered, 1))

    def unsent(self) -> list[Publication]:
        """Those that are not on their way."""
        return [publication for publication in self._unanswered if publication.ref is None]

    def recall(self) -> list[Ref]:
        """All are to be sent again; no answer to these refs is expected any more."""
        refs = [publication.ref for publication in self._unanswered if publication.ref is not None]
        for publication in self._unanswered:
            publication.ref = None
        return refs

    def settle(self, publication: Publication, *, is_accepted: bool) -> None:
        """A publication has its answer. If an edge will not have it, and was asked once, its numbers are for others."""
        del self._unanswered[publication]
        if is_accepted:
            self.times_busy = 0
        elif publication.times_sent == 1 and publication.end == self._next:
            self._next = publication.first

    def renumber(self, expected: int) -> None:
        """Number all of them anew, from what an edge expects."""
        self._next = expected
        for publication in self._unanswered:
            publication.first = self._next
            self._next = publication.end
