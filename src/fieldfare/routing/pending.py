"""Subscriptions that are asked for and not yet in force.

Each goes through the states below, of which it needs some only. Many that are asked for in one round are compiled
together. When it has passed them all it is put in force; from any of them it may be denied.

    CHECKING ─▶ COMPILING ─▶ HANDING ─▶ CONFIRMING ─▶ STORING ─▶ in force
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from fieldfare.messages import (
    CheckWebhook,
    CompileConditions,
    HandSubscription,
    MergeInterest,
    Position,
    Subscribe,
    SubscriptionReplayed,
    SubscriptionStored,
    TopicKey,
    WebhookChecked,
)
from fieldfare.routing.client_links import ClientLinks
from fieldfare.routing.interest import CompiledConditions, Merged
from fieldfare.routing.ports import Asking, LogPort, Replies, Timers
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.taker import Taker
from fieldfare.routing.takers import Takers
from fieldfare.routing.topic import Topic, Topics


class PendingState(Enum):
    """What a subscription waits for before it is in force."""

    CHECKING = auto()  # its webhook's address, to be found harmless
    COMPILING = auto()
    HANDING = auto()  # the pipeline's store, to have it
    CONFIRMING = auto()  # other edges, to know what it wants, and what they have for it to be here
    STORING = auto()  # its record, to be in the log


@dataclass(slots=True, eq=False)
class PendingSubscription:
    """A subscription that is asked for, and not yet in force."""

    topic: Topic
    link: str
    frame: Subscribe
    subscription: Subscription
    handle: int
    cursor: Position
    state: PendingState
    changes: Taker | None = None  # one that exists and is to be like this; None: it is new
    gaps: list[str] = field(default_factory=list)  # what its subscriber is to be told of events that are missing


@dataclass(frozen=True, slots=True)
class CompilingGroup:
    """Subscriptions to one topic whose conditions are being compiled."""

    topic: Topic
    pending: list[PendingSubscription]


@dataclass(frozen=True, slots=True)
class PendingPorts:
    """What pending subscriptions need of their broker."""

    topics: Topics
    takers: Takers
    links: ClientLinks
    replies: Replies
    log: LogPort
    timers: Timers
    pipeline: Asking
    compiler: Asking
    webhooks: Asking
    want: Callable[[Topic, CompiledConditions], None]  # other edges are to be told what is wanted
    unregister: Callable[[Topic, str], None]  # the home of a topic need not match a subscription any more
    confirm: Callable[[PendingSubscription, float], None]  # has `confirmed` called when they know it
    settled: Callable[[Topic], None]  # a subscription to a topic is no longer pending
    step_timer: object  # the key of the timer that has `compile_all` called at the end of the host's round


class PendingSubscriptions:
    """All that are pending. `put_in_force` is called for each that has passed."""

    def __init__(self, ports: PendingPorts, put_in_force: Callable[[PendingSubscription, float], None]) -> None:
        self._topics, self._takers, self._links = ports.topics, ports.takers, ports.links
        self._replies, self._log = ports.replies, ports.log
        self._timers, self._step_timer = ports.timers, ports.step_timer
        self._pipeline, self._compiler, self._webhooks = ports.pipeline, ports.compiler, ports.webhooks
        self._want, self._confirm, self._unregister = ports.want, ports.confirm, ports.unregister
        self._settled, self._put_in_force = ports.settled, put_in_force
        self._counts: Counter[TopicKey] = Counter()
        self._durable_counts: Counter[TopicKey] = Counter()
        self._pending: dict[tuple[str, str], PendingSubscription] = {}  # by tenant and id
        self._to_compile: dict[TopicKey, list[PendingSubscription]] = {}

    def has(self, tenant: str, name: str) -> bool:
        """Whether a subscription is pending."""
        return (tenant, name) in self._pending

    def check_none(self, tenant: str, name: str) -> None:
        """Refuse what is asked of a subscription that is pending."""
        if (tenant, name) in self._pending:
            raise Refusal("busy", f"the subscription {name!r} is just being made: try again")

    def count_of(self, topic: TopicKey) -> int:
        """How many subscriptions to a topic are pending."""
        return self._counts[topic]

    def durable_count_of(self, topic: TopicKey) -> int:
        """How many of them are durable."""
        return self._durable_counts[topic]

    def of_topic(self, topic: Topic) -> Iterator[Subscription]:
        """The subscriptions to a topic that are pending."""
        return (pending.subscription for pending in self._pending.values() if pending.topic is topic)

    def begin(self, pending: PendingSubscription, now: float) -> None:
        """A subscription is asked for."""
        self._pending[pending.subscription.key] = pending
        self._counts[pending.topic.key] += 1
        self._durable_counts[pending.topic.key] += pending.subscription.is_durable
        self._takers.reserve(pending.topic.tenant)
        self._links.add_pending(pending.link, 1)
        if pending.state is PendingState.CHECKING:
            url = pending.frame.webhook or ""
            self._webhooks.ask(lambda number: CheckWebhook(number, url), pending)
        else:
            self._compile_soon(pending, now)

    # Checked

    def webhook_checked(self, pending: PendingSubscription, result: WebhookChecked, now: float) -> None:
        """It is known whether its webhook may be called."""
        if result.failure is not None:
            self._deny(pending, Refusal("busy" if result.is_busy else "invalid", result.failure))
        else:
            pending.state = PendingState.COMPILING
            self._compile_soon(pending, now)

    # Compiled

    def _compile_soon(self, pending: PendingSubscription, now: float) -> None:
        self._to_compile.setdefault(pending.topic.key, []).append(pending)
        self._timers.ensure(self._step_timer, now)

    def compile_all(self) -> None:
        """Have the conditions compiled that were asked for in this round."""
        to_compile, self._to_compile = self._to_compile, {}
        for key, group in to_compile.items():
            self._compile(CompilingGroup(self._topics[key], group))

    def _compile(self, group: CompilingGroup) -> None:
        handles = [pending.handle for pending in group.pending]
        conditions = [pending.frame.condition for pending in group.pending]
        self._compiler.ask(lambda number: CompileConditions(number, handles, conditions), group)

    def compiled(self, group: CompilingGroup, compiled: CompiledConditions, now: float) -> None:
        """Put conditions into the index, and deny those that are not sound."""
        errors = group.topic.interest.add(compiled)
        self._want(group.topic, compiled)
        self.merge_beside(group.topic)
        for pending in group.pending:
            if pending.handle in errors:
                self._deny(pending, Refusal("condition", str(errors[pending.handle])))
            elif group.topic.is_home:
                pending.state = PendingState.HANDING
                self._hand(pending.subscription, pending.frame.condition, pending)
            else:
                self._begin_to_confirm(pending, now)

    def merge_beside(self, topic: Topic) -> None:
        """Have a topic's index put in order, if that is worth it and not being done already."""
        if not topic.is_merging and (merge := topic.interest.pending_merge()) is not None:
            topic.is_merging = True
            self._compiler.ask(lambda number: MergeInterest(number, merge), topic)

    def merged(self, topic: Topic, merged: Merged) -> None:
        """A topic's index has been put in order; what changed meanwhile may be worth the next time."""
        topic.is_merging = False
        topic.interest.install(merged)
        self.merge_beside(topic)

    # Handed to the pipeline

    def _hand(self, made: Subscription, condition: str | None, waiter: PendingSubscription | None) -> None:
        self._pipeline.ask(lambda number: HandSubscription(number, made.tenant, made.topic, made.id, condition), waiter)

    def handed(self, pending: PendingSubscription, now: float) -> None:
        """The pipeline's store has it."""
        self._begin_to_confirm(pending, now)

    def not_handed(self, pending: PendingSubscription, reason: str) -> None:
        """The pipeline's store could not take it."""
        self._deny(pending, Refusal("storage", reason))

    def take_from_pipeline(self, topic: Topic, made: Subscription) -> None:
        """A subscription has ended, or could not be stored: the pipeline need not match it."""
        if topic.is_home:
            self._hand(made, None, None)
        elif topic.is_matched_elsewhere:
            self._unregister(topic, made.id)

    # Confirmed by other edges

    def _begin_to_confirm(self, pending: PendingSubscription, now: float) -> None:
        pending.state = PendingState.CONFIRMING
        self._confirm(pending, now)

    def confirmed(self, pending: PendingSubscription, now: float) -> None:
        """Other edges know what it wants."""
        self._store(pending, now)

    def not_confirmed(self, pending: PendingSubscription, reason: str) -> None:
        """What other edges have for it could not be got."""
        self.take_from_pipeline(pending.topic, pending.subscription)
        self._deny(pending, Refusal("busy", reason))

    # Stored

    def _store(self, pending: PendingSubscription, now: float) -> None:
        """A durable one survives a crash; of another one, what was read for it does, for its client may come back."""
        made = pending.subscription
        if made.is_durable or made.replay:
            pending.state = PendingState.STORING
            record = stored_form(made, pending.cursor) if made.is_durable else replayed_form(made)
            self._log.append(record, pending)
        else:
            self.stored(pending, now)

    def stored(self, pending: PendingSubscription, now: float) -> None:
        """It has passed."""
        made = pending.subscription
        if made.replay and not made.is_durable:
            pending.topic.remember_replay(replayed_form(made))
        self._end(pending)
        self._put_in_force(pending, now)

    def not_stored(self, pending: PendingSubscription, reason: str) -> None:
        """Its record could not be stored."""
        self.take_from_pipeline(pending.topic, pending.subscription)
        self._deny(pending, Refusal("storage", reason))

    def _deny(self, pending: PendingSubscription, refusal: Refusal) -> None:
        self._end(pending)
        self._takers.release(pending.topic.tenant)
        pending.topic.interest.remove(pending.handle)
        self._replies.refuse(pending.link, pending.frame.ref, refusal)

    def _end(self, pending: PendingSubscription) -> None:
        del self._pending[pending.subscription.key]
        self._counts[pending.topic.key] -= 1
        self._durable_counts[pending.topic.key] -= pending.subscription.is_durable
        self._settled(pending.topic)
        self._links.add_pending(pending.link, -1)


def replayed_form(made: Subscription) -> SubscriptionReplayed:
    """What was read for an unnamed subscription, as the log holds it."""
    return SubscriptionReplayed(made.tenant, made.topic, made.id, made.replay, dict(made.replayed))


def stored_form(made: Subscription, cursor: Position, *, is_moved: bool = False) -> SubscriptionStored:
    """A durable subscription as the log holds it; `is_moved`: it goes on after the cursor, wherever it was."""
    return SubscriptionStored(
        made.id,
        made.tenant,
        made.topic,
        made.condition,
        made.qos,
        cursor,
        made.webhook,
        made.replay,
        dict(made.replayed),
        made.consuming,
        made.since,
        made.is_paused,
        is_moved,
        made.webhook_form,
    )
