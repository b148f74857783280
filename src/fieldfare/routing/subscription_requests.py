"""What may be asked of a durable subscription that exists: go elsewhere in the log, change, pause, dead letters.

Each is stored first, and carried out and answered when it is. One that an edge does not have is looked for at the
others, as for every request by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from fieldfare.messages import (
    Change,
    DeadLettersDropped,
    DeadLettersRedriven,
    Done,
    DropDeadLetters,
    Identity,
    PauseDelivery,
    Position,
    Redrive,
    ResumeDelivery,
    Seek,
    SubscriptionRequest,
)
from fieldfare.routing.consuming import Consumption
from fieldfare.routing.dead_letters import DeadLetters
from fieldfare.routing.delivery import Deliveries
from fieldfare.routing.pending import stored_form
from fieldfare.routing.ports import LogPort, Positions, Replies
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.subscribing import Subscribing
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.subscription_checks import start_position
from fieldfare.routing.taker import Taker
from fieldfare.routing.topic import Topics


@dataclass(frozen=True, slots=True)
class SubscriptionUpdate:
    """A change of a subscription that is on its way to the log."""

    taker: Taker
    link: str
    frame: SubscriptionRequest
    subscription: Subscription  # what it is to be
    moves_to: Position | None = None  # where it is to go on; None: where it is


@dataclass(frozen=True, slots=True)
class LettersUpdate:
    """Dead letters that are to be sent again or dropped, which is on its way to the log."""

    taker: Taker
    link: str
    frame: Redrive | DropDeadLetters
    positions: Sequence[Position]


AnyUpdate: TypeAlias = SubscriptionUpdate | LettersUpdate


@dataclass(frozen=True, slots=True)
class RequestPorts:
    """What these requests need of their broker."""

    subscribing: Subscribing
    topics: Topics
    deliveries: Deliveries
    consumption: Consumption
    letters: DeadLetters
    replies: Replies
    log: LogPort
    positions: Positions
    search: Callable[[str, Identity, SubscriptionRequest, float], bool]  # whether other edges are asked first


class SubscriptionRequests:
    """Carries out what is asked of subscriptions."""

    def __init__(self, ports: RequestPorts) -> None:
        self._subscribing, self._topics, self._deliveries = ports.subscribing, ports.topics, ports.deliveries
        self._consumption, self._letters = ports.consumption, ports.letters
        self._replies, self._log, self._positions = ports.replies, ports.log, ports.positions
        self._search = ports.search

    def _own(self, link: str, identity: Identity, frame: SubscriptionRequest, now: float) -> Taker | None:
        """The taker that is meant; None if other edges are being asked for it."""
        if not self._subscribing.has(identity.tenant, frame.subscription) and self._search(link, identity, frame, now):
            return None
        taker = self._subscribing.own(identity, frame.subscription)
        self._subscribing.check_stays(taker)
        if not taker.subscription.is_durable:
            raise Refusal("invalid", "it has no name, and ends with its connection: subscribe again in place of this")
        return taker

    # Asked for

    def seek(self, link: str, identity: Identity, frame: Seek, now: float) -> None:
        """Go on elsewhere in the log."""
        if (taker := self._own(link, identity, frame, now)) is None:
            return
        if not taker.reads_log:
            raise Refusal("invalid", "its topic keeps no events, or it asked for best effort: there is no other place")
        topic = self._topics.of(taker)
        position = start_position(frame.start, topic, self._subscribing.log_id, self._positions.last)
        changed = replace(taker.subscription, since=frame.start.time or 0.0)
        self._store(SubscriptionUpdate(taker, link, frame, changed, position))

    def change(self, link: str, identity: Identity, frame: Change, now: float) -> None:
        """Ask for something else."""
        if taker := self._own(link, identity, frame, now):
            self._check_unchanging(taker)
            self._subscribing.change(link, taker, frame, now)

    def _check_unchanging(self, taker: Taker) -> None:
        self._subscribing.pending.check_none(*taker.subscription.key)
        if taker.is_changing:
            raise Refusal("busy", f"the subscription {taker.id!r} is just being changed: try again")

    def pause(self, link: str, identity: Identity, frame: PauseDelivery, now: float) -> None:
        """Deliver no more."""
        self._set_paused(link, identity, frame, now, is_paused=True)

    def resume(self, link: str, identity: Identity, frame: ResumeDelivery, now: float) -> None:
        """Deliver again."""
        self._set_paused(link, identity, frame, now, is_paused=False)

    def _set_paused(
        self, link: str, identity: Identity, frame: PauseDelivery | ResumeDelivery, now: float, *, is_paused: bool
    ) -> None:
        if taker := self._own(link, identity, frame, now):
            self._store(SubscriptionUpdate(taker, link, frame, replace(taker.subscription, is_paused=is_paused)))

    def _store(self, update: SubscriptionUpdate) -> None:
        self._check_unchanging(update.taker)
        update.taker.is_changing = True
        cursor = update.taker.cursor if update.moves_to is None else update.moves_to
        self._log.append(stored_form(update.subscription, cursor, is_moved=update.moves_to is not None), update)

    def redrive(self, link: str, identity: Identity, frame: Redrive, now: float) -> None:
        """Send dead letters again."""
        self._choose_letters(link, identity, frame, now)

    def drop_dead_letters(self, link: str, identity: Identity, frame: DropDeadLetters, now: float) -> None:
        """Forget dead letters."""
        self._choose_letters(link, identity, frame, now)

    def _choose_letters(self, link: str, identity: Identity, frame: Redrive | DropDeadLetters, now: float) -> None:
        if (taker := self._own(link, identity, frame, now)) is None:
            return
        key = taker.subscription.key
        positions = self._letters.chosen(key, frame.ids)
        record = DeadLettersRedriven if isinstance(frame, Redrive) else DeadLettersDropped
        self._log.append(record(*key, positions), LettersUpdate(taker, link, frame, positions))

    # Stored

    def stored(self, update: SubscriptionUpdate, now: float) -> None:
        """It is in the log: it holds from now on."""
        taker = update.taker
        taker.is_changing = False
        if not taker.is_ended:
            self._deliveries.update(taker, update.subscription, now)
            if update.moves_to is not None:
                self._subscribing.release_links(taker)
                self._deliveries.move(taker, update.moves_to, now)
        self._replies.send(update.link, Done(update.frame.ref))

    def letters_stored(self, update: LettersUpdate, now: float) -> None:
        """The log knows what becomes of dead letters."""
        taker = update.taker
        if not taker.is_ended:
            if isinstance(update.frame, Redrive):
                self._consumption.redrive(taker, update.positions)
                self._deliveries.go_on(taker, now)
            else:
                self._letters.drop(taker.subscription.key, update.positions)
        self._replies.send(update.link, Done(update.frame.ref, len(update.positions)))

    def not_stored(self, update: AnyUpdate, reason: str) -> None:
        """The log could not be told: all stays as it is."""
        if isinstance(update, SubscriptionUpdate):
            update.taker.is_changing = False
        self._replies.refuse(update.link, update.frame.ref, Refusal("storage", reason))
