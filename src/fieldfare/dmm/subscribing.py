"""What a peer itself wants: placed at the leaves of search trees, placed again from time to time, matched here at last.

A condition that lies inside of another one of this peer is not placed: whatever satisfies it comes anyway. One that is
placed already is taken back, when a wider one is. An event that comes is matched with all conditions of the peer, so it
is delivered once, however many leaves named this peer.

After a restart durable subscriptions are placed again from the log. The events that they want are left where they are,
unacknowledged, until the program asks for the subscription again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.messages import PlaceWork, RemoveWork, Work
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.own_subscriptions import OwnSubscription, coverer_of, inside_of
from fieldfare.dmm.peer_log import PeerLog, Recovered
from fieldfare.dmm.peer_messages import PeerDelivered, PeerRefused, PeerSubscribe, PeerSubscribed
from fieldfare.dmm.peer_records import PeerRecord, PeerSubscriptionRemoved, PeerSubscriptionStored
from fieldfare.dmm.spaces import RegionName, Space, Spaces
from fieldfare.dmm.walks import Walks
from fieldfare.errors import ConditionError, EventError
from fieldfare.events import UnreadableError, accepted_at, event_attributes
from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.messages import Warn
from fieldfare.pastry.ports import Ring
from fieldfare.routing.interest import Interest, compiled_condition


@dataclass(frozen=True, slots=True)
class PlaceWalk:
    """A walk's purpose: an entry of a subscription is placed in one space."""

    handle: int
    space: Space


@dataclass(frozen=True, slots=True)
class RemoveWalk:
    """A walk's purpose: an entry is removed. If that fails, it is forgotten in time."""


@dataclass(frozen=True, slots=True)
class ConfirmSubscription:
    """What follows a record: a subscription is stored."""

    handle: int


@dataclass(slots=True)
class _Removal:
    """A subscription that has ended. Its entry stays until those that it covered are placed themselves."""

    subscription: OwnSubscription
    waiting: set[int]


class Subscribing:
    """The subscriptions of one peer."""

    def __init__(
        self, ring: Ring, spaces: Spaces, walks: Walks, log: PeerLog, options: DmmOptions, recovered: Recovered
    ) -> None:
        self._ring, self._spaces, self._walks, self._log, self._options = ring, spaces, walks, log, options
        self._handles, self._entries = count(1), count(1)
        self._subscriptions: dict[int, OwnSubscription] = {}
        self._by_ref: dict[str, int] = {}
        self._interests: dict[str, Interest] = {}  # by topic
        self._removals: dict[int, _Removal] = {}
        for stored in recovered.subscriptions.values():
            try:
                handle = self._add(stored.ref, stored.topic, stored.condition, is_durable=True)
            except ConditionError as error:  # by another version of the language
                ring.perform(Warn(f"the subscription {stored.ref!r} in the log is not sound any more: {error}"))
            else:
                self._subscriptions[handle].is_attached = False

    def __len__(self) -> int:
        return len(self._subscriptions)

    # From the program

    def subscribe(self, message: PeerSubscribe, now: float) -> None:
        """Want something; a ConditionError if the condition is not sound."""
        known = self._by_ref.get(message.ref)
        if known is not None and self._subscriptions[known].is_same(message):
            self._subscriptions[known].is_taken_by_program = message.is_taken_by_program
            self._attach(known)
            return
        compile(message.condition)  # before what it replaces is given up
        if known is not None:
            self.unsubscribe(message.ref, now)
        handle = self._add(message.ref, message.topic, message.condition, is_durable=message.is_durable)
        self._subscriptions[handle].is_taken_by_program = message.is_taken_by_program
        if message.is_durable and self._log.is_kept:
            self._subscriptions[handle].is_stored = False
            record = PeerSubscriptionStored(message.ref, message.topic, message.condition)
            self._log.store(record, ConfirmSubscription(handle), now)
        if self._ring.is_joined:
            self._place(handle, now)
        self._tell_if_active(handle)

    def _add(self, ref: str, topic: str, text: str, *, is_durable: bool) -> int:
        condition = compile(text)
        handle = next(self._handles)
        subscription = OwnSubscription(ref, topic, text, condition, is_durable)
        subscription.coverer = coverer_of(subscription, self._subscriptions)
        if subscription.coverer is None:
            self._is_to_be_placed(subscription)
        self._subscriptions[handle] = subscription
        self._by_ref[ref] = handle
        self._interests.setdefault(topic, Interest()).add(compiled_condition(handle, condition))
        return handle

    def _is_to_be_placed(self, subscription: OwnSubscription) -> None:
        """A subscription needs an entry of its own. A late removal of one that it had before does not meet it."""
        subscription.entry = next(self._entries)
        subscription.unplaced = set(self._spaces.homes(subscription.topic, subscription.condition))

    def _attach(self, handle: int) -> None:
        """The program wants what it wanted before: events need wait no more."""
        subscription = self._subscriptions[handle]
        subscription.is_attached, subscription.is_told = True, False
        self._tell_if_active(handle)

    def stored(self, then: ConfirmSubscription) -> None:
        """A subscription is in the log."""
        if then.handle in self._subscriptions:
            self._subscriptions[then.handle].is_stored = True
            self._tell_if_active(then.handle)

    def not_stored(self, then: ConfirmSubscription, reason: str, now: float) -> None:
        """A subscription could not be stored: it has not begun."""
        if (subscription := self._subscriptions.get(then.handle)) is not None:
            subscription.is_stored = True
            self.unsubscribe(subscription.ref, now)
            self._ring.perform(PeerRefused(subscription.ref, f"the subscription could not be stored: {reason}"))

    def unsubscribe(self, ref: str, now: float) -> None:
        """Want something no more."""
        handle = self._by_ref.pop(ref, None)
        if handle is None:
            return
        subscription = self._subscriptions.pop(handle)
        self._interests[subscription.topic].remove(handle)
        if subscription.is_durable:
            self._log.store(PeerSubscriptionRemoved(ref), None, now)
        removal = _Removal(subscription, set())
        for other_handle, other in self._subscriptions.items():
            if other.coverer == handle:
                other.coverer = coverer_of(other, self._subscriptions)
                if other.coverer is None:
                    self._is_to_be_placed(other)
                    removal.waiting.add(other_handle)
        if subscription.coverer is None:
            self._removals[handle] = removal
        for other_handle in removal.waiting:
            self._place(other_handle, now)
        self._no_longer_needed(handle, now)
        self._remove_if_free(handle, now)

    def _no_longer_needed(self, handle: int, now: float) -> None:
        """A subscription is placed, or has ended: entries that stood in for it may go."""
        for other, removal in list(self._removals.items()):
            removal.waiting.discard(handle)
            self._remove_if_free(other, now)

    def _remove_if_free(self, handle: int, now: float) -> None:
        removal = self._removals.get(handle)
        if removal is not None and not removal.waiting:
            del self._removals[handle]
            self._take_entry_back(handle, removal.subscription, now)

    def _take_entry_back(self, handle: int, subscription: OwnSubscription, now: float) -> None:
        if self._ring.is_joined:
            work = RemoveWork(self._entry_id(subscription), self._ring.me.card.life)
            self._walk(handle, subscription, work, now)

    def _take_back_covered(self, handle: int, now: float) -> None:
        """A subscription is placed everywhere: those that lie inside of it need no entries of their own any more."""
        for each in inside_of(handle, self._subscriptions):
            other = self._subscriptions[each]
            for covered in self._subscriptions.values():
                if covered.coverer == each:
                    covered.coverer = handle
            other.coverer = handle
            self._take_entry_back(each, other, now)

    # At the leaves

    def joined(self, now: float) -> None:
        """The peer has its place: place all entries."""
        self.refresh(now)

    def refresh(self, now: float) -> None:
        """Place all entries again."""
        for handle in list(self._subscriptions):
            self._place(handle, now)

    def _place(self, handle: int, now: float) -> None:
        subscription = self._subscriptions[handle]
        if subscription.coverer is not None:
            return
        self._walk(handle, subscription, PlaceWork((self._entry(subscription),)), now)

    def place_again(self, purpose: object, region: RegionName, now: float) -> int:
        """Place all entries that touch a region again; how many walks do it."""
        grid, walks = self._spaces.grid(region.space), 0
        for subscription in self._subscriptions.values():
            if subscription.coverer is not None or subscription.topic != region.space.topic:
                continue
            boxes = self._spaces.homes(subscription.topic, subscription.condition).get(region.space, ())
            target = grid.target_of_boxes(boxes)
            if grid.touches(region.code, target):
                until = now + self._options.entry_seconds
                self._walks.begin(purpose, region.space, target, PlaceWork((self._entry(subscription),)), until, now)
                walks += 1
        return walks

    def _entry(self, subscription: OwnSubscription) -> Entry:
        me, seconds = self._ring.me.card, self._options.entry_seconds
        return Entry(self._entry_id(subscription), me.life, seconds, peer=me, condition=subscription.text)

    def _entry_id(self, subscription: OwnSubscription) -> str:
        """Numbers are used again in each life; the life is the entry's version."""
        return f"{self._ring.me.card.name}#{subscription.entry}"

    def _walk(self, handle: int, subscription: OwnSubscription, work: Work, now: float) -> None:
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
            self._place(purpose.handle, now)
            return
        subscription.unplaced.discard(purpose.space)
        if not subscription.unplaced:
            self._no_longer_needed(purpose.handle, now)
            if subscription.coverer is None:
                self._take_back_covered(purpose.handle, now)
        self._tell_if_active(purpose.handle)
        for handle, other in list(self._subscriptions.items()):
            if other.coverer == purpose.handle:
                self._tell_if_active(handle)

    def found_no_room(self, purpose: PlaceWalk, now: float) -> None:
        """A peer that should keep an entry is full. Of a subscription that was active once it is placed again later."""
        subscription = self._subscriptions.get(purpose.handle)
        if subscription is not None and subscription.is_attached and not subscription.is_told:
            self.unsubscribe(subscription.ref, now)
            reason = "the peers that would keep this subscription are full: ask for less, or let more peers join"
            self._ring.perform(PeerRefused(subscription.ref, reason))

    def _tell_if_active(self, handle: int) -> None:
        subscription = self._subscriptions[handle]
        coverer = subscription if subscription.coverer is None else self._subscriptions[subscription.coverer]
        is_ready = subscription.is_attached and subscription.is_stored and not coverer.unplaced
        if is_ready and not subscription.is_told:
            subscription.is_told = True
            self._ring.perform(PeerSubscribed(subscription.ref))

    # Events

    def matching(self, topic: str, event: bytes, at: float) -> list[int]:
        """The subscriptions that an event satisfies, which was published at a time."""
        interest = self._interests.get(topic)
        if interest is None:
            return []
        try:
            return sorted(handle for handle, _ in interest.match([accepted_at(event_attributes(event), at)]))
        except (UnreadableError, EventError):
            return []

    def are_attached(self, handles: Iterable[int]) -> bool:
        """Whether the program is there for all of some subscriptions."""
        return all(self._subscriptions[handle].is_attached for handle in handles)

    def are_taken_by_program(self, handles: Iterable[int]) -> bool:
        """Whether the program says of one of some subscriptions when it is done with an event."""
        return any(self._subscriptions[handle].is_taken_by_program for handle in handles)

    def deliver(self, topic: str, event_id: str, event: bytes, handles: Iterable[int]) -> None:
        """Give the program an event that satisfies some subscriptions."""
        refs = tuple(self._subscriptions[handle].ref for handle in handles)
        if refs:
            self._ring.perform(PeerDelivered(topic, event_id, event, refs))

    def deliver_multicast(self, topic: str, event_id: str, event: bytes, at: float) -> None:
        """An event came by multicast, and cannot wait: deliver it if it satisfies something."""
        handles = [handle for handle in self.matching(topic, event, at) if self._subscriptions[handle].is_attached]
        self.deliver(topic, event_id, event, handles)

    def records(self) -> Iterator[PeerRecord]:
        """What stands for all that the log holds of subscriptions."""
        for each in self._subscriptions.values():
            if each.is_durable and each.is_stored:
                yield PeerSubscriptionStored(each.ref, each.topic, each.text)

    def unplaced(self) -> Iterator[str]:
        """What is not active yet, for people who look at a run that failed."""
        return (f"{each.ref}: {each.unplaced}" for each in self._subscriptions.values() if not each.is_told)
