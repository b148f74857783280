"""The program's part of a peer: what it waits for, and what the node tells it.

It is a capability of the host. Subscriptions and publications are known by refs, which are this peer's own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from msgspec import Raw

from fieldfare.dmm.peer_messages import (
    PeerDelivered,
    PeerPublish,
    PeerPublished,
    PeerRefused,
    PeerSubscribed,
    PeerUnsubscribe,
)
from fieldfare.dmm.publishing import parsed_event_id
from fieldfare.errors import NotConnectedError, RefusedError
from fieldfare.messages import Delivery
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.peers.options import PeerOptions
from fieldfare.runtime.peers.outcome import Outcome
from fieldfare.runtime.peers.subscription import PeerSubscription


@dataclass(frozen=True, slots=True)
class _Unsettled:
    outcome: asyncio.Future[Outcome]
    size_bytes: int


class PeerProgram(Capability):
    """What one program has asked of its peer, and has not been told yet."""

    def __init__(self, options: PeerOptions) -> None:
        self._options = options
        self._refs = count(1)
        self._positions = count(1)
        self._subscriptions: dict[str, PeerSubscription[Any]] = {}
        self._unsettled: dict[str, _Unsettled] = {}
        self._unsettled_bytes = 0
        self._changed = asyncio.Event()  # a publication was settled
        self._ids_seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._over: str | None = None  # why nothing more can be asked for
        self.delivered_count = self.repeated_count = self.published_count = 0

    def install(self, host: Host) -> None:
        """Perform what the node tells its program."""
        self._host = host
        host.kernel.provide(PeerSubscribed, self._subscribed)
        host.kernel.provide(PeerDelivered, self._delivered)
        host.kernel.provide(PeerPublished, self._published)
        host.kernel.provide(PeerRefused, self._refused)

    def __len__(self) -> int:
        return len(self._unsettled)

    @property
    def subscriptions(self) -> list[PeerSubscription[Any]]:
        """Those that have not ended."""
        return list(self._subscriptions.values())

    # What the program asks for

    def next_ref(self) -> str:
        """A name for something that is asked for."""
        return str(next(self._refs))

    def subscribe(self, subscription: PeerSubscription[Any]) -> None:
        """Want something."""
        if self._over is not None:
            subscription.end(NotConnectedError(self._over))
            return
        self._subscriptions[subscription.id] = subscription
        self._host.tell(subscription.request)

    def unsubscribe(self, ref: str) -> None:
        """Want it no more."""
        if self._subscriptions.pop(ref, None) is not None:
            self._host.tell(PeerUnsubscribe(ref))

    def publish(self, message: PeerPublish) -> asyncio.Future[Outcome]:
        """Publish an event; the future is done when nothing more is to be done for it."""
        if self._over is not None:
            raise NotConnectedError(self._over)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._unsettled[message.ref] = _Unsettled(outcome, len(message.event))
        self._unsettled_bytes += len(message.event)
        self.published_count += 1
        self._host.tell(message)
        return outcome

    async def room_to_publish(self) -> None:
        """Wait until one more publication may be unsettled."""
        options = self._options
        await self._until(
            lambda: len(self._unsettled) < options.unsettled_max and self._unsettled_bytes < options.unsettled_bytes_max
        )

    async def all_settled(self) -> None:
        """Wait until nothing that was published is unsettled."""
        await self._until(lambda: not self._unsettled)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds() and self._over is None:
            self._changed.clear()
            await self._changed.wait()

    def close(self, reason: str) -> None:
        """The peer is gone: whatever waits ends. A publication that is not settled is told as it is."""
        self._over = reason
        for subscription in self.subscriptions:
            subscription.end(None)
        self._subscriptions.clear()
        for unsettled in self._unsettled.values():
            if not unsettled.outcome.done():
                unsettled.outcome.set_exception(NotConnectedError(reason))
                unsettled.outcome.exception()  # who does not look at it is not told by a warning either
        self._unsettled.clear()
        self._changed.set()

    # What the node tells

    def _subscribed(self, effect: PeerSubscribed) -> None:
        if (subscription := self._subscriptions.get(effect.ref)) is not None:
            subscription.confirm()

    def _delivered(self, effect: PeerDelivered) -> None:
        publisher, given_id = parsed_event_id(effect.event_id)
        if given_id and not self._is_new(effect.topic, publisher, given_id):
            self.repeated_count += 1
            return
        self.delivered_count += 1
        delivery = Delivery(
            next(self._positions), given_id or effect.event_id, self._host.now(), Raw(effect.event), publisher
        )
        for ref in effect.refs:
            if (subscription := self._subscriptions.get(ref)) is not None:
                subscription.give(delivery)

    def _is_new(self, topic: str, publisher: str, given_id: str) -> bool:
        key = (topic, publisher, given_id)
        if key in self._ids_seen:
            return False
        self._ids_seen[key] = None
        if len(self._ids_seen) > self._options.ids_seen_max:
            self._ids_seen.popitem(last=False)
        return True

    def _published(self, effect: PeerPublished) -> None:
        self._settle(effect.ref, Outcome(effect.taken, effect.missed, is_vouched=effect.is_vouched), None)

    def _refused(self, effect: PeerRefused) -> None:
        error = RefusedError("invalid", effect.reason)
        if (subscription := self._subscriptions.pop(effect.ref, None)) is not None:
            subscription.end(error)
        self._settle(effect.ref, None, error)

    def _settle(self, ref: str, outcome: Outcome | None, error: RefusedError | None) -> None:
        unsettled = self._unsettled.pop(ref, None)
        if unsettled is None:
            return
        self._unsettled_bytes -= unsettled.size_bytes
        self._changed.set()
        if unsettled.outcome.done():
            return
        if outcome is not None:
            unsettled.outcome.set_result(outcome)
        elif error is not None:
            unsettled.outcome.set_exception(error)
