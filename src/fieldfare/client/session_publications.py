"""The publications of a session: they are numbered by topic, and sent until each has its answer."""

from __future__ import annotations

from collections.abc import Iterator

from fieldfare.client.awaited_answers import AwaitedAnswers
from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Completed, Failed, Key, Output
from fieldfare.client.unanswered_publications import UnansweredPublication, UnansweredPublications
from fieldfare.errors import FieldfareError
from fieldfare.messages import Accepted, Publish


class SessionPublications:
    """All publications of a session that have no answer yet."""

    def __init__(self, publisher: str, options: SessionOptions, answers: AwaitedAnswers) -> None:
        self.publisher = publisher
        self.unanswered = 0
        self._unanswered_bytes = 0
        self._options = options
        self._answers = answers
        self._topics: dict[str, UnansweredPublications] = {}

    @property
    def has_room(self) -> bool:
        """Whether one more publication may wait for its answer."""
        return (
            self.unanswered < self._options.unanswered_publications_max
            and self._unanswered_bytes < self._options.unanswered_bytes_max
        )

    def keys(self) -> Iterator[Key]:
        """The keys of all that have no answer."""
        return (publication.key for queue in self._topics.values() for publication in queue)

    def publish(self, key: Key, frame: Publish, now: float, *, is_connected: bool) -> list[Output]:
        """Take a publication, and send it at once if nothing of its topic is to be sent before."""
        queue = self._topics.get(frame.topic)
        if queue is None:
            queue = self._topics[frame.topic] = UnansweredPublications(self.publisher)
        publication = queue.add(key, frame)
        self.unanswered += 1
        self._unanswered_bytes += publication.nbytes
        return [self._answers.send(publication, now)] if is_connected and not queue.is_held else []

    def connected(self, now: float) -> list[Output]:
        """Send all that have no answer to a new connection."""
        return [output for queue in self._topics.values() for output in self.send_unsent(queue, now)]

    def disconnected(self) -> None:
        """No answer comes any more: all are to be sent again."""
        for queue in self._topics.values():
            queue.recall()

    def send_unsent(self, queue: UnansweredPublications, now: float) -> list[Output]:
        """Send a topic's publications whose answers are not awaited, unless they wait until the edge is less busy."""
        if self._answers.will_retry(queue):
            return []
        queue.is_held = False
        return [self._answers.send(publication, now) for publication in queue.unsent()]

    # Answers

    def accepted(self, publication: UnansweredPublication, answer: Accepted, now: float) -> list[Output]:
        """The edge stored it."""
        return [Completed(publication.key, answer), *self._settle(publication, now, is_accepted=True)]

    def refused(self, publication: UnansweredPublication, error: FieldfareError, now: float) -> list[Output]:
        """The edge will not have it."""
        return [Failed(publication.key, error), *self._settle(publication, now, is_accepted=False)]

    def postponed(self, publication: UnansweredPublication, now: float) -> list[Output]:
        """The edge is too busy: send it again later, with all of its topic that follow it."""
        publication.hold()
        self._answers.retry_later(publication.queue, now)
        return []

    def misnumbered(self, publication: UnansweredPublication, expected: int, now: float) -> list[Output]:
        """The edge expects another number.

        If earlier publications of the topic have no answer, the edge lacks those: wait for them. Else the edge has
        nothing from the expected number on, and all are numbered from there.
        """
        queue = publication.queue
        if not queue.is_first(publication):
            publication.hold()
            return []
        if publication.first == expected:
            return self.postponed(publication, now)
        publication.hold()
        self._answers.recall(queue.recall())
        queue.renumber(expected)
        return self.send_unsent(queue, now)

    def _settle(self, publication: UnansweredPublication, now: float, *, is_accepted: bool) -> list[Output]:
        """A publication has its answer; those that waited for it can go."""
        queue = publication.queue
        queue.settle(publication, is_accepted=is_accepted)
        self.unanswered -= 1
        self._unanswered_bytes -= publication.nbytes
        return self.send_unsent(queue, now) if queue.can_go_on else []
