"""A topic at one edge: what it offers, who takes its events, and what is known of its publishers."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby, islice
from typing import Any

from fieldfare.messages import (
    DeclareTopic,
    EventsMissed,
    EventsStored,
    Identity,
    Position,
    SubscriptionReplayed,
    TopicKey,
    TopicRemoved,
    TopicStored,
    Warn,
    stream_of,
)
from fieldfare.qos import Matching, Offered, Requested
from fieldfare.routing.interest import Interest
from fieldfare.routing.matches import Matches, attributes_in, entries_of
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.ports import START, Emit
from fieldfare.routing.position_times import PositionTimes
from fieldfare.routing.publishers import Publishers, RecentIds
from fieldfare.routing.reading import StreamReader
from fieldfare.routing.refusal import Refusal, may_see
from fieldfare.routing.taker import Taker

_REPLAYED_MAX = 1000
_COMPARED_MAX = 1000  # names of topics that are looked at for one that may have been meant
_SIMILAR_LENGTH = 3
OWN_LOG = ""  # in place of another log: events of this one that come after those of other logs
_MISSED_MAX = 16  # gaps of other logs that subscribers are told of when they come back


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A declaration that is on its way to the log."""

    topic: Topic
    link: str
    frame: DeclareTopic

    @property
    def record(self) -> TopicStored:
        """What the log is told."""
        topic, frame = self.topic, self.frame
        return TopicStored(*topic.key, frame.offered, frame.matching, topic.offer_version, self.home)

    @property
    def home(self) -> str:
        """The edge whose pipeline matches it, if that is another one: a topic does not move to another home."""
        return self.topic.home if self.frame.matching == "spark" else ""


class Topic:
    """A topic of a tenant. `find` gives a taker of the tenant by the id of its subscription."""

    def __init__(
        self, key: TopicKey, options: EdgeOptions, emit: Emit, find: Callable[[str, str], Taker | None]
    ) -> None:
        self.key = key
        self.tenant, self.name = key
        self.offered = Offered()
        self.matching: Matching = "edge"
        self.interest = Interest()
        self.is_merging = False  # the host puts its index in order
        self.takers: dict[int, Taker] = {}  # by the handles of their conditions
        self.durable_count = 0  # of them
        self.replays: dict[str, Taker] = {}  # those for which events of other logs were read, by the name of that
        self.offer_version = -1  # of what all edges offer; -1: nothing that was agreed upon
        self.home = ""  # the edge whose pipeline matches it; empty: this one
        self.reader: StreamReader[Taker] = StreamReader(key, stream_of(*key), emit, self.stored_matches)
        self.publishers = Publishers(options.publishers_max)
        self.published_ids = RecentIds(options.recent_ids_max)
        self.matched_ids = RecentIds(options.recent_ids_max)  # of events that came back from the pipeline
        self.matched: Position = START  # all events up to here have been matched
        self.stored: Position = START  # the last of them that is in the log
        self.times = PositionTimes()  # when they came
        self.replayed = OrderedDict[str, SubscriptionReplayed]()  # unnamed subscriptions, whose clients may come back
        self.missed: deque[EventsMissed] = deque(maxlen=_MISSED_MAX)
        self.event_count = 0
        self.has_publisher = False  # one came from another edge, or advertised something
        self.has_followers = False  # publishers with earlier events in other logs may have published here
        self.ending_replays = 0  # for which such publishers wait
        self.begins_after: Position = START  # events up to here are those of a topic that was deleted
        self.is_ending = False  # the log is being told that it is deleted
        self.change_count = 0  # declarations that are on their way to the log
        self.handed_count = 0  # publications that are on their way to the pipeline
        self.batch = self.stored_batch = -1  # the pipeline's last that was taken, and that is in the log
        self._find = find

    @property
    def is_home(self) -> bool:
        """Whether the pipeline of this edge matches it."""
        return self.matching == "spark" and not self.home

    @property
    def is_matched_elsewhere(self) -> bool:
        """Whether the pipeline of another edge matches it."""
        return self.matching == "spark" and bool(self.home)

    def can_be_read_by(self, qos: Requested) -> bool:
        """Whether a subscription may find in the log what it has not got."""
        return self.offered.is_kept and (qos.reliability == "reliable" or qos.durability == "transient")

    def insert(self, taker: Taker) -> None:
        """A taker, whose condition is in the index."""
        taker.first_count = self.event_count
        self.takers[taker.index_handle] = taker
        self.durable_count += taker.subscription.is_durable
        if taker.subscription.replay:
            self.replays[taker.subscription.replay] = taker

    def remove(self, taker: Taker) -> None:
        """A subscription ends."""
        del self.takers[taker.index_handle]
        self.durable_count -= taker.subscription.is_durable
        self.replays.pop(taker.subscription.replay, None)
        self.reader.leave(taker)
        self.interest.remove(taker.index_handle)

    def change_condition(self, taker: Taker, handle: int) -> None:
        """The condition of a taker is another one from now on, which is in the index by this handle."""
        del self.takers[taker.index_handle]
        self.interest.remove(taker.index_handle)
        taker.index_handle = handle
        self.takers[handle] = taker

    def remember_replay(self, record: SubscriptionReplayed) -> None:
        """The client of an unnamed subscription may come back for what was read for it."""
        self.replayed[record.subscription] = record
        while len(self.replayed) > _REPLAYED_MAX:
            self.replayed.popitem(last=False)

    def taker_of(self, subscription_id: str) -> Taker | None:
        """The taker of a subscription to this topic."""
        taker = self._find(self.tenant, subscription_id)
        return taker if taker is not None and taker.index_handle in self.takers else None

    # Who wants what

    def matches(self, entries: Sequence[EventEntry], rows: Sequence[Mapping[str, Any]]) -> Matches:
        """Who wants which of some events. In a topic that Spark matches, only its pipeline finds out."""
        if self.matching == "spark":
            return
        takers = self.takers
        for handle, numbers in self.interest.match(rows):
            taker = takers.get(handle)
            if taker is not None:
                yield taker, [entries[number] for number in numbers]

    def stored_matches(self, records: Iterable[EventsStored]) -> Matches:
        """Who wants which of the events of some records: found for all that follow each other together."""
        has_replays = bool(self.replays)

        def kind(record: EventsStored) -> tuple[bool, str | None]:
            origin = OWN_LOG if record.follows else record.origin
            return record.subscriptions is not None, origin if has_replays else None

        for (is_known, origin), group in groupby(records, kind):
            alike = list(group)
            entries = [entry for record in alike for entry in entries_of(record)]
            if is_known:
                yield from self._known_matches(entries, [ids for record in alike for ids in record.subscriptions or ()])
            elif origin is None:
                yield from self.matches(entries, list(map(attributes_in, entries)))
            else:
                yield from self._not_replayed(origin, alike, entries)

    def _not_replayed(self, origin: str, records: Sequence[EventsStored], entries: Sequence[EventEntry]) -> Matches:
        """The same for events of another log, but for takers that have them from reading that log already."""
        if origin == OWN_LOG:
            places = [entry[0] for entry in entries]
        else:
            places = [place for record in records for place in record.origin_positions]
        place_of = dict(zip((entry[0] for entry in entries), places, strict=True))
        for taker, wanted in self.matches(entries, list(map(attributes_in, entries))):
            replayed_upto = taker.subscription.replayed.get(origin, START)
            left = [entry for entry in wanted if place_of[entry[0]] > replayed_upto]
            if left:
                yield taker, left

    def _known_matches(self, entries: Sequence[EventEntry], subscriptions: Sequence[Sequence[str]]) -> Matches:
        """The same where the pipeline has found it out."""
        found: dict[str, list[EventEntry]] = {}
        for entry, ids in zip(entries, subscriptions, strict=True):
            for subscription_id in ids:
                found.setdefault(subscription_id, []).append(entry)
        for subscription_id, wanted in found.items():
            taker = self.replays.get(subscription_id) or self.taker_of(subscription_id)
            if taker is not None:
                yield taker, wanted


class Topics:
    """The topics of an edge."""

    def __init__(self, options: EdgeOptions, emit: Emit, find: Callable[[str, str], Taker | None]) -> None:
        self._options, self._emit, self._find = options, emit, find
        self.kept_from: Position = 0  # the log has no events from before
        self._topics: dict[TopicKey, Topic] = {}
        self._counts: dict[str, int] = {}  # of each tenant
        self._removed: dict[TopicKey, TopicRemoved] = {}
        self.on_created: Callable[[Identity, str], None] = lambda _identity, _name: None  # by being used

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, key: TopicKey) -> bool:
        return key in self._topics

    def __getitem__(self, key: TopicKey) -> Topic:
        return self._topics[key]

    def get_or_make(self, tenant: str, name: str) -> Topic:
        """A topic; one that is not known comes into being, with the default offer."""
        topic = self._topics.get((tenant, name))
        if topic is None:
            count, most = self._counts.get(tenant, 0), self._options.topics_max
            if count >= most:
                raise Refusal("limit", f"there are {most:,} topics already: use one of them")
            topic = self._topics[tenant, name] = Topic((tenant, name), self._options, self._emit, self._find)
            self._counts[tenant] = count + 1
            if (former := self._removed.get(topic.key)) is not None:
                topic.begins_after = topic.matched = topic.stored = former.position
                for publisher, last in former.sequences.items():
                    topic.publishers.recover(publisher, last)
        return topic

    def used_by(self, identity: Identity, name: str) -> Topic:
        """The topic that a client uses. Whether one that is not known comes into being is a matter of settings."""
        topic = self._topics.get((identity.tenant, name))
        if topic is None:
            is_allowed = self._options.auto_create or identity.may("create", name)
            similar = "" if is_allowed and not self._counts.get(identity.tenant) else self._similar(identity, name)
            if not is_allowed:
                raise Refusal(
                    "unknown", f"there is no topic {name!r}{similar}: who may manage it declares it, before it is used"
                )
            topic = self.get_or_make(identity.tenant, name)
            self._emit(Warn(f"the topic {name!r} of tenant {identity.tenant!r} was made because it is used{similar}"))
            self.on_created(identity, name)
        elif topic.is_ending:
            raise Refusal("busy", f"the topic {name!r} is just being deleted: try again")
        return topic

    def _similar(self, identity: Identity, name: str) -> str:
        """Names that may have been meant, of topics that the client may know of."""
        of_tenant = (topic.name for topic in self._topics.values() if topic.tenant == identity.tenant)
        near = (each for each in of_tenant if abs(len(each) - len(name)) <= _SIMILAR_LENGTH)
        seen = [each for each in islice(near, _COMPARED_MAX) if may_see(identity, each)]
        found = [repr(each) for each in get_close_matches(name, seen, n=3)]
        return f"; similar ones are {', '.join(found)}" if found else ""

    def remove(self, key: TopicKey, position: Position, sequences: Mapping[str, int]) -> None:
        """A topic is no more. Should there be one of this name again, its events begin after a position."""
        if self._topics.pop(key, None) is not None:
            self._counts[key[0]] -= 1
        self._removed[key] = TopicRemoved(*key, position, dict(sequences))

    def removed(self) -> list[TopicRemoved]:
        """Those of which the log still has events."""
        self._removed = {key: each for key, each in self._removed.items() if each.position >= self.kept_from}
        return list(self._removed.values())

    def of(self, taker: Taker) -> Topic:
        """The topic of a taker's subscription."""
        return self._topics[taker.subscription.tenant, taker.subscription.topic]
