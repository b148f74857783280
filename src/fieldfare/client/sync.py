"""The client for programs without an event loop: a thread of its own runs the one for asyncio.

with fieldfare.connect_sync("http://localhost:7380", token=token) as client:
    slow = client.subscribe("traffic", "speed < 25")  # begins with what is published from now on
    client.publish("traffic", {"road": "A10", "speed": 12})
    for event in slow:
        print(event.attributes)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar

from fieldfare.client.aio import Client, connect
from fieldfare.client.events import Event
from fieldfare.client.subscription import Subscription
from fieldfare.client.transport import Transport
from fieldfare.errors import NotConnectedError

T = TypeVar("T")


def connect_sync(address: str | Transport, **options: Any) -> SyncClient:
    """A connected client of the service at a URL; the options are those of `fieldfare.connect`."""
    return SyncClient(connect(address, **options))


class SyncClient:
    """A client whose calls return when they are done. They may come from any thread."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fieldfare-client", daemon=True)
        self._thread.start()
        try:
            self.run(client.__aenter__)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
        return self._loop.is_closed()

    def close(self) -> None:
        """Wait for the last answers, and close."""
        if self._thread.is_alive():
            self.run(self.client.__aexit__, None, None, None)
            self._stop()

    def publish(self, topic: str, events: Any, **options: Any) -> None:
        """Publish an event, or a list; see `Client.publish`."""
        self.run(self.client.publish, topic, events, **options)

    def subscribe(self, topic: str, condition: str, **options: Any) -> SyncSubscription[Any]:
        """Subscribe; it is in force when this returns. See `Client.subscribe`."""

        async def subscribed() -> Subscription[Any]:
            return await self.client.subscribe(topic, condition, **options)

        return SyncSubscription(self, self.run(subscribed))

    def move_publisher(self, url: str) -> None:
        """Publish at another edge from now on; see `Client.move_publisher`."""
        self.run(self.client.move_publisher, url)

    def seek(self, subscription: str, **start: Any) -> None:
        """Have a durable subscription go on from another place; see `Client.seek`."""
        self.run(self.client.seek, subscription, **start)

    def change(self, subscription: str, **changes: Any) -> None:
        """Change what a durable subscription asks for; see `Client.change`."""
        self.run(self.client.change, subscription, **changes)

    def pause(self, subscription: str, **where: Any) -> None:
        """Deliver no more of a durable subscription; see `Client.pause`."""
        self.run(self.client.pause, subscription, **where)

    def resume(self, subscription: str, **where: Any) -> None:
        """Go on delivering it."""
        self.run(self.client.resume, subscription, **where)

    def dead_letters(self, subscription: str, **where: Any) -> list[dict[str, Any]]:
        """The events that were refused too often; see `Client.dead_letters`."""
        return self.run(self.client.dead_letters, subscription, **where)

    def redrive(self, subscription: str, ids: Sequence[str] | None = None, **where: Any) -> int:
        """Send dead letters again; see `Client.redrive`."""
        return self.run(self.client.redrive, subscription, ids, **where)

    def drop_dead_letters(self, subscription: str, ids: Sequence[str] | None = None, **where: Any) -> int:
        """Forget dead letters; see `Client.drop_dead_letters`."""
        return self.run(self.client.drop_dead_letters, subscription, ids, **where)

    def call(self, function: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Call something that does not wait, in the thread of the client."""

        async def called() -> None:
            function(*arguments, **options)

        self.run(called)

    def run(self, method: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        """Call a method of `client`, the one for asyncio, and wait for its result: `run(it.client.topics)`."""

        async def called() -> T:
            return await method(*arguments, **options)

        if self.is_closed:
            raise NotConnectedError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(called(), self._loop)
        try:
            return future.result()
        except BaseException:  # such as KeyboardInterrupt: what nobody waits for must not take an event
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncSubscription(Generic[T]):
    """Events as they come; an event is acknowledged when the next is asked for.

    It ends, or is detached if it is durable, at the end of a `with`, by `close`, or when nobody refers to it any more.
    """

    def __init__(self, client: SyncClient, subscription: Subscription[T]) -> None:
        self._client = client
        self._subscription = subscription

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """Its name, or else the id that the edge gave it."""
        return self._subscription.id

    def __iter__(self) -> Iterator[Event[T]]:
        while True:
            try:
                yield self._client.run(self._subscription.__anext__)
            except StopAsyncIteration:
                return

    def ack(self, event: Event[T]) -> None:
        """Be done with this one event; see `Subscription.ack`."""
        self._client.call(self._subscription.ack, event)

    def nack(self, event: Event[T], reason: str = "", *, delay_seconds: float | None = None) -> None:
        """Refuse an event; see `Subscription.nack`."""
        self._client.call(self._subscription.nack, event, reason, delay_seconds=delay_seconds)

    def close(self) -> None:
        """Leave it: one without a name ends, a durable one is detached."""
        if not self._client.is_closed:
            self._client.run(self._subscription.aclose)

    def unsubscribe(self) -> None:
        """End it, be it durable."""
        self._client.run(self._subscription.unsubscribe)
