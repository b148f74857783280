"""A subscription of a peer in a program's hands: await it, iterate over it, enter it as a context, or give a callback.

    slow = await peer.subscribe("traffic", "speed < 25")              # it is in force now
    async for event in slow: ...
    async with peer.subscribe(...) as slow: ...                       # in force at the beginning, gone at the end
    await peer.subscribe("traffic", "speed < 25", print)              # a function, or a coroutine, for each event

Of a durable subscription, an event is taken when the program is done with it: when it asks for the next one, or its
callback has returned. Until then the peer that published it keeps it. Else an event that waits here has been taken: a
program that is slow loses the oldest beyond a bound, and is told so by a notice.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from fieldfare.client.events import Event
from fieldfare.dmm.peer_messages import PeerSubscribe
from fieldfare.errors import FieldfareError
from fieldfare.messages import Delivery, Notice

T = TypeVar("T")
NOTICES_MAX = 100
OnEvent = Callable[[Event[Any]], Any]
OnNotice = Callable[[Notice], object]
_log = logging.getLogger(__name__)


class Owner(Protocol):
    """What a subscription needs of its peer."""

    def unsubscribe(self, ref: str) -> None:
        """It is wanted no more."""

    def take(self, ref: str, event_id: str) -> None:
        """The program is done with an event."""


@dataclass(frozen=True, slots=True)
class WaitingBound:
    """How many events may wait for the program; beyond it the oldest are dropped."""

    events_max: int | None  # None: what waits is not taken yet, and the peer gives no more than it can
    is_wanted: bool  # the program asked to keep the last only, so it is not told


class PeerSubscription(Generic[T]):
    """Events that match a condition, as they come. Made by `Peer.subscribe`; for one consumer."""

    def __init__(
        self,
        request: PeerSubscribe,
        decoder: msgspec.json.Decoder[T],
        *,
        bound: WaitingBound,
        on_event: OnEvent | None,
        on_notice: OnNotice | None,
        owner: Owner,
    ) -> None:
        self.id, self.topic, self.request = request.ref, request.topic, request
        self.notices: deque[Notice] = deque(maxlen=NOTICES_MAX)
        self._decoder, self._bound, self._on_notice, self._owner = decoder, bound, on_notice, owner
        self._events: deque[Delivery] = deque()
        self._given: Delivery | None = None  # the event that the program has, and is not known to be done with
        self._settled = asyncio.Event()  # it is in force, or has ended
        self._arrived = asyncio.Event()  # there are events, or it has ended
        self._error: FieldfareError | None = None
        self._is_ended = False
        self._has_callback = on_event is not None
        self.calling = None if on_event is None else asyncio.create_task(self._call(on_event))

    def __await__(self) -> Generator[object, None, PeerSubscription[T]]:
        return self._in_force().__await__()

    async def __aenter__(self) -> PeerSubscription[T]:
        return await self._in_force()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.unsubscribe()

    def __aiter__(self) -> PeerSubscription[T]:
        if self._has_callback:
            raise TypeError("the events of this subscription go to its callback: subscribe without one to iterate")
        return self

    async def __anext__(self) -> Event[T]:
        self._done()
        while not self._events:
            if self._is_ended:
                raise StopAsyncIteration if self._error is None else self._error
            self._arrived.clear()
            await self._arrived.wait()
        delivery = self._events.popleft()
        self._given = delivery
        return Event(delivery, self.topic, self.id, self._decoder)

    def acknowledge(self, event: Event[T]) -> None:
        """Be done with an event, without asking for the next."""
        if self._given is not None and event.id == self._given.id:
            self._done()

    def _done(self) -> None:
        given, self._given = self._given, None
        if given is not None and self.request.is_taken_by_program:
            self._owner.take(self.id, given.id)

    def detach(self) -> None:
        """Deliver no more of it here; of a durable one, what was not taken waits for the next life of this peer."""
        if self.request.is_taken_by_program:
            self._events.clear()
        self.end(None)

    async def unsubscribe(self) -> None:
        """End it. Events that have arrived can still be taken."""
        if not self._is_ended:
            self.end(None)
            self._owner.unsubscribe(self.id)

    async def _in_force(self) -> PeerSubscription[T]:
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        return self

    async def _call(self, on_event: OnEvent) -> None:
        """Call a function for one event after another. If it fails, that is logged, and the next event follows."""
        while True:
            try:
                event = await self.__anext__()
            except (StopAsyncIteration, FieldfareError):
                return
            try:
                result = on_event(event)
                if inspect.isawaitable(result):
                    await result
            except Exception:  # noqa: BLE001 - a program's own fault must not end its peer
                _log.exception("the callback of the subscription to %s failed for event %s", self.topic, event.id)

    # What the program's part of the peer tells

    def hand_over(self, other: PeerSubscription[Any]) -> None:
        """The program subscribes by the same name again: what it has not taken goes there, if it wants the same."""
        untaken = [*([] if self._given is None else [self._given]), *self._events]
        self._given = None
        self._events.clear()
        self.end(None)
        for delivery in untaken:
            if other.request == self.request:
                other.give(delivery)
            else:
                self._owner.take(self.id, delivery.id)

    def confirm(self) -> None:
        """It is in force."""
        self._settled.set()

    def give(self, delivery: Delivery) -> None:
        """An event came."""
        self._events.append(delivery)
        self._arrived.set()
        if self._bound.events_max is not None and len(self._events) > self._bound.events_max:
            dropped = self._events.popleft()
            if self.request.is_taken_by_program:
                self._owner.take(self.id, dropped.id)
            if not self._bound.is_wanted:
                self._notice(Notice(self.id, "gap", "events came faster than they were taken", dropped.position))

    def _notice(self, notice: Notice) -> None:
        self.notices.append(notice)
        if self._on_notice is not None:
            asyncio.get_running_loop().call_soon(self._on_notice, notice)

    def end(self, error: FieldfareError | None) -> None:
        """No more events come: because of an error, or because nobody wants them."""
        if not self._is_ended:
            self._is_ended, self._error = True, error
            self._settled.set()
            self._arrived.set()
