"""The publications of one topic that have no answer yet, and their numbers.

A publication keeps its number until the edge says that it stored nothing from that number on: only then can sending it
under another number not store it twice. One whose connection broke before its answer came is *in doubt*: it may be in
the log of that edge, so it must not be sent to another log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from fieldfare.client.outputs import Key
from fieldfare.messages import Publish, Ref


@dataclass(slots=True, eq=False)
class UnansweredPublication:
    """A publication as it is to be sent, but for its ref and its number, which may change."""

    key: Key
    queue: UnansweredPublications  # those of its topic
    frame: Publish
    first: int  # the number of its first event
    nbytes: int
    times_sent: int = 0
    ref: Ref | None = None  # while its answer is awaited
    is_in_doubt: bool = False  # no answer came, over a connection that is gone

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
        """The edge did not take it: it is sent again later, and new ones of its topic wait behind it."""
        self.ref = None
        self.queue.is_held = True


@dataclass(slots=True, eq=False)
class UnansweredPublications:
    """A topic's unanswered publications, the oldest first."""

    publisher: str
    is_held: bool = False  # some are to be sent again, and new ones wait behind them
    times_busy: int = 0
    _next: int = 0
    _unanswered: dict[UnansweredPublication, None] = field(default_factory=dict)

    def __iter__(self) -> Iterator[UnansweredPublication]:
        return iter(self._unanswered)

    def add(self, key: Key, frame: Publish) -> UnansweredPublication:
        """Take a publication, and number its events."""
        nbytes = sum(memoryview(event).nbytes for event in frame.events)
        nbytes += sum(len(payload or b"") for payload in frame.payloads or ())
        publication = UnansweredPublication(key, self, replace(frame, publisher=self.publisher), self._next, nbytes)
        self._unanswered[publication] = None
        self._next = publication.end
        return publication

    def is_first(self, publication: UnansweredPublication) -> bool:
        """Whether nothing before it waits for an answer."""
        return next(iter(self._unanswered)) is publication

    @property
    def can_go_on(self) -> bool:
        """Whether some are to be sent again, and no answer is awaited to the oldest, which they would wait for."""
        return self.is_held and all(publication.ref is None for publication in islice(self._unanswered, 1))

    def unsent(self) -> list[UnansweredPublication]:
        """Those whose answer is not awaited, because they have not been sent or are to be sent again."""
        return [publication for publication in self._unanswered if publication.ref is None]

    def recall(self) -> list[Ref]:
        """All are to be sent again; no answer to the refs that are returned is expected any more."""
        refs = [publication.ref for publication in self._unanswered if publication.ref is not None]
        for publication in self._unanswered:
            publication.ref = None
        return refs

    def disconnect(self) -> None:
        """No answer comes any more: all are to be sent again, and those that were sent are in doubt."""
        for publication in self._unanswered:
            publication.is_in_doubt |= publication.ref is not None
        self.recall()

    def take_doubtful(self) -> list[UnansweredPublication]:
        """Those in doubt, which are removed."""
        doubtful = [publication for publication in self._unanswered if publication.is_in_doubt]
        for publication in doubtful:
            del self._unanswered[publication]
        return doubtful

    def begin_anew(self, publisher: str) -> None:
        """The next edge has another log: nothing of this was ever sent there."""
        self.publisher, self.times_busy = publisher, 0
        for publication in self._unanswered:
            publication.frame = replace(publication.frame, publisher=publisher)
            publication.times_sent = 0
        self.renumber(0)

    def take_accepted(self, last: int) -> list[UnansweredPublication]:
        """Those whose numbers another edge says that it has, up to the last: they are removed.

        That edge has nothing beyond, and will not: what is left is in doubt no more.
        """
        accepted = [publication for publication in self._unanswered if publication.end <= last + 1]
        for publication in accepted:
            del self._unanswered[publication]
        self._next = last + 1
        for publication in self._unanswered:
            publication.first, publication.is_in_doubt = min(publication.first, self._next), False
            self._next = publication.end
        return accepted

    def settle(self, publication: UnansweredPublication, *, is_accepted: bool) -> None:
        """Remove a publication that was answered. The next may have its numbers if it was refused when first sent."""
        del self._unanswered[publication]
        if is_accepted:
            self.times_busy = 0
        elif publication.times_sent == 1 and publication.end == self._next:
            self._next = publication.first

    def renumber(self, expected: int) -> None:
        """Number all of them anew, beginning with the number that the edge expects: it has none of them."""
        self._next = expected
        for publication in self._unanswered:
            publication.first, publication.is_in_doubt = self._next, False
            self._next = publication.end
