"""The edge broker: clients connect to it, publish to it and are served by it.

It is a state machine (see `fieldfare.messages`). What must survive goes to the log first: a request is answered, and an
event matched, when the host says that its record is stored. So what is answered is durable, and matching works on all
the events that became durable together. Work that is cheaper for many at once, such as compiling conditions, waits for
the end of the host's current round, by a timer that is due at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

from fieldfare.messages import (
    Ack,
    Attach,
    Close,
    Closed,
    ConditionsCompiled,
    DeclareTopic,
    Detach,
    Done,
    Effect,
    Fetched,
    HandedOver,
    Identity,
    Input,
    InterestMerged,
    List,
    Listed,
    NotStored,
    Opened,
    PipelineMatched,
    Position,
    Publish,
    Received,
    Record,
    Started,
    Stored,
    Subscribe,
    TimerDue,
    Unsubscribe,
    UsePipeline,
    WebhookCalled,
    WebhookChecked,
)
from fieldfare.qos import unmet
from fieldfare.routing import listing, recovery
from fieldfare.routing.client_links import ClientLinks
from fieldfare.routing.delivery import Deliveries
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.pending import PendingPorts, PendingSubscription
from fieldfare.routing.pipeline_batches import PendingBatch, PipelineBatches
from fieldfare.routing.ports import Asking, LogPort, Positions, Replies, Timers
from fieldfare.routing.publication import Publication, Repetition
from fieldfare.routing.publishing import Publishing, PublishingPorts
from fieldfare.routing.quotas import Quotas, Usage
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.statistics import Statistics, statistics
from fieldfare.routing.subscribing import (
    DeadlineTimer,
    EndingSubscription,
    Subscribing,
    SubscribingPorts,
)
from fieldfare.routing.taker import Entry, Taker
from fieldfare.routing.takers import Takers
from fieldfare.routing.topic import Topic, TopicChange, Topics
from fieldfare.routing.webhooks import RetryTimer, WebhookCalls

_DEFAULTS = EdgeOptions()


class EdgeTimer(Enum):
    """Timer keys of the edge itself."""

    STEP = auto()  # the end of a round: compile, and match what needs no log
    TIDY = auto()  # now and then: write cursors, look after memory


class Edge:
    """An edge broker."""

    def __init__(self, name: str, rng: random.Random, options: EdgeOptions = _DEFAULTS) -> None:
        self.name = name
        self._options = options
        self._effects: list[Effect] = []
        emit = self._effects.append
        self.takers, self.links = Takers(), ClientLinks()
        self.topics = Topics(options, emit, self.takers.get)
        self.replies, self.timers, self.log = Replies(emit), Timers(emit), LogPort(emit)
        self.positions, self.quotas = Positions(self.log), Quotas(options.quotas)
        self._pipeline, self._compiler, self._webhook_checks = Asking(emit), Asking(emit), Asking(emit)
        self.webhooks = WebhookCalls(options, rng, emit, self.log, self.timers, self._webhook_took)
        self.deliveries = Deliveries(options, self.topics, emit, self.log, self.webhooks, self._tidy_soon)
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
                self._step_soon,
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
                EdgeTimer.STEP,
            ),
        )
        self._batches = PipelineBatches(self.topics, self.log, self.positions, self.quotas, self.deliveries, emit)
        self._handlers = self._input_handlers()
        self._requests = self._request_handlers()
        self._when_stored, self._when_not_stored = self._waiters_of_the_log()

    # The contract with the host

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        self._handlers[type(message)](message, now)
        effects = self._effects.copy()
        self._effects.clear()
        return effects

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

    def waits(self) -> list[str]:
        """What waits for the log, the pipeline, the compiler and checks of webhooks."""
        return [
            wait for port in (self.log, self._pipeline, self._compiler, self._webhook_checks) for wait in port.waits()
        ]

    def usage(self, tenant: str, now: float) -> Usage:
        """What a tenant uses of its quota."""
        return self.quotas.usage(tenant, self.takers.count_of(tenant), now)

    # Who deals with what

    def _input_handlers(self) -> dict[type[Input], Callable[[Any, float], None]]:
        return {
            Started: self._started,
            Opened: self._opened,
            Received: self._received,
            Closed: self._closed,
            Stored: self._stored,
            NotStored: self._not_stored,
            Fetched: lambda message, now: self.deliveries.fetched(self.topics[message.reader], message, now),
            TimerDue: self._due,
            ConditionsCompiled: self._compiled,
            InterestMerged: self._merged,
            WebhookChecked: self._webhook_checked,
            WebhookCalled: self._webhook_called,
            HandedOver: self._handed_over,
            PipelineMatched: self._batches.matched,
        }

    def _request_handlers(self) -> dict[type, Callable[[str, Identity, Any, float], None]]:
        return {
            Publish: self.publishing.publish,
            Ack: self.subscribing.acknowledge,
            Subscribe: self.subscribing.subscribe,
            Attach: self.subscribing.attach,
            Detach: lambda link, identity, frame, _: self.subscribing.detach(link, identity, frame),
            Unsubscribe: lambda link, identity, frame, _: self.subscribing.unsubscribe(link, identity, frame),
            DeclareTopic: self._declare,
            List: self._list,
        }

    def _waiters_of_the_log(
        self,
    ) -> tuple[dict[type, Callable[[Any, float], None]], dict[type, Callable[[Any, str], None]]]:
        """Whom to tell, by the type of what waits, that it is stored, and that it is not."""
        return {
            Publication: self.publishing.stored,
            Repetition: lambda waiter, _: self.publishing.repetition_stored(waiter),
            PendingBatch: self._batches.stored,
            PendingSubscription: self.subscribing.pending.stored,
            EndingSubscription: lambda waiter, _: self.subscribing.ended(waiter),
            TopicChange: lambda waiter, _: self._declared(waiter),
        }, {
            Publication: self.publishing.not_stored,
            Repetition: self.publishing.repetition_failed,
            PendingBatch: lambda waiter, _: self._batches.not_stored(waiter),
            PendingSubscription: self.subscribing.pending.not_stored,
            EndingSubscription: self.subscribing.not_ended,
            TopicChange: self._not_declared,
        }

    # What happens

    def _started(self, _: Started, now: float) -> None:
        self.positions.restarted()
        for topic in self.topics:
            if topic.matching == "spark":
                conditions = {made.id: made.condition for made in self.subscribing.of_topic(topic)}
                self._effects.append(UsePipeline(*topic.key, topic.stored_batch, conditions))
        self.subscribing.started(now)

    def _opened(self, message: Opened, _: float) -> None:
        if not isinstance(message.identity, Identity):
            self._effects.append(Close(message.link, "an edge serves clients"))
        elif (reason := self.quotas.connect(message.identity.tenant)) is not None:
            self._effects.append(Close(message.link, reason))
        else:
            self.links.add(message.link, message.identity)

    def _closed(self, message: Closed, _: float) -> None:
        if (identity := self.links.identity(message.link)) is not None:
            self.quotas.disconnect(identity.tenant)
            self.subscribing.closed(message.link)

    def _received(self, message: Received, now: float) -> None:
        identity = self.links.identity(message.link)
        if identity is None:
            return  # it was closed meanwhile
        try:
            self._requests[type(message.frame)](message.link, identity, message.frame, now)
        except Refusal as refusal:
            self.replies.refuse(message.link, getattr(message.frame, "ref", None), refusal)

    def _stored(self, message: Stored, now: float) -> None:
        for waiter in self.log.answered(message.number):
            self._when_stored[type(waiter)](waiter, now)
        self.publishing.match_ready(now)

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

    def _compiled(self, message: ConditionsCompiled, now: float) -> None:
        self.subscribing.pending.compiled(self._compiler.answered(message.number), message.compiled, now)

    def _merged(self, message: InterestMerged, _: float) -> None:
        self.subscribing.pending.merged(self._compiler.answered(message.number), message.merged)

    def _webhook_checked(self, message: WebhookChecked, now: float) -> None:
        self.subscribing.pending.webhook_checked(self._webhook_checks.answered(message.number), message, now)

    def _webhook_called(self, message: WebhookCalled, now: float) -> None:
        if taker := self.takers.of_handle(message.tenant, message.subscription, message.handle):
            self.webhooks.called(taker, message, now)

    def _webhook_took(self, taker: Taker, position: Position, now: float) -> None:
        self.deliveries.acknowledge(taker, position, now, is_final=True)

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

    def _step_soon(self, now: float) -> None:
        self.timers.ensure(EdgeTimer.STEP, now)

    def _tidy_soon(self, now: float) -> None:
        self.timers.ensure(EdgeTimer.TIDY, now + self._options.tidy_seconds)

    def _deliver(self, topic: Topic, entries: Sequence[Entry], rows: Sequence[dict[str, Any]], now: float) -> None:
        self.deliveries.offer(topic, topic.matches(entries, rows), entries[-1][0], now)

    # Topics and lists

    def _list(self, link: str, identity: Identity, frame: List, _: float) -> None:
        self.replies.send(link, Listed(frame.ref, *listing.page(self, identity, frame)))

    def _declare(self, link: str, identity: Identity, frame: DeclareTopic, _: float) -> None:
        require(identity, "manage", frame.topic)
        if frame.matching == "spark" and not self._options.has_pipeline:
            raise Refusal("invalid", "this service has no Spark pipeline: start it with --spark, or match at the edge")
        topic = self.topics.get_or_make(identity.tenant, frame.topic)
        for subscription in self.subscribing.of_topic(topic):
            if frame.matching != topic.matching:
                raise Refusal("invalid", "a topic that has subscriptions is matched where it is: end them first")
            if reason := unmet(frame.offered, subscription.qos):
                raise Refusal("qos", f"the subscription {subscription.id!r} needs more: {reason}")
        change = TopicChange(topic, link, frame)
        topic.change_count += 1
        self.log.append(change.record, change)

    def _declared(self, change: TopicChange) -> None:
        topic, frame = change.topic, change.frame
        topic.change_count -= 1
        topic.offered, topic.matching = frame.offered, frame.matching
        self.replies.send(change.link, Done(frame.ref))

    def _not_declared(self, change: TopicChange, reason: str) -> None:
        change.topic.change_count -= 1
        self.replies.refuse(change.link, change.frame.ref, Refusal("storage", reason))
