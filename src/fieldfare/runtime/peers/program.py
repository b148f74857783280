"""The program's part of a peer: what it waits for, and what the node tells it.

It is a capability of the host. Subscriptions and publications are known by refs, which are this peer's own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from msgspec import Raw

from fieldfare.dmm.peer_messages import (
    PeerAccepted,
    PeerDelivered,
    PeerPublish,
    PeerPublished,
    PeerRefused,
    PeerSubscribed,
    PeerTake,
    PeerUnsubscribe,
)
from fieldfare.errors import FieldfareError, NotConnectedError, RefusedError
from fieldfare.messages import Delivery
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.peers.options import PeerOptions
from fieldfare.runtime.peers.outcome import Outcome
from fieldfare.runtime.peers.subscription import PeerSubscription


@dataclass(slots=True)
class Publication:
    """An event that this program published, until nothing more is done for it."""

    ref: str
    size_bytes: int
    accepted: asyncio.Future[None]  # the peer has it, in its log if it keeps one
    outcome: asyncio.Future[Outcome]
    is_stored: bool = False


class PeerProgram(Capability):
    """What one program has asked of its peer, and has not been told yet."""

    def __init__(self, options: PeerOptions) -> None:
        self._options = options
        self._life = secrets.token_hex(4)  # so that refs in the log of an earlier life are others
        self._refs = count(1)
        self._positions = count(1)
        self._subscriptions: dict[str, PeerSubscription[Any]] = {}
        self._untaken: dict[str, set[str]] = {}  # by event, the subscriptions whose program is not done with it
        self._unsettled: dict[str, Publication] = {}
        self._unsettled_bytes = 0
        self._changed = asyncio.Event()  # a publication was settled
        self._over: str | None = None  # why nothing more can be asked for
        self.delivered_count = self.published_count = 0

    def install(self, host: Host) -> None:
        """Perform what the node tells its program."""
        self._host = host
        host.kernel.provide(PeerSubscribed, self._subscribed)
        host.kernel.provide(PeerDelivered, self._delivered)
        host.kernel.provide(PeerAccepted, self._accepted)
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
        """A name for something that is asked for. No other has it, in no life of this peer."""
        return f"{self._life}.{next(self._refs)}"

    def subscribe(self, subscription: PeerSubscription[Any]) -> None:
        """Want something."""
        if self._over is not None:
            subscription.end(NotConnectedError(self._over))
            return
        if (former := self._subscriptions.get(subscription.id)) is not None:
            former.hand_over(subscription)
        self._subscriptions[subscription.id] = subscription
        self._host.tell(subscription.request)

    def unsubscribe(self, ref: str) -> None:
        """Want it no more."""
        if self._subscriptions.pop(ref, None) is not None:
            for event_id in [event_id for event_id, refs in self._untaken.items() if ref in refs]:
                self.take(ref, event_id)
            self._host.tell(PeerUnsubscribe(ref))

    def take(self, ref: str, event_id: str) -> None:
        """The program is done with an event, as far as one subscription is concerned."""
        refs = self._untaken.get(event_id)
        if refs is not None:
            refs.discard(ref)
            if not refs:
                del self._untaken[event_id]
                self._host.tell(PeerTake(event_id))

    def publish(self, message: PeerPublish) -> Publication:
        """Publish an event."""
        if self._over is not None:
            raise NotConnectedError(self._over)
        loop, size_bytes = asyncio.get_running_loop(), len(message.event)
        publication = Publication(message.ref, size_bytes, loop.create_future(), loop.create_future())
        self._unsettled[message.ref] = publication
        self._unsettled_bytes += size_bytes
        self.published_count += 1
        self._host.tell(message)
        return publication

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
        for publication in self._unsettled.values():
            _fail(publication, NotConnectedError(reason))
        self._unsettled.clear()
        self._changed.set()

    # What the node tells

    def _subscribed(self, effect: PeerSubscribed) -> None:
        if (subscription := self._subscriptions.get(effect.ref)) is not None:
            subscription.confirm()

    def _delivered(self, effect: PeerDelivered) -> None:
        self.delivered_count += 1
        publisher = publisher_of(effect.event_id)
        delivery = Delivery(next(self._positions), effect.event_id, self._host.now(), Raw(effect.event), publisher)
        found = [self._subscriptions[ref] for ref in effect.refs if ref in self._subscriptions]
        if refs := {each.id for each in found if each.request.is_taken_by_program}:
            self._untaken[effect.event_id] = refs
        elif len(found) < len(effect.refs):  # a subscription has just ended, and the node may wait for its program
            self._host.tell(PeerTake(effect.event_id))
        for subscription in found:
            subscription.give(delivery)

    def _accepted(self, effect: PeerAccepted) -> None:
        publication = self._unsettled.get(effect.ref)
        if publication is not None:
            publication.is_stored = effect.is_stored
            if not publication.accepted.done():
                publication.accepted.set_result(None)

    def _published(self, effect: PeerPublished) -> None:
        publication = self._forget(effect.ref)
        if publication is not None and not publication.outcome.done():
            stored = publication.is_stored
            outcome = Outcome(effect.taken, effect.missed, is_stored=stored, is_vouched=effect.is_vouched)
            publication.outcome.set_result(outcome)

    def _refused(self, effect: PeerRefused) -> None:
        error = RefusedError("busy", effect.reason)  # what is not sound was refused before it came to the node
        if (subscription := self._subscriptions.pop(effect.ref, None)) is not None:
            subscription.end(error)
        if (publication := self._forget(effect.ref)) is not None:
            _fail(publication, error)

    def _forget(self, ref: str) -> Publication | None:
        publication = self._unsettled.pop(ref, None)
        if publication is not None:
            self._unsettled_bytes -= publication.size_bytes
            self._changed.set()
        return publication


def _fail(publication: Publication, error: FieldfareError) -> None:
    for future in (publication.accepted, publication.outcome):
        if not future.done():
            future.set_exception(error)
            future.exception()  # who does not look at it is not told by a warning either


def publisher_of(event_id: str) -> str:
    """The peer that published an event: ids begin with the name of its log, which begins with the peer's."""
    return event_id.partition("@")[0]
