"""The client for asyncio: it runs a session over connections that it opens, again and again, until it is closed.

    async with fieldfare.connect("http://localhost:7380", token=token) as client:
        slow = await client.subscribe("traffic", "speed < 25")  # begins with what is published from now on
        await client.publish("traffic", {"road": "A10", "speed": 12})
        async for event in slow:
            print(event.attributes)

What is sent within one turn of the event loop travels in one message, so publishing many things at once is cheap.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, Unpack, overload

import msgspec

from fieldfare.client import wire
from fieldfare.client.options import ClientOptions
from fieldfare.client.session_runner import SessionRunner
from fieldfare.client.subscription import Subscription, SubscriptionOptions
from fieldfare.client.transport import Transport
from fieldfare.messages import Attach, DeclareTopic, List, Notice, Publish, Subscribe, Unsubscribe
from fieldfare.qos import Matching, Offered, Published, Requested

T = TypeVar("T")
Attributes: TypeAlias = dict[str, Any]

_DEFAULTS = ClientOptions()
_PAGE_ITEMS = 1000
_attributes = msgspec.json.Decoder(Attributes)


def connect(
    address: str | Transport,
    *,
    token: str | None = None,
    ca_file: str | Path | None = None,
    tls: ssl.SSLContext | None = None,
    options: ClientOptions = _DEFAULTS,
) -> Client:
    """A client of the service at a URL, or behind a transport; to be entered with `async with`.

    With https the service's certificate is checked against the system's authorities, those of `ca_file`, or as `tls`
    says.
    """
    if not isinstance(address, str):
        return Client(address, options)
    from fieldfare.client.websocket import WebSocketTransport

    if ca_file is not None and tls is None:
        tls = ssl.create_default_context(cafile=ca_file)
    return Client(WebSocketTransport(address, token, tls), options)


class Client:
    """A client of one edge. It connects again by itself; what was open goes on, and nothing is lost or done twice.

    Whatever waits for the service waits as long as it takes: put `asyncio.timeout` around what must not.
    """

    def __init__(self, transport: Transport, options: ClientOptions = _DEFAULTS) -> None:
        self._runner = SessionRunner(transport, options)

    async def __aenter__(self) -> Self:
        await self._runner.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.close(is_patient=error is None)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection at this moment."""
        return self._runner.session.is_connected

    async def publish(
        self, topic: str, events: Any, *, ids: Sequence[str] | None = None, qos: Published | None = None
    ) -> None:
        """Publish an event, or a list of events that are accepted all or none; return when they are accepted.

        An event is a mapping, a msgspec.Struct or a dataclass. Bytes are its JSON; so is a msgspec.Raw, which is
        trusted to be sound and on one line.
        """
        await (await self.publish_soon(topic, events, ids=ids, qos=qos))

    async def publish_soon(
        self, topic: str, events: Any, *, ids: Sequence[str] | None = None, qos: Published | None = None
    ) -> asyncio.Future[Any]:
        """Publish, but wait only while too many publications have no answer yet; the future is done when accepted.

        Those of one client arrive in the order in which they were published.
        """
        events = events if isinstance(events, (list, tuple)) else [events]
        frame = Publish(
            0,
            topic,
            [wire.raw(event) for event in events],
            ids=None if ids is None else list(ids),
            qos=qos or Published(),
        )
        await self._runner.wait_for_room()
        return self._runner.ask(lambda key, now: self._runner.session.publish(key, frame, now))

    @overload
    def subscribe(
        self,
        topic: str,
        condition: str,
        *,
        qos: Requested = ...,
        on_notice: Callable[[Notice], object] | None = ...,
        **options: Unpack[SubscriptionOptions],
    ) -> Subscription[Attributes]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        condition: str,
        *,
        type: type[T],
        qos: Requested = ...,
        on_notice: Callable[[Notice], object] | None = ...,
        **options: Unpack[SubscriptionOptions],
    ) -> Subscription[T]: ...

    def subscribe(
        self,
        topic: str,
        condition: str,
        *,
        type: Any = None,  # noqa: A002 - as msgspec calls it
        qos: Requested = Requested(),  # noqa: B008 - it is frozen
        on_notice: Callable[[Notice], object] | None = None,
        **options: Unpack[SubscriptionOptions],
    ) -> Subscription[Any]:
        """Subscribe to the events of a topic that satisfy a condition: iterate over the result, or await it first.

        With a `type`, a msgspec.Struct or a dataclass, the events' attributes are of that type. `on_notice` is called
        when the subscriber has to know something: events were dropped, or none came for too long.
        """
        decoder = _attributes if type is None else msgspec.json.Decoder(type)
        subscription = Subscription(self._runner, Subscribe(0, topic, condition, qos, **options), decoder, on_notice)
        self._runner.subscribe(subscription)
        return subscription

    def attach(
        self, subscription: str, *, window: int = 1024, on_notice: Callable[[Notice], object] | None = None
    ) -> Subscription[Attributes]:
        """Receive a durable subscription that exists, by its name. A client that received it before does no longer."""
        attached = Subscription(self._runner, Attach(0, subscription, window=window), _attributes, on_notice)
        self._runner.subscribe(attached)
        return attached

    async def unsubscribe(self, subscription: Subscription[Any] | str) -> None:
        """End a subscription of this client, or a durable one by its name."""
        if isinstance(subscription, str):
            await self._request(Unsubscribe(0, subscription))
        else:
            await subscription.unsubscribe()

    async def declare_topic(
        self,
        topic: str,
        offered: Offered = Offered(),  # noqa: B008 - it is frozen
        matching: Matching = "edge",
    ) -> None:
        """Create a topic, or change what it offers to those that subscribe from now on."""
        await self._request(DeclareTopic(0, topic, offered, matching))

    async def topics(self) -> list[Attributes]:
        """The topics that this client may use."""
        return await self._list(List(0, "topics"))

    async def subscriptions(self) -> list[Attributes]:
        """The subscriptions of this client's tenant."""
        return await self._list(List(0, "subscriptions"))

    async def dead_letters(self, subscription: str) -> list[Attributes]:
        """The events that a subscription's webhook did not take."""
        return await self._list(List(0, "dead_letters", subscription=subscription))

    async def _list(self, first: List) -> list[Attributes]:
        items: list[Attributes] = []
        after: str | None = ""
        while after is not None:
            page = msgspec.structs.replace(first, after=after, count_max=_PAGE_ITEMS)
            answer = await self._request(page)
            items += answer.items
            after = answer.next
        return items

    def _request(self, frame: DeclareTopic | List | Unsubscribe) -> asyncio.Future[Any]:
        return self._runner.ask(lambda key, now: self._runner.session.request(key, frame, now))
