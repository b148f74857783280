"""Subscriptions: made, attached to connections, and ended.

Many that are asked for in one round are compiled together. A subscription is in force, and only then confirmed, when
its condition is in the index and, if it is durable, its record is stored; in a topic that Spark matches, when the
pipeline's store has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfare.messages import (
    Ack,
    Attach,
    Detach,
    HandSubscription,
    Identity,
    Position,
    Ref,
    Subscribe,
    Subscribed,
    SubscriptionRemoved,
    SubscriptionStored,
    Unsubscribe,
    Unsubscribed,
)
from fieldfare.qos import unmet
from fieldfare.routing.continuing import Else, Then, nothing
from fieldfare.routing.interest import compile_conditions
from fieldfare.routing.outbox import Outbox, Subscription
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.topic import START, Topic

if TYPE_CHECKING:
    from fieldfare.routing.edge import Edge


@dataclass(slots=True)
class _Wish:
    """A subscription that is asked for, and not yet in force."""

    topic: Topic
    connection: str
    frame: Subscribe
    subscription: Subscription
    handle: int
    cursor: Position


@dataclass(slots=True)
class _Taker:
    """Who is to be served, from where, and how much at a time."""

    connection: str
    ref: Ref
    window: int
    after: Position | None = None
    is_new: bool = False


class Subscribing:
    """The subscriptions of an edge."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self.by_handle: dict[int, Outbox] = {}
        self._handle = 0
        self._counts: dict[str, int] = {}  # of each tenant
        self._wishes: dict[tuple[str, str], list[_Wish]] = {}  # by topic
        self._wished: dict[tuple[str, str], _Wish] = {}  # by tenant and id, until they are in force
        self._ending: set[int] = set()  # handles, until the log knows that they have ended

    # Making

    def subscribe(self, connection: str, identity: Identity, frame: Subscribe, now: float) -> None:
        """Make a subscription, or go on with the one of that name."""
        require(identity, "subscribe", frame.topic)
        topic = self._edge.topic(identity.tenant, frame.topic)
        if topic.change_count:
            raise Refusal("busy", f"the topic {frame.topic!r} is just being changed: try again")
        if reason := unmet(topic.offered, frame.qos):
            raise Refusal("qos", reason)
        if topic.matching == "spark" and frame.name is None and frame.qos.reliability == "reliable":
            raise Refusal("qos", "in a topic that Spark matches it needs a name: give one, or request 'best_effort'")
        if frame.webhook is not None and frame.name is None:
            raise Refusal("invalid", "a webhook needs a name: it outlives the connection")
        if frame.name is not None:
            key = (identity.tenant, frame.name)
            if key in self._edge.subscriptions:
                self._resume(connection, self._edge.subscriptions[key], frame, now)
                return
            if key in self._wished:
                raise Refusal("busy", f"the subscription {frame.name!r} is just being made: try again")
        self._check_room(connection, identity.tenant)
        wish = self._wish(topic, connection, frame)
        self._wishes.setdefault(topic.key, []).append(wish)
        self._wished[topic.tenant, wish.subscription.id] = wish
        self._counts[topic.tenant] = self._counts.get(topic.tenant, 0) + 1
        self._edge.connections[connection].wish_count += 1
        self._edge.step_soon(now)

    def of_topic(self, topic: Topic) -> Iterator[Subscription]:
        """The subscriptions of a topic, those that are just being made included."""
        yield from (outbox.subscription for outbox in topic.outboxes.values())
        yield from (wish.subscription for wish in self._wished.values() if wish.topic is topic)

    def _wish(self, topic: Topic, connection: str, frame: Subscribe) -> _Wish:
        self._handle += 1
        subscription = Subscription(
            frame.name or f"{self._edge.name}.{self._edge.rng.getrandbits(64):016x}",
            topic.tenant,
            topic.name,
            frame.condition,
            frame.qos,
            is_durable=frame.name is not None,
            webhook=frame.webhook,
        )
        start = START if frame.qos.durability == "transient" else self._edge.position
        cursor = start if frame.after is None else min(frame.after, self._edge.position)
        return _Wish(topic, connection, frame, subscription, self._handle, cursor)

    def _check_room(self, connection: str, tenant: str) -> None:
        most = self._edge.options.subscriptions_max
        if self._counts.get(tenant, 0) >= most:
            raise Refusal("limit", f"there are {most:,} subscriptions already: end some first")
        most = self._edge.options.subscriptions_per_connection_max
        served = self._edge.connections[connection]
        if len(served.outboxes) + served.wish_count >= most:
            raise Refusal("limit", f"this connection has {most:,} subscriptions already: open another")

    def _check_stays(self, outbox: Outbox) -> None:
        if outbox.handle in self._ending:
            raise Refusal("busy", f"the subscription {outbox.subscription.id!r} is just being ended: try again")

    def _resume(self, connection: str, outbox: Outbox, frame: Subscribe, now: float) -> None:
        self._check_stays(outbox)
        made = outbox.subscription
        if (made.topic, made.condition, made.qos, made.webhook) != (
            frame.topic,
            frame.condition,
            frame.qos,
            frame.webhook,
        ):
            raise Refusal("invalid", f"{made.id!r} exists with other settings: end it first, or choose another name")
        if made.webhook is not None:
            self._edge.send(connection, Subscribed(frame.ref, made.id, outbox.cursor, is_new=False))
        else:
            self._serve(outbox, _Taker(connection, frame.ref, frame.window, frame.after), now)

    def grant_wishes(self, now: float) -> None:
        """Compile the conditions of all who wish to subscribe, and refuse those that are not sound."""
        wishes, self._wishes = self._wishes, {}
        for key, group in wishes.items():
            interest = self._edge.topics[key].interest
            handles, conditions = [wish.handle for wish in group], [wish.frame.condition for wish in group]
            errors = interest.add(compile_conditions(handles, conditions))
            for wish in group:
                if wish.handle in errors:
                    self._deny(wish, Refusal("condition", str(errors[wish.handle])))
                else:
                    self._hand_over(wish, now)

    def _deny(self, wish: _Wish, refusal: Refusal) -> None:
        self._settle(wish)
        self._counts[wish.topic.tenant] -= 1
        wish.topic.interest.remove(wish.handle)
        self._edge.refuse(wish.connection, wish.frame.ref, refusal)

    def _settle(self, wish: _Wish) -> None:
        """It is about to be granted or denied."""
        del self._wished[wish.topic.tenant, wish.subscription.id]
        if connection := self._edge.connections.get(wish.connection):
            connection.wish_count -= 1

    def _hand_over(self, wish: _Wish, now: float) -> None:
        if wish.topic.matching == "spark":
            self._hand(wish.subscription, wish.frame.condition, lambda now: self._store(wish, now), self._denying(wish))
        else:
            self._store(wish, now)

    def _store(self, wish: _Wish, now: float) -> None:
        made = wish.subscription
        if made.is_durable:
            record = SubscriptionStored(
                made.id, made.tenant, made.topic, made.condition, made.qos, wish.cursor, made.webhook
            )
            self._edge.append(record, lambda now: self._grant(wish, now), lambda reason: self._not_stored(wish, reason))
        else:
            self._grant(wish, now)

    def _denying(self, wish: _Wish) -> Else:
        return lambda reason: self._deny(wish, Refusal("storage", reason))

    def _not_stored(self, wish: _Wish, reason: str) -> None:
        self._take_from_pipeline(wish.topic, wish.subscription)
        self._denying(wish)(reason)

    def _hand(self, made: Subscription, condition: str | None, then: Then, otherwise: Else) -> None:
        self._edge.hand(
            lambda number: HandSubscription(number, made.tenant, made.topic, made.id, condition), then, otherwise
        )

    def _take_from_pipeline(self, topic: Topic, made: Subscription) -> None:
        if topic.matching == "spark":
            self._hand(made, None, nothing, nothing)

    def _grant(self, wish: _Wish, now: float) -> None:
        """Put a subscription in force. Its connection may be gone by now."""
        self._settle(wish)
        outbox = self._insert(wish.topic, wish.subscription, wish.handle, wish.cursor)
        if wish.subscription.webhook is not None:
            self._edge.send(wish.connection, Subscribed(wish.frame.ref, outbox.subscription.id, outbox.cursor))
        elif wish.connection in self._edge.connections:
            self._serve(outbox, _Taker(wish.connection, wish.frame.ref, wish.frame.window, is_new=True), now)
        elif not wish.subscription.is_durable:
            self._end(outbox)
            return
        self._begin(outbox, now)

    def _insert(self, topic: Topic, subscription: Subscription, handle: int, cursor: Position) -> Outbox:
        qos = subscription.qos
        reads_log = topic.offered.is_kept and (qos.reliability == "reliable" or qos.durability == "transient")
        outbox = Outbox(subscription, handle, cursor, reads_log=reads_log)
        topic.insert(outbox)
        self._edge.subscriptions[outbox.key] = self.by_handle[handle] = outbox
        return outbox

    def _begin(self, outbox: Outbox, now: float) -> None:
        """What a subscription does without a client."""
        if outbox.subscription.webhook is not None:
            window = self._edge.options.waiting_max
            self._edge.deliveries.attach(self._edge.topic_of(outbox), outbox, None, window, None, now)
        if outbox.subscription.qos.deadline_seconds is not None:
            outbox.last_matched_at = now
            self._edge.deliveries.check_deadline(outbox, now)

    # Serving

    def attach(self, connection: str, identity: Identity, frame: Attach, now: float) -> None:
        """Deliver a subscription on a connection."""
        outbox = self.own(identity, frame.subscription)
        self._check_stays(outbox)
        if outbox.subscription.webhook is not None:
            raise Refusal("invalid", "this subscription is delivered to its webhook")
        self._serve(outbox, _Taker(connection, frame.ref, frame.window, frame.after), now)

    def _serve(self, outbox: Outbox, taker: _Taker, now: float) -> None:
        after = None if taker.after is None else min(taker.after, self._edge.position)
        start = outbox.cursor if after is None else after
        self._edge.send(taker.connection, Subscribed(taker.ref, outbox.subscription.id, start, taker.is_new))
        self._leave_connection(outbox)
        self._edge.connections[taker.connection].outboxes[outbox.handle] = outbox
        topic = self._edge.topic_of(outbox)
        self._edge.deliveries.attach(topic, outbox, taker.connection, taker.window, after, now)
        self._edge.tidy_soon(now)

    def own(self, identity: Identity, subscription_id: str) -> Outbox:
        """A subscription of this tenant, if it may have it; others' are as unknown as those that do not exist."""
        outbox = self._edge.subscriptions.get((identity.tenant, subscription_id))
        if outbox is None:
            raise Refusal("unknown", f"there is no subscription {subscription_id!r}")
        require(identity, "subscribe", outbox.subscription.topic)
        return outbox

    def acknowledge(self, connection: str, identity: Identity, frame: Ack, now: float) -> None:
        """A subscriber has got events; only who is served may say so, or anybody where nobody is."""
        outbox = self._edge.subscriptions.get((identity.tenant, frame.subscription))
        if outbox is None or not identity.may("subscribe", outbox.subscription.topic):
            return
        if outbox.connection in (connection, None):
            topic = self._edge.topic_of(outbox)
            self._edge.deliveries.acknowledge(topic, outbox, frame.position, now, is_final=frame.is_final)
            self._edge.tidy_soon(now)

    # Ending

    def detach(self, connection: str, identity: Identity, frame: Detach) -> None:
        """Deliver no more on a connection."""
        outbox = self._edge.subscriptions.get((identity.tenant, frame.subscription))
        if outbox is not None and outbox.connection == connection:
            self._release(outbox)

    def closed(self, name: str) -> None:
        """A connection is gone."""
        connection = self._edge.connections.pop(name, None)
        if connection is not None:
            for outbox in connection.outboxes.values():
                self._release(outbox)

    def _release(self, outbox: Outbox) -> None:
        """A client takes no more: durable subscriptions wait, others end."""
        if outbox.subscription.is_durable:
            self._leave_connection(outbox)
            self._edge.deliveries.detach(self._edge.topic_of(outbox), outbox)
        else:
            self._end(outbox)

    def unsubscribe(self, connection: str, identity: Identity, frame: Unsubscribe) -> None:
        """End a subscription. Whoever is served by it on another connection is told."""
        outbox = self.own(identity, frame.subscription)

        def end(_: float) -> None:
            if self._edge.subscriptions.get(outbox.key) is outbox:
                if outbox.connection != connection:
                    self._edge.deliveries.tell_detached(outbox, "the subscription has been ended")
                self._end(outbox)
            self._edge.send(connection, Unsubscribed(frame.ref, frame.subscription))

        def failed(reason: str) -> None:
            self._ending.discard(outbox.handle)
            self._edge.refuse(connection, frame.ref, Refusal("storage", reason))

        if outbox.subscription.is_durable:
            self._ending.add(outbox.handle)
            self._edge.append(SubscriptionRemoved(*outbox.key), end, failed)
        else:
            end(0)

    def _end(self, outbox: Outbox) -> None:
        self._take_from_pipeline(self._edge.topic_of(outbox), outbox.subscription)
        self._remove(outbox)

    def _remove(self, outbox: Outbox) -> None:
        self._leave_connection(outbox)
        self._ending.discard(outbox.handle)
        topic = self._edge.topic_of(outbox)
        topic.remove(outbox)
        self._edge.deliveries.forget(outbox)
        del self._edge.subscriptions[outbox.key], self.by_handle[outbox.handle]
        self._counts[topic.tenant] -= 1

    def _leave_connection(self, outbox: Outbox) -> None:
        connection = self._edge.connections.get(outbox.connection or "")
        if connection is not None:
            connection.outboxes.pop(outbox.handle, None)

    # What survives

    def restore(self, topic: Topic, subscription: Subscription, cursor: Position) -> None:
        """A durable subscription from the log. Its condition is compiled with the others', when all are known."""
        self._handle += 1
        self._counts[topic.tenant] = self._counts.get(topic.tenant, 0) + 1
        self._insert(topic, subscription, self._handle, cursor)

    def forget(self, key: tuple[str, str]) -> None:
        """A subscription of the log has ended."""
        if outbox := self._edge.subscriptions.get(key):
            self._remove(outbox)

    def started(self, now: float) -> None:
        """All of the log is known: put what it says in force."""
        for topic in self._edge.topics.values():
            outboxes = list(topic.outboxes.values())
            if outboxes:
                conditions = [outbox.subscription.condition for outbox in outboxes]
                topic.interest.add(compile_conditions([outbox.handle for outbox in outboxes], conditions))
        for outbox in self.by_handle.values():
            self._begin(outbox, now)
