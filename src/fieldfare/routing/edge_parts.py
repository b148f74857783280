"""The parts of an edge, made and brought together: each is given what it calls of the others, and no more.

    topics, takers, links          what is there: topics, subscriptions in force, clients that are connected
    publishing, moves              publications; publishers that move from edge to edge
    subscribing, requests          subscriptions: made, attached, ended; and what else is asked of them
    deliveries, consumption        events on their way to subscribers
    acknowledging                  what subscribers say of them
    webhooks, dead_letters         calls, and what was given up
    declaring, deleting, auditing  topics that come, change and go, and who changed what
    batches                        what Spark matched
    overlay, others                the other edges, if there are any

What parts that are made early need of later ones stands at the end, as methods.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from fieldfare.messages import EventsStored, List, Listed, LogBegun, LogId, Member, Subscribe, UsePipeline
from fieldfare.routing import listing
from fieldfare.routing.acknowledging import Acknowledging
from fieldfare.routing.asked_publishers import AskedPublishers
from fieldfare.routing.auditing import Auditing
from fieldfare.routing.client_links import ClientLinks
from fieldfare.routing.consuming import Consumption
from fieldfare.routing.dead_letters import DeadLetters
from fieldfare.routing.delivery import Deliveries, DeliveryPorts
from fieldfare.routing.home_search import HomeSearch
from fieldfare.routing.moved_publisher import PublisherKey
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.other_edges import OtherEdges
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.overlay import EdgeOverlay
from fieldfare.routing.overlay_ports import OverlayOptions, OverlayPorts
from fieldfare.routing.pending import PendingPorts, PendingSubscription
from fieldfare.routing.pipeline_batches import BatchPorts, PipelineBatches
from fieldfare.routing.ports import Asking, Emit, LogPort, Positions, Replies, Timers
from fieldfare.routing.publisher_advertisements import AdvertisingPorts, PublisherAdvertisement, PublisherAdvertisements
from fieldfare.routing.publisher_moves import MovePorts, PublisherMoves
from fieldfare.routing.publishing import Publishing, PublishingPorts
from fieldfare.routing.quotas import Quotas
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.subscribing import Subscribing, SubscribingPorts
from fieldfare.routing.subscription_requests import RequestPorts, SubscriptionRequests
from fieldfare.routing.takers import Takers
from fieldfare.routing.topic import Topic, Topics
from fieldfare.routing.topic_declaring import DeclaringPorts, TopicDeclaring
from fieldfare.routing.topic_deleting import DeletingPorts, TopicDeleting
from fieldfare.routing.tracing import TraceSteps
from fieldfare.routing.webhooks import WebhookCalls


class EdgeTimer(Enum):
    """Timer keys of the edge itself."""

    STEP = auto()  # the end of a round: compile, and match what needs no log
    TIDY = auto()  # now and then: write cursors, look after memory


class EdgeParts:
    """The parts of one edge. They emit effects by `emit`."""

    def __init__(
        self, name: str, rng: random.Random, options: EdgeOptions, overlay: OverlayOptions | None, emit: Emit
    ) -> None:
        self.name, self.options = name, options
        self.log_id: LogId = ""  # known when it has started
        self.started_at = 0.0  # since when things are counted
        self._rng, self.emit = rng, emit
        self.takers, self.links = Takers(), ClientLinks()
        self.topics = Topics(options, emit, self.takers.get)
        self.others = OtherEdges(self.topics)
        self.replies, self.timers, self.log = Replies(emit), Timers(emit), LogPort(emit)
        self.positions, self.quotas = Positions(self.log), Quotas(options.quotas)
        self.pipeline, self.compiler, self.webhook_checks = Asking(emit), Asking(emit), Asking(emit)
        self.dead_letters = DeadLetters(options, self.log)
        self.consumption = Consumption(options, emit, self.timers, self.dead_letters)
        self.webhooks = WebhookCalls(options, rng, emit, self.timers, self.consumption, self.dead_letters)
        self.deliveries = Deliveries(
            options, DeliveryPorts(self.topics, emit, self.log, self.webhooks, self.consumption, self._tidy_soon)
        )
        self.webhooks.settling = self.deliveries
        self.moves = self._make_moves()
        self.advertisements = PublisherAdvertisements(
            AdvertisingPorts(self.topics, self.replies, self._tell_advertised, self.others.advertised_changed)
        )
        self.asked = AskedPublishers(self.advertisements, self.moves, self.replies)
        self.publishing = self._make_publishing()
        self.subscribing = self._make_subscribing()
        self.acknowledging = Acknowledging(self.takers, self.deliveries, self.replies)
        self.requests = self._make_requests()
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
        self.batches = self._make_batches()

    def started(self, now: float) -> None:
        """All that the log holds has been recovered."""
        self.started_at = now
        self.positions.restarted()
        if not self.log_id:
            self.log_id = f"{self._rng.getrandbits(64):016x}"
            self.log.append_lazily(LogBegun(self.log_id))  # whatever is durable lies after it
        self.subscribing.log_id = self.publishing.log_id = self.moves.log_id = self.log_id
        for topic in self.topics:
            if topic.is_home:
                conditions = {made.id: made.condition for made in self.subscribing.of_topic(topic)}
                conditions |= {} if self.overlay is None else self.overlay.home_conditions.of_topic(topic)
                self.emit(UsePipeline(*topic.key, topic.stored_batch, conditions))
        for taker in self.takers:
            self.consumption.recovered(taker)
        self.deliveries.counting.started(self.topics)
        self.subscribing.started(now)
        if self.overlay is not None:
            self.publishing.name_by_log(self.log_id)
            self.overlay.started(self.log_id, now)

    @property
    def load(self) -> float:
        """The share of its places for clients that are taken."""
        return len(self.links) / self.options.connections_max

    def edges(self) -> list[Member]:
        """The edges that serve the same network, this one first and then those with most room."""
        own = Member(self.name, "edge", log=self.log_id, load=self.load)
        return [own] if self.overlay is None else self.overlay.announcing.edges_of_network()

    def waits(self) -> list[str]:
        """What waits for the log, the pipeline, the compiler and checks of webhooks."""
        return [wait for port in (self.log, self.pipeline, self.compiler, self.webhook_checks) for wait in port.waits()]

    # Making

    def _make_moves(self) -> PublisherMoves:
        return PublisherMoves(
            self.name,
            self.options.publishers_max,
            self.options.adopt_seconds,
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

    def _make_publishing(self) -> Publishing:
        return Publishing(
            self.name,
            self.options.unstored_bytes_max,
            PublishingPorts(
                self.topics,
                self.replies,
                self.log,
                self.positions,
                self.quotas,
                self.pipeline,
                self._deliver,
                self._deliver_matched,
                self.others.export,
                self.moves,
                self.advertisements,
                self._step_soon,
                TraceSteps(self.emit, lambda: self.deliveries.counts.delivered) if self.options.has_traces else None,
            ),
        )

    def _make_subscribing(self) -> Subscribing:
        return Subscribing(
            self.name,
            self._rng,
            self.options,
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
                self.pipeline,
                self.compiler,
                self.webhook_checks,
                self.others.want,
                self.others.unregister,
                self._confirm,
                self.others.settled,
                EdgeTimer.STEP,
            ),
        )

    def _make_requests(self) -> SubscriptionRequests:
        return SubscriptionRequests(
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

    def _make_batches(self) -> PipelineBatches:
        return PipelineBatches(
            BatchPorts(
                self.topics,
                self.log,
                self.positions,
                self.quotas,
                self.deliveries,
                self.emit,
                self.others.cursors_of,
                self.others.is_remote,
                self.others.export_matched,
            )
        )

    def _make_overlay(self, options: OverlayOptions) -> EdgeOverlay:
        ports = OverlayPorts(
            self.emit,
            self.topics,
            self.log,
            self.positions,
            self.timers,
            self.compiler,
            self.pipeline,
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

    # What parts that are made early call of later ones

    def _match_ready(self, now: float) -> None:
        self.publishing.match_ready(now)

    def _is_handing(self, publisher: PublisherKey) -> bool:
        return self.publishing.is_handing(publisher)

    def _step_soon(self, now: float) -> None:
        self.timers.ensure(EdgeTimer.STEP, now)

    def _tidy_soon(self, now: float) -> None:
        self.timers.ensure(EdgeTimer.TIDY, now + self.options.tidy_seconds)

    def _deliver(self, topic: Topic, entries: Sequence[EventEntry], rows: Sequence[dict[str, Any]], now: float) -> None:
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
