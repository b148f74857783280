"""Publishers that leave this edge for another one, and that come from another one. See `messages.move_frames`.

A publisher is *sealed* here when the log says so: from then on it is refused, and told what it takes along. It is
*adopted* here when the log has what it brings: its numbers and ids, by which repetitions are known, and up to where
other logs have its earlier events. It may go on here only when this edge has taken those: so they lie before the next
ones in this log, and subscribers here get them in order. Other edges learn from the events which ones come before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fieldfare.messages import (
    IDS_MAX,
    Adopt,
    Done,
    Follows,
    Identity,
    LogId,
    Predecessor,
    PublisherAdopted,
    PublisherSealed,
    Ref,
    Seal,
    Sealed,
    SealedPublisher,
    SealedTopic,
)
from fieldfare.routing.moved_publisher import (
    AdoptionOfPublisher,
    MovedPublisher,
    MoveState,
    PublisherKey,
    SealOfPublisher,
    SettlingPublisher,
)
from fieldfare.routing.ports import START, LogPort, Replies, Timers
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.topic import Topic, Topics

_BEHIND = "its earlier events are still on their way here from the edge that it left: try again"


@dataclass(frozen=True, slots=True)
class MovePorts:
    """What moving publishers needs of its broker."""

    topics: Topics
    log: LogPort
    replies: Replies
    timers: Timers
    match_ready: Callable[[float], None]  # has all matched that is stored
    is_handing: Callable[[PublisherKey], bool]  # whether events of a publisher are on their way to the pipeline
    is_early: Callable[[Topic, Follows], bool]  # whether events of other logs that come before are not all here
    use: Callable[[Topic], None]  # a topic has a publisher here
    pass_over: Callable[[Topic, float], None]  # tells other edges at once how far the events of a topic go


@dataclass(frozen=True, slots=True)
class AdoptionTimer:
    """Timer key: an adopted publisher has waited long enough for its earlier events."""

    key: PublisherKey


class PublisherMoves:
    """The publishers that have moved, of the edge of a name. Beyond `publishers_max` the oldest are forgotten."""

    def __init__(self, name: str, publishers_max: int, adopt_seconds: float, ports: MovePorts) -> None:
        self.log_id: LogId = ""  # set when it is known
        self._name, self._publishers_max, self._adopt_seconds = name, publishers_max, adopt_seconds
        self._ports, self._topics, self._log, self._replies = ports, ports.topics, ports.log, ports.replies
        self._publishers: OrderedDict[PublisherKey, MovedPublisher] = OrderedDict()
        self._arriving: dict[MovedPublisher, None] = {}  # those that wait until their earlier events are here

    def __len__(self) -> int:
        return len(self._publishers)

    def generation(self, key: PublisherKey) -> int:
        """How often a publisher has moved."""
        moved = self._publishers.get(key)
        return 0 if moved is None else moved.generation

    # What it may publish

    def check(self, topic: Topic, publisher: str | None) -> None:
        """Refuse a publication of a publisher that is not here, or not ready to go on."""
        moved = self._publishers.get((topic.tenant, publisher or ""))
        if moved is None:
            return
        if moved.state is MoveState.SEALED and moved.sealed is not None:
            reason = f"the publisher {publisher!r} has moved to {moved.sealed.target!r}: it goes on there"
            raise Refusal("moved", reason, home=moved.sealed.url or None)
        if moved.state is not MoveState.HERE:
            raise Refusal("busy", f"the publisher {publisher!r} is just moving: try again")
        if self._is_early(moved, topic.name):
            raise Refusal("busy", _BEHIND)
        if topic.ending_replays:
            raise Refusal("busy", "a subscription here is just catching up with its earlier events: try again")

    def follows(self, topic: Topic, publisher: str | None, now: float) -> Follows:
        """After which events of other logs an event comes that a publisher publishes now."""
        moved = self._publishers.get((topic.tenant, publisher or ""))
        return {} if moved is None else moved.follows(topic.name, now)

    def _is_early(self, moved: MovedPublisher, topic: str) -> bool:
        """Whether its earlier events of a topic, as far as they are wanted here, are still to come."""
        earlier = moved.earlier.get(topic)
        if not earlier:
            return False
        follows = {log: each.upto for log, each in earlier.items()}
        return self._ports.is_early(self._topics[moved.key[0], topic], follows)

    # It leaves

    def seal(self, link: str, identity: Identity, frame: Seal, now: float) -> None:
        """Have a publisher leave: first of all, what it published before gets settled."""
        key = identity.tenant, frame.publisher
        for topic in self._topics_of(key):
            require(identity, "publish", topic.name)
        moved = self._get_or_make(key)
        is_late = frame.generation < moved.generation
        if is_late or (frame.generation == moved.generation and moved.state is not MoveState.SEALED):
            raise Refusal("invalid", f"the publisher has moved {moved.generation} times already: this is late")
        match moved.state:
            case MoveState.SEALED:
                self._answer_sealed(moved, link, frame.ref)
            case MoveState.SETTLING | MoveState.SEALING:
                moved.requests.append((link, frame.ref))
            case MoveState.ADOPTING:
                raise Refusal("busy", "the publisher is just coming here: try again")
            case MoveState.HERE:
                moved.requests.append((link, frame.ref))
                moved.move(MoveState.SETTLING)
                sealed_as = SealedPublisher(frame.publisher, frame.generation, frame.target, frame.url)
                settling = SettlingPublisher(moved, sealed_as)
                if not self._log.wait_for_all(settling):
                    self.settled(settling, now)

    def settled(self, settling: SettlingPublisher, now: float) -> None:
        """All that it published is in the log, or was refused: store what it takes along."""
        moved = settling.moved
        self._ports.match_ready(now)
        if self._ports.is_handing(moved.key):
            moved.move(MoveState.HERE)
            reason = "some of its events are on their way to the pipeline: try again in a second"
            self._refuse_all(moved, Refusal("busy", reason))
            return
        moved.move(MoveState.SEALING)
        base = settling.sealed_as
        topics = [self._sealed_topic(moved, topic, now) for topic in self._topics_of(moved.key)]
        sealed = SealedPublisher(base.publisher, base.generation, base.target, base.url, topics)
        self._log.append(PublisherSealed(moved.key[0], now, sealed), SealOfPublisher(moved, sealed, now))

    def not_settled(self, settling: SettlingPublisher, reason: str) -> None:
        """Something that it published may not be in the log: it stays."""
        settling.moved.move(MoveState.HERE)
        self._refuse_all(settling.moved, Refusal("storage", reason))

    def seal_stored(self, seal: SealOfPublisher, now: float) -> None:
        """It has left."""
        moved = seal.moved
        moved.move(MoveState.SEALED)
        moved.seal(seal.sealed, seal.at)
        for each in seal.sealed.topics:
            self._ports.pass_over(self._topics[moved.key[0], each.topic], now)
        for link, ref in moved.take_requests():
            self._answer_sealed(moved, link, ref)

    def seal_failed(self, seal: SealOfPublisher, reason: str) -> None:
        """It stays."""
        seal.moved.move(MoveState.HERE)
        self._refuse_all(seal.moved, Refusal("storage", reason))

    def _answer_sealed(self, moved: MovedPublisher, link: str, ref: Ref) -> None:
        if moved.sealed is not None:
            self._replies.send(link, Sealed(ref, moved.sealed))

    def _topics_of(self, key: PublisherKey) -> list[Topic]:
        """The topics in which something is known of a publisher."""
        tenant, publisher = key
        moved = self._publishers.get(key)
        earlier = {} if moved is None else moved.earlier
        return [
            topic
            for topic in self._topics
            if topic.tenant == tenant
            and (publisher in topic.publishers or topic.name in earlier or topic.published_ids.of(publisher))
        ]

    def _sealed_topic(self, moved: MovedPublisher, topic: Topic, now: float) -> SealedTopic:
        publisher = moved.key[1]
        before = [
            Predecessor(log, each.upto.edge, each.upto.position, each.expired_at - now)
            for log, each in moved.earlier.get(topic.name, {}).items()
            if each.expired_at > now
        ]
        # Where this edge's pipeline matches a topic, its events are in the order in which the pipeline has them.
        if topic.matched > START and not topic.is_home:
            before.append(Predecessor(self.log_id, self._name, topic.matched, topic.offered.lifespan_seconds))
        ids = topic.published_ids.of(publisher)[-IDS_MAX:]
        return SealedTopic(topic.name, topic.publishers.last(publisher), ids, before)

    # It comes

    def adopt(self, link: str, identity: Identity, frame: Adopt, now: float) -> None:
        """Take a publisher that another edge has sealed."""
        sealed = frame.sealed
        for each in sealed.topics:
            require(identity, "publish", each.topic)
            self._ports.use(self._topics.get_or_make(identity.tenant, each.topic))
        moved = self._get_or_make((identity.tenant, sealed.publisher))
        is_here_again = sealed.generation == moved.generation and moved.state is MoveState.HERE
        if sealed.generation <= moved.generation and not is_here_again and moved.state is not MoveState.ADOPTING:
            raise Refusal("invalid", f"the publisher has moved {moved.generation} times already: this is late")
        match moved.state:
            case MoveState.HERE if is_here_again:
                moved.requests.append((link, frame.ref))
                self._arrive(moved, now)
            case MoveState.HERE | MoveState.SEALED:
                moved.requests.append((link, frame.ref))
                adoption = AdoptionOfPublisher(moved, sealed, now, moved.state)
                moved.move(MoveState.ADOPTING)
                self._log.append(PublisherAdopted(identity.tenant, now, sealed), adoption)
            case MoveState.ADOPTING:
                moved.requests.append((link, frame.ref))
            case _:
                raise Refusal("busy", "the publisher is just leaving this edge: try again")

    def adoption_stored(self, adoption: AdoptionOfPublisher, now: float) -> None:
        """It is here; it goes on when its earlier events are."""
        adoption.moved.move(MoveState.HERE)
        self._take_over(adoption.moved, adoption.sealed, adoption.at)
        self._arrive(adoption.moved, now)

    def adoption_failed(self, adoption: AdoptionOfPublisher, reason: str) -> None:
        """It is not here."""
        adoption.moved.move(adoption.before)
        self._refuse_all(adoption.moved, Refusal("storage", reason))

    def _take_over(self, moved: MovedPublisher, sealed: SealedPublisher, at: float) -> None:
        """Know its numbers and ids, and where its earlier events are."""
        moved.adopt(sealed, at, self.log_id)
        tenant, publisher = moved.key
        for each in sealed.topics:
            topic = self._topics.get_or_make(tenant, each.topic)
            topic.has_publisher = True
            topic.has_followers |= any(before.log != self.log_id for before in each.predecessors)
            if each.last >= 0:
                topic.publishers.recover(publisher, each.last)
            topic.published_ids.remember(publisher, each.ids)
            topic.published_ids.confirm(publisher, each.ids)

    def _arrive(self, moved: MovedPublisher, now: float) -> None:
        """Answer when its earlier events are here; if that takes too long, that it is to try again."""
        self._arriving[moved] = None
        self._check_arrived(moved)
        if moved in self._arriving:
            self._ports.timers.set(AdoptionTimer(moved.key), now + self._adopt_seconds)

    def _check_arrived(self, moved: MovedPublisher) -> None:
        if moved.state is MoveState.HERE and not any(self._is_early(moved, topic) for topic in moved.earlier):
            del self._arriving[moved]
            for link, ref in moved.take_requests():
                self._replies.send(link, Done(ref))

    def cursor_moved(self) -> None:
        """More events of other logs are here: some may have been waited for."""
        for moved in list(self._arriving):
            self._check_arrived(moved)

    def due(self, timer: AdoptionTimer) -> None:
        """A publisher has waited long enough."""
        moved = self._publishers.get(timer.key)
        if moved in self._arriving and moved is not None:
            del self._arriving[moved]
            if moved.state is MoveState.HERE:
                self._refuse_all(moved, Refusal("busy", _BEHIND))

    def _refuse_all(self, moved: MovedPublisher, refusal: Refusal) -> None:
        for link, ref in moved.take_requests():
            self._replies.refuse(link, ref, refusal)

    # What is known

    def _get_or_make(self, key: PublisherKey) -> MovedPublisher:
        moved = self._publishers.get(key)
        if moved is None:
            moved = self._publishers[key] = MovedPublisher(key)
        self._publishers.move_to_end(key)
        if len(self._publishers) > self._publishers_max:
            oldest = next(iter(self._publishers.values()))
            if oldest.state in (MoveState.HERE, MoveState.SEALED):
                del self._publishers[oldest.key]
                self._arriving.pop(oldest, None)
        return moved

    def recover(self, record: PublisherSealed | PublisherAdopted) -> None:
        """The log says that a publisher left, or came. Records that a checkpoint covers may come again."""
        sealed = record.sealed
        moved = self._get_or_make((record.tenant, sealed.publisher))
        if sealed.generation <= moved.generation:
            return
        if isinstance(record, PublisherSealed):
            moved.state = MoveState.SEALED
            moved.seal(sealed, record.at)
            for each in sealed.topics:
                topic = self._topics.get_or_make(record.tenant, each.topic)
                topic.has_followers |= any(before.log != self.log_id for before in each.predecessors)
        else:
            moved.state = MoveState.HERE
            self._take_over(moved, sealed, record.at)

    def state(self) -> Iterator[PublisherSealed | PublisherAdopted]:
        """Who has moved, for a checkpoint."""
        for moved in self._publishers.values():
            if moved.sealed is not None:
                kind = PublisherSealed if moved.has_left else PublisherAdopted
                yield kind(moved.key[0], moved.at, moved.sealed)
