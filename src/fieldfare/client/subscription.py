"""A subscription in an application's hands: await it, iterate over it, or enter it as a context.

    subscription = await client.subscribe(...)      # it is in force now
    async for event in subscription: ...            # an event is acknowledged when the next is asked for
    async with client.subscribe(...) as subscription: ...   # in force at the beginning, gone at the end
    async with contextlib.aclosing(client.subscribe(...)) as subscription: ...   # the same

So an application that fails while it deals with an event of a durable subscription gets it again; and one that is slow
holds back its own deliveries, because no more than `window` events are on their way to it. One that nobody refers to
any more, because the loop over it was left, ends by itself; a durable one is detached.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Generator
from types import TracebackType
from typing import Generic, TypedDict, TypeVar

import msgspec

from fieldfare.client.events import Event
from fieldfare.client.inbox import Inbox
from fieldfare.errors import EventError
from fieldfare.messages import Notice, Position, Start
from fieldfare.qos import Consuming

T = TypeVar("T")


class SubscriptionOptions(TypedDict, total=False):
    """What may be said of a subscription besides its topic and condition."""

    name: str  # makes it durable: it lives until it is unsubscribed, and its events wait
    after: Position  # deliver what came after this position
    window: int  # how many events may be on their way without an acknowledgement, at most
    webhook: str  # deliver by POST to this URL; needs a name
    wants_mark: bool  # end the iteration when all that was there has come
    log: str  # to which the position `after` belongs, as `Event.log` and `Subscription.log` say
    consuming: Consuming  # shared with other consumers, by key; what becomes of refused events
    start: Start  # begin at a time, at the beginning of what is kept, or after a position


class Subscription(Generic[T]):
    """Events that match a condition, as they come. Made by `Client.subscribe`; for one consumer."""

    def __init__(self, inbox: Inbox, decoder: msgspec.json.Decoder[T], *, is_typed: bool = False) -> None:
        self._inbox = inbox
        self._decoder = decoder
        self._is_typed = is_typed  # events that do not have the type are refused
        weakref.finalize(self, inbox.let_go).atexit = False  # the connection ends then anyway

    @property
    def id(self) -> str:
        """Its name, or else the id that the edge gave it."""
        return self._inbox.id

    @property
    def topic(self) -> str:
        """The topic whose events it selects, if that is known here."""
        return self._inbox.topic

    @property
    def is_durable(self) -> bool:
        """Whether it outlives this client."""
        return self._inbox.is_durable

    @property
    def log(self) -> str:
        """The log to which the positions of its events belong, if the service says it."""
        return self._inbox.log

    @property
    def notices(self) -> deque[Notice]:
        """The last things that its subscriber had to know."""
        return self._inbox.notices

    def __await__(self) -> Generator[object, None, Subscription[T]]:
        return self._in_force().__await__()

    async def __aenter__(self) -> Subscription[T]:
        return await self._in_force()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> Event[T]:
        inbox = self._inbox
        inbox.acknowledge_given()
        if inbox.of_former_logs:
            former, log = inbox.of_former_logs.popleft()  # there is nobody to whom it could be acknowledged
            return Event(former, inbox.topic, inbox.id, self._decoder, log)
        while True:
            while not inbox.events:
                if inbox.is_ended:
                    raise StopAsyncIteration if inbox.error is None or inbox.runner.is_closed else inbox.error
                if inbox.has_caught_up:
                    raise StopAsyncIteration
                inbox.arrived.clear()
                await inbox.arrived.wait()
            event = Event(inbox.take(), inbox.topic, inbox.id, self._decoder, inbox.log)
            if not self._is_typed or self._can_be_read(event):
                return event

    def _can_be_read(self, event: Event[T]) -> bool:
        """Whether an event has the type that was asked for; one that has not is refused, and the next is taken."""
        try:
            event.attributes  # noqa: B018 - decoded now, so that the application never gets what it cannot read
        except EventError as error:
            self.nack(event, str(error))
            return False
        return True

    def acknowledge(self, event: Event[T]) -> None:
        """Be done with an event and all before it, without asking for the next."""
        if event.log == self._inbox.log:
            self._inbox.runner.acknowledge(self._inbox, event.position)

    def ack(self, event: Event[T]) -> None:
        """Be done with this one event, whatever becomes of those before it."""
        if event.log == self._inbox.log:
            self._inbox.settle(event.delivery)

    def nack(self, event: Event[T], reason: str = "", *, delay_seconds: float | None = None) -> None:
        """Refuse an event: it comes again after a while, and after too many times becomes a dead letter."""
        if event.log == self._inbox.log:
            self._inbox.refuse(event.delivery, reason, delay_seconds)

    def detach(self) -> None:
        """Deliver no more of it here. A durable one waits for the next client that attaches or subscribes."""
        self._inbox.detach()

    async def unsubscribe(self) -> None:
        """End it, be it durable. Events that have arrived can still be taken."""
        if not self._inbox.is_ended:
            self._inbox.end(None)
            await self._inbox.runner.unsubscribe(self._inbox)

    async def aclose(self) -> None:
        """Leave it: one without a name ends, a durable one is detached. What was not taken is not kept here."""
        if self.is_durable:
            self.detach()
        else:
            await self.unsubscribe()
        self._inbox.clear()

    async def _in_force(self) -> Subscription[T]:
        await self._inbox.settled.wait()
        if self._inbox.error is not None:
            raise self._inbox.error
        return self
