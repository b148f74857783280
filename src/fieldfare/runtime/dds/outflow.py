"""From the edge to DDS: the events of one topic that came from elsewhere, written for the readers of this domain.

A bridge that stands by receives the same events, and holds those that it has not seen in the domain yet. It also learns
from here which samples of local writers have reached the edge.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fieldfare.client.events import Event
from fieldfare.client.subscription import Subscription, SubscriptionOptions
from fieldfare.messages import Position
from fieldfare.runtime.dds.context import BridgeContext
from fieldfare.runtime.dds.discovery import Endpoint, Outgoing
from fieldfare.runtime.dds.held import Held
from fieldfare.runtime.dds.names import SampleId
from fieldfare.runtime.dds.policies import WriterPolicies
from fieldfare.runtime.dds.values import UntranslatableError

_WINDOW = 1024
_BATCH_MAX = 256
_NANOSECONDS = 1_000_000_000


class OutflowPlan(msgspec.Struct, frozen=True):
    """What is to be done with a topic's events. Without readers they only tell what another bridge has published."""

    policies: WriterPolicies
    type_key: bytes | None  # of the samples that are written
    depth: int | None  # how many of what waits the readers want; None: all
    begins_with_alive: bool  # False: only with what is published from now on


class Outflow:
    """The events of one topic on their way to DDS. `on_own` is told the ids of events that came from this domain."""

    def __init__(
        self,
        context: BridgeContext,
        topic: str,
        plan: OutflowPlan,
        readers: Sequence[Endpoint],
        on_own: Callable[[str], None],
    ) -> None:
        self.plan = plan
        self.has_writer = False  # in DDS, as long as it runs
        self.position: Position | None = None  # of the last event that was written or passed over
        self.held: Held[Outgoing] = Held(context.options)
        self._context, self._topic, self._readers, self._on_own = context, topic, readers, on_own
        self._translator = None if plan.type_key is None else context.participant.translator(plan.type_key)
        self._waiting: deque[Outgoing] = deque()
        self._changed = asyncio.Event()  # something waits, or there is room, or the end is near
        self._is_ending = False
        self._subscription: Subscription[Any] | None = None

    def carry(self) -> int:
        """Write what was held, since this bridge carries from now on; returns how many samples."""
        held = self.held.take_all(self._context.now())
        self._waiting.extend(held)
        self._changed.set()
        return len(held)

    async def run(self, after: Position | None) -> None:
        """Subscribe, and deal with events until `stop`."""
        plan = self.plan
        qos = plan.policies.requested(plan.depth)
        if not plan.begins_with_alive:
            qos = msgspec.structs.replace(qos, durability="volatile")
        options: SubscriptionOptions = {"window": _WINDOW}
        if after is not None:
            options["after"] = after
        self._subscription = self._context.client.subscribe(self._topic, "TRUE", qos=qos, **options)
        await self._subscription
        async with asyncio.TaskGroup() as tasks:
            if self._readers:
                tasks.create_task(self._write())
            async for event in self._subscription:
                await self._came(event)
                self.position = event.position
            self._is_ending = True
            self._changed.set()

    async def stop(self) -> None:
        """Take no more events; `run` returns when those that came are written."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def _came(self, event: Event[Any]) -> None:
        sample_id = SampleId.parse(event.id)
        if sample_id is not None and self._context.is_local(sample_id.writer):
            self._context.counts["own"] += 1
            self._on_own(event.id)
            return
        if self._translator is None:
            return
        timestamp_ns = int(event.at * _NANOSECONDS) if sample_id is None else sample_id.timestamp_ns
        try:
            sample, is_disposed = self._translator.sample(event.json)
            if not self._context.is_carrying:  # as the carrying bridge's sample will look when it is taken
                seen_as = self._translator.disposed_event(sample) if is_disposed else self._translator.event(sample)
                key = written_key(SampleId.of("", timestamp_ns, seen_as))
                outgoing = Outgoing(sample, timestamp_ns, is_disposed)
                self.held.add(key, outgoing, len(event.json), self._context.now())
                return
        except UntranslatableError as error:
            self._context.refuse("events", self._topic, f"an event cannot be a sample: {error}")
            return
        while len(self._waiting) >= _WINDOW:
            self._changed.clear()
            await self._changed.wait()
        self._waiting.append(Outgoing(sample, timestamp_ns, is_disposed))
        self._changed.set()

    async def _write(self) -> None:
        """Write what waits. There is no DDS writer while another bridge carries: it has one."""
        loop, participant, pool = asyncio.get_running_loop(), self._context.participant, self._context.pool
        writer = None
        try:
            while await self._has_work(has_writer=writer is not None):
                if writer is None:
                    writer = await participant.open_writer(self.plan.policies, self._readers[0])
                    self.has_writer = True
                    guids = frozenset(reader.guid for reader in self._readers)
                    await loop.run_in_executor(pool, participant.wait_for_readers, writer, guids)
                batch = [self._waiting.popleft() for _ in range(min(_BATCH_MAX, len(self._waiting)))]
                self._changed.set()
                problems = await loop.run_in_executor(pool, participant.write, writer, batch)
                self._context.counts["written"] += len(batch) - len(problems)
                for problem in problems:
                    self._context.refuse("events", self._topic, problem)
        finally:
            if writer is not None:
                participant.close_writer_soon(writer)

    async def _has_work(self, *, has_writer: bool) -> bool:
        """Wait until there is something to write, or a writer to open; False at the end."""
        while not (self._context.is_carrying and (self._waiting or not has_writer)):
            if self._is_ending:
                return False
            self._changed.clear()
            await self._changed.wait()
        return True


def written_key(sample_id: SampleId) -> str:
    """By which a sample is known again that a bridge wrote: it has the bridge as its writer, but all else is kept."""
    return f"{sample_id.timestamp_ns}:{sample_id.digest}"
