"""Groups effects: a flush or a commit costs as much for one as for thousands, so many are carried out together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from fieldfare.messages import HandedOver, HandEvents, HandSubscription

E = TypeVar("E", HandEvents, HandSubscription)


class Collector(Generic[E]):
    """Gathers effects for a short time and has them carried out together. What is beyond its bound is refused."""

    def __init__(
        self,
        carry_out: Callable[[Sequence[E]], Awaitable[Sequence[HandedOver]]],
        answer: Callable[[HandedOver], None],
        *,
        seconds: float,
        together_max: int,  # counted by `_weight`
        waiting_max: int,
    ) -> None:
        self._carry_out: Callable[[Sequence[E]], Awaitable[Sequence[HandedOver]]] = carry_out
        self._answer = answer
        self._seconds, self._together_max, self._waiting_max = seconds, together_max, waiting_max
        self._waiting: deque[E] = deque()
        self._weight = 0
        self._has_some, self._has_enough = asyncio.Event(), asyncio.Event()
        self._is_finishing = False

    def add(self, effect: E) -> None:
        """Take an effect; it is answered once."""
        weight = _weight(effect)
        if self._waiting and self._weight + weight > self._waiting_max:
            self._answer(HandedOver(effect.number, "too much waits for the pipeline's disk already: try again later"))
            return
        self._waiting.append(effect)
        self._weight += weight
        self._has_some.set()
        if self._weight >= self._together_max:
            self._has_enough.set()

    async def run(self) -> None:
        """Carry out what comes, until `finish`, and then what is left."""
        while True:
            await self._has_some.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_enough.wait(), self._seconds)
            if not self._waiting:
                return
            await self._step()

    def finish(self) -> None:
        """Let `run` end when nothing waits any more."""
        self._is_finishing = True
        self._has_some.set()
        self._has_enough.set()

    def refuse(self, reason: str) -> None:
        """Answer what waits, without doing it."""
        while self._waiting:
            self._answer(HandedOver(self._waiting.popleft().number, reason))

    async def _step(self) -> None:
        together: list[E] = []
        weight = 0
        while self._waiting and (not together or weight + _weight(self._waiting[0]) <= self._together_max):
            together.append(self._waiting.popleft())
            weight += _weight(together[-1])
        self._weight -= weight
        if not self._waiting and not self._is_finishing:
            self._has_some.clear()
        if self._weight < self._together_max and not self._is_finishing:
            self._has_enough.clear()
        for result in await self._carry_out(together):
            self._answer(result)


def _weight(effect: HandEvents | HandSubscription) -> int:
    return max(1, len(effect.events)) if isinstance(effect, HandEvents) else 1
