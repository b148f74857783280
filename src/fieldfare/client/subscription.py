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
from fieldfare.messages import Nack, Notice, Position
from fieldfare.qos import Consuming

T = TypeVar("T")


class SubscriptionOptions(TypedDict, total=False):
    """What may be said of a subscription besides its topic and condition."""

    name: str  # makes it durable: it lives until it is unsubscribed, and its events wait
    after: Position  # deliver what came after this position
    window: int  # how many events may be on their way without an acknowledgement, at most
    webhook: str  # deliver by POST to this URL; needs a name
    wants_mark: bool  # end the iteration when all that was there has come
    consuming: Consuming  # shared or not, ordered by a key or not; what becomes of refused events
    log: str  # to which the position `after` belongs, as `Event.log` and `Subscription.log` say


class Subscription(Generic[T]):
    """Events that match a condition, as they come. Made by `Client.subscribe`; for one consumer."""

    def __init__(self, inbox: Inbox, decoder: msgspec.json.Decoder[T]) -> None:
        self._inbox = inbox
        self._decoder = decoder
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
        self._inbox.acknowledge_given()
        event = await self.receive()
        if event is None:
            raise StopAsyncIteration
        if event.log == self._inbox.log:  # else there is nobody to whom it could be acknowledged
            self._inbox.given = event.position
        return event

    async def receive(self) -> Event[T] | None:
        """The next event, which is not acknowledged by asking for another; None if there are no more."""
        inbox = self._inbox
        if inbox.of_former_logs:
            former, log = inbox.of_former_logs.popleft()
            return Event(former, inbox.topic, inbox.id, self._decoder, log)
        while not inbox.events:
            if inbox.is_ended:
                if inbox.error is None or inbox.runner.is_closed:
                    return None
                raise inbox.error
            if inbox.has_caught_up:
                return None
            inbox.arrived.clear()
            await inbox.arrived.wait()
        return Event(inbox.events.popleft(), inbox.topic, inbox.id, self._decoder, inbox.log)

    def acknowledge(self, event: Event[T]) -> None:
        """Be done with an event and all before it, without asking for the next."""
        if event.log == self._inbox.log:
            self._inbox.runner.acknowledge(self._inbox, event.position)

    def settle(self, event: Event[T]) -> None:
        """Be done with this event only; for a subscription whose events are settled one by one."""
        if event.log == self._inbox.log:
            self._inbox.runner.settle(self._inbox, event.position)

    def nack(self, event: Event[T], reason: str, *, delay_seconds: float | None = None) -> None:
        """Refuse an event: it comes again after a while, and becomes a dead letter if that does not help."""
        if event.log == self._inbox.log:
            self._inbox.runner.nack(self._inbox, Nack("", event.position, reason, delay_seconds))

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
