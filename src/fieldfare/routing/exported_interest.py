"""What this edge wants of other logs: a covering of its subscriptions' conditions for each topic, in versions.

A version is in this log before it is sent, so that after a crash no other edge knows a later one. It grows before a
subscription relies on it: the subscription is acknowledged when all origins that can be reached have confirmed the
version, or after a bounded time. It shrinks long after: the client of an unnamed subscription may come back for what
it missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fieldfare.messages import InterestExported, SummariseInterest, TopicKey, Version
from fieldfare.model import Condition
from fieldfare.overlay.covering import Covering, CoveringBuilder
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.ports import Asking, LogPort
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.topic import Topic


@dataclass(frozen=True, slots=True)
class ExportedVersion:
    """A version of an exported interest, on its way to the log."""

    wanted: TopicWanted
    version: Version
    encoded: bytes


@dataclass(frozen=True, slots=True)
class ShrinkingInterest:
    """An interest that is being summarised anew: what was added since the beginning is added again."""

    wanted: TopicWanted


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A subscription that waits for other edges to know what it wants."""

    pending: PendingSubscription
    version: Version
    until: float


@dataclass(slots=True, eq=False)
class TopicWanted:
    """What this edge wants of one topic."""

    topic: Topic
    builder: CoveringBuilder
    version: Version = 0  # 0: nothing was ever wanted
    stored_version: Version = 0  # what other brokers may be told
    encoded: bytes = b""  # of the stored version
    acknowledged: Version | None = None  # what the subscriptions that were acknowledged need; None: there are none
    unconfirmed: deque[Unconfirmed] = field(default_factory=deque)
    added: list[Condition] | None = None  # since it is being summarised anew
    ended_count: int = 0  # subscriptions that ended since it was summarised last
    ended_at: float | None = 0.0  # the last of them; None: since `tidy` was called
    is_unstored: bool = False  # the latest version could not be stored


@dataclass(frozen=True, slots=True)
class InterestPorts:
    """What the exported interest needs of the overlay."""

    log: LogPort
    compiler: Asking
    subscriptions_of: Callable[[Topic], Iterable[Subscription]]  # those of a topic, the pending ones included
    export: Callable[[Topic], None]  # a version of what is wanted of a topic may be sent


class ExportedInterest:
    """What this edge wants of all topics."""

    def __init__(self, boxes_max: int, return_seconds: float, ports: InterestPorts) -> None:
        self._boxes_max, self._return_seconds = boxes_max, return_seconds
        self._log, self._compiler, self._export = ports.log, ports.compiler, ports.export
        self._subscriptions_of = ports.subscriptions_of
        self._topics: dict[TopicKey, TopicWanted] = {}

    def of(self, topic: Topic) -> TopicWanted:
        """What is wanted of a topic."""
        wanted = self._topics.get(topic.key)
        if wanted is None:
            wanted = self._topics[topic.key] = TopicWanted(topic, CoveringBuilder(self._boxes_max))
            wanted.encoded = wanted.builder.covering.encode()
        return wanted

    def __iter__(self) -> Iterator[TopicWanted]:
        return iter(self._topics.values())

    # Growing

    def add(self, topic: Topic, conditions: Sequence[Condition]) -> None:
        """Subscriptions with these conditions are being made."""
        wanted = self.of(topic)
        if wanted.added is not None:
            wanted.added += conditions
        has_grown = [wanted.builder.add(condition) for condition in conditions]
        if any(has_grown):
            self._new_version(wanted)

    def renew(self, topic: Topic, covering: Covering | None = None) -> Version:
        """A new version, with another covering if one is given."""
        wanted = self.of(topic)
        if covering is not None:
            wanted.builder = _builder_of(covering, self._boxes_max)
        self._new_version(wanted)
        return wanted.version

    def _new_version(self, wanted: TopicWanted) -> None:
        wanted.version += 1
        exported = ExportedVersion(wanted, wanted.version, wanted.builder.covering.encode())
        self._log.append(InterestExported(*wanted.topic.key, exported.version, exported.encoded), exported)

    def stored(self, exported: ExportedVersion) -> None:
        """A version is in the log."""
        wanted = exported.wanted
        wanted.stored_version, wanted.encoded = exported.version, exported.encoded
        if exported.version == wanted.version:
            self._export(wanted.topic)

    def not_stored(self, exported: ExportedVersion) -> None:
        """A version is not in the log: try again when `tidy` is called. Nobody was told of it."""
        exported.wanted.is_unstored = True

    # Shrinking

    def ended(self, topic: Topic) -> None:
        """A subscription has ended."""
        wanted = self.of(topic)
        wanted.ended_count += 1
        wanted.ended_at = None

    def tidy(self, now: float) -> None:
        """Where enough subscriptions have ended, find out what is still wanted."""
        for wanted in self._topics.values():
            if wanted.is_unstored:
                wanted.is_unstored = False
                self._new_version(wanted)
            if wanted.topic.matching == "spark":
                continue  # its covering is everything or nothing
            if wanted.ended_at is None:
                wanted.ended_at = now
            is_over = wanted.ended_count and now - wanted.ended_at > self._return_seconds
            if is_over and wanted.added is None and 8 * wanted.ended_count >= len(wanted.topic.takers):
                wanted.ended_count, wanted.added = 0, []
                self._summarise(wanted, [made.condition for made in self._subscriptions_of(wanted.topic)])

    def _summarise(self, wanted: TopicWanted, conditions: Sequence[str]) -> None:
        effect = lambda number: SummariseInterest(number, conditions, self._boxes_max)  # noqa: E731
        self._compiler.ask(effect, ShrinkingInterest(wanted))

    def summarised(self, shrinking: ShrinkingInterest, covering: Covering) -> None:
        """What is wanted has been found anew; what was added meanwhile is wanted as well."""
        wanted = shrinking.wanted
        builder = _builder_of(covering, self._boxes_max)
        for condition in wanted.added or ():
            builder.add(condition)
        wanted.added = None
        if wanted.topic.matching == "spark":
            return  # since a moment ago
        if builder.covering != wanted.builder.covering:
            wanted.builder = builder
            self._new_version(wanted)

    # What survives

    def recover(self, topic: Topic, record: InterestExported) -> None:
        """The log says what other edges may know. It holds until clients have had time to come back."""
        wanted = self.of(topic)
        wanted.version = wanted.stored_version = wanted.acknowledged = record.version
        wanted.builder = _builder_of(Covering.decode(record.wanted), self._boxes_max)
        wanted.encoded = record.wanted

    def started(self, now: float) -> None:
        """All of the log is known: what unnamed subscriptions wanted is wanted until their clients may have come."""
        for wanted in self._topics.values():
            if wanted.version:
                wanted.ended_count, wanted.ended_at = 1 + len(wanted.topic.takers), now

    def state(self) -> Iterator[InterestExported]:
        """What other edges may know, for a checkpoint."""
        for wanted in self._topics.values():
            if wanted.stored_version:
                yield InterestExported(*wanted.topic.key, wanted.stored_version, wanted.encoded)


def _builder_of(covering: Covering, boxes_max: int) -> CoveringBuilder:
    builder = CoveringBuilder(boxes_max)
    builder.replace(covering)
    return builder
