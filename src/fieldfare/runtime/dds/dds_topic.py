"""One DDS topic of a bridge: who writes and reads it, here and elsewhere, and what follows from that.

Whatever changes, `run` compares what should be with what is: which DDS readers the bridge has, what the topic at the
edge offers, and whether its events are subscribed to. So every order in which things are discovered leads to the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec
from cyclonedds.core import DDSException

from fieldfare.errors import RefusedError
from fieldfare.qos import Offered
from fieldfare.runtime.dds.carrying import Duty
from fieldfare.runtime.dds.context import BridgeContext
from fieldfare.runtime.dds.discovery import Endpoint, IntakeKey, Taken
from fieldfare.runtime.dds.inflow import Inflow
from fieldfare.runtime.dds.outflow import Outflow, OutflowPlan, written_key
from fieldfare.runtime.dds.policies import WriterPolicies, stronger_offer, strongest, unmet_by

_RETRY_SECONDS = 2.0
_log = logging.getLogger(__name__)


class DdsTopic:
    """A DDS topic and its counterpart at the edge. `announce` tells the other bridges of local writers."""

    def __init__(
        self,
        context: BridgeContext,
        name: str,
        edge_topic: str,
        elsewhere: Callable[[], Iterable[WriterPolicies]],
        announce: Callable[[Sequence[Endpoint]], None],
    ) -> None:
        self.name = name
        self.writers: dict[str, Endpoint] = {}  # of applications, by their guids
        self._context, self._edge_topic = context, edge_topic
        self._elsewhere, self._announce = elsewhere, announce
        self._readers: dict[str, Endpoint] = {}
        self._bridge_writers: dict[str, Endpoint] = {}
        self._intakes: set[IntakeKey] = set()
        self._inflow = Inflow(context, name, edge_topic, self._published_all)
        self._outflow: Outflow | None = None
        self._outflow_task: asyncio.Task[None] | None = None
        self._declared: Offered | None = None
        self._unannounced: dict[str, Endpoint] = {}  # writers, also those that have left something to publish
        self._ever: WriterPolicies | None = None  # what all writers together have offered so far
        self._refused: dict[str, str] = {}  # why a reader is not served
        self._changed = asyncio.Event()
        self.has_ended = False  # there was nobody any more

    @property
    def is_empty(self) -> asyncio.Event:
        """Set while no sample waits for the edge."""
        return self._inflow.is_empty

    # What happened

    def add(self, endpoint: Endpoint) -> None:
        """An endpoint is in the domain."""
        if endpoint.is_bridge and not endpoint.is_writer:
            return
        table = self._readers if not endpoint.is_writer else self.writers
        table = self._bridge_writers if endpoint.is_bridge else table
        table[endpoint.guid] = endpoint
        if table is self.writers:
            self._unannounced[endpoint.guid] = endpoint
            self._ever = strongest([endpoint.policies, *([] if self._ever is None else [self._ever])])
        self.change()

    def remove(self, guid: str) -> None:
        """An endpoint is there no longer."""
        for table in (self.writers, self._readers, self._bridge_writers):
            if table.pop(guid, None) is not None:
                self._refused.pop(guid, None)
                if not self._has_samples:
                    self._unannounced.pop(guid, None)
                self.change()

    def take(self, key: IntakeKey, samples: Sequence[Taken]) -> None:
        """Samples were taken from DDS."""
        own = [sample for sample in samples if not sample.writer.is_bridge]
        if len(own) < len(samples):
            self._see_written([sample for sample in samples if sample.writer.is_bridge])
            self._context.participant.done(key, [sample for sample in samples if sample.writer.is_bridge])
        if own:
            self._inflow.take(key, own)

    def _see_written(self, samples: Sequence[Taken]) -> None:
        """Another bridge has written these."""
        if self._outflow is not None and not self._context.is_carrying:
            for sample in samples:
                self._outflow.held.deal_with(written_key(sample.id), self._context.now())

    def carry(self, *, is_left: bool) -> None:
        """From now on the bridge carries: deal with what was held, which another bridge may have left."""
        count = self._inflow.carry()
        if self._outflow is not None:
            count += self._outflow.carry()
        if is_left:
            self._context.counts["taken_over"] += count
        self.change()

    def change(self) -> None:
        """Something is different."""
        self._changed.set()

    # What follows

    async def run(self) -> None:
        """Do what has to be done, until there is nobody any more."""
        try:
            async with asyncio.TaskGroup() as tasks:
                publishing = tasks.create_task(self._inflow.run())
                while not self.has_ended:
                    await self._changed.wait()
                    self._changed.clear()
                    await self._make_so()
                    self.has_ended = self._is_unused
                    if self._has_samples and not self.writers:  # what is held is given up after a time
                        asyncio.get_running_loop().call_later(self._context.options.held_seconds, self.change)
                publishing.cancel()
        finally:
            if self._outflow_task is not None:
                self._outflow_task.cancel()

    @property
    def _is_unused(self) -> bool:
        has_endpoints = self.writers or self._readers or self._bridge_writers
        return not (has_endpoints or self._intakes or self._outflow or self._has_samples)

    @property
    def _has_samples(self) -> bool:
        """Whether samples are still to be published, by this bridge or, if it stands by, by another."""
        return not self.is_empty.is_set() or self._inflow.held.has_any(self._context.now())

    def _published_all(self) -> None:
        if not self.writers:
            self.change()

    async def _make_so(self) -> None:
        try:
            await self._open_and_close_intakes()
            await self._declare_and_announce()
            await self._change_outflow()
        except (RefusedError, DDSException) as error:
            self._context.refuse("endpoints", self.name, f"it cannot be bridged now: {error}")
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.change)

    async def _open_and_close_intakes(self) -> None:
        wanted = {writer.intake_key: writer for writer in self.writers.values()}
        if self._context.duty is Duty.STANDING_BY:
            wanted |= {writer.intake_key: writer for writer in self._bridge_writers.values()}
        for key in self._intakes - wanted.keys():
            self._intakes.discard(key)
            await self._context.participant.close_intake(key)
        for key in wanted.keys() - self._intakes:
            await self._context.participant.open_intake(key, wanted[key])
            self._intakes.add(key)

    async def _declare_and_announce(self) -> None:
        if self._ever is None or not self._context.is_carrying:
            return
        await self._declare(self._ever)
        self._announce(list(self._unannounced.values()))
        self._unannounced.clear()

    async def _declare(self, policies: WriterPolicies) -> None:
        """Make the topic at the edge offer at least this."""
        wanted = policies.offered
        if self._declared is not None and stronger_offer(self._declared, wanted) == self._declared:
            return
        listed = {item["topic"]: item["offered"] for item in await self._context.client.topics()}
        offered = wanted
        if self._edge_topic in listed:
            has = msgspec.convert(listed[self._edge_topic], Offered)
            offered = stronger_offer(has, wanted)
            if offered != has:
                await self._context.client.declare_topic(self._edge_topic, offered)
        else:
            await self._context.client.declare_topic(self._edge_topic, offered)
        self._declared = offered
        self._inflow.declared(offered)

    # Events from elsewhere

    async def _change_outflow(self) -> None:
        plan, readers = self._plan()
        now = self._outflow
        if now is not None and (plan is None or not self._goes_on(now, plan)):
            await self._end_outflow()
        if plan is None or self._outflow is not None:
            return
        await self._declare(plan.policies)
        was_writing = now is not None and now.plan.type_key is not None
        after = now.position if now is not None and was_writing and self._context.is_carrying else None
        outflow = self._outflow = Outflow(self._context, self._edge_topic, plan, readers, self._see_published)
        self._outflow_task = asyncio.create_task(outflow.run(after))
        self._outflow_task.add_done_callback(self._outflow_ended)

    def _goes_on(self, outflow: Outflow, plan: OutflowPlan) -> bool:
        """Whether it need not be begun anew. Who stood by goes on when it carries, but not the reverse."""
        is_same = msgspec.structs.replace(outflow.plan, begins_with_alive=plan.begins_with_alive) == plan
        return is_same and (self._context.is_carrying or not outflow.has_writer)

    def _plan(self) -> tuple[OutflowPlan | None, list[Endpoint]]:
        """What should be done with the topic's events, and for which readers."""
        duty = self._context.duty
        if duty is Duty.LISTENING:
            return None, []
        elsewhere = list(self._elsewhere())
        if elsewhere and (readers := self._served(policies := strongest(elsewhere))):
            depths = [reader.policies.depth for reader in readers]
            is_keyed = self._context.participant.translator(readers[0].type_key).is_keyed
            depth = None if is_keyed or None in depths else max(filter(None, depths), default=None)
            return OutflowPlan(policies, readers[0].type_key, depth, duty is Duty.CARRYING), readers
        if duty is Duty.STANDING_BY and self._ever is not None and (self.writers or self._has_samples):
            # To know what the carrying bridge has published.
            return OutflowPlan(self._ever, None, None, begins_with_alive=False), []
        return None, []

    def _served(self, offered: WriterPolicies) -> list[Endpoint]:
        """The local readers that what is offered elsewhere can serve; of the others it is said why not."""
        served = []
        for reader in sorted(self._readers.values()):
            reason = unmet_by(offered, reader.qos)
            if reason is None:
                served.append(reader)
            elif self._refused.get(reader.guid) != reason:
                self._refused[reader.guid] = reason
                self._context.refuse("endpoints", self.name, f"a reader is not served: {reason}")
        return served

    def _see_published(self, event_id: str) -> None:
        if not self._context.is_carrying:
            self._inflow.held.deal_with(event_id, self._context.now())

    async def _end_outflow(self) -> None:
        outflow, task = self._outflow, self._outflow_task
        self._outflow = self._outflow_task = None
        if outflow is not None and task is not None:
            with suppress(RefusedError):
                await outflow.stop()
            await asyncio.wait([task])

    def _outflow_ended(self, task: asyncio.Task[None]) -> None:
        """It ended by itself if the edge refused it: try again later, since what a topic offers may change."""
        if task is not self._outflow_task or task.cancelled():
            return
        self._outflow = self._outflow_task = None
        self._declared = None
        error = task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self._context.refuse("endpoints", self.name, f"its events cannot be had: {error}")
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.change)
