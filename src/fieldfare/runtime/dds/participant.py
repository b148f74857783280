"""A bridge's participant in a DDS domain, in a thread of its own: it discovers, and takes samples while there is room.

What it finds and takes it hands to the event loop, in order. What the bridge wants of DDS, such as a reader or a
writer, is made in this thread too; only samples are written by others, since that may take long.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cyclonedds._clayer import ddspy_take  # DataReader.take would lose all that it took where one sample is bad
from cyclonedds.core import DDSException, GuardCondition, InstanceState, ReadCondition, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from fieldfare.runtime.dds.discovery import Discovered, Endpoint, IntakeKey, Outgoing, Taken
from fieldfare.runtime.dds.domain_view import ANY, QOS_LOCK, DomainView
from fieldfare.runtime.dds.names import Mark, SampleId
from fieldfare.runtime.dds.options import DdsOptions
from fieldfare.runtime.dds.policies import WriterPolicies, reader_qos, writer_qos
from fieldfare.runtime.dds.values import Translator

T = TypeVar("T")

_TAKE_MAX = 256  # samples at once: others have their turn in between
_WAIT_SECONDS = 0.25  # for something to happen; then types that could not be had are asked for again
_MATCH_SECONDS, _MATCH_POLL_SECONDS = 2.0, 0.005
_log = logging.getLogger(__name__)


class ParticipantEvents(Protocol):
    """Who is told, in the event loop, what a participant finds."""

    def discovered(self, found: Sequence[Discovered]) -> None:
        """Something in the domain has changed."""

    def taken(self, key: IntakeKey, samples: Sequence[Taken]) -> None:
        """Samples were taken. Each is to be reported to `done` when it no longer waits."""

    def refused(self, topic: str, reason: str) -> None:
        """A sample could not be translated, and is passed over."""

    def failed(self, reason: str) -> None:
        """The participant has left its domain, because it could not go on."""


@dataclass(slots=True, eq=False)
class _Intake:
    """A DDS reader of the bridge. Each of its counts is written by one thread."""

    key: IntakeKey
    translator: Translator
    reader: DataReader[Any]
    condition: ReadCondition
    is_paused: bool = False
    given_count: int = 0  # samples that the event loop was given: written by the participant's thread,
    given_bytes: int = 0
    done_count: int = 0  # and those that it is done with: written by the event loop
    done_bytes: int = 0

    def room(self, options: DdsOptions) -> int:
        """How many samples may be taken now."""
        if self.given_bytes - self.done_bytes >= options.waiting_bytes_max:
            return 0
        return max(0, options.waiting_max - (self.given_count - self.done_count))


class Participant:
    """One participant. All of its methods are called in the event loop, but for `write`, which may wait."""

    def __init__(self, options: DdsOptions, mark: Mark, events: ParticipantEvents) -> None:
        self._options, self._mark, self._events = options, mark, events
        self._intakes: dict[IntakeKey, _Intake] = {}
        self._topics: dict[tuple[str, bytes], Topic[Any]] = {}
        self._calls: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=f"dds-{options.domain}", daemon=True)
        self.guid = ""

    # In the event loop

    async def open(self) -> None:
        """Join the domain."""
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()
        await self._opened

    async def close(self) -> None:
        """Leave the domain."""
        if self._thread.is_alive():
            self._is_closing = True
            self._guard.set(True)
            await asyncio.to_thread(self._thread.join)

    async def set_mark(self, mark: Mark) -> None:
        """Tell the other bridges something new of this one."""
        await self._call(lambda: self._participant.set_qos(Qos(Policy.Userdata(mark.encode()))))

    async def open_intake(self, key: IntakeKey, like: Endpoint) -> None:
        """Begin to take samples of writers such as this one."""
        await self._call(lambda: self._open_intake(key, like))

    async def close_intake(self, key: IntakeKey) -> None:
        """Take no more."""
        await self._call(lambda: self._close_intake(key))

    async def open_writer(self, policies: WriterPolicies, like: Endpoint) -> DataWriter[Any]:
        """A writer for readers such as this one. It ends with `close_writer_soon`."""
        qos = writer_qos(policies, like.qos)
        return await self._call(lambda: DataWriter(self._participant, self._topic(like.topic, like.type_key), qos=qos))

    def close_writer_soon(self, writer: DataWriter[Any]) -> None:
        """End a writer."""
        self._call(lambda: _delete(writer))

    def translator(self, type_key: bytes) -> Translator:
        """Of a type that an endpoint without a problem has."""
        return self._view.translators[type_key]

    def wait_again(self, key: IntakeKey, samples: Sequence[Taken]) -> None:
        """Samples that were done wait again."""
        intake = self._intakes.get(key)
        if intake is not None:
            intake.done_count -= len(samples)
            intake.done_bytes -= sum(len(sample.event) for sample in samples)

    def done(self, key: IntakeKey, samples: Sequence[Taken]) -> None:
        """Samples no longer wait: there is room for others."""
        intake = self._intakes.get(key)
        if intake is not None:
            intake.done_count += len(samples)
            intake.done_bytes += sum(len(sample.event) for sample in samples)
            if intake.is_paused:
                self._guard.set(True)

    def wait_for_readers(self, writer: DataWriter[Any], guids: frozenset[str]) -> None:
        """Wait until a new writer and these readers know each other, for a while: what is written before is lost."""
        until = time.monotonic() + _MATCH_SECONDS
        while not self._is_closing and time.monotonic() < until:
            if guids <= _readers_of(writer):
                return
            time.sleep(_MATCH_POLL_SECONDS)

    def write(self, writer: DataWriter[Any], samples: Sequence[Outgoing]) -> list[str]:
        """Write samples, and wait where DDS has no room for them; returns why some were not written."""
        problems = []
        for sample, timestamp_ns, is_disposed in samples:
            while not self._is_closing:
                try:
                    (writer.dispose if is_disposed else writer.write)(sample, timestamp_ns)
                except DDSException as error:
                    if error.code == DDSException.DDS_RETCODE_TIMEOUT:
                        continue
                    problems.append(str(error))
                except Exception as error:  # noqa: BLE001 - what cannot be encoded breaks the library anywhere
                    problems.append(f"an event cannot be a sample: {error!r}")
                break
        return problems

    def _call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Do something in the thread."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.append((function, future))
        self._guard.set(True)
        return future

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self._is_closing:
            self._loop.call_soon_threadsafe(function, *arguments)

    # In the thread

    def _run(self) -> None:
        try:
            self._join()
        except DDSException as error:
            self._loop.call_soon_threadsafe(self._opened.set_exception, error)
            return
        self._loop.call_soon_threadsafe(self._opened.set_result, None)
        try:
            while not self._is_closing:
                self._waitset.wait(duration(seconds=_WAIT_SECONDS))
                self._guard.take()
                self._make_calls()
                self._discover()
                for intake in list(self._intakes.values()):
                    self._take(intake)
        except Exception as error:  # noqa: BLE001 - whatever it is, others have to know
            _log.exception("the bridge cannot go on in domain %d", self._options.domain)
            self._tell(self._events.failed, f"DDS failed: {error}")
        finally:
            self._leave()

    def _join(self) -> None:
        lease = Policy.Liveliness.Automatic(duration(seconds=self._options.lease_seconds))
        with QOS_LOCK:
            self._participant = DomainParticipant(
                self._options.domain, Qos(Policy.Userdata(self._mark.encode()), lease)
            )
        self.guid = self._participant.guid.hex
        self._view = DomainView(self._participant, self._options)
        self._guard = GuardCondition(self._participant)
        self._waitset = WaitSet(self._participant)
        self._waitset.attach(self._guard)
        for condition in self._view.conditions:
            self._waitset.attach(condition)

    def _leave(self) -> None:
        """Delete what there is; all that belongs to a participant goes with it."""
        _delete(self._waitset)
        _delete(self._participant)

    def _make_calls(self) -> None:
        while self._calls:
            function, future = self._calls.popleft()
            try:
                with QOS_LOCK:
                    result = function()
            except DDSException as error:
                self._loop.call_soon_threadsafe(_settle, future, None, error)
            else:
                self._loop.call_soon_threadsafe(_settle, future, result, None)

    # Samples

    def _topic(self, name: str, type_key: bytes) -> Topic[Any]:
        topic = self._topics.get((name, type_key))
        if topic is None:
            data_type = self.translator(type_key).data_type
            topic = self._topics[name, type_key] = Topic(self._participant, name, data_type)
        return topic

    def _open_intake(self, key: IntakeKey, like: Endpoint) -> None:
        qos = reader_qos(like.policies, like.qos, self._options.waiting_max)
        reader: DataReader[Any] = DataReader(self._participant, self._topic(key.topic, key.type_key), qos=qos)
        condition = ReadCondition(reader, ANY)
        self._waitset.attach(condition)
        self._intakes[key] = _Intake(key, self.translator(key.type_key), reader, condition)

    def _close_intake(self, key: IntakeKey) -> None:
        intake = self._intakes.pop(key)
        while self._take_some(intake, _TAKE_MAX):
            pass  # its writers are gone, but what they wrote last is not lost
        self._waitset.detach(intake.condition)
        _delete(intake.condition)
        _delete(intake.reader)

    def _take(self, intake: _Intake) -> None:
        """Take what there is room for. A reader that is not taken from fills up, and its reliable writers wait."""
        room = intake.room(self._options)
        if intake.is_paused and room > self._options.waiting_max // 2:
            intake.is_paused = False
            self._waitset.attach(intake.condition)
        elif room == 0 and not intake.is_paused:
            intake.is_paused = True
            self._waitset.detach(intake.condition)
        if not intake.is_paused:
            self._take_some(intake, min(room, _TAKE_MAX))

    def _take_some(self, intake: _Intake, count_max: int) -> bool:
        """Take samples and hand them over; returns whether there were any."""
        found = ddspy_take(intake.reader._ref, ANY, count_max)
        if isinstance(found, int):
            raise DDSException(found, f"while taking samples of {intake.key.topic}")
        samples = [taken for data, info in found for taken in self._translated(intake, data, info)]
        if samples:
            intake.given_count += len(samples)
            intake.given_bytes += sum(len(sample.event) for sample in samples)
            self._tell(self._events.taken, intake.key, samples)
        return bool(found)

    def _translated(self, intake: _Intake, data: bytes, info: Any) -> list[Taken]:
        """A sample as the events that it is: none if it is another reader's, two if it is the last of its instance."""
        writer = self._writer(info.publication_handle)
        if writer is None:
            self._tell(self._events.refused, intake.key.topic, "a sample's writer was not discovered")
            return []
        if writer.intake_key != intake.key:
            return []
        translator = intake.translator
        is_disposed = info.instance_state == InstanceState.NotAliveDisposed and translator.is_keyed
        try:
            events = []
            if info.valid_data:
                sample = translator.data_type.deserialize(data)
                events.append(translator.event(sample))
                if is_disposed and info.sample_rank == 0:
                    events.append(translator.disposed_event(sample))
            elif is_disposed:
                events.append(translator.disposed_event(translator.data_type.deserialize_key(data)))
        except Exception as error:  # noqa: BLE001 - whatever a sample breaks, the next ones are to be taken
            self._tell(self._events.refused, intake.key.topic, f"a sample cannot be an event: {error}")
            return []
        return [Taken(SampleId.of(writer.guid, info.source_timestamp, event), event, writer) for event in events]

    def _discover(self) -> None:
        if found := self._view.look():
            self._tell(self._events.discovered, found)

    def _writer(self, handle: int) -> Endpoint | None:
        """Who wrote a sample. It was discovered before, but perhaps after discovery was last looked at."""
        if handle not in self._view.writers:
            self._discover()
        return self._view.writers.get(handle)


def _readers_of(writer: DataWriter[Any]) -> set[str]:
    """The readers that a writer knows. None, if the library's list grew while it was being copied."""
    with QOS_LOCK:
        try:
            handles = writer.get_matched_subscriptions()
        except IndexError:
            return set()
        found = map(writer.get_matched_subscription_data, handles)
        return {reader.key.hex for reader in found if reader is not None}


def _delete(entity: Any) -> None:
    """End an entity at once, whoever may still refer to it."""
    entity.__del__()


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
