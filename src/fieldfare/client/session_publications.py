"""The publications of a session: they are numbered by topic, and sent until each has its answer.

Numbers belong to a log. At another log the session is another publisher, which begins with 0; what was sent to the
first log and not answered is not sent again there, but ends with an UnknownOutcomeError.
"""

from __future__ import annotations

from collections.abc import Iterator

from fieldfare.client.awaited_answers import AwaitedAnswers, RepeatableRequest
from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Completed, Failed, Key, Output
from fieldfare.client.unanswered_publications import UnansweredPublication, UnansweredPublications
from fieldfare.errors import FieldfareError, UnknownOutcomeError
from fieldfare.messages import Accepted, Advertise, Publish, SealedPublisher


class SessionPublications:
    """All publications of a session that have no answer yet."""

    def __init__(self, publisher: str, options: SessionOptions, answers: AwaitedAnswers) -> None:
        self.publisher = publisher
        self.generation = 0  # how often it has moved to another edge with its numbers
        self.unanswered = 0
        self.is_moving = False  # nothing is sent until it is known where to go on
        self.advertised: dict[str, str | None] = {}  # topics with conditions on what is published there; None: any
        self._first_publisher = publisher
        self._logs_left = 0
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
        outputs: list[Output] = []
        if queue is None:
            queue = self._topics[frame.topic] = UnansweredPublications(self.publisher)
            if self._options.is_movable and frame.topic not in self.advertised:
                self.advertised[frame.topic] = None
                outputs = [self._advertise(frame.topic, now)] if is_connected and not self.is_moving else []
        publication = queue.add(key, frame)
        self.unanswered += 1
        self._unanswered_bytes += publication.nbytes
        may_send = is_connected and not queue.is_held and not self.is_moving
        return [*outputs, self._answers.send(publication, now)] if may_send else outputs

    @property
    def are_in_doubt(self) -> bool:
        """Whether some may have been accepted over a connection that is gone."""
        return any(publication.is_in_doubt for queue in self._topics.values() for publication in queue)

    def connected(self, now: float) -> list[Output]:
        """Send all that have no answer to a new connection, and what is advertised before."""
        if self.is_moving:
            return []
        sent = [output for queue in self._topics.values() for output in self.send_unsent(queue, now)]
        return [*(self._advertise(topic, now) for topic in self.advertised), *sent]

    def leave_log(self) -> list[Output]:
        """The next edge has another log: begin anew there, and give up what may be in the one that is left."""
        self._logs_left += 1
        self.publisher = f"{self._first_publisher}.{self._logs_left}"
        self.generation = 0
        outputs: list[Output] = []
        for topic, queue in self._topics.items():
            for publication in queue.take_doubtful():
                self.unanswered -= 1
                self._unanswered_bytes -= publication.nbytes
                outputs.append(Failed(publication.key, UnknownOutcomeError(topic)))
            queue.begin_anew(self.publisher)
        return outputs

    # Advertising and moving

    def _advertise(self, topic: str, now: float) -> Output:
        return self._answers.send(RepeatableRequest(object(), self.advertisement(topic)), now)

    def advertisement(self, topic: str, generation: int | None = None) -> Advertise:
        """What an edge is told of a topic."""
        own = self.generation if generation is None else generation
        return Advertise(0, topic, self.publisher, self.advertised.get(topic), own)

    @property
    def topics(self) -> list[str]:
        """The topics in which this session publishes."""
        return list(self._topics | self.advertised)

    def sealed(self, sealed: SealedPublisher) -> list[Output]:
        """The edge has all up to these numbers, and will never have more: the rest is for the next edge."""
        self.generation = sealed.generation
        self.is_moving = True
        last = {each.topic: each.last for each in sealed.topics}
        outputs: list[Output] = []
        for topic, queue in self._topics.items():
            self._answers.recall(queue.recall())
            self._answers.cancel(queue)
            for publication in queue.take_accepted(last.get(topic, -1)):
                self.unanswered -= 1
                self._unanswered_bytes -= publication.nbytes
                outputs.append(Completed(publication.key, Accepted(0, len(publication.frame.events))))
        return outputs

    def go_to(self, answers: AwaitedAnswers) -> None:
        """Another session has them from now on, at another edge."""
        self._answers = answers

    def go_on(self, now: float, *, is_connected: bool) -> list[Output]:
        """It is known where to go on: send what waits."""
        self.is_moving = False
        return self.connected(now) if is_connected else []

    def disconnected(self) -> None:
        """No answer comes any more: all are to be sent again."""
        for queue in self._topics.values():
            queue.disconnect()

    def turned_away(self) -> None:
        """The edge took nothing that was sent over this connection: none of it is in doubt by that."""
        for queue in self._topics.values():
            self._answers.recall(queue.recall())

    def send_unsent(self, queue: UnansweredPublications, now: float) -> list[Output]:
        """Send a topic's publications whose answers are not awaited, unless they wait until the edge is less busy."""
        if self._answers.will_retry(queue) or self.is_moving:
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
