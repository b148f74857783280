"""The requests that were sent and whose answers are awaited, and those that are sent again when the edge is less busy.

A request is awaited under its last ref only: an answer to an earlier copy of it finds nothing, and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Key, Transmit
from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.client.unanswered_publications import UnansweredPublication, UnansweredPublications
from fieldfare.messages import (
    DeclareTopic,
    DeleteTopic,
    List,
    MoveRequest,
    Publish,
    Ref,
    SetWindow,
    SubscriptionRequest,
    Unsubscribe,
)

Repeatable: TypeAlias = (
    DeclareTopic | DeleteTopic | List | Unsubscribe | Publish | MoveRequest | SetWindow | SubscriptionRequest
)


@dataclass(slots=True, eq=False)
class RepeatableRequest:
    """A request that does no harm when it is carried out twice."""

    key: Key
    frame: Repeatable
    times_sent: int = 0
    times_busy: int = 0
    knows_logs: bool = False  # whether the edge that is connected now does, and can say where a subscription's home is

    def sent(self, ref: Ref) -> Repeatable:
        """The frame to send now."""
        self.times_sent += 1
        if self.knows_logs and isinstance(self.frame, (List, Unsubscribe, SubscriptionRequest)):
            return replace(self.frame, ref=ref, log="")
        return replace(self.frame, ref=ref)


Awaited: TypeAlias = UnansweredPublication | SessionSubscription | RepeatableRequest
# The publications of a topic are sent again together, to keep their order.
Retried: TypeAlias = UnansweredPublications | SessionSubscription | RepeatableRequest


class AwaitedAnswers:
    """What was sent and waits for an answer, and what waits to be sent again."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._last_ref = 0
        self._sent: dict[Ref, tuple[Awaited, float]] = {}  # with the time of sending, the oldest first
        self._retry_at: dict[Retried, float] = {}

    def will_retry(self, retried: Retried) -> bool:
        """Whether it waits to be sent again."""
        return retried in self._retry_at

    @property
    def next_time(self) -> float:
        """When an answer is overdue, or something is to be sent again; infinity if never."""
        overdue_at = self._oldest() + self._options.answer_timeout_seconds if self._sent else math.inf
        return min(overdue_at, *self._retry_at.values()) if self._retry_at else overdue_at

    def send(self, awaited: Awaited, now: float) -> Transmit:
        """Send something under a new ref."""
        self._last_ref += 1
        self._sent[self._last_ref] = awaited, now
        return Transmit(awaited.sent(self._last_ref))

    def answered(self, ref: Ref | None) -> Awaited | None:
        """Stop waiting for an answer that came; returns what it is for, or None if nothing waits for it."""
        return None if ref is None else self._sent.pop(ref, (None, 0.0))[0]

    def recall(self, refs: Iterable[Ref]) -> None:
        """Expect no answer to these any more."""
        for ref in refs:
            self._sent.pop(ref, None)

    def retry_later(self, retried: Retried, now: float) -> None:
        """Send it again after a delay that doubles every time."""
        if retried not in self._retry_at:
            delay_seconds = self._options.retry_delay_seconds * 2 ** min(retried.times_busy, 20)
            self._retry_at[retried] = now + min(delay_seconds, self._options.retry_delay_seconds_max)
            retried.times_busy += 1

    def cancel(self, retried: Retried) -> None:
        """Do not send it again."""
        self._retry_at.pop(retried, None)

    def is_overdue(self, now: float) -> bool:
        """Whether an answer should have come by now."""
        return bool(self._sent) and self._oldest() + self._options.answer_timeout_seconds <= now

    def due(self, now: float) -> list[Retried]:
        """Those that are to be sent again now."""
        due = [retried for retried, at in self._retry_at.items() if at <= now]
        for retried in due:
            del self._retry_at[retried]
        return due

    def clear(self) -> None:
        """The connection is gone, and no answer comes any more."""
        self._sent.clear()
        self._retry_at.clear()

    def _oldest(self) -> float:
        return next(iter(self._sent.values()))[1]
