"""Subscriptions: made, attached to links, and ended.

A subscription is in force, and only then confirmed, when its condition is in the index and, if it is durable, its
record is stored; in a topic that Spark matches, when the pipeline's store has it (see `pending`). It begins where it
was asked for: what was published meanwhile is read from the log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from fieldfare.messages import (
    Attach,
    Change,
    Detach,
    Done,
    Identity,
    LogId,
    Notice,
    Position,
    Subscribe,
    Subscribed,
    SubscriptionRemoved,
    Unsubscribe,
    Unsubscribed,
)
from fieldfare.qos import unmet
from fieldfare.routing.client_links import ClientLinks
from fieldfare.routing.delivery import Deliveries
from fieldfare.routing.home_search import NamedRequest
from fieldfare.routing.interest import compile_conditions
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.pending import PendingPorts, PendingState, PendingSubscription, PendingSubscriptions
from fieldfare.routing.ports import LogPort, Positions, Replies, Timers
from fieldfare.routing.quotas import Quotas
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.subscription_checks import check_change, check_consuming, start_position
from fieldfare.routing.taker import Taker
from fieldfare.routing.takers import Takers
from fieldfare.routing.topic import Topic, Topics

_FOREIGN = (
    "the client's last position belongs to the log {}, but this edge has the log {}: events between may be missing, "
    "and some may come late or again"
)


@dataclass(frozen=True, slots=True)
class EndingSubscription:
    """A durable subscription whose end is on its way to the log."""

    taker: Taker
    link: str
    frame: Unsubscribe


@dataclass(frozen=True, slots=True)
class DeadlineTimer:
    """Timer key: look whether an event came in time."""

    tenant: str
    subscription: str
    handle: int


@dataclass(frozen=True, slots=True)
class SubscribingPorts:
    """What subscribing needs of its broker."""

    topics: Topics
    takers: Takers
    links: ClientLinks
    replies: Replies
    log: LogPort
    positions: Positions
    quotas: Quotas
    timers: Timers
    deliveries: Deliveries
    search: Callable[[str, Identity, NamedRequest, float], bool]  # whether other edges are asked for it first
    adopt: Callable[[str, str, Subscribe], PendingSubscription | None]  # what was begun for a client that comes back
    unwant: Callable[[Taker], None]  # what a subscription wanted need not come from other edges any more


class Subscribing:
    """The subscriptions of a broker, whose name is part of the ids that it gives."""

    def __init__(
        self, name: str, rng: random.Random, options: EdgeOptions, ports: SubscribingPorts, pending: PendingPorts
    ) -> None:
        self._name, self._rng, self._options = name, rng, options
        self.pending = PendingSubscriptions(pending, self._put_in_force)
        self._topics, self._takers, self._links = ports.topics, ports.takers, ports.links
        self._replies, self._log, self._positions = ports.replies, ports.log, ports.positions
        self._timers, self._deliveries, self._quotas = ports.timers, ports.deliveries, ports.quotas
        self._search, self._adopt, self._unwant = ports.search, ports.adopt, ports.unwant
        self.log_id: LogId = ""  # set when it is known

    # Making

    def subscribe(
        self, link: str, identity: Identity, frame: Subscribe, now: float, *, is_searched: bool = False
    ) -> None:
        """Make a subscription, or go on with the one of that name. `is_searched`: no other edge has it."""
        require(identity, "subscribe", frame.topic)
        if self._is_foreign(frame):
            frame = replace(frame, after=None)
        topic = self._topics.used_by(identity, frame.topic)
        if topic.change_count:
            raise Refusal("busy", f"the topic {frame.topic!r} is just being changed: try again")
        if reason := unmet(topic.offered, frame.qos):
            raise Refusal("qos", reason)
        if topic.matching == "spark" and frame.name is None and frame.qos.reliability == "reliable":
            raise Refusal("qos", "in a topic that Spark matches it needs a name: give one, or request 'best_effort'")
        check_consuming(frame, topic)
        if frame.name is not None:
            if taker := self._takers.get(identity.tenant, frame.name):
                self._resume(link, taker, frame, now)
                return
            self.pending.check_none(identity.tenant, frame.name)
            if not (is_searched or frame.is_name_new) and self._search(link, identity, frame, now):
                return
        elif frame.after is None and self._adopt(link, identity.tenant, frame) is not None:
            self._links.add_pending(link, 1)
            return
        self._check_room(link, identity.tenant)
        self.pending.begin(self._new(topic, link, frame), now)

    def _new(self, topic: Topic, link: str, frame: Subscribe) -> PendingSubscription:
        subscription = Subscription(
            frame.name or f"{self._name}.{self._rng.getrandbits(64):016x}",
            topic.tenant,
            topic.name,
            frame.condition,
            frame.qos,
            is_durable=frame.name is not None,
            webhook=frame.webhook,
            consuming=frame.consuming,
            since=0.0 if frame.start is None else frame.start.time or 0.0,
            webhook_form=frame.webhook_form,
        )
        if frame.after is not None and (known := topic.replayed.get(frame.previous or "")) is not None:
            subscription = replace(subscription, replay=known.replay, replayed=known.replayed)
        start = topic.begins_after if frame.qos.durability == "transient" else self._positions.last
        if frame.start is not None:
            start = start_position(frame.start, topic, self.log_id, self._positions.last)
        after = self._after(frame)
        cursor = start if after is None else after
        state = PendingState.COMPILING if frame.webhook is None else PendingState.CHECKING
        return PendingSubscription(topic, link, frame, subscription, self._takers.new_handle(), cursor, state)

    def _check_room(self, link: str, tenant: str) -> None:
        self._quotas.check_subscriptions(tenant, self._takers.count_of(tenant))
        most = self._options.subscriptions_max
        if self._takers.count_of(tenant) >= most:
            raise Refusal("limit", f"there are {most:,} subscriptions already: end some first")
        most = self._options.subscriptions_per_connection_max
        if self._links.subscription_count(link) >= most:
            raise Refusal("limit", f"this connection has {most:,} subscriptions already: open another")

    def check_stays(self, taker: Taker) -> None:
        """Refuse what is asked of a subscription that is just being ended."""
        if taker.is_ending:
            raise Refusal("busy", f"the subscription {taker.subscription.id!r} is just being ended: try again")

    def _resume(self, link: str, taker: Taker, frame: Subscribe, now: float) -> None:
        self.check_stays(taker)
        made = taker.subscription
        asked = (frame.topic, frame.condition, frame.qos, frame.webhook, frame.webhook_form, frame.consuming)
        if (made.topic, made.condition, made.qos, made.webhook, made.webhook_form, made.consuming) != asked:
            raise Refusal("invalid", f"{made.id!r} exists with other settings: change it, or choose another name")
        if made.webhook is not None:
            self._confirm(link, frame, taker, taker.cursor, is_new=False)
        else:
            self._serve(taker, link, frame, now)

    def _put_in_force(self, pending: PendingSubscription, now: float) -> None:
        """A subscription has passed all that it waited for. Its link may be gone by now."""
        if pending.changes is not None:
            self._put_changes_in_force(pending, pending.changes, now)
            return
        taker = self._insert(pending.topic, pending.subscription, pending.handle, pending.cursor)
        if taker.reads_log and taker.cursor < pending.topic.matched:
            taker.not_counted(taker.cursor, pending.topic.matched)
        if pending.subscription.webhook is not None:
            self._confirm(pending.link, pending.frame, taker, taker.cursor, is_new=True)
        elif pending.link in self._links:
            self._serve(taker, pending.link, pending.frame, now, is_new=True)
            for detail in pending.gaps:
                self._deliveries.tell_gap(taker, detail)
        elif not pending.subscription.is_durable:
            self._end(taker)
            return
        self._begin(taker, now)

    def change(self, link: str, taker: Taker, frame: Change, now: float) -> None:
        """Have a subscription ask for something else: the same way as for a new one, up to when it is in force."""
        made, topic = taker.subscription, self._topics.of(taker)
        self.pending.check_none(made.tenant, made.id)
        check_change(frame, made, topic)
        changed = replace(
            made,
            condition=made.condition if frame.condition is None else frame.condition,
            qos=frame.qos or made.qos,
            consuming=frame.consuming or made.consuming,
            webhook=frame.webhook or made.webhook,
        )
        request = Subscribe(
            frame.ref, topic.name, changed.condition, changed.qos, made.id, after=taker.cursor, webhook=frame.webhook
        )
        state = PendingState.COMPILING if frame.webhook is None else PendingState.CHECKING
        handle = self._takers.new_handle()
        pending = PendingSubscription(topic, link, request, changed, handle, taker.cursor, state, taker)
        self.pending.begin(pending, now)

    def _put_changes_in_force(self, pending: PendingSubscription, taker: Taker, now: float) -> None:
        """A subscription that exists asks for something else from now on."""
        self._takers.release(pending.topic.tenant)
        if taker.is_ended:
            pending.topic.interest.remove(pending.handle)
            self._replies.refuse(pending.link, pending.frame.ref, Refusal("unknown", "the subscription has ended"))
            return
        if pending.subscription.consuming.is_shared != taker.subscription.consuming.is_shared:
            self._deliveries.tell_detached(taker, "who may take its events has changed: attach again")
            self._links.release(taker)
            self._deliveries.detach(taker)
        pending.topic.change_condition(taker, pending.handle)
        self.pending.merge_beside(pending.topic)
        self._deliveries.update(taker, pending.subscription, now)
        self._replies.send(pending.link, Done(pending.frame.ref))

    def _insert(self, topic: Topic, subscription: Subscription, handle: int, cursor: Position) -> Taker:
        taker = Taker(subscription, handle, cursor, reads_log=topic.can_be_read_by(subscription.qos))
        topic.insert(taker)
        self._takers.insert(taker)
        return taker

    def _begin(self, taker: Taker, now: float) -> None:
        """What a subscription does without a client."""
        if taker.subscription.webhook is not None:
            self._deliveries.attach(taker, None, self._options.waiting_max, None, now)
        if taker.subscription.qos.deadline_seconds is not None:
            taker.last_matched_at = now
            self.check_deadline(taker, now)

    def check_deadline(self, taker: Taker, now: float) -> None:
        """Tell the subscriber if no event came for too long, and look again in time."""
        period = taker.subscription.qos.deadline_seconds
        if period is None:
            return
        due_at = taker.last_matched_at + period
        if due_at <= now:
            self._deliveries.tell_late(taker, period)
            due_at = now + period
        self._timers.set(DeadlineTimer(*taker.subscription.key, taker.handle), due_at)

    # Serving

    def attach(self, link: str, identity: Identity, frame: Attach, now: float) -> None:
        """Deliver a subscription on a link."""
        if self._is_foreign(frame):
            frame = replace(frame, after=None)
        if not self.has(identity.tenant, frame.subscription) and self._search(link, identity, frame, now):
            return
        taker = self.own(identity, frame.subscription)
        self.check_stays(taker)
        if taker.subscription.webhook is not None:
            raise Refusal("invalid", "this subscription is delivered to its webhook")
        self._serve(taker, link, frame, now)

    def _serve(self, taker: Taker, link: str, frame: Subscribe | Attach, now: float, *, is_new: bool = False) -> None:
        is_shared = taker.subscription.consuming.is_shared  # then no one consumer says where it goes on
        after = None if is_new or is_shared else self._after(frame)  # a new one has its cursor where it was asked for
        start = taker.cursor if after is None else after
        self._confirm(link, frame, taker, start, is_new=is_new)
        if self._is_foreign(frame):
            self._replies.send(link, Notice(taker.id, "gap", _FOREIGN.format(frame.log, self.log_id)))
        if taker.subscription.consuming.is_shared:
            self._links.serve(link, taker)
            self._deliveries.join(taker, link, frame.window, now, wants_mark=frame.wants_mark)
            return
        self._links.release(taker)
        self._links.serve(link, taker)
        self._deliveries.attach(taker, link, frame.window, after, now, wants_mark=frame.wants_mark)

    def _confirm(self, link: str, frame: Subscribe | Attach, taker: Taker, start: Position, *, is_new: bool) -> None:
        """Answer that it is in force. An old client, which says nothing of logs, could not read of this one."""
        log = "" if frame.log is None else self.log_id
        acks_each = taker.subscription.consuming.is_tracked and frame.log is not None
        self._replies.send(link, Subscribed(frame.ref, taker.id, start, is_new, log, acks_each))

    def _is_foreign(self, frame: Subscribe | Attach) -> bool:
        """Whether a client's position belongs to another log: it means nothing here."""
        return bool(frame.log) and frame.log != self.log_id

    def _after(self, frame: Subscribe | Attach) -> Position | None:
        """The position after which a client wants to go on; one that is not reached yet is taken for the last."""
        return None if frame.after is None else min(frame.after, self._positions.last)

    def has(self, tenant: str, name: str) -> bool:
        """Whether there is a subscription, or it is being made."""
        return self._takers.get(tenant, name) is not None or self.pending.has(tenant, name)

    def own(self, identity: Identity, subscription_id: str) -> Taker:
        """A subscription of this tenant, if it may have it; others' are as unknown as those that do not exist."""
        taker = self._takers.get(identity.tenant, subscription_id)
        if taker is None:
            self.pending.check_none(identity.tenant, subscription_id)
            raise Refusal("unknown", f"there is no subscription {subscription_id!r}")
        require(identity, "subscribe", taker.subscription.topic)
        return taker

    # Ending

    def detach(self, link: str, identity: Identity, frame: Detach, now: float) -> None:
        """Deliver no more on a link."""
        taker = self._takers.get(identity.tenant, frame.subscription)
        if taker is not None and link in taker.links:
            if frame.keeps_events and taker.subscription.is_durable:
                self._deliveries.leave_in_hand(taker, link)
            self._release(taker, link, now)

    def closed(self, link: str, now: float) -> None:
        """A link is gone."""
        for taker in self._links.remove(link):
            self._release(taker, link, now)

    def release_links(self, taker: Taker) -> None:
        """No client is served by a subscription any more, until it attaches again."""
        self._links.release(taker)

    def _release(self, taker: Taker, link: str, now: float) -> None:
        """A client takes no more: durable subscriptions wait, others end."""
        if taker.subscription.consuming.is_shared:
            self._links.release_from(link, taker)
            self._deliveries.leave(taker, link, now)
        elif taker.subscription.is_durable:
            self._links.release(taker)
            self._deliveries.detach(taker)
        else:
            self._end(taker)

    def unsubscribe(self, link: str, identity: Identity, frame: Unsubscribe, now: float) -> None:
        """End a subscription."""
        if not self.has(identity.tenant, frame.subscription) and self._search(link, identity, frame, now):
            return
        taker = self.own(identity, frame.subscription)
        ending = EndingSubscription(taker, link, frame)
        if taker.subscription.is_durable:
            taker.is_ending = True
            self._log.append(SubscriptionRemoved(*taker.subscription.key), ending)
        else:
            self.ended(ending)

    def ended(self, ending: EndingSubscription) -> None:
        """The log knows that it ends. Whoever is served by it on another link is told."""
        taker = ending.taker
        if self._takers.get(*taker.subscription.key) is taker:
            self._deliveries.tell_detached(taker, "the subscription has been ended", but=ending.link)
            self._end(taker)
        self._replies.send(ending.link, Unsubscribed(ending.frame.ref, ending.frame.subscription))

    def not_ended(self, ending: EndingSubscription, reason: str) -> None:
        """The log could not be told that it ends: it goes on."""
        ending.taker.is_ending = False
        self._replies.refuse(ending.link, ending.frame.ref, Refusal("storage", reason))

    def _end(self, taker: Taker) -> None:
        self.pending.take_from_pipeline(self._topics.of(taker), taker.subscription)
        self._remove(taker)

    def _remove(self, taker: Taker) -> None:
        self._links.release(taker)
        topic = self._topics.of(taker)
        topic.remove(taker)
        self._unwant(taker)
        self.pending.merge_beside(topic)
        self._deliveries.forget(taker)
        self._takers.remove(taker)

    # What is there

    def of_topic(self, topic: Topic) -> Iterator[Subscription]:
        """The subscriptions of a topic, those that are just being made included."""
        yield from (taker.subscription for taker in topic.takers.values())
        yield from self.pending.of_topic(topic)

    def restore(self, topic: Topic, subscription: Subscription, cursor: Position) -> None:
        """A durable subscription from the log. Its condition is compiled with the others', when all are known."""
        self._takers.reserve(topic.tenant)
        self._insert(topic, subscription, self._takers.new_handle(), cursor)

    def forget(self, tenant: str, subscription_id: str) -> None:
        """A subscription of the log has ended."""
        if taker := self._takers.get(tenant, subscription_id):
            self._remove(taker)

    def started(self, now: float) -> None:
        """All of the log is known: put what it says in force."""
        for topic in self._topics:
            takers = list(topic.takers.values())
            if takers:
                conditions = [taker.subscription.condition for taker in takers]
                topic.interest.add(compile_conditions([taker.index_handle for taker in takers], conditions))
        for taker in self._takers:
            self._begin(taker, now)
