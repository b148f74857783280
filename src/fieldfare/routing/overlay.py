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
    TopicHomes         which edge matches such a topic, and what that changes for this one
    BrokerRequests     frames of other brokers, and which of these parts deals with each

They know of each other what their ports say; here they are brought together. An edge without an overlay has none of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from fieldfare.messages import (
    BrokerIdentity,
    Closed,
    EdgeRetired,
    ExportedEvent,
    Follows,
    Identity,
    Input,
    Join,
    LeaderSeen,
    LogId,
    MemberGone,
    MemberSeen,
    Position,
    Send,
    TopicAdvertised,
    TopicGone,
    TopicKey,
    TopicSeen,
    Unreachable,
    Version,
)
from fieldfare.overlay.covering import Covering
from fieldfare.routing.advertised_topics import AdvertisedPorts, AdvertisedTopics
from fieldfare.routing.announcing import Announcing, AnnouncingPorts
from fieldfare.routing.broker_links import BrokerLinks, HandoverTimer, RedialTimer
from fieldfare.routing.broker_requests import BrokerRequestPorts, BrokerRequests
from fieldfare.routing.confirming import Confirming, ConfirmingPorts
from fieldfare.routing.endpoint_counts import CountPorts, EndpointCounting
from fieldfare.routing.exported_interest import ExportedInterest, InterestPorts
from fieldfare.routing.exporting import Exports
from fieldfare.routing.home_conditions import HomeConditions
from fieldfare.routing.home_search import HomeSearch, HomeSearches, NamedRequest, SearchPorts
from fieldfare.routing.importing import ImportingPorts, Imports, accepted_at
from fieldfare.routing.interest import CompiledConditions
from fieldfare.routing.origin import Origin
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.overlay_ports import OverlayOptions, OverlayPorts
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.registrations import Registrations
from fieldfare.routing.replaying import ReplayingPorts, Replays
from fieldfare.routing.second_paths import PathPorts, SecondPaths
from fieldfare.routing.statistics import OverlayStatistics
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.topic import Topic
from fieldfare.routing.topic_homes import HomePorts, TopicHomes
from fieldfare.routing.topic_offers import OfferPorts, TopicOffers


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
        self.imports = self._make_imports()
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
        self.replays = self._make_replays()
        self.counts = EndpointCounting(
            options.member.name,
            CountPorts(ports.emit, self.links, self._being_made, ports.durable_pending_count),
        )
        self.confirming = self._make_confirming()
        self.homes = self._make_homes()
        self.announcing = Announcing(options.member, AnnouncingPorts(ports.emit, self.links, self.exports, ports.load))
        self.offers = TopicOffers(
            options.member.name,
            options.offer_seconds,
            OfferPorts(ports.emit, ports.log, self.homes.matching_changed, ports.not_offered),
        )
        self.advertised = AdvertisedTopics(
            options.advertise_seconds,
            AdvertisedPorts(ports.emit, ports.advertisements.covering_of, ports.advertisements.known),
            is_told=options.tells_advertisements,
        )
        ports.advertisements.is_watching = options.tells_advertisements
        self.requests = self._make_requests()
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

    # Making

    def _make_imports(self) -> Imports:
        return Imports(
            ImportingPorts(
                self._ports.emit,
                self._ports.log,
                self._ports.positions,
                self._ports.publishing,
                self._ports.pipeline,
                lambda link, topic: self._send_join(link, topic.key),
                self._tell_lost,
                self._arrived,
                self._ports.cursor_moved,
                self._is_gone,
                self._is_early_for_replays,
            )
        )

    def _make_replays(self) -> Replays:
        return Replays(
            self._options.replays,
            ReplayingPorts(
                self._ports.emit,
                self.imports,
                self._ports.log,
                self._ports.positions,
                self._ports.publishing,
                lambda topic: list(self.links.routes[topic].joined) if topic in self.links.routes else [],
                self._ports.is_connected,
                self._ports.put_in_force,
                self._ports.deny,
            ),
        )

    def _make_confirming(self) -> Confirming:
        return Confirming(
            self._options.confirm_seconds,
            self._options.home_seconds,
            ConfirmingPorts(
                self.links,
                self.counts,
                self.wanted,
                self.imports,
                self.registrations,
                self._home_of,
                self._confirmed_by_all,
                self._ports.deny,
            ),
        )

    def _make_homes(self) -> TopicHomes:
        return TopicHomes(
            self._options.boxes_max,
            HomePorts(
                self._ports.log,
                self._ports.positions,
                self.links,
                self.wanted,
                self.registrations,
                self.exports,
                self.imports,
                self.confirming,
                self.counts,
                self._ports.tell_missed,
            ),
        )

    def _make_requests(self) -> BrokerRequests:
        return BrokerRequests(
            BrokerRequestPorts(
                self._ports.topics,
                self._ports.emit,
                self.links,
                self.wanted,
                self.registrations,
                self.home_conditions,
                self.exports,
                self.imports,
                self.paths,
                self.searches,
                self.replays,
                self.confirming,
                self.offers,
                self.homes,
            )
        )

    @property
    def return_seconds(self) -> float:
        """How long what an unnamed subscription wanted is wanted after its end."""
        return self._options.return_seconds

    # Living

    def started(self, log_id: LogId, now: float) -> None:
        """The id of this log is known, and what it holds."""
        self.log_id = self.exports.log = self.imports.log_id = self.links.log_id = log_id
        self.paths.log_id = self.replays.log_id = self.searches.log_id = self.registrations.log_id = log_id
        self.announcing.log_id = self.requests.log_id = log_id
        self.announcing.announce(now)
        self.wanted.started(now)
        for wanted in self.wanted:
            if wanted.acknowledged is not None:
                self.imports.require(wanted.topic.key, wanted.acknowledged)
        for topic in self._ports.topics:
            if topic.matching == "spark":
                self.homes.matching_changed(topic)
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
                    self.requests.left(link, key.topic, now)

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

    def stored(self, now: float) -> None:
        """Something is in the log, and has been matched: origins are told, and replays may have come to their end."""
        self.imports.tell_taken()
        self.imports.release(now)
        self.replays.taken(now)

    # Events

    def export(
        self,
        topic: Topic,
        entries: Sequence[EventEntry],
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

    def _home_of(self, topic: Topic) -> Origin | None:
        return self.homes.home_of(topic)

    def _registered(self, topic: Topic, edge: LogId, version: Version, now: float) -> None:
        self.homes.registered(topic, edge, version, now)

    def _tell_lost(self, origin: Origin, why: str) -> None:
        self.homes.tell_lost(origin, why)

    def _arrived(self, topic: Topic, events: Sequence[ExportedEvent], now: float) -> None:
        """Count what came later than its budget. The clocks of both edges have to agree for that."""
        if (budget := self.paths.budget_of(topic.key)) is not None:
            self.paths.missed_count += sum(now - accepted_at(event) > budget for event in events)

    def _is_early_for_replays(self, topic: TopicKey, follows: Follows) -> bool:
        return bool(self.replays) and self.replays.is_early(topic, follows)
