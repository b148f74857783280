"""The edge broker: clients connect to it, publish to it and are served by it.

It is a state machine (see `fieldfare.messages`). What must survive goes to the log first: a request is answered, and an
event matched, when the host says that its record is stored. So what is answered is durable, and matching works on all
the events that became durable together. Work that is cheaper for many at once, such as compiling conditions, waits for
the end of the host's current round, by a timer that is due at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from fieldfare.messages import (
    Ack,
    AckEach,
    Adopt,
    Advertise,
    Attach,
    BrokerIdentity,
    Candidate,
    Change,
    Close,
    Closed,
    ConditionsCompiled,
    DeclareTopic,
    DeleteTopic,
    Detach,
    DropDeadLetters,
    EdgesPinged,
    Effect,
    EventsStored,
    Fetched,
    HandedOver,
    Identity,
    Input,
    InterestMerged,
    InterestSummarised,
    List,
    Listed,
    LogBegun,
    Member,
    Nack,
    NotStored,
    OfferAnswered,
    Opened,
    PauseDelivery,
    PipelineMatched,
    Publish,
    Received,
    Record,
    Redrive,
    Refused,
    ResumeDelivery,
    Seal,
    Seek,
    SetWindow,
    Started,
    Stored,
    Subscribe,
    TimerDue,
    TopicKey,
    Unadvertise,
    Unsubscribe,
    UsePipeline,
    WebhookCalled,
    WebhookChecked,
)
from fieldfare.routing import listing, recovery
from fieldfare.routing.asked_publishers import AskedPublishers
from fieldfare.routing.auditing import Auditing
from fieldfare.routing.client_links import ClientLinks
from fieldfare.routing.consuming import ConsumingTimer, Consumption
from fieldfare.routing.dead_letters import DeadLetters
from fieldfare.routing.delivery import Deliveries, DeliveryPorts
from fieldfare.routing.exported_interest import ExportedVersion, ShrinkingInterest
from fieldfare.routing.exporting import ExportReader
from fieldfare.routing.handing import HandedPart
from fieldfare.routing.home_conditions import RegisteredPart, Registration
from fieldfare.routing.home_search import HomeSearch
from fieldfare.routing.lag import CountingKey
from fieldfare.routing.moved_publisher import (
    AdoptionOfPublisher,
    PublisherKey,
    SealOfPublisher,
    SettlingPublisher,
)
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.origin import Arrival
from fieldfare.routing.other_edges import OtherEdges
from fieldfare.routing.overlay import EdgeOverlay, GapAtHome, OverlayOptions, OverlayPorts
from fieldfare.routing.pending import PendingPorts, PendingSubscription
from fieldfare.routing.pipeline_batches import BatchPorts, PendingBatch, PipelineBatches
from fieldfare.routing.ports import Asking, LogPort, Positions, Replies, Timers
from fieldfare.routing.publication import PassedNumbers, Publication, Repetition
from fieldfare.routing.publisher_advertisements import AdvertisingPorts, PublisherAdvertisement, PublisherAdvertisements
from fieldfare.routing.publisher_moves import AdoptionTimer, MovePorts, PublisherMoves
from fieldfare.routing.publishing import Publishing, PublishingPorts
from fieldfare.routing.quotas import Quotas, Usage
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.replay import ReplayedEvents
from fieldfare.routing.replaying_own_log import OwnLogPiece, PausedPublishers
from fieldfare.routing.statistics import (
    Statistics,
    SubscriptionLag,
    TopicLoad,
    lags,
    statistics,
    topic_loads,
)
from fieldfare.routing.subscribing import (
    DeadlineTimer,
    EndingSubscription,
    Subscribing,
    SubscribingPorts,
)
from fieldfare.routing.subscription_requests import (
    LettersUpdate,
    RequestPorts,
    SubscriptionRequests,
    SubscriptionUpdate,
)
from fieldfare.routing.taker import Entry
from fieldfare.routing.takers import Takers
from fieldfare.routing.ticket_rights import require_own_subscription
from fieldfare.routing.topic import Topic, TopicChange, Topics
from fieldfare.routing.topic_declaring import DeclaringPorts, TopicDeclaring
from fieldfare.routing.topic_deleting import DeletingPorts, EndingTopic, TopicDeleting
from fieldfare.routing.tracing import TraceSteps
from fieldfare.routing.webhooks import RetryTimer, WebhookCalls

_DEFAULTS = EdgeOptions()
_EDGES_TOLD_MAX = 16


class EdgeTimer(Enum):
    """Timer keys of the edge itself."""

    STEP = auto()  # the end of a round: compile, and match what needs no log
    TIDY = auto()  # now and then: write cursors, look after memory


class Edge:
    """An edge broker. With overlay options it is connected with other edges."""

    def __init__(
        self,
        name: str,
        rng: random.Random,
        options: EdgeOptions = _DEFAULTS,
        overlay: OverlayOptions | None = None,
    ) -> None:
        self.name = name
        self.log_id = ""  # known when it has started
        self.started_at = 0.0  # since when things are counted
        self._options, self._rng = options, rng
        self._effects: list[Effect] = []
        emit = self._effects.append
        self.takers, self.links = Takers(), ClientLinks()
        self.topics = Topics(options, emit, self.takers.get)
        self.others = OtherEdges(self.topics)
        self.replies, self.timers, self.log = Replies(emit), Timers(emit), LogPort(emit)
        self.positions, self.quotas = Positions(self.log), Quotas(options.quotas)
        self._pipeline, self._compiler, self._webhook_checks = Asking(emit), Asking(emit), Asking(emit)
        self.dead_letters = DeadLetters(options, self.log)
        self.consumption = Consumption(options, emit, self.timers, self.dead_letters)
        self.webhooks = WebhookCalls(options, rng, emit, self.timers, self.consumption, self.dead_letters)
        self.deliveries = Deliveries(
            options, DeliveryPorts(self.topics, emit, self.log, self.webhooks, self.consumption, self._tidy_soon)
        )
        self.webhooks.settling = self.deliveries
        self.moves = PublisherMoves(
            name,
            options.publishers_max,
            options.adopt_seconds,
            MovePorts(
                self.topics,
                self.log,
                self.replies,
                self.timers,
                self._match_ready,
                self._is_handing,
                self.others.is_early,
                self.others.use_to_publish,
                self.others.pass_over,
            ),
        )
        self.advertisements = PublisherAdvertisements(
            AdvertisingPorts(self.topics, self.replies, self._tell_advertised, self.others.advertised_changed)
        )
        self.asked = AskedPublishers(self.advertisements, self.moves, self.replies)
        self.publishing = Publishing(
            name,
            options.unstored_bytes_max,
            PublishingPorts(
                self.topics,
                self.replies,
                self.log,
                self.positions,
                self.quotas,
                self._pipeline,
                self._deliver,
                self._deliver_matched,
                self.others.export,
                self.moves,
                self.advertisements,
                self._step_soon,
                TraceSteps(emit, lambda: self.deliveries.counts.delivered) if options.has_traces else None,
            ),
        )
        self.subscribing = Subscribing(
            name,
            rng,
            options,
            SubscribingPorts(
                self.topics,
                self.takers,
                self.links,
                self.replies,
                self.log,
                self.positions,
                self.quotas,
                self.timers,
                self.deliveries,
                self.others.search,
                self.others.adopt,
                self.others.unwant,
            ),
            PendingPorts(
                self.topics,
                self.takers,
                self.links,
                self.replies,
                self.log,
                self.timers,
                self._pipeline,
                self._compiler,
                self._webhook_checks,
                self.others.want,
                self.others.unregister,
                self._confirm,
                self.others.settled,
                EdgeTimer.STEP,
            ),
        )
        self.requests = SubscriptionRequests(
            RequestPorts(
                self.subscribing,
                self.topics,
                self.deliveries,
                self.consumption,
                self.dead_letters,
                self.replies,
                self.log,
                self.positions,
                self.others.search,
            )
        )
        self.declaring = TopicDeclaring(
            DeclaringPorts(self.topics, self.replies, self.log, self.subscribing, lambda: self.overlay),
            has_pipeline=options.has_pipeline,
        )
        self.overlay = self.others.overlay = None if overlay is None else self._make_overlay(overlay)
        self.deleting = TopicDeleting(
            DeletingPorts(
                self.topics, self.replies, self.log, self.positions, self.subscribing, self.publishing, self.deliveries
            ),
            is_among_others=overlay is not None,
        )
        self.auditing = Auditing(emit, self.topics, self.replies) if options.audits else None
        self._batches = PipelineBatches(
            BatchPorts(
                self.topics,
                self.log,
                self.positions,
                self.quotas,
                self.deliveries,
                emit,
                self.others.cursors_of,
                self.others.is_remote,
                self.others.export_matched,
            )
        )
        self._handlers = self._input_handlers()
        self._requests = self._request_handlers()
        self._when_stored, self._when_not_stored = self._waiters_of_the_log()

    def _make_overlay(self, options: OverlayOptions) -> EdgeOverlay:
        ports = OverlayPorts(
            self._effects.append,
            self.topics,
            self.log,
            self.positions,
            self.timers,
            self._compiler,
            self._pipeline,
            self.publishing,
            self.subscribing.of_topic,
            lambda: self.load,
            self.subscribing.pending.count_of,
            self.subscribing.pending.durable_count_of,
            lambda link: link in self.links,
            self.subscribing.has,
            self._searched,
            lambda search, refusal: self.replies.refuse(search.link, search.frame.ref, refusal),
            self.declaring.not_offered,
            self.subscribing.pending.confirmed,
            self.subscribing.pending.not_confirmed,
            self.deliveries.tell_of_budget,
            self.deliveries.tell_missed,
            self.moves.cursor_moved,
            self.advertisements,
        )
        return EdgeOverlay(options, self._rng, ports)

    # The contract with the host

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        self._handlers[type(message)](message, now)
        return self._take_effects()

    def _take_effects(self) -> Sequence[Effect]:
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def ask_to_move(self, publisher: PublisherKey, target: Candidate) -> Sequence[Effect]:
        """Ask a publisher that is connected here to move to another edge; nothing is to be done if it cannot be asked.

        Whether it has moved is seen by `moves`.
        """
        self.asked.move(publisher, target)
        return self._take_effects()

    def ask_to_ping(self, publisher: PublisherKey, candidates: Sequence[Candidate]) -> Sequence[Effect]:
        """Ask a publisher how far other edges are; `asked.on_pinged` is called with the answer, if one comes."""
        self.asked.ping(publisher, candidates)
        return self._take_effects()

    def recover(self, record: Record) -> None:
        """Take up a record of the checkpoint or the log."""
        recovery.recover(self, record)
        self._effects.clear()

    def checkpoint(self) -> Sequence[Record]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        return recovery.checkpoint(self)

    def statistics(self) -> Statistics:
        """Counts, for those who watch."""
        return statistics(self)

    def lags(self, tenant: str, now: float) -> Iterator[SubscriptionLag]:
        """How far a tenant's subscriptions are behind, of those that are."""
        return lags(self, tenant, now)

    def topic_loads(self, tenant: str, now: float) -> Iterator[TopicLoad]:
        """What goes on in a tenant's topics."""
        return topic_loads(self, tenant, now)

    def waits(self) -> list[str]:
        """What waits for the log, the pipeline, the compiler and checks of webhooks."""
        return [
            wait for port in (self.log, self._pipeline, self._compiler, self._webhook_checks) for wait in port.waits()
        ]

    def usage(self, tenant: str, now: float) -> Usage:
        """What a tenant uses of its quota."""
        return self.quotas.usage(tenant, self.takers.count_of(tenant), now)

    @property
    def load(self) -> float:
        """The share of its places for clients that are taken."""
        return len(self.links) / self._options.connections_max

    def edges(self) -> list[Member]:
        """The edges that serve the same network, this one first and then those with most room."""
        own = Member(self.name, "edge", log=self.log_id, load=self.load)
        return [own] if self.overlay is None else self.overlay.announcing.edges_of_network()

    def other_edges(self) -> tuple[str, ...]:
        """Where clients can go for which there is no place here: the URLs of those that have room."""
        return tuple(edge.url for edge in self.edges()[1:] if edge.url and edge.load < 1.0)[:_EDGES_TOLD_MAX]

    def count_matches(self, key: TopicKey, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """How many subscriptions here each of some events would be delivered to."""
        counts = [0] * len(rows)
        if key in self.topics:
            topic = self.topics[key]
            for handle, numbers in topic.interest.match(rows):
                for number in numbers if handle in topic.takers else ():
                    counts[number] += 1
        return counts

    # Who deals with what

    def _input_handlers(self) -> dict[type[Input], Callable[[Any, float], None]]:
        return {
            Started: self._started,
            Opened: self._opened,
            Received: self._received,
            Closed: self._closed,
            Stored: self._stored,
            NotStored: self._not_stored,
            Fetched: self._fetched,
            TimerDue: self._due,
            ConditionsCompiled: self._compiled,
            InterestMerged: self._merged,
            InterestSummarised: self._summarised,
            OfferAnswered: self.declaring.offered,
            WebhookChecked: self._webhook_checked,
            WebhookCalled: self._webhook_called,
            HandedOver: self._handed_over,
            PipelineMatched: self._batches.matched,
            **(self.overlay.handlers if self.overlay is not None else {}),
        }

    def _request_handlers(self) -> dict[type, Callable[[str, Identity, Any, float], None]]:
        return {
            Publish: self.publishing.publish,
            Ack: self.subscribing.acknowledge,
            SetWindow: self.subscribing.set_window,
            Subscribe: self.subscribing.subscribe,
            Attach: self.subscribing.attach,
            Detach: self.subscribing.detach,
            AckEach: self.subscribing.acknowledge_each,
            Nack: self.subscribing.refuse,
            Seek: self.requests.seek,
            Change: self.requests.change,
            PauseDelivery: self.requests.pause,
            ResumeDelivery: self.requests.resume,
            Redrive: self.requests.redrive,
            DropDeadLetters: self.requests.drop_dead_letters,
            Unsubscribe: self.subscribing.unsubscribe,
            DeclareTopic: self.declaring.declare,
            DeleteTopic: self.deleting.delete,
            List: self._list,
            Advertise: self.advertisements.advertise,
            Unadvertise: self.advertisements.unadvertise,
            EdgesPinged: self.asked.pinged,
            Seal: self.moves.seal,
            Adopt: self.moves.adopt,
        }

    def _waiters_of_the_log(
        self,
    ) -> tuple[dict[type, Callable[[Any, float], None]], dict[type, Callable[[Any, str], None]]]:
        """Whom to tell, by the type of what waits, that it is stored, and that it is not."""
        return {
            Publication: self.publishing.stored,
            Repetition: lambda waiter, _: self.publishing.repetition_stored(waiter),
            PassedNumbers: lambda waiter, _: self.publishing.passed_stored(waiter),
            PendingBatch: self._batches.stored,
            PendingSubscription: self.subscribing.pending.stored,
            EndingSubscription: lambda waiter, _: self.subscribing.ended(waiter),
            SubscriptionUpdate: self.requests.stored,
            LettersUpdate: self.requests.letters_stored,
            TopicChange: lambda waiter, _: self.declaring.declared(waiter),
            EndingTopic: lambda waiter, _: self.deleting.deleted(waiter),
            SettlingPublisher: self.moves.settled,
            SealOfPublisher: self.moves.seal_stored,
            AdoptionOfPublisher: self.moves.adoption_stored,
            **self._overlay_waiters(),
        }, {
            Publication: self.publishing.not_stored,
            Repetition: self.publishing.repetition_failed,
            PassedNumbers: self.publishing.passed_failed,
            PendingBatch: lambda waiter, _: self._batches.not_stored(waiter),
            PendingSubscription: self.subscribing.pending.not_stored,
            EndingSubscription: self.subscribing.not_ended,
            SubscriptionUpdate: self.requests.not_stored,
            LettersUpdate: self.requests.not_stored,
            TopicChange: self.declaring.not_declared,
            EndingTopic: self.deleting.not_deleted,
            SettlingPublisher: self.moves.not_settled,
            SealOfPublisher: self.moves.seal_failed,
            AdoptionOfPublisher: self.moves.adoption_failed,
            **self._failed_overlay_waiters(),
        }

    def _overlay_waiters(self) -> dict[type, Callable[[Any, float], None]]:
        if (overlay := self.overlay) is None:
            return {}
        return {
            Arrival: overlay.imports.stored,
            ReplayedEvents: overlay.replays.stored,
            PausedPublishers: overlay.replays.publishers_paused,
            RegisteredPart: overlay.home_conditions.stored,
            GapAtHome: lambda waiter, _: overlay.gap_known(waiter),
            ExportedVersion: overlay.confirming.stored,
        }

    def _failed_overlay_waiters(self) -> dict[type, Callable[[Any, str], None]]:
        if (overlay := self.overlay) is None:
            return {}
        return {
            Arrival: lambda waiter, _: overlay.imports.not_stored(waiter),
            ReplayedEvents: lambda waiter, _: overlay.replays.not_stored(waiter),
            PausedPublishers: lambda waiter, _: overlay.replays.publishers_not_paused(waiter),
            RegisteredPart: lambda waiter, _: overlay.home_conditions.not_stored(waiter),
            GapAtHome: lambda waiter, _: overlay.gap_known(waiter),
            ExportedVersion: lambda waiter, _: overlay.wanted.not_stored(waiter),
        }

    # What happens

    def _started(self, _: Started, now: float) -> None:
        self.started_at = now
        self.positions.restarted()
        if not self.log_id:
            self.log_id = f"{self._rng.getrandbits(64):016x}"
            self.log.append_lazily(LogBegun(self.log_id))  # whatever is durable lies after it
        self.subscribing.log_id = self.log_id
        self.publishing.log_id = self.moves.log_id = self.log_id
        for topic in self.topics:
            if topic.is_home:
                conditions = {made.id: made.condition for made in self.subscribing.of_topic(topic)}
                conditions |= self.overlay.home_conditions.of_topic(topic) if self.overlay is not None else {}
                self._effects.append(UsePipeline(*topic.key, topic.stored_batch, conditions))
        for taker in self.takers:
            self.consumption.recovered(taker)
        self.deliveries.counting.started(self.topics)
        self.subscribing.started(now)
        if self.overlay is not None:
            self.publishing.name_by_log(self.log_id)
            self.overlay.started(self.log_id, now)

    def _opened(self, message: Opened, _: float) -> None:
        if isinstance(message.identity, BrokerIdentity) and self.overlay is not None:
            self.overlay.opened(message.link, message.identity)
        elif not isinstance(message.identity, Identity):
            self._effects.append(Close(message.link, "an edge serves clients"))
        elif len(self.links) >= self._options.connections_max:
            self._turn_away(message.link)
        elif (reason := self.quotas.connect(message.identity.tenant)) is not None:
            self._effects.append(Close(message.link, reason))
        else:
            self.links.add(message.link, message.identity)

    def _turn_away(self, link: str) -> None:
        """There is no place for another client here; perhaps there is at another edge."""
        reason = f"this edge serves {self._options.connections_max:,} clients already, its limit"
        self.replies.send(link, Refused(None, "full", reason, edges=self.other_edges()))
        self._effects.append(Close(link, reason))

    def _closed(self, message: Closed, now: float) -> None:
        if self.overlay is not None and message.link in self.overlay.links:
            self.overlay.closed(message, now)
        elif (identity := self.links.identity(message.link)) is not None:
            self.quotas.disconnect(identity.tenant)
            self.advertisements.closed(message.link)
            self.subscribing.closed(message.link, now)

    def _received(self, message: Received, now: float) -> None:
        identity = self.links.identity(message.link)
        if identity is None:
            if self.overlay is not None and message.link in self.overlay.links:
                self.overlay.received(message, now)
            return  # else it was closed meanwhile
        if self.auditing is not None:
            self.auditing.asked(message.link, identity, message.frame, now)
        try:
            if identity.subscription is not None:
                require_own_subscription(identity, message.frame)
            self._requests[type(message.frame)](message.link, identity, message.frame, now)
        except Refusal as refusal:
            self.replies.refuse(message.link, getattr(message.frame, "ref", None), refusal)

    def _stored(self, message: Stored, now: float) -> None:
        self.topics.kept_from = message.kept_from
        for waiter in self.log.answered(message.number):
            self._when_stored[type(waiter)](waiter, now)
        self.publishing.match_ready(now)
        if self.overlay is not None:
            self.overlay.stored(now)

    def _not_stored(self, message: NotStored, now: float) -> None:
        for waiter in self.log.answered(message.number):
            self._when_not_stored[type(waiter)](waiter, message.reason)
        self.publishing.match_ready(now)  # what needs no log may have waited for what does

    def _handed_over(self, message: HandedOver, now: float) -> None:
        match self._pipeline.answered(message.number), message.failure:
            case Publication() as publication, None:
                self.publishing.handed(publication)
            case Publication() as publication, str(reason):
                self.publishing.not_handed(publication, reason)
            case PendingSubscription() as pending, None:
                self.subscribing.pending.handed(pending, now)
            case PendingSubscription() as pending, str(reason):
                self.subscribing.pending.not_handed(pending, reason)
            case HandedPart() as part, failure if self.overlay is not None:
                self.overlay.handed(part, failure)
            case Registration() as registration, failure if self.overlay is not None:
                self.overlay.home_conditions.handed(registration, failure)

    def _compiled(self, message: ConditionsCompiled, now: float) -> None:
        self.subscribing.pending.compiled(self._compiler.answered(message.number), message.compiled, now)

    def _summarised(self, message: InterestSummarised, _: float) -> None:
        shrinking: ShrinkingInterest = self._compiler.answered(message.number)
        if self.overlay is not None:
            self.overlay.wanted.summarised(shrinking, message.covering)

    def _fetched(self, message: Fetched, now: float) -> None:
        match message.reader:
            case ExportReader() if self.overlay is not None:
                self.overlay.exports.fetched(message, now)
            case OwnLogPiece() if self.overlay is not None:
                self.overlay.replays.fetched(message, now)
            case CountingKey():
                self.deliveries.counting.fetched(message)
            case (str(tenant), str(topic)):
                if (tenant, topic) in self.topics:  # else it was deleted meanwhile
                    self.deliveries.fetched(self.topics[tenant, topic], message, now)

    def _merged(self, message: InterestMerged, _: float) -> None:
        self.subscribing.pending.merged(self._compiler.answered(message.number), message.merged)

    def _webhook_checked(self, message: WebhookChecked, now: float) -> None:
        self.subscribing.pending.webhook_checked(self._webhook_checks.answered(message.number), message, now)

    def _webhook_called(self, message: WebhookCalled, now: float) -> None:
        if taker := self.takers.of_handle(message.tenant, message.subscription, message.handle):
            self.webhooks.called(taker, message, now)

    def _due(self, message: TimerDue, now: float) -> None:
        key = message.key
        self.timers.due(key)
        match key:
            case EdgeTimer.STEP:
                self.subscribing.pending.compile_all()
                self.publishing.match_ready(now)
            case EdgeTimer.TIDY:
                self.deliveries.tidy()
            case DeadlineTimer():
                if taker := self.takers.of_handle(key.tenant, key.subscription, key.handle):
                    self.subscribing.check_deadline(taker, now)
            case RetryTimer():
                if taker := self.takers.of_handle(key.tenant, key.subscription, key.handle):
                    self.webhooks.call_again(taker)
            case ConsumingTimer():
                if taker := self.takers.of_handle(key.tenant, key.subscription, key.handle):
                    self.deliveries.wake(taker, now)
            case AdoptionTimer():
                self.moves.due(key)
            case _ if self.overlay is not None:
                self.overlay.due(key, now)

    def _match_ready(self, now: float) -> None:
        self.publishing.match_ready(now)

    def _is_handing(self, publisher: PublisherKey) -> bool:
        return self.publishing.is_handing(publisher)

    def _step_soon(self, now: float) -> None:
        self.timers.ensure(EdgeTimer.STEP, now)

    def _tidy_soon(self, now: float) -> None:
        self.timers.ensure(EdgeTimer.TIDY, now + self._options.tidy_seconds)

    def _deliver(self, topic: Topic, entries: Sequence[Entry], rows: Sequence[dict[str, Any]], now: float) -> None:
        self.deliveries.offer(topic, topic.matches(entries, rows), entries[-1][0], now)

    def _deliver_matched(self, topic: Topic, records: Sequence[EventsStored], now: float) -> None:
        last = records[-1].position + len(records[-1].deliveries) - 1
        self.deliveries.offer(topic, topic.stored_matches(records), last, now)

    # Other edges

    def _tell_advertised(self, advertisement: PublisherAdvertisement, now: float) -> None:
        self.others.use_to_publish(advertisement.topic)
        if self.overlay is None:
            self.advertisements.known(advertisement)
        else:
            self.overlay.advertised.tell(advertisement, now)

    def _searched(self, search: HomeSearch, now: float) -> None:
        """No other edge has what a client asked for: if it is to be made, it is made here; else there is none."""
        link, identity, frame = search.link, search.identity, search.frame
        if link not in self.links:
            return
        try:
            if isinstance(frame, Subscribe):
                self.subscribing.subscribe(link, identity, frame, now, is_searched=True)
            elif isinstance(frame, List):
                self.replies.send(link, Listed(frame.ref, *listing.page(self, identity, frame, now)))
            else:
                raise Refusal("unknown", f"there is no subscription {frame.subscription!r}")
        except Refusal as refusal:
            self.replies.refuse(link, frame.ref, refusal)

    def _confirm(self, pending: PendingSubscription, now: float) -> None:
        if self.overlay is None:
            self.subscribing.pending.confirmed(pending, now)
        else:
            self.overlay.confirming.begin(pending, now)

    # Lists

    def _list(self, link: str, identity: Identity, frame: List, now: float) -> None:
        is_elsewhere = frame.subscription is not None and not self.subscribing.has(identity.tenant, frame.subscription)
        if is_elsewhere and self.others.search(link, identity, frame, now):
            return
        self.replies.send(link, Listed(frame.ref, *listing.page(self, identity, frame, now)))
