"""An edge's part in the overlay: what it wants of other edges, what it sends them, and what it takes from them.

    AdvertisedTopics   what publishers here say they will publish, where the topology needs it
    Announcing         what the others are told of this edge
    BrokerLinks        the links to routing brokers, and where each topic is joined
    ExportedInterest   what this edge wants, in versions
    EndpointCounting   how many endpoints of each topic are here, for coordination
    TopicOffers        what topics offer, at every edge the same
    Confirming         subscriptions here that wait until other edges know what they want
    Exports            this edge as an origin
    Imports            this edge as a receiver
    HomeSearches       durable subscriptions that clients ask for here, and other edges may have
    SecondPaths        direct links to other edges, for flows with a latency budget
    Registrations      subscriptions here to topics that Spark matches at another edge
    HomeConditions     subscriptions elsewhere to topics that Spark matches here

They know of each other what their ports say; here they are brought together. An edge without an overlay has none of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from fieldfare.messages import (
    BrokerFrame,
    BrokerIdentity,
    Close,
    Closed,
    Confirm,
    DialBack,
    EdgeRetired,
    EventsStored,
    ExportedEvent,
    Find,
    Follows,
    Found,
    Identity,
    Input,
    Join,
    Joined,
    LeaderSeen,
    Leave,
    LogId,
    Member,
    MemberGone,
    MemberSeen,
    Position,
    Ranges,
    Reached,
    Received,
    Register,
    Resume,
    Send,
    Taken,
    TopicAdvertised,
    TopicGone,
    TopicKey,
    TopicSeen,
    Unreachable,
    Version,
)
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.routing.advertised_topics import AdvertisedPorts, AdvertisedTopics
from fieldfare.routing.announcing import Announcing, AnnouncingPorts
from fieldfare.routing.broker_links import BrokerLinks, HandoverTimer, RedialTimer
from fieldfare.routing.confirming import Confirming, ConfirmingPorts
from fieldfare.routing.endpoint_counts import CountPorts, EndpointCounting
from fieldfare.routing.exported_interest import (
    ExportedInterest,
    InterestPorts,
)
from fieldfare.routing.exporting import ExportOptions, Exports
from fieldfare.routing.handing import HandedPart
from fieldfare.routing.home_conditions import HomeConditions
from fieldfare.routing.home_search import HomeSearch, HomeSearches, NamedRequest, SearchPorts
from fieldfare.routing.importing import ImportingPorts, Imports, accepted_at
from fieldfare.routing.interest import CompiledConditions, covering_of
from fieldfare.routing.origin import Origin
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.ports import Asking, Emit, LogPort, Positions, Timers
from fieldfare.routing.publisher_advertisements import PublisherAdvertisements
from fieldfare.routing.publishing import Publishing
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.registrations import Registrations
from fieldfare.routing.replaying import ReplayingPorts, ReplayOptions, Replays
from fieldfare.routing.second_paths import PathPorts, SecondPaths
from fieldfare.routing.statistics import OverlayStatistics
from fieldfare.routing.taker import Entry, Subscription
from fieldfare.routing.topic import Topic, TopicChange, Topics
from fieldfare.routing.topic_offers import OfferPorts, TopicOffers


@dataclass(frozen=True, slots=True)
class OverlayOptions:
    """How an edge takes part in the overlay. `member` is what other brokers are told of it."""

    member: Member
    confirm_seconds: float = 2.0  # how long a subscription waits for other edges before it is acknowledged
    home_seconds: float = 10.0  # how long one waits for the edge whose pipeline matches its topic, or is refused
    handover_seconds: float = 3.0  # how long a topic stays joined at its former routing broker
    return_seconds: float = 60.0  # how long what an unnamed subscription wanted is wanted after its end
    boxes_max: int = 256  # of a topic's interest; beyond it, boxes are merged (measured by `bench covering`)
    second_paths_max: int = 8  # direct links to other edges, those that they asked for included
    tells_advertisements: bool = False  # whether the topology needs them: what comes is told by `AdvertiseTopic`
    advertise_seconds: float = 2.0  # how long an advertisement waits until the overlay knows of it
    offer_seconds: float = 10.0  # how long who changes a topic waits for coordination, before it is refused as busy
    find_seconds: float = 2.0  # how long other edges are asked for a durable subscription
    tidy_seconds: float = 0.25
    exports: ExportOptions = field(default_factory=ExportOptions)
    replays: ReplayOptions = field(default_factory=ReplayOptions)


@dataclass(frozen=True, slots=True)
class OverlayPorts:
    """What the overlay needs of its edge."""

    emit: Emit
    topics: Topics
    log: LogPort
    positions: Positions
    timers: Timers
    compiler: Asking
    pipeline: Asking
    publishing: Publishing
    subscriptions_of: Callable[[Topic], Iterable[Subscription]]  # those of a topic, the pending ones included
    load: Callable[[], float]  # the share of this edge's places for clients that are taken
    pending_count: Callable[[TopicKey], int]  # how many subscriptions to a topic are being made,
    durable_pending_count: Callable[[TopicKey], int]  # and how many of them are durable
    is_connected: Callable[[str], bool]  # whether the client of a link is still there
    has: Callable[[str, str], bool]  # whether this edge has a subscription of a tenant
    go_on: Callable[[HomeSearch, float], None]  # no other edge has what a client asks for
    refuse: Callable[[HomeSearch, Refusal], None]
    not_offered: Callable[[TopicChange, str], None]  # a change of a topic that coordination did not answer in time
    put_in_force: Callable[[PendingSubscription, float], None]  # a subscription that waited for other edges
    deny: Callable[[PendingSubscription, str], None]  # the same, if it waited in vain
    tell_of_budget: Callable[[Topic, str], None]  # tells subscribers with a latency budget something about it
    tell_missed: Callable[[Topic, Position, str], None]  # tells the subscribers of a topic that events are gone
    cursor_moved: Callable[[], None]  # more events of other logs are here
    advertisements: PublisherAdvertisements


@dataclass(frozen=True, slots=True)
class GapAtHome:
    """A place in this log for events that never came here, where this edge's pipeline matches their topic."""

    topic: Topic
    position: Position


class OverlayTimer(Enum):
    """Timer keys of the overlay."""

    TIDY = auto()


class EdgeOverlay:
    """The overlay as one edge sees it."""

    def __init__(self, options: OverlayOptions, rng: random.Random, ports: OverlayPorts) -> None:
        self.log_id: LogId = ""
        self._options, self._ports, self._emit = options, ports, ports.emit
        self._retired: set[str] = set()  # edges that will not come back
        self.links = BrokerLinks(rng, options.handover_seconds, ports.emit, ports.timers, self._send_join)
        self.wanted = ExportedInterest(
            options.boxes_max,
            options.return_seconds,
            InterestPorts(ports.log, ports.compiler, ports.subscriptions_of, self._export_interest),
        )
        self.registrations = Registrations(ports.emit, self.wanted, self._home_of)
        self.home_conditions = HomeConditions(ports.pipeline, ports.log, self._registered)
        self.exports = Exports(options.exports, ports.emit)
        self.imports = Imports(
            ImportingPorts(
                ports.emit,
                ports.log,
                ports.positions,
                ports.publishing,
                ports.pipeline,
                lambda link, topic: self._send_join(link, topic.key),
                self._tell_lost,
                self._arrived,
                ports.cursor_moved,
                self._is_gone,
                self._is_early_for_replays,
            )
        )
        self.paths = SecondPaths(
            options.member,
            options.second_paths_max,
            PathPorts(ports.emit, self.links, self.imports, self._send_join, ports.tell_of_budget),
        )
        self.searches = HomeSearches(
            options.member.name,
            options.find_seconds,
            SearchPorts(ports.emit, self.links, self.imports, ports.has, self._end_search, self._refuse_search),
        )
        self.replays = Replays(
            options.replays,
            ReplayingPorts(
                ports.emit,
                self.imports,
                ports.log,
                ports.positions,
                ports.publishing,
                lambda topic: list(self.links.routes[topic].joined) if topic in self.links.routes else [],
                ports.is_connected,
                ports.put_in_force,
                ports.deny,
            ),
        )
        self.counts = EndpointCounting(
            options.member.name,
            CountPorts(ports.emit, self.links, self._being_made, ports.durable_pending_count),
        )
        self.confirming = Confirming(
            options.confirm_seconds,
            options.home_seconds,
            ConfirmingPorts(
                self.links,
                self.counts,
                self.wanted,
                self.imports,
                self.registrations,
                self._home_of,
                self._confirmed_by_all,
                ports.deny,
            ),
        )
        self.announcing = Announcing(options.member, AnnouncingPorts(ports.emit, self.links, self.exports, ports.load))
        self.offers = TopicOffers(
            options.member.name,
            options.offer_seconds,
            OfferPorts(ports.emit, ports.log, self.matching_changed, ports.not_offered),
        )
        self.advertised = AdvertisedTopics(
            options.advertise_seconds,
            AdvertisedPorts(ports.emit, ports.advertisements.covering_of, ports.advertisements.known),
            is_told=options.tells_advertisements,
        )
        ports.advertisements.is_watching = options.tells_advertisements
        self._frames: dict[type[BrokerFrame], Callable[[str, Any, float], None]] = {
            Join: self._join,
            Joined: self._joined,
            Leave: self._leave,
            Confirm: self._confirmed,
            Resume: self._resume,
            Taken: self._taken,
            Ranges: self._ranges,
            Find: lambda link, frame, _: self.searches.find(link, frame),
            Found: lambda _, frame, now: self.searches.found(frame, now),
            Register: self._register,
            DialBack: lambda _, frame, __: self.paths.dial_back(frame),
        }
        self.handlers: dict[type[Input], Callable[[Any, float], None]] = {
            Unreachable: self._unreachable,
            MemberSeen: self._member_seen,
            EdgeRetired: self._edge_retired,
            MemberGone: lambda message, _: self.links.gone(message.name),
            TopicSeen: self._topic_seen,
            TopicGone: lambda *_: None,  # an edge keeps its ways: what it holds may still be owed
            LeaderSeen: lambda *_: None,
            TopicAdvertised: lambda message, _: self.advertised.answered(message.number),
        }

    @property
    def return_seconds(self) -> float:
        """How long what an unnamed subscription wanted is wanted after its end."""
        return self._options.return_seconds

    # Living

    def started(self, log_id: LogId, now: float) -> None:
        """The id of this log is known, and what it holds."""
        self.log_id = self.exports.log = self.imports.log_id = self.links.log_id = log_id
        self.paths.log_id = self.replays.log_id = self.searches.log_id = self.registrations.log_id = log_id
        self.announcing.log_id = log_id
        self.announcing.announce(now)
        self.wanted.started(now)
        for wanted in self.wanted:
            if wanted.acknowledged is not None:
                self.imports.require(wanted.topic.key, wanted.acknowledged)
        for topic in self._ports.topics:
            if topic.matching == "spark":
                self.matching_changed(topic)
            self.counts.use(topic)
            for taker in topic.takers.values():
                if (seconds := taker.subscription.qos.latency_budget_seconds) is not None:
                    self.paths.want(topic, taker.id, seconds)
            if topic.stored >= 0:  # its events are owed to others, also before their publishers come back
                self._ports.advertisements.open(topic)
        self._ports.timers.set(OverlayTimer.TIDY, now + self._options.tidy_seconds)

    def due(self, key: object, now: float) -> None:
        """A timer is due."""
        match key:
            case OverlayTimer.TIDY:
                self._tidy(now)
            case RedialTimer():
                self.links.redial(key.name)
            case HandoverTimer():
                for link in self.links.hand_over(key.topic, now):
                    self._left(link, key.topic, now)

    def _tidy(self, now: float) -> None:
        self.exports.tidy(now)
        self.imports.tidy(now)
        self.replays.tidy(now)
        self.searches.tidy(now)
        self.offers.tidy(now)
        self.advertised.tidy(now)
        self.announcing.announce(now)
        self.registrations.tidy(now)
        self.home_conditions.tidy()
        self.confirming.tidy(now)
        self.wanted.tidy(now)
        self.counts.count_changed()
        self._ports.timers.set(OverlayTimer.TIDY, now + self._options.tidy_seconds)

    def statistics(self) -> OverlayStatistics:
        """What was sent and taken, and who is behind."""
        names = {member.log: member.name for member in self.links.members.values()}
        return OverlayStatistics(
            exported=self.exports.event_count,
            imported=self.imports.event_count,
            refused_ranges=self.imports.refused_count,
            links=len(list(self.links.open_links())),
            second_paths=len(self.paths),
            missed_budgets=self.paths.missed_count,
            behind={names.get(log, log): count for log, count in self.exports.behind().items()},
        )

    # Topics

    def _being_made(self, topic: TopicKey) -> int:
        return self._ports.pending_count(topic) + self.searches.count_of(topic)

    def is_unknown(self, topic: Topic) -> bool:
        """Whether coordination may not have said yet what a topic offers; it is asked now."""
        self.counts.use(topic)
        return self.links.routes[topic.key].epoch < 0

    def unwant(self, topic: Topic, subscription: Subscription) -> None:
        """A subscription has ended."""
        if topic.matching != "spark":
            self.wanted.ended(topic)
        self.paths.unwant(topic, subscription.id)
        self.counts.changed(topic)

    def _topic_seen(self, message: TopicSeen, now: float) -> None:
        self.links.assigned(message, now)
        topic = self._ports.topics.get_or_make(*message.topic)
        self.offers.learn(topic, message.offer)
        self.confirming.check(self.wanted.of(topic), now)

    # Topics that Spark matches

    def matching_changed(self, topic: Topic) -> None:
        """Who matches a topic has changed, or is known now: so does what this edge wants of other logs."""
        wanted = self.wanted.of(topic)
        if topic.is_home:
            if not wanted.builder.covering.is_everything:
                self.wanted.renew(topic, EVERYTHING)
            topic.matched = max((topic.matched, *(each.position for each in topic.missed)))
            wanted.acknowledged = wanted.version
            self.imports.require(topic.key, wanted.version)
        elif topic.is_matched_elsewhere:
            wanted.builder.replace(Covering())
            self.registrations.begin(topic)
        else:
            conditions = [taker.subscription.condition for taker in topic.takers.values()]
            self.wanted.renew(topic, covering_of(conditions, self._options.boxes_max))
        self.confirming.deny_all(topic, "where the topic is matched has just become known, or has changed: try again")
        self.counts.changed(topic)

    def _home_of(self, topic: Topic) -> Origin | None:
        """The edge whose pipeline matches a topic, as an origin."""
        member = self.links.members.get(topic.home)
        return None if member is None else self.imports.get(topic.key, member.log)

    def _register(self, _: str, frame: Register, now: float) -> None:
        topic = self._topic(frame)
        if topic is not None and topic.is_home and frame.origin == self.log_id:
            self.home_conditions.register(topic, frame, now)

    def _registered(self, topic: Topic, edge: LogId, version: Version, now: float) -> None:
        if exports := self.exports.get(topic.key):
            exports.registered(edge, version, now)

    def handed(self, part: HandedPart, failure: str | None) -> None:
        """The pipeline of this edge has events of another log, or could not take them."""
        self.imports.handing.handed(part, failure)
        self.imports.tell_taken()

    def export_matched(self, topic: Topic, record: EventsStored, now: float) -> None:
        """The pipeline of this edge has matched events, and they are in the log."""
        if exports := self.exports.get(topic.key):
            exports.is_active = True
            if record.deliveries:
                exports.offer_matched(record, now)

    # Links

    def opened(self, link: str, identity: BrokerIdentity) -> None:
        """Another broker is at the other end of a link."""
        self.links.opened(link, identity.name)
        self.paths.opened(link, identity.name)

    def closed(self, message: Closed, now: float) -> None:
        """A link to another broker is gone."""
        self.exports.closed(message.link, now)
        for origin in self.imports:
            self.imports.part(message.link, origin.topic.key, origin.log, now)
        self.paths.closed(message.link)
        self.links.failed(message.link, now)
        self.confirming.tidy(now)

    def _member_seen(self, message: MemberSeen, now: float) -> None:
        """A broker is there. If it has another log than before, nobody waits for the former one."""
        self._retired.discard(message.member.name)
        self.links.seen(message.member)
        self._wait_no_more(now)

    def _edge_retired(self, message: EdgeRetired, now: float) -> None:
        """An edge will not come back."""
        if message.name not in self.links.members:
            self._retired.add(message.name)
            self._wait_no_more(now)

    def _wait_no_more(self, now: float) -> None:
        self.imports.release(now)
        self._ports.cursor_moved()

    def _is_gone(self, log: LogId, name: str) -> bool:
        """Whether an edge, by its name, will never come back with a log."""
        member = self.links.members.get(name)
        return name in self._retired if member is None else bool(member.log) and member.log != log

    def _unreachable(self, message: Unreachable, now: float) -> None:
        self.links.failed(message.link, now)
        self.confirming.tidy(now)

    def received(self, message: Received, now: float) -> None:
        """A frame of another broker came."""
        self._frames[type(message.frame)](message.link, message.frame, now)

    def _topic(self, frame: BrokerFrame) -> Topic | None:
        """The topic of a frame; None if there is no place for it here."""
        try:
            return self._ports.topics.get_or_make(*frame.topic)
        except Refusal:
            return None

    def search(self, link: str, identity: Identity, frame: NamedRequest, now: float) -> bool:
        """Ask other edges for a durable subscription. False: there are none to ask."""
        topics = [key for key in self.links.routes if key[0] == identity.tenant]
        if frame.topic is not None:
            require(identity, "subscribe", frame.topic)
            topic = self._ports.topics.get_or_make(identity.tenant, frame.topic)
            topics = [topic.key]
        if not topics:
            return False
        search = self.searches.begin(link, identity, frame, topics, now)
        for key in topics:
            self.counts.use(self._ports.topics[key])
        self.searches.ask(search, now)
        return True

    def _end_search(self, search: HomeSearch, now: float) -> None:
        self._count_searched(search)
        self._ports.go_on(search, now)

    def _refuse_search(self, search: HomeSearch, refusal: Refusal) -> None:
        self._count_searched(search)
        self._ports.refuse(search, refusal)

    def _count_searched(self, search: HomeSearch) -> None:
        for key in search.topics:
            self.counts.changed(self._ports.topics[key])

    # What this edge wants

    def want(self, topic: Topic, compiled: CompiledConditions) -> None:
        """Subscriptions with these conditions are being made."""
        if topic.matching == "spark":
            return
        conditions = [condition for _, condition in compiled.young]
        if compiled.table is not None:
            conditions.append(Covering.of_table(compiled.table, self._options.boxes_max).condition)
        self.wanted.add(topic, conditions)

    def _confirmed_by_all(self, pending: PendingSubscription, now: float) -> None:
        subscription = pending.subscription
        if (seconds := subscription.qos.latency_budget_seconds) is not None:
            self.paths.want(pending.topic, subscription.id, seconds)
        self.replays.begin(pending, now)

    def _export_interest(self, topic: Topic) -> None:
        """Tell all who may be origins what this edge wants."""
        if (route := self.links.routes.get(topic.key)) is not None:
            for link in (*route.joined, *self.paths.links_of(topic.key)):
                self._send_join(link, topic.key)
        if topic.is_matched_elsewhere:
            self.registrations.tell(topic)

    def _send_join(self, link: str, key: TopicKey) -> None:
        topic = self._ports.topics[key]
        wanted, offer = self.wanted.of(topic), self.offers.of(topic)
        self._emit(Send(link, Join(key, self.log_id, wanted.stored_version, wanted.encoded, offer=offer)))

    # What other brokers say

    def _join(self, link: str, frame: Join, now: float) -> None:
        topic = self._topic(frame)
        if topic is None or frame.edge.partition("#")[0] == self.log_id:
            return
        self.offers.learn(topic, frame.offer)
        name = self.links.name_at(link)
        member = self.links.members.get(name)
        is_direct = member is not None and member.log == frame.edge
        if is_direct and (reason := self.paths.lend(link, name)) is not None:
            self._emit(Close(link, reason))
            return
        if frame.is_origin and not is_direct:
            origin = self.imports.meet(link, topic, frame.edge, self.wanted.of(topic).acknowledged)
            self.paths.met(origin)
            if topic.is_matched_elsewhere and origin is self._home_of(topic):
                self.registrations.met(topic)
        registered = self.home_conditions.version_of(topic, frame.edge) if topic.is_home else None
        self.exports.get_or_make(topic).join(link, frame, now, is_direct=is_direct, registered=registered)

    def _joined(self, link: str, frame: Joined, now: float) -> None:
        self.links.joined(link, frame.topic)
        self.searches.ask_in(frame.topic, now)
        self.replays.joined(frame.topic)
        if (topic := self._topic(frame)) is not None:
            self.confirming.check(self.wanted.of(topic), now)

    def _leave(self, link: str, frame: Leave, now: float) -> None:
        self.exports.leave(link, frame, now)
        self.imports.part(link, frame.topic, frame.edge, now)
        if (topic := self._topic(frame)) is not None:
            self.confirming.check(self.wanted.of(topic), now)

    def _left(self, link: str, topic: TopicKey, now: float) -> None:
        """A topic is no longer joined over a link, so nobody is reached over it for that topic."""
        for origin in self.imports.of_topic(topic):
            self.imports.part(link, topic, origin.log, now)
        if exports := self.exports.get(topic):
            for receiver in list(exports.takers):
                exports.leave(link, receiver, now)

    def _confirmed(self, link: str, frame: Confirm, now: float) -> None:
        if frame.receiver in self.replays:
            self.replays.confirmed(link, frame)
        elif frame.receiver == self.log_id:
            origin = self.imports.confirmed(link, frame, now)
            if origin is None:
                return
            self.imports.release(now)
            if origin.topic.is_matched_elsewhere and origin is self._home_of(origin.topic):
                self.registrations.confirmed(origin.topic, frame.version)
            self.confirming.check(self.wanted.of(origin.topic), now)

    def _resume(self, link: str, frame: Resume, now: float) -> None:
        if frame.origin == self.log_id and (exports := self.exports.get(frame.topic)):
            if frame.position > exports.topic.matched:
                self._skip_to(exports.topic, frame.position)
            exports.resume(link, frame, now)

    def _skip_to(self, topic: Topic, position: Position) -> None:
        """Another edge has events that this log has lost: they were not flushed, or the disk is an older one.

        Their positions are not used again, and the log counts as read up to there: others may wait for that.
        """
        self._ports.positions.raise_to(position)
        self._ports.log.append_lazily(Reached(position), GapAtHome(topic, position))

    def _taken(self, _: str, frame: Taken, now: float) -> None:
        if frame.origin == self.log_id and (exports := self.exports.get(frame.topic)):
            exports.taken(frame, now)

    def _ranges(self, link: str, frame: Ranges, now: float) -> None:
        for share in frame.shares:
            if share.receiver == self.log_id:
                self.imports.ranges(link, frame.of(share), share, now)
            elif share.receiver in self.replays:
                self.replays.ranges(link, frame.of(share), share, now)
        self.imports.tell_taken()  # what needs no log is taken already
        self.imports.release(now)

    def stored(self, now: float) -> None:
        """Something is in the log, and has been matched: origins are told, and replays may have come to their end."""
        self.imports.tell_taken()
        self.imports.release(now)
        self.replays.taken(now)

    # Events

    def export(
        self,
        topic: Topic,
        entries: Sequence[Entry],
        rows: Sequence[Mapping[str, Any]],
        follows: Mapping[Position, Follows],
        now: float,
    ) -> None:
        """Events were matched; these of them were published here. There may be none."""
        self.counts.use_to_publish(topic)
        if exports := self.exports.get(topic.key):
            exports.is_active = True
            if entries:
                exports.offer(entries, rows, follows, now)

    def pass_over(self, topic: Topic, now: float) -> None:
        """Tell other edges at once how far the events of a topic go."""
        if exports := self.exports.get(topic.key):
            exports.pass_over_now(now)

    def _arrived(self, topic: Topic, events: Sequence[ExportedEvent], now: float) -> None:
        """Count what came later than its budget. The clocks of both edges have to agree for that."""
        if (budget := self.paths.budget_of(topic.key)) is not None:
            self.paths.missed_count += sum(now - accepted_at(event) > budget for event in events)

    def _is_early_for_replays(self, topic: TopicKey, follows: Follows) -> bool:
        return bool(self.replays) and self.replays.is_early(topic, follows)

    def _tell_lost(self, origin: Origin, why: str) -> None:
        detail = f"events of the log {origin.log} {why} before they came here: some may have matched"
        topic, position = origin.topic, self._ports.positions.last
        if topic.is_home:  # other edges are told too, with the ranges that go over this place in the log
            position = self._ports.positions.take(1)
        self._ports.tell_missed(topic, position, detail)
        if topic.is_home:
            self._ports.log.append_lazily(Reached(position), GapAtHome(topic, position))

    def gap_known(self, gap: GapAtHome) -> None:
        """All that lies before a gap in this log has been matched: ranges may go over it."""
        gap.topic.matched = max(gap.topic.matched, gap.position)
        if exports := self.exports.get(gap.topic.key):
            exports.is_active = True
