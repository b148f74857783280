"""What a client may ask of durable subscriptions by their names: seek, change, pause, resume, dead letters.

Where there are several edges, a subscription has its home at one of them, which is found by its topic; without one,
among the topics that are in use at the edge which this client is connected to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from fieldfare.client.session_runner import SessionRunner
from fieldfare.errors import RefusedError
from fieldfare.messages import (
    Change,
    DropDeadLetters,
    List,
    PauseDelivery,
    Position,
    Redrive,
    ResumeDelivery,
    Seek,
    Start,
)
from fieldfare.qos import Consuming, Requested

Attributes: TypeAlias = dict[str, Any]
_PAGE_ITEMS = 1000


class SubscriptionControl:
    """The part of a client that looks after durable subscriptions."""

    _runner: SessionRunner

    async def seek(
        self,
        subscription: str,
        *,
        time: float | datetime | None = None,
        position: Position | None = None,
        beginning: bool = False,
        log: str = "",
        topic: str | None = None,
    ) -> None:
        """Have a subscription go on from a time, from the beginning of what is kept, or after a position.

        A time is a datetime, or in seconds since 1970: it means the same at every edge. A position belongs to one log.
        """
        seconds = time.timestamp() if isinstance(time, datetime) else time
        start = Start(position, log, seconds, beginning)
        await self._runner.request(Seek(0, subscription, start, topic=topic))

    async def change(
        self,
        subscription: str,
        *,
        condition: str | None = None,
        qos: Requested | None = None,
        consuming: Consuming | None = None,
        webhook: str | None = None,
        topic: str | None = None,
    ) -> None:
        """Change what a subscription asks for. It keeps its place; what is left out stays as it is."""
        await self._runner.request(Change(0, subscription, condition, qos, consuming, webhook, topic=topic))

    async def subscription(self, subscription: str, *, topic: str | None = None) -> Attributes:
        """One subscription, with how far it is behind; a RefusedError with the code `unknown` if there is none."""
        found = await self._list(List(0, "subscriptions", subscription=subscription, topic=topic))
        if not found:
            raise RefusedError("unknown", f"there is no subscription {subscription!r}")
        return found[0]

    async def pause(self, subscription: str, *, topic: str | None = None) -> None:
        """Deliver no more of a subscription, to whomever; its events wait."""
        await self._runner.request(PauseDelivery(0, subscription, topic=topic))

    async def resume(self, subscription: str, *, topic: str | None = None) -> None:
        """Go on delivering a subscription."""
        await self._runner.request(ResumeDelivery(0, subscription, topic=topic))

    async def dead_letters(self, subscription: str, *, topic: str | None = None) -> list[Attributes]:
        """The events of a subscription that were refused too often: each with `id`, `at`, `reason` and `event`."""
        letters = await self._list(List(0, "dead_letters", subscription=subscription, topic=topic))
        return msgspec.json.decode(
            msgspec.json.encode(letters), type=list[Attributes]
        )  # no bytes, also where no wire was

    async def redrive(self, subscription: str, ids: Sequence[str] | None = None, *, topic: str | None = None) -> int:
        """Send dead letters of a subscription again, all of them or those with these ids. Returns how many."""
        chosen = None if ids is None else list(ids)
        answer = await self._runner.request(Redrive(0, subscription, chosen, topic=topic))
        return answer.count or 0

    async def drop_dead_letters(
        self, subscription: str, ids: Sequence[str] | None = None, *, topic: str | None = None
    ) -> int:
        """Forget dead letters of a subscription, all of them or those with these ids. Returns how many."""
        chosen = None if ids is None else list(ids)
        answer = await self._runner.request(DropDeadLetters(0, subscription, chosen, topic=topic))
        return answer.count or 0

    async def _list(self, first: List) -> list[Attributes]:
        items: list[Attributes] = []
        after: str | None = ""
        while after is not None:
            page = msgspec.structs.replace(first, after=after, count_max=_PAGE_ITEMS)
            answer = await self._runner.request(page)
            items += answer.items
            after = answer.next
        return items
