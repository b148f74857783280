"""A bridge between one edge and a ring of peers: a client of the edge that is a peer, too. It carries some topics.

What is published at the edge reaches the peers that want it, and the other way round. Both directions read a durable
subscription and are done with an event only when the other side has stored it: the edge by its log, where ids show
what came before, and the ring by the folder of this peer. So nothing is lost if the bridge stops; an event that was on
its way then may come to peers twice.

One bridge joins a deployment and a ring. What a bridge has published is not carried back, by no bridge.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Raw

from fieldfare.client.aio import Client
from fieldfare.client.events import Event
from fieldfare.client.subscription import Subscription
from fieldfare.client.transport import Transport
from fieldfare.errors import ConfigError, FieldfareError, IncompatibleQosError, NotConnectedError, RefusedError
from fieldfare.messages import Accepted, Publish
from fieldfare.qos import Published, Reliability, Requested
from fieldfare.runtime.peers.checking import check_name
from fieldfare.runtime.peers.peer import Peer
from fieldfare.runtime.peers.qos_words import DEFAULT
from fieldfare.runtime.peers.subscription import PeerSubscription

T = TypeVar("T")
PUBLISHER = "peers"  # at the edge, of all that comes from a ring
_RETRY_SECONDS = 1.0  # when a side has no room, or is not there
_FOR_LATER = frozenset({"limit", "busy"})  # refusals that pass
_LOGGED_MAX = 1_000
_NAME_CHARACTERS_MAX = 120  # of a topic, after which subscriptions are named
_WINDOW = 64
_AT_RING = msgspec.structs.replace(DEFAULT, reliability="best_effort")  # which every topic offers
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BridgedTopics:
    """What a bridge carries: topics by their names, which are the same on both sides."""

    names: tuple[str, ...]
    condition: str = "TRUE"  # which events of them, in both directions

    def __post_init__(self) -> None:
        if not self.names:
            raise ConfigError("topics: a bridge to peers carries topics by their names: name one at least")
        for name in self.names:
            check_name("topic", name)
            if len(name) > _NAME_CHARACTERS_MAX:
                raise ConfigError(f"topics: {name!r} has more than {_NAME_CHARACTERS_MAX} characters")


class _BridgeClient(Client):
    """A client that publishes without numbers: an event that comes again is known by its id."""

    async def publish_once(self, topic: str, event: Event[Any]) -> Accepted:
        """Publish an event of the ring, which an earlier life of the bridge may have published already."""
        frame = Publish(0, topic, [Raw(event.json)], PUBLISHER, ids=[event.id], qos=Published())
        answer: Accepted = await self._runner.request(frame)
        return answer


class PeerBridge:
    """A context manager: inside, it carries. The peer must have a folder, and is entered and left with the bridge."""

    def __init__(self, transport: Transport, peer: Peer, topics: BridgedTopics) -> None:
        if not peer.has_folder:
            raise ConfigError("folder: a bridge needs a peer that has one, to keep what it has taken from the edge")
        self.peer, self.topics = peer, topics
        self.failure: str | None = None  # why it no longer works
        self.counts: Counter[str] = Counter()
        self._client = _BridgeClient(transport)
        self._has_failed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: set[tuple[str, str]] = set()
        self._is_connected = self._is_open = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def open_in_background(self) -> None:
        """Open, however long that takes: an edge serves its clients also while no peer can be reached."""
        self._start(self.open())

    async def open(self) -> None:
        """Connect to the edge, join the ring, and carry when both know what is wanted."""
        await self._client.__aenter__()
        self._is_connected = True
        try:
            await self.peer.__aenter__()
            self._is_open = True
            for topic in self.topics.names:
                await self._carry(topic)
        except BaseException:
            await self._leave()
            raise

    async def _carry(self, topic: str) -> None:
        condition = self.topics.condition
        at_ring = await self.peer.subscribe(topic, condition, name=f"bridge.{topic}", qos=_AT_RING)
        try:
            at_edge = await self._at_edge(topic, "reliable")
        except IncompatibleQosError:
            at_edge = await self._at_edge(topic, "best_effort")
        self._start(self._to_edge(topic, at_ring))
        self._start(self._to_ring(topic, at_edge))

    def _at_edge(self, topic: str, reliability: Reliability) -> Subscription[Any]:
        qos = Requested(reliability=reliability, order="none")
        return self._client.subscribe(topic, self.topics.condition, name=f"peers.{topic}", qos=qos, window=_WINDOW)

    async def close(self) -> None:
        """Leave both sides. What is not carried yet waits there."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._leave()

    async def _leave(self) -> None:
        if self._is_open:
            self._is_open = False
            await self.peer.leave()
        if self._is_connected:
            self._is_connected = False
            await self._client.__aexit__(None, None, None)

    async def until_failed(self) -> str:
        """Wait until it does nothing any more; returns why."""
        await self._has_failed.wait()
        return self.failure or ""

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or f"the bridge to peers failed: {error}"
            self._has_failed.set()
            _log.error("%s", self.failure, exc_info=None if isinstance(error, FieldfareError) else error)

    # The two directions

    async def _to_edge(self, topic: str, events: PeerSubscription[Any]) -> None:
        async for event in events:
            if event.publisher == self.peer.name:
                continue  # it came from the edge
            answer = await self._until_taken(topic, partial(self._client.publish_once, topic, event))
            if answer is not None:
                self.counts["repeated" if answer.duplicates else "to_edge"] += 1

    async def _to_ring(self, topic: str, events: Subscription[Any]) -> None:
        async for event in events:
            if event.publisher == PUBLISHER:
                continue  # it came from a ring
            publish = partial(self.peer.publish, topic, event.json, until="accepted")
            if await self._until_taken(topic, publish) is not None:
                self.counts["to_ring"] += 1

    async def _until_taken(self, topic: str, publish: Callable[[], Awaitable[T]]) -> T | None:
        """Bring an event to a side, as often as it takes; None if that side never wants it."""
        while True:
            try:
                return await publish()
            except NotConnectedError:
                if not self._is_open:
                    raise
            except RefusedError as error:
                if error.code not in _FOR_LATER:
                    self._refuse(topic, str(error))
                    return None
            await asyncio.sleep(_RETRY_SECONDS)

    def _refuse(self, topic: str, reason: str) -> None:
        self.counts["refused"] += 1
        if (topic, reason) not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add((topic, reason))
            _log.warning("topic %s: an event is not carried: %s", topic, reason)
