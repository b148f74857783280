"""The edge broker: clients connect to it, publish to it and are served by it.

It is a state machine (see `fieldfare.messages`). What must survive goes to the log first: a request is answered, and an
event matched, when the host says that its record is stored. So what is answered is durable, and matching works on all
the events that became durable together. Work that is cheaper for many at once, such as compiling conditions, waits for
the end of the host's current round, by a timer that is due at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fieldfare.messages import (
    BrokerIdentity,
    Candidate,
    Close,
    Closed,
    ConditionsCompiled,
    Effect,
    Fetched,
    HandedOver,
    Identity,
    Input,
    InterestMerged,
    InterestSummarised,
    LogId,
    Member,
    NotStored,
    OfferAnswered,
    Opened,
    PipelineMatched,
    Received,
    Record,
    Started,
    Stored,
    TimerDue,
    TopicKey,
    WebhookCalled,
    WebhookChecked,
)
from fieldfare.routing import recovery
from fieldfare.routing.client_requests import ClientRequests
from fieldfare.routing.consuming import ConsumingTimer
from fieldfare.routing.edge_parts import EdgeParts, EdgeTimer
from fieldfare.routing.exported_interest import ShrinkingInterest
from fieldfare.routing.exporting import ExportReader
from fieldfare.routing.handing import HandedPart
from fieldfare.routing.home_conditions import Registration
from fieldfare.routing.lag import CountingKey
from fieldfare.routing.log_answers import LogAnswers
from fieldfare.routing.moved_publisher import PublisherKey
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.publication import Publication
from fieldfare.routing.publisher_moves import AdoptionTimer
from fieldfare.routing.quotas import Usage
from fieldfare.routing.replaying_own_log import OwnLogPiece
from fieldfare.routing.statistics import Statistics, SubscriptionLag, TopicLoad, lags, statistics, topic_loads
from fieldfare.routing.subscribing import DeadlineTimer
from fieldfare.routing.webhooks import RetryTimer

_DEFAULTS = EdgeOptions()


class Edge:
    """An edge broker. With overlay options it is connected with other edges."""

    def __init__(
        self,
        name: str,
        rng: random.Random,
        options: EdgeOptions = _DEFAULTS,
        overlay: OverlayOptions | None = None,
    ) -> None:
        self._effects: list[Effect] = []
        self.parts = EdgeParts(name, rng, options, overlay, self._effects.append)
        self._links = self.parts.links
        self._clients, self._answers = ClientRequests(self.parts), LogAnswers(self.parts)
        self._handlers = self._input_handlers()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.parts.name

    @property
    def log_id(self) -> LogId:
        """The id of its log; empty until it has started."""
        return self.parts.log_id

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

        Whether it has moved is seen by `parts.moves`.
        """
        self.parts.asked.move(publisher, target)
        return self._take_effects()

    def ask_to_ping(self, publisher: PublisherKey, candidates: Sequence[Candidate]) -> Sequence[Effect]:
        """Ask a publisher how far other edges are; `parts.asked.on_pinged` is called with the answer, if one comes."""
        self.parts.asked.ping(publisher, candidates)
        return self._take_effects()

    def recover(self, record: Record) -> None:
        """Take up a record of the checkpoint or the log."""
        recovery.recover(self.parts, record)
        self._effects.clear()

    def checkpoint(self) -> Sequence[Record]:
        """Records that stand for all that were stored so far, but for the events themselves."""
        return recovery.checkpoint(self.parts)

    def statistics(self) -> Statistics:
        """Counts, for those who watch."""
        return statistics(self.parts)

    def lags(self, tenant: str, now: float) -> Iterator[SubscriptionLag]:
        """How far a tenant's subscriptions are behind, of those that are."""
        return lags(self.parts, tenant, now)

    def topic_loads(self, tenant: str, now: float) -> Iterator[TopicLoad]:
        """What goes on in a tenant's topics."""
        return topic_loads(self.parts, tenant, now)

    def waits(self) -> list[str]:
        """What waits for the log, the pipeline, the compiler and checks of webhooks."""
        return self.parts.waits()

    def usage(self, tenant: str, now: float) -> Usage:
        """What a tenant uses of its quota."""
        return self.parts.quotas.usage(tenant, self.parts.takers.count_of(tenant), now)

    @property
    def load(self) -> float:
        """The share of its places for clients that are taken."""
        return self.parts.load

    def edges(self) -> list[Member]:
        """The edges that serve the same network, this one first and then those with most room."""
        return self.parts.edges()

    def edges_with_room(self) -> tuple[str, ...]:
        """Where clients can go for which there is no place here: the URLs of other edges that have room."""
        return self._clients.edges_with_room()

    def count_matches(self, key: TopicKey, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """How many subscriptions here each of some events would be delivered to."""
        parts = self.parts
        counts = [0] * len(rows)
        if key in parts.topics:
            topic = parts.topics[key]
            for handle, numbers in topic.interest.match(rows):
                for number in numbers if handle in topic.takers else ():
                    counts[number] += 1
        return counts

    # Who deals with what

    def _input_handlers(self) -> dict[type[Input], Callable[[Any, float], None]]:
        parts = self.parts
        return {
            Started: lambda _, now: parts.started(now),
            Opened: self._opened,
            Received: self._received,
            Closed: self._closed,
            Stored: self._answers.stored,
            NotStored: self._answers.not_stored,
            Fetched: self._fetched,
            TimerDue: self._due,
            ConditionsCompiled: self._compiled,
            InterestMerged: self._merged,
            InterestSummarised: self._summarised,
            OfferAnswered: parts.declaring.offered,
            WebhookChecked: self._webhook_checked,
            WebhookCalled: self._webhook_called,
            HandedOver: self._handed_over,
            PipelineMatched: parts.batches.matched,
            **(parts.overlay.handlers if parts.overlay is not None else {}),
        }

    # What happens

    def _received(self, message: Received, now: float) -> None:
        identity = self._links.identity(message.link)
        if identity is not None:
            self._clients.received(message.link, identity, message.frame, now)
        elif (overlay := self.parts.overlay) is not None and message.link in overlay.links:
            overlay.requests.received(message, now)
        # else it was closed meanwhile

    def _opened(self, message: Opened, _: float) -> None:
        match message.identity:
            case Identity() as client:
                self._clients.opened(message.link, client)
            case BrokerIdentity() as broker if self.parts.overlay is not None:
                self.parts.overlay.opened(message.link, broker)
            case _:
                self._effects.append(Close(message.link, "an edge serves clients"))

    def _closed(self, message: Closed, now: float) -> None:
        if (overlay := self.parts.overlay) is not None and message.link in overlay.links:
            overlay.closed(message, now)
        else:
            self._clients.closed(message.link, now)

    def _handed_over(self, message: HandedOver, now: float) -> None:
        parts = self.parts
        match parts.pipeline.answered(message.number), message.failure:
            case Publication() as publication, None:
                parts.publishing.handed(publication)
            case Publication() as publication, str(reason):
                parts.publishing.not_handed(publication, reason)
            case PendingSubscription() as pending, None:
                parts.subscribing.pending.handed(pending, now)
            case PendingSubscription() as pending, str(reason):
                parts.subscribing.pending.not_handed(pending, reason)
            case HandedPart() as part, failure if parts.overlay is not None:
                parts.overlay.homes.handed(part, failure)
            case Registration() as registration, failure if parts.overlay is not None:
                parts.overlay.home_conditions.handed(registration, failure)

    def _compiled(self, message: ConditionsCompiled, now: float) -> None:
        self.parts.subscribing.pending.compiled(self.parts.compiler.answered(message.number), message.compiled, now)

    def _summarised(self, message: InterestSummarised, _: float) -> None:
        shrinking: ShrinkingInterest = self.parts.compiler.answered(message.number)
        if self.parts.overlay is not None:
            self.parts.overlay.wanted.summarised(shrinking, message.covering)

    def _fetched(self, message: Fetched, now: float) -> None:
        parts = self.parts
        match message.reader:
            case ExportReader() if parts.overlay is not None:
                parts.overlay.exports.fetched(message, now)
            case OwnLogPiece() if parts.overlay is not None:
                parts.overlay.replays.fetched(message, now)
            case CountingKey():
                parts.deliveries.counting.fetched(message)
            case (str(tenant), str(topic)):
                if (tenant, topic) in parts.topics:  # else it was deleted meanwhile
                    parts.deliveries.fetched(parts.topics[tenant, topic], message, now)

    def _merged(self, message: InterestMerged, _: float) -> None:
        self.parts.subscribing.pending.merged(self.parts.compiler.answered(message.number), message.merged)

    def _webhook_checked(self, message: WebhookChecked, now: float) -> None:
        self.parts.subscribing.pending.webhook_checked(self.parts.webhook_checks.answered(message.number), message, now)

    def _webhook_called(self, message: WebhookCalled, now: float) -> None:
        if taker := self.parts.takers.of_handle(message.tenant, message.subscription, message.handle):
            self.parts.webhooks.called(taker, message, now)

    def _due(self, message: TimerDue, now: float) -> None:
        parts, key = self.parts, message.key
        parts.timers.due(key)
        match key:
            case EdgeTimer.STEP:
                parts.subscribing.pending.compile_all()
                parts.publishing.match_ready(now)
            case EdgeTimer.TIDY:
                parts.deliveries.tidy()
            case DeadlineTimer():
                if taker := parts.takers.of_handle(key.tenant, key.subscription, key.handle):
                    parts.subscribing.check_deadline(taker, now)
            case RetryTimer():
                if taker := parts.takers.of_handle(key.tenant, key.subscription, key.handle):
                    parts.webhooks.call_again(taker)
            case ConsumingTimer():
                if taker := parts.takers.of_handle(key.tenant, key.subscription, key.handle):
                    parts.deliveries.wake(taker, now)
            case AdoptionTimer():
                parts.moves.due(key)
            case _ if parts.overlay is not None:
                parts.overlay.due(key, now)
