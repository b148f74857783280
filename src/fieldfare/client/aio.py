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
from fieldfare.client.inbox import Inbox
from fieldfare.client.options import ClientOptions
from fieldfare.client.publisher_mover import PublisherMover
from fieldfare.client.session_runner import SessionRunner
from fieldfare.client.subscription import Subscription, SubscriptionOptions
from fieldfare.client.subscription_control import SubscriptionControl
from fieldfare.client.transport import Edges, Transport
from fieldfare.client.window_budget import WindowBudget
from fieldfare.errors import RefusedError
from fieldfare.messages import Attach, DeclareTopic, DeleteTopic, List, Notice, Publish, Subscribe, Unsubscribe
from fieldfare.qos import Matching, Offered, Published, Requested

T = TypeVar("T")
Attributes: TypeAlias = dict[str, Any]

_DEFAULTS = ClientOptions()
SHARED_WINDOW = 16  # of a consumer that says nothing else: what it has is not for others
_attributes = msgspec.json.Decoder(Attributes)


def connect(
    address: str | Sequence[str] | Transport,
    *,
    token: str | None = None,
    ca_file: str | Path | None = None,
    tls: ssl.SSLContext | None = None,
    options: ClientOptions = _DEFAULTS,
) -> Client:
    """A client of the service at a URL, or behind a transport; to be entered with `async with`.

    Several URLs, in a list or with commas between them, are edges of one deployment: the client uses one of them at a
    time, and another one when that cannot be reached. What it published meanwhile and has no answer then ends with an
    UnknownOutcomeError; a subscription without a name is told of a gap.

    With https the service's certificate is checked against the system's authorities, those of `ca_file`, or as `tls`
    says.
    """
    if not isinstance(address, (str, Sequence)):
        return Client(address, options)
    from fieldfare.client.websocket import WebSocketTransport, may_follow, websocket_url

    if ca_file is not None and tls is None:
        tls = ssl.create_default_context(cafile=ca_file)
    urls = [part.strip() for part in address.split(",")] if isinstance(address, str) else list(address)
    if not urls:
        raise RefusedError("invalid", "there is no address of a service: give at least one")
    for url in urls:
        websocket_url(url)  # or else it is refused
    edges = Edges(tuple(urls), lambda url: WebSocketTransport(url, token, tls), lambda url: may_follow(urls, url))
    return Client(edges, options)


class Client(SubscriptionControl):
    """A client of one edge. It connects again by itself; what was open goes on, and nothing is lost or done twice.

    A durable subscription whose home is another edge is received from there, over a connection of its own.

    Whatever waits for the service waits as long as it takes: put `asyncio.timeout` around what must not.
    """

    def __init__(self, edges: Edges | Transport, options: ClientOptions = _DEFAULTS) -> None:
        self._edges = edges if isinstance(edges, Edges) else Edges.only(edges)
        self._options = options
        self._budget = WindowBudget(options.buffered_events_max, options.buffered_bytes_max)
        self._runner = SessionRunner(self._edges, options, self._budget, self._runner_at)
        # Of subscriptions that other edges have, and of its publisher if that has moved; by their URLs.
        self._homes: dict[str, SessionRunner] = {}
        self._mover = PublisherMover(self._runner, self._edges, options, self._publishing_runner_at)

    async def __aenter__(self) -> Self:
        await self._runner.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._mover.close()
        await asyncio.gather(
            *(runner.close(is_patient=error is None) for runner in (self._runner, *self._homes.values()))
        )

    def _runner_at(self, url: str) -> SessionRunner | None:
        """The runner for subscriptions whose home is this edge. It does not follow them any further."""
        if not self._edges.allows(url):
            return None
        if url not in self._homes or self._homes[url].has_ended:
            self._homes[url] = SessionRunner(Edges((url,), self._edges.transport_to), self._options, self._budget)
            self._homes[url].start()
        return self._homes[url]

    def _publishing_runner_at(self, url: str) -> SessionRunner | None:
        """The runner for publications at an edge."""
        runner = self._runner if self._runner.url == url else self._runner_at(url)
        if runner is not None:
            self._mover.serve(runner)
        return runner

    async def advertise(self, topic: str, condition: str | None = None) -> None:
        """Say what this client will publish in a topic; without a condition, anything.

        It returns when the service knows. From then on an event that does not satisfy the condition is refused with a
        NotAdvertisedError, and the service may move this client's publisher to an edge that is nearer to its
        subscribers.
        """
        runner = self._mover.publishing
        await runner.ask(lambda key, now: runner.session.advertise(key, topic, condition, now))

    async def unadvertise(self, topic: str) -> None:
        """Take back what was advertised: anything may be published again."""
        runner = self._mover.publishing
        await runner.ask(lambda key, now: runner.session.unadvertise(key, topic, now))

    async def move_publisher(self, url: str) -> None:
        """Publish at another edge of the deployment from now on; subscriptions stay where they are.

        What is published meanwhile waits. Nothing is lost, doubled or reordered. If the edge cannot be reached, or
        does not take this client, an error is raised, and publications go on where they are.
        """
        await self._mover.move(url)

    @property
    def publishing_at(self) -> str:
        """The URL of the edge that this client publishes at."""
        return self._mover.publishing.url

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
        runner = await self._room_to_publish()
        return runner.ask(lambda key, now: runner.session.publish(key, frame, now))

    async def _room_to_publish(self) -> SessionRunner:
        """Wait until one more publication may be on its way; returns the runner to publish with."""
        while True:
            runner = self._mover.publishing
            await runner.wait_for_room()
            if runner is self._mover.publishing:  # else the publisher has moved meanwhile
                return runner

    @overload
    def subscribe(
        self,
        topic: str,
        condition: str,
        *,
        qos: Requested = ...,
        on_notice: Callable[[Notice], object] | None = ...,
        manual_ack: bool = ...,
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
        manual_ack: bool = ...,
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
        manual_ack: bool = False,
        **options: Unpack[SubscriptionOptions],
    ) -> Subscription[Any]:
        """Subscribe to the events of a topic that satisfy a condition: iterate over the result, or await it first.

        With a `type`, a msgspec.Struct or a dataclass, the events' attributes are of that type. `on_notice` is called
        when the subscriber has to know something: events were dropped, or none came for too long. An event that does
        not have the type is refused, as by `Subscription.nack`, and not given to the application.

        An event is acknowledged when the next is asked for; with `manual_ack` only by `Subscription.ack`, in any order.
        """
        if "consuming" in options and options["consuming"].is_shared:
            options.setdefault("window", SHARED_WINDOW)
        request = Subscribe(0, topic, condition, qos, **options)
        inbox = self.receive(request, on_notice, is_manual=manual_ack)
        if type is None:
            return Subscription(inbox, _attributes)
        return Subscription(inbox, msgspec.json.Decoder(type), is_typed=True)

    def receive(
        self, request: Subscribe | Attach, on_notice: Callable[[Notice], object] | None = None, *, is_manual: bool
    ) -> Inbox:
        """Subscribe or attach as a frame says: for who makes a `Subscription` of it with a decoder of its own."""
        inbox = Inbox(self._runner, request, on_notice, is_manual=is_manual)
        self._runner.subscribe(inbox)
        return inbox

    def attach(
        self,
        subscription: str,
        *,
        window: int = 1024,
        on_notice: Callable[[Notice], object] | None = None,
        topic: str | None = None,
        manual_ack: bool = False,
    ) -> Subscription[Attributes]:
        """Receive a durable subscription that exists, by its name.

        A client that received it before does no longer, unless it is shared: then this is one more consumer.

        Where there are several edges, its home is found by its topic; without one, among the topics that are in use at
        the edge which this client is connected to.
        """
        request = Attach(0, subscription, window=window, topic=topic)
        return Subscription(self.receive(request, on_notice, is_manual=manual_ack), _attributes)

    async def unsubscribe(self, subscription: Subscription[Any] | str, *, topic: str | None = None) -> None:
        """End a subscription of this client, or a durable one by its name, whose home is found as in `attach`."""
        if isinstance(subscription, str):
            await self._runner.request(Unsubscribe(0, subscription, topic=topic))
        else:
            await subscription.unsubscribe()

    async def declare_topic(
        self,
        topic: str,
        offered: Offered = Offered(),  # noqa: B008 - it is frozen
        matching: Matching = "edge",
    ) -> None:
        """Create a topic, or change what it offers to those that subscribe from now on."""
        await self._runner.request(DeclareTopic(0, topic, offered, matching))

    async def topics(self) -> list[Attributes]:
        """The topics that this client may use."""
        return await self._list(List(0, "topics"))

    async def topic(self, topic: str) -> Attributes:
        """One topic, with its rate and what it keeps; a RefusedError with the code `unknown` if there is none."""
        found = await self._list(List(0, "topics", topic=topic))
        if not found:
            raise RefusedError("unknown", f"there is no topic {topic!r}")
        return found[0]

    async def subscriptions(self) -> list[Attributes]:
        """The subscriptions of this client's tenant."""
        return await self._list(List(0, "subscriptions"))

    async def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Delete a topic with its events. One that has subscriptions is deleted by force only, and they end with it."""
        await self._runner.request(DeleteTopic(0, topic, force))

    async def placement(self) -> list[Attributes]:
        """Where the publishers of a tree's broker are, and should be."""
        return await self._list(List(0, "placement"))
