"""What a peer itself wants: placed at the leaves of search trees, placed again from time to time, matched here at last.

A condition that lies inside of another one of this peer is not placed: whatever satisfies it comes anyway. An event
that comes is matched with all conditions of the peer, so it is delivered once, however many leaves named this peer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.messages import PlaceWork, RemoveWork, Work
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.peer_messages import PeerDelivered, PeerSubscribe, PeerSubscribed
from fieldfare.dmm.spaces import Space, Spaces
from fieldfare.dmm.walks import Walks
from fieldfare.errors import EventError
from fieldfare.events import UnreadableError, event_attributes
from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.model import Condition
from fieldfare.overlay.covering import Covering
from fieldfare.pastry.ports import Ring
from fieldfare.routing.interest import Interest, compiled_condition

_COMPARED_MAX = 256  # conditions of a topic in which a new one is looked for


@dataclass(frozen=True, slots=True)
class PlaceWalk:
    """A walk's purpose: an entry of a subscription is placed in one space."""

    handle: int
    space: Space


@dataclass(frozen=True, slots=True)
class RemoveWalk:
    """A walk's purpose: an entry is removed. If that fails, it is forgotten in time."""


@dataclass(slots=True)
class _Subscription:
    ref: str
    topic: str
    text: str
    condition: Condition
    unplaced: set[Space] = field(default_factory=set)  # that it has not been placed in even once
    coverer: int | None = None  # the subscription it lies inside of
    is_told: bool = False  # the program knows that it is active


class Subscribing:
    """The subscriptions of one peer."""

    def __init__(self, ring: Ring, spaces: Spaces, walks: Walks, options: DmmOptions) -> None:
        self._ring, self._spaces, self._walks, self._options = ring, spaces, walks, options
        self._handles = count(1)
        self._subscriptions: dict[int, _Subscription] = {}
        self._by_ref: dict[str, int] = {}
        self._interests: dict[str, Interest] = {}  # by topic

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(self, message: PeerSubscribe, now: float) -> None:
        """Want something; a ConditionError if the condition is not sound."""
        if message.ref in self._by_ref:
            return
        condition = compile(message.condition)
        handle = next(self._handles)
        subscription = _Subscription(message.ref, message.topic, message.condition, condition)
        subscription.coverer = self._coverer_of(subscription)
        self._subscriptions[handle] = subscription
        self._by_ref[message.ref] = handle
        interest = self._interests.setdefault(message.topic, Interest())
        interest.add(compiled_condition(handle, condition))
        if subscription.coverer is None:
            self._place(handle, subscription, now)
        else:
            self._tell_if_active(handle)

    def _coverer_of(self, subscription: _Subscription) -> int | None:
        placed = (
            (handle, other)
            for handle, other in self._subscriptions.items()
            if other.topic == subscription.topic and other.coverer is None
        )
        for (handle, other), _ in zip(placed, range(_COMPARED_MAX), strict=False):
            exact = tuple(box for box in other.condition.boxes if not box.tests and not box.derived)
            covering = Covering(exact)
            if all(covering.covers(box) for box in subscription.condition.boxes):
                return handle
        return None

    def unsubscribe(self, ref: str, now: float) -> None:
        """Want something no more."""
        handle = self._by_ref.pop(ref, None)
        if handle is None:
            return
        subscription = self._subscriptions.pop(handle)
        self._interests[subscription.topic].remove(handle)
        for other_handle, other in self._subscriptions.items():
            if other.coverer == handle:
                other.coverer = self._coverer_of(other)
                if other.coverer is None:
                    self._place(other_handle, other, now)
        if subscription.coverer is None:
            self._walk(handle, subscription, RemoveWork(self._entry_id(handle), 1), now)

    def refresh(self, now: float) -> None:
        """Place all entries again."""
        for handle, subscription in self._subscriptions.items():
            if subscription.coverer is None:
                self._place(handle, subscription, now)

    def _place(self, handle: int, subscription: _Subscription, now: float) -> None:
        if not subscription.is_told:
            subscription.unplaced = set(self._spaces.homes(subscription.topic, subscription.condition))
        entry = Entry(
            self._entry_id(handle),
            1,
            self._options.entry_seconds,
            peer=self._ring.me.card,
            condition=subscription.text,
        )
        self._walk(handle, subscription, PlaceWork((entry,)), now)
        self._tell_if_active(handle)  # a condition that nothing satisfies has no place

    def _entry_id(self, handle: int) -> str:
        me = self._ring.me.card
        return f"{me.name}@{me.life}#{handle}"

    def _walk(self, handle: int, subscription: _Subscription, work: Work, now: float) -> None:
        for space, boxes in self._spaces.homes(subscription.topic, subscription.condition).items():
            target = self._spaces.grid(space).target_of_boxes(boxes)
            purpose = PlaceWalk(handle, space) if isinstance(work, PlaceWork) else RemoveWalk()
            self._walks.begin(purpose, space, target, work, now + self._options.entry_seconds, now)

    def placed(self, purpose: PlaceWalk, is_placed: bool, now: float) -> None:  # noqa: FBT001 - it is what a walk found
        """An entry is placed in one space, or was not in time."""
        subscription = self._subscriptions.get(purpose.handle)
        if subscription is None or purpose.space not in subscription.unplaced:
            return
        if not is_placed:
            self._place(purpose.handle, subscription, now)
            return
        subscription.unplaced.discard(purpose.space)
        self._tell_if_active(purpose.handle)
        for handle, other in list(self._subscriptions.items()):
            if other.coverer == purpose.handle:
                self._tell_if_active(handle)

    def _tell_if_active(self, handle: int) -> None:
        subscription = self._subscriptions[handle]
        coverer = subscription if subscription.coverer is None else self._subscriptions[subscription.coverer]
        if not subscription.is_told and not coverer.unplaced:
            subscription.is_told = True
            self._ring.perform(PeerSubscribed(subscription.ref))

    def deliver(self, topic: str, event_id: str, event: bytes) -> None:
        """An event came: deliver it if it satisfies something."""
        interest = self._interests.get(topic)
        if interest is None:
            return
        try:
            handles = sorted(handle for handle, _ in interest.match([event_attributes(event)]))
        except (UnreadableError, EventError):
            return
        if handles:
            refs = tuple(self._subscriptions[handle].ref for handle in handles)
            self._ring.perform(PeerDelivered(topic, event_id, event, refs))

    def unplaced(self) -> Iterator[str]:
        """What is not active yet, for people who look at a run that failed."""
        return (f"{each.ref}: {each.unplaced}" for each in self._subscriptions.values() if not each.is_told)
