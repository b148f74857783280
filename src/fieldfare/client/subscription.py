"""A subscription in an application's hands: await it, iterate over it, or enter it as a context.

    subscription = await client.subscribe(...)      # it is in force now
    async for event in subscription: ...            # an event is acknowledged when the next is asked for
    async with client.subscribe(...) as subscription: ...   # in force at the beginning, gone at the end

So an application that fails while it deals with an event of a durable subscription gets it again; and one that is slow
holds back its own deliveries, because no more than `window` events are on their way to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

import msgspec

from fieldfare.client.events import Event
from fieldfare.errors import FieldfareError
from fieldfare.messages import Attach, Delivery, Notice, Position, Subscribe

if TYPE_CHECKING:
    from fieldfare.client.session_runner import SessionRunner

T = TypeVar("T")
NOTICES_MAX = 100
FORMER_EVENTS_MAX = 10_000


class SubscriptionOptions(TypedDict, total=False):
    """What may be said of a subscription besides its topic and condition."""

    name: str  # makes it durable: it lives until it is unsubscribed, and its events wait
    after: Position  # deliver what came after this position
    window: int  # how many events may be on their way without an acknowledgement
    webhook: str  # deliver by POST to this URL; needs a name
    wants_mark: bool  # end the iteration when all that was there has come
    log: str  # to which the position `after` belongs, as `Event.log` and `Subscription.log` say


class Subscription(Generic[T]):
    """Events that match a condition, as they come. Made by `Client.subscribe`; for one consumer."""

    def __init__(
        self,
        runner: SessionRunner,
        request: Subscribe | Attach,
        decoder: msgspec.json.Decoder[T],
        on_notice: Callable[[Notice], object] | None,
    ) -> None:
        self.id = request.subscription if isinstance(request, Attach) else request.name or ""
        self.topic = "" if isinstance(request, Attach) else request.topic
        self.is_durable = isinstance(request, Attach) or request.name is not None
        self.log = ""  # to which the positions of its events belong, if the service says it
        self.notices: deque[Notice] = deque(maxlen=NOTICES_MAX)
        self._runner = runner
        self.request = request
        self._decoder = decoder
        self._on_notice = on_notice
        self._events: deque[Delivery] = deque()  # no more than the window
        # Events that were not taken when the log changed. The oldest of too many are dropped: a gap was told then.
        self._of_former_logs: deque[tuple[Delivery, str]] = deque(maxlen=FORMER_EVENTS_MAX)
        self._given: Position | None = None  # and not yet acknowledged
        self._settled = asyncio.Event()  # it is in force, or has ended
        self._arrived = asyncio.Event()  # there are events, or it has ended
        self._error: FieldfareError | None = None
        self._is_ended = False
        self._has_caught_up = False

    def __await__(self) -> Generator[object, None, Subscription[T]]:
        return self._in_force().__await__()

    async def __aenter__(self) -> Subscription[T]:
        return await self._in_force()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_durable:
            self.detach()
        else:
            await self.unsubscribe()

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> Event[T]:
        if self._given is not None:
            self._runner.acknowledge(self, self._given)
            self._given = None
        if self._of_former_logs:
            former, log = self._of_former_logs.popleft()  # there is nobody to whom it could be acknowledged
            return Event(former, self.topic, self.id, self._decoder, log)
        while not self._events:
            if self._is_ended:
                raise StopAsyncIteration if self._error is None or self._runner.is_closed else self._error
            if self._has_caught_up:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        delivery = self._events.popleft()
        self._given = delivery.position
        return Event(delivery, self.topic, self.id, self._decoder, self.log)

    def acknowledge(self, event: Event[T]) -> None:
        """Be done with an event and all before it, without asking for the next."""
        if event.log == self.log:
            self._runner.acknowledge(self, event.position)

    def detach(self) -> None:
        """Deliver no more of it here. A durable one waits for the next client that attaches or subscribes."""
        if not self._is_ended:
            self.end(None)
            self._runner.detach(self)

    async def unsubscribe(self) -> None:
        """End it. Events that have arrived can still be taken."""
        if not self._is_ended:
            self.end(None)
            await self._runner.unsubscribe(self)

    async def _in_force(self) -> Subscription[T]:
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        return self

    # What the runner tells

    def confirm(self, subscription_id: str, log: str) -> None:
        """It is in force."""
        self.id, self.log = subscription_id, log
        self._settled.set()

    def change_log(self, log: str) -> None:
        """Its positions belong to another log from now on."""
        self._of_former_logs.extend((delivery, self.log) for delivery in self._events)
        self._events.clear()
        self._given, self.log = None, log

    def follow(self, runner: SessionRunner) -> None:
        """Its home is another edge, which this runner connects to."""
        self._runner = runner

    def give(self, events: list[Delivery]) -> None:
        """Events came."""
        self._events.extend(events)
        self._arrived.set()

    def notice(self, notice: Notice) -> None:
        """Something that the subscriber has to know came."""
        if notice.kind == "caught_up":
            self._has_caught_up = True
            self._arrived.set()
            return
        self.notices.append(notice)
        if self._on_notice is not None:
            asyncio.get_running_loop().call_soon(self._on_notice, notice)

    def end(self, error: FieldfareError | None) -> None:
        """No more events come: because of an error, or because nobody wants them."""
        if not self._is_ended:
            self._is_ended, self._error = True, error
            self._settled.set()
            self._arrived.set()
