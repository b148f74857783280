"""One subscription's events on their way: what waits, what is sent and not acknowledged, and what only the log has.

    ... cursor | in flight ... | waiting ... | behind_after: the rest is read from the log when there is room

All positions up to the cursor are dealt with. A subscriber that is slow, away or new holds no memory: what it has not
got is found again by reading the log after a position. A subscription that cannot do that, because its topic is not
kept or it asked for best effort only, loses its oldest events instead, and is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from fieldfare.messages import Position
from fieldfare.qos import Requested


class Entry(NamedTuple):
    """An event, ready to be sent to any subscription."""

    position: Position
    expires_at: float
    delivery: Raw


class Subscription(msgspec.Struct, frozen=True):
    """What a subscriber asked for. Durable ones outlive their connection; unnamed ones do not."""

    id: str
    tenant: str
    topic: str
    condition: str
    qos: Requested
    is_durable: bool
    webhook: str | None = None


class Outbox:
    """The delivery of one subscription. At most one connection, or its webhook, takes events from it at a time."""

    def __init__(self, subscription: Subscription, handle: int, cursor: Position, *, reads_log: bool) -> None:
        self.subscription = subscription
        self.handle = handle
        self.cursor = cursor
        self.reads_log = reads_log
        self.connection: str | None = None
        self.window = 0
        self.waiting: deque[Entry] = deque()
        self.in_flight: deque[Position] = deque()
        self.behind_after: Position | None = cursor if reads_log else None  # None: every new match is offered here
        self.seen: Position = cursor  # what is offered again up to here has been read from the log already
        self.matched_count = 0
        self.dropped_count = 0  # of which the subscriber has not been told yet
        self.first_count = 0  # the topic's events when this subscription began
        self.last_matched_at = 0.0
        self._left_unconfirmed: Position = -1

    @property
    def key(self) -> tuple[str, str]:
        """The tenant and the id, which is unique among that tenant's."""
        return self.subscription.tenant, self.subscription.id

    @property
    def is_attached(self) -> bool:
        """Whether somebody takes events."""
        return self.connection is not None or self.subscription.webhook is not None

    def attach(self, connection: str | None, window: int, after: Position | None, matched: Position) -> None:
        """Begin to deliver, after a position or else after what was acknowledged; `matched` is the topic's last."""
        self.settle(matched)
        if after is not None:
            self.cursor = after
        self.connection, self.window = connection, window
        self._forget_unconfirmed()
        if self.cursor >= matched:
            self.caught_up(self.cursor)

    def detach(self, matched: Position) -> None:
        """Nobody takes events any more; `matched` is the topic's last position."""
        self.settle(matched)
        self.connection = None
        self._forget_unconfirmed()

    def _forget_unconfirmed(self) -> None:
        self.waiting.clear()
        self.in_flight.clear()
        self._left_unconfirmed = -1
        self.behind_after = self.cursor if self.reads_log else None

    def caught_up(self, position: Position) -> None:
        """The log has been read up to a position, and nothing after it has been matched: from here on, be offered."""
        self.seen, self.behind_after = position, None

    def fall_behind(self) -> int:
        """Let go of what waits; it is read from the log again, or else it is dropped: so many are."""
        dropped = 0 if self.reads_log else len(self.waiting)
        if self.reads_log and self.waiting:
            self.behind_after = self.waiting[0].position - 1
        self.waiting.clear()
        self.dropped_count += dropped
        return dropped

    def settle(self, matched: Position) -> None:
        """Where nothing is outstanding, all that was matched is dealt with: the cursor need not stay behind."""
        is_idle = not self.waiting and not self.in_flight and self._left_unconfirmed <= self.cursor
        if is_idle and self.behind_after is None:
            self.cursor = max(self.cursor, matched)

    def offer(self, entries: Sequence[Entry]) -> None:
        """Take up new matches, which lie after all before."""
        if self.behind_after is not None or not self.is_attached:
            return
        if entries[0].position <= self.seen:
            entries = [entry for entry in entries if entry.position > self.seen]
        self.waiting.extend(entries)

    def trim(self, waiting_max: int) -> int:
        """Of what could not be sent, keep no more than allowed. The rest is in the log, or is dropped: so many are."""
        depth = self.subscription.qos.keep_last
        excess = len(self.waiting) - (depth or waiting_max)
        if excess <= 0:
            return 0
        if self.reads_log and depth is None:
            self.behind_after = self.waiting[waiting_max].position - 1
            for _ in range(excess):
                self.waiting.pop()
            return 0
        for _ in range(excess):
            self.waiting.popleft()
        self.dropped_count += excess
        return excess

    def take(self, now: float, count_max: int, bytes_max: int) -> list[Raw]:
        """What may be sent now; it is in flight until it is acknowledged."""
        if self.behind_after is not None and self.subscription.qos.keep_last is not None:
            return []  # only when all of it has been read is it known which are the last
        room = min(count_max, self.window - len(self.in_flight))
        taken: list[Raw] = []
        size = 0
        while self.waiting and room > len(taken) and size < bytes_max:
            position, expires_at, delivery = self.waiting.popleft()
            if expires_at > now:
                taken.append(delivery)
                self.in_flight.append(position)
                size += len(delivery)
        return taken

    def acknowledge(self, position: Position, matched: Position, *, is_final: bool) -> None:
        """All up to a position, of what was sent or matched, has arrived; if that is final, never send it again."""
        position = min(position, max(matched, self.in_flight[-1] if self.in_flight else matched))
        while self.in_flight and self.in_flight[0] <= position:
            self.in_flight.popleft()
        if not is_final:
            self._left_unconfirmed = max(self._left_unconfirmed, position)
        elif position > self.cursor:
            self.cursor = position
            if self.behind_after is not None:
                self.behind_after = max(self.behind_after, position)
