"""The bridge between one edge and one DDS domain: it keeps account of who is there, and of who carries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec
from cyclonedds.core import DDSException

from fieldfare.client.transport import Transport
from fieldfare.errors import NotConnectedError, ServiceError
from fieldfare.qos import Offered, Published, Requested
from fieldfare.runtime.dds.announcements import Announcement, Announcements, announcement
from fieldfare.runtime.dds.carrying import BridgeCandidate, Duty, next_duty
from fieldfare.runtime.dds.context import BridgeClient, BridgeContext
from fieldfare.runtime.dds.dds_topic import DdsTopic
from fieldfare.runtime.dds.discovery import BridgeGone, BridgeSeen, Discovered, Endpoint, EndpointGone, IntakeKey, Taken
from fieldfare.runtime.dds.names import WRITERS_TOPIC, Mark, edge_topic
from fieldfare.runtime.dds.options import DdsOptions
from fieldfare.runtime.dds.participant import Participant
from fieldfare.runtime.dds.policies import WriterPolicies

_WRITERS_OFFER = Offered()
_FROM_START = Requested(durability="transient")
_CLOSE_SECONDS = 3.0  # for samples that were taken to reach the edge
_REPEATS = 3  # an announcement may be missed so often before it is forgotten
_log = logging.getLogger(__name__)


class DdsBridge:
    """Bridges a DDS domain and the edge behind a transport. A context manager: inside, it does its work."""

    def __init__(self, transport: Transport, options: DdsOptions) -> None:
        self.options = options
        self.failure: str | None = None  # why it no longer works
        self._has_failed = asyncio.Event()
        self._mark = Mark(options.deployment, options.name)
        self._context = BridgeContext(options, BridgeClient(transport), Participant(options, self._mark, events=self))
        self._marks: dict[str, Mark] = {}  # of other bridges that are in the domain, by their participants
        self._companions = {options.name}  # bridges that are, or were, in this domain: what they announce is no news
        self._announcements = Announcements(_REPEATS * options.announce_seconds)
        self._topics: dict[str, DdsTopic] = {}
        self._topic_names: dict[str, str] = {}  # of endpoints, by their guids
        self._is_open = self._is_closed = self._has_settled = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect to the edge, and join the domain."""
        client, participant = self._context.client, self._context.participant
        await client.__aenter__()
        try:
            await client.declare_topic(WRITERS_TOPIC, _WRITERS_OFFER)
            await participant.open()
        except BaseException as error:
            await client.__aexit__(type(error), error, None)
            if isinstance(error, DDSException):
                raise ServiceError(f"DDS domain {self.options.domain} cannot be joined: {error}") from error
            raise
        self._is_open = True
        self._start(self._hear())
        self._start(self._repeat_announcements())
        self._settling = asyncio.get_running_loop().call_later(self.options.settle_seconds, self._settle)

    async def close(self) -> None:
        """Publish what was taken, and leave the domain, which tells bridges that stand by to take over."""
        if not self._is_open:
            return
        self._is_open = False
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                for topic in list(self._topics.values()):
                    await topic.is_empty.wait()
        self._is_closed = True
        self._settling.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._context.participant.close()
        await self._context.client.__aexit__(None, None, None)
        self._context.pool.shutdown(wait=False)

    async def until_failed(self) -> str:
        """Wait until it does nothing any more; returns why."""
        await self._has_failed.wait()
        return self.failure or ""

    @property
    def is_carrying(self) -> bool:
        """Whether it does the work of its domain, rather than stand by."""
        return self._context.is_carrying

    @property
    def counts(self) -> dict[str, int]:
        """What it has done: samples published, repeated, written, own, refused, and taken over."""
        return dict(self._context.counts)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(f"the bridge to DDS domain {self.options.domain} failed: {error!r}")

    # What the participant tells

    def discovered(self, found: Sequence[Discovered]) -> None:
        """Something in the domain has changed."""
        if self._is_closed:
            return
        for change in found:
            match change:
                case Endpoint():
                    self._add(change)
                case EndpointGone(guid):
                    topic = self._topics.get(self._topic_names.pop(guid, ""))
                    if topic is not None:
                        topic.remove(guid)
                case BridgeSeen(participant, mark):
                    self._see(participant, mark)
                case BridgeGone(participant):
                    self._marks.pop(participant, None)
        self._decide()

    def taken(self, key: IntakeKey, samples: Sequence[Taken]) -> None:
        """Samples were taken."""
        topic = self._topics.get(key.topic)
        if topic is not None:
            topic.take(key, samples)

    def refused(self, topic: str, reason: str) -> None:
        """A sample is passed over."""
        self._context.refuse("samples", topic, reason)

    def failed(self, reason: str) -> None:
        """The bridge does nothing any more."""
        self.failure = self.failure or reason
        self._has_failed.set()
        _log.error("%s", reason)

    def _add(self, endpoint: Endpoint) -> None:
        if endpoint.is_writer and not endpoint.is_bridge:
            self._context.add_local_writer(endpoint.guid)
        topic = self._topic(endpoint.topic)
        if topic is None or endpoint.problem is not None:
            kind = "writer" if endpoint.is_writer else "reader"
            problem = endpoint.problem or "the name of the topic is too long"
            self._context.refuse("endpoints", endpoint.topic, f"a {kind} is not bridged: {problem}")
            return
        self._topic_names[endpoint.guid] = endpoint.topic
        topic.add(endpoint)

    def _topic(self, name: str) -> DdsTopic | None:
        topic = self._topics.get(name)
        if topic is None or topic.has_ended:
            at_edge = edge_topic(name)
            if at_edge is None:
                return None
            topic = DdsTopic(self._context, name, at_edge, lambda: self._elsewhere(name), self._announce)
            self._topics[name] = topic
            self._start(self._run_topic(topic))
        return topic

    async def _run_topic(self, topic: DdsTopic) -> None:
        await topic.run()
        if self._topics.get(topic.name) is topic:
            del self._topics[topic.name]

    # Who carries

    def _settle(self) -> None:
        self._has_settled = True
        self._decide()

    def _see(self, participant: str, mark: Mark) -> None:
        self._marks[participant] = mark
        if mark.deployment == self.options.deployment and mark.name not in self._companions:
            self._companions.add(mark.name)
            self._change_all()

    def _decide(self) -> None:
        own = BridgeCandidate(self.options.name, self._context.participant.guid, self.is_carrying)
        others = [
            BridgeCandidate(mark.name, participant, mark.is_carrying)
            for participant, mark in self._marks.items()
            if mark.deployment == self.options.deployment
        ]
        duty = next_duty(self._context.duty, own, others, has_settled=self._has_settled)
        if duty is self._context.duty:
            return
        _log.info("DDS domain %d: %s is %s", self.options.domain, self.options.name, duty.name.lower())
        before, self._context.duty = self._context.duty, duty
        if Duty.CARRYING in (before, duty):
            mark = msgspec.structs.replace(self._mark, is_carrying=self.is_carrying)
            self._start(self._context.participant.set_mark(mark))
        if self.is_carrying:
            for topic in self._topics.values():
                topic.carry(is_left=before is Duty.STANDING_BY)
        self._change_all()

    def _change_all(self) -> None:
        for topic in self._topics.values():
            topic.change()

    # Announcements

    def _elsewhere(self, topic: str) -> Iterable[WriterPolicies]:
        """What is offered by the writers of a topic that are not in this domain."""
        return self._announcements.of(
            topic, lambda heard: heard.bridge not in self._companions and not self._context.is_local(heard.writer)
        )

    def _announce(self, writers: Sequence[Endpoint]) -> None:
        if writers:
            self._start(self._publish_announcements(writers))

    async def _publish_announcements(self, writers: Sequence[Endpoint]) -> None:
        told = [announcement(writer, self.options.name) for writer in writers]
        lifespan_seconds = _REPEATS * self.options.announce_seconds
        with suppress(NotConnectedError):
            await self._context.client.publish(WRITERS_TOPIC, told, qos=Published(lifespan_seconds=lifespan_seconds))

    async def _repeat_announcements(self) -> None:
        while True:
            await asyncio.sleep(self.options.announce_seconds)
            for name in self._announcements.forget_old(self._context.now()):
                if name in self._topics:
                    self._topics[name].change()
            if self.is_carrying:
                self._announce([writer for topic in self._topics.values() for writer in topic.writers.values()])

    async def _hear(self) -> None:
        """Hear what other bridges announce."""
        subscription = self._context.client.subscribe(WRITERS_TOPIC, "TRUE", type=msgspec.Raw, qos=_FROM_START)
        async for event in subscription:
            try:
                heard = msgspec.json.decode(event.json, type=Announcement)
            except msgspec.MsgspecError as error:
                self._context.refuse("events", WRITERS_TOPIC, f"an announcement cannot be read: {error}")
                continue
            if heard.bridge in self._companions and heard.writer:
                self._context.add_local_writer(heard.writer)
            self._announcements.hear(heard, self._context.now())
            if heard.topic in self._topics:
                self._topics[heard.topic].change()
