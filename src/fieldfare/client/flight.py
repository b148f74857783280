"""What was sent and has no answer yet, and what an edge was too busy for and is sent again later.

An item is at most once in flight: an answer that comes for an earlier copy of it finds nothing, and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from fieldfare.client.incoming import Incoming
from fieldfare.client.outbox import Outbox, Publication
from fieldfare.client.outputs import Key, SessionOptions, Transmit
from fieldfare.messages import DeclareTopic, List, Ref, Unsubscribe


@dataclass(slots=True, eq=False)
class Request:
    """A request that does no harm when it is carried out twice."""

    key: Key
    frame: DeclareTopic | List | Unsubscribe
    times_sent: int = 0
    times_busy: int = 0

    def sent(self, ref: Ref) -> DeclareTopic | List | Unsubscribe:
        """The frame to send now."""
        self.times_sent += 1
        return replace(self.frame, ref=ref)


Item: TypeAlias = Publication | Incoming | Request
Retried: TypeAlias = Outbox | Incoming | Request


class Flight:
    """Items on their way, and those that wait to be sent again."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._last_ref = 0
        self._sent: dict[Ref, tuple[Item, float]] = {}  # with the time of sending, the oldest first
        self._retries: dict[Retried, float] = {}

    def __contains__(self, retried: Retried) -> bool:
        """Whether it waits to be sent again."""
        return retried in self._retries

    @property
    def next_time(self) -> float:
        """When something is overdue, or is to be sent again; infinity if never."""
        overdue_at = self._oldest() + self._options.answer_timeout_seconds if self._sent else math.inf
        return min(overdue_at, *self._retries.values()) if self._retries else overdue_at

    def send(self, item: Item, now: float) -> Transmit:
        """Send an item, under a new ref."""
        self._last_ref += 1
        self._sent[self._last_ref] = item, now
        return Transmit(item.sent(self._last_ref))

    def answered(self, ref: Ref | None) -> Item | None:
        """The item that an answer is for, if it still waits for that one."""
        return None if ref is None else self._sent.pop(ref, (None, 0.0))[0]

    def recall(self, refs: Iterable[Ref]) -> None:
        """Expect no answer to these any more."""
        for ref in refs:
            self._sent.pop(ref, None)

    def retry_later(self, retried: Retried, now: float) -> None:
        """Send it again after a delay that grows with every time."""
        if retried not in self._retries:
            delay_seconds = self._options.retry_delay_seconds * 2 ** min(retried.times_busy, 20)
            self._retries[retried] = now + min(delay_seconds, self._options.retry_delay_seconds_max)
            retried.times_busy += 1

    def cancel(self, retried: Retried) -> None:
        """Do not send it again."""
        self._retries.pop(retried, None)

    def is_overdue(self, now: float) -> bool:
        """Whether an answer should have come by now."""
        return bool(self._sent) and self._oldest() + self._options.answer_timeout_seconds <= now

    def due(self, now: float) -> list[Retried]:
        """Those that are to be sent again now."""
        due = [retried for retried, at in self._retries.items() if at <= now]
        for retried in due:
            del self._retries[retried]
        return due

    def clear(self) -> None:
        """The connection is gone."""
        self._sent.clear()
        self._retries.clear()

    def _oldest(self) -> float:
        return next(iter(self._sent.values()))[1]
