"""One topic's bridge to its pipeline: events go out in files, matched batches come back and are given to the edge.

A batch is given when the one before it is in the edge's log, and given again while it is not there itself: the edge
passes over one that it has. So memory holds one batch, and a full disk of the edge only delays.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

import msgspec
import pyarrow as pa

from fieldfare.errors import FieldfareError
from fieldfare.events import UnreadableError
from fieldfare.messages import HandedOver, HandEvents, Input, MatchedEvent, PipelineMatched
from fieldfare.runtime.pipeline_status import HandedFiles, PipelineStatus
from fieldfare.runtime.spark.child import Child
from fieldfare.runtime.spark.collector import Collector
from fieldfare.runtime.spark.event_lines import Columns, EventRows
from fieldfare.runtime.spark.options import SparkOptions
from fieldfare.runtime.spark.pipeline_subscriptions import PipelineSubscriptions
from fieldfare.runtime.spark.topic_folder import TopicFolder
from fieldfare.store.outputs import committed_batches

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)
_RETRY_SECONDS = 1.0
_NOT_WRITTEN = ""  # a mark that is to come
_MAY_PASS = (OSError, FieldfareError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class BridgeContext:
    """What all topics of a SparkBridge share."""

    options: SparkOptions
    subscriptions: PipelineSubscriptions
    threads: ThreadPoolExecutor
    tell: Callable[[Input], None]
    stored_batch: Callable[[str, str], int]


class TopicBridge:
    """Carries one topic's events to its pipeline and matched batches back. Runs the pipeline too, if it is told to."""

    def __init__(self, tenant: str, topic: str, context: BridgeContext) -> None:
        self.tenant, self.topic = tenant, topic
        self._context = context
        self._folder = TopicFolder(context.options.folder, tenant, topic)
        self._columns = Columns(context.options.schemas.get((tenant, topic)))
        self._child = Child(
            f"the pipeline of topic {topic!r}", self._await_mark, stop_seconds=context.options.stop_seconds
        )
        self._awaited: str | None = None  # the mark by which the pipeline will show that it is at work
        self._handed = HandedFiles()
        self._marks: dict[int, list[str]] = {}  # by batch, of files that are still there
        self._trouble: str | None = "its files have not been opened"
        self._collector: Collector[HandEvents] = Collector(
            self._hand_over,
            context.tell,
            seconds=context.options.collect_seconds,
            together_max=context.options.file_events_max,
            waiting_max=context.options.waiting_events_max,
        )
        self._opening = asyncio.create_task(self._open())
        self._collecting = asyncio.create_task(self._collect())
        self._following = asyncio.create_task(self._follow())

    def perform(self, effect: HandEvents) -> None:
        """Hand events over."""
        self._collector.add(effect)

    @property
    def why_not_ready(self) -> str | None:
        """Why events are not matched now; None if they are."""
        for task in (self._opening, self._collecting, self._following):
            if task.done() and not task.cancelled() and task.exception() is not None:
                return f"topic {self.topic!r}: {task.exception()!r}"
        if self._trouble is not None:
            return f"topic {self.topic!r}: {self._trouble}"
        return None if self._awaited is None else f"topic {self.topic!r}: its pipeline is starting"

    def status(self) -> PipelineStatus:
        """How far its pipeline is behind."""
        return self._handed.status(self.topic, self.why_not_ready, time.time())

    async def close(self) -> None:
        """Hand over what waits, and end the pipeline; what is matched from now on is given after the next start."""
        await asyncio.wait([self._opening], timeout=_RETRY_SECONDS)  # a disk that is well is open by then
        if self._opening.done():
            self._collector.finish()
            await asyncio.wait([self._collecting])
        for task in (self._opening, self._collecting, self._following):
            task.cancel()
        await asyncio.gather(self._opening, self._collecting, self._following, return_exceptions=True)
        self._collector.refuse("the service is stopping")
        await self._child.stop()

    async def _open(self) -> None:
        while self._trouble is not None:
            try:
                self._columns = replace(self._columns, kinds=await self._in_thread(self._folder.open))
                self._handed.waiting = await self._in_thread(self._folder.waiting)
                await self._in_thread(self._context.subscriptions.want_marks, self.tenant, self.topic)
                self._trouble = None
            except (*_MAY_PASS, msgspec.MsgspecError) as error:
                self._complain(error)
                await asyncio.sleep(_RETRY_SECONDS)
        self._start_pipeline()

    # Events on their way out

    async def _collect(self) -> None:
        await asyncio.shield(self._opening)
        await self._collector.run()

    async def _hand_over(self, effects: Sequence[HandEvents]) -> Sequence[HandedOver]:
        publications, failures = await self._in_thread(_read, self._columns, effects)
        try:
            if publications:
                await self._write(publications)
        except OSError as error:
            reason = f"the pipeline's events cannot be written: {error.strerror or error}"
            failures = {effect.number: failures.get(effect.number, reason) for effect in effects}
        return [HandedOver(effect.number, failures.get(effect.number)) for effect in effects]

    async def _write(self, publications: Sequence[EventRows]) -> None:
        """Write events. Where they have new attributes, the pipeline that reads them is one that knows those."""
        columns = self._columns.learned(publications)
        if columns is self._columns:
            await self._write_file(publications, columns)
            return
        self._awaited = _NOT_WRITTEN if self._context.options.runs_pipelines else None
        await self._child.stop()
        try:
            await self._in_thread(self._folder.save, columns.kinds)
            await self._write_file(publications, columns)
            self._columns = columns
        finally:
            self._start_pipeline()

    async def _write_file(self, publications: Sequence[EventRows], columns: Columns) -> None:
        mark = await self._in_thread(self._folder.write, publications, columns)
        self._handed.written(mark, sum(len(publication.rows) for publication in publications), time.time())

    # The pipeline

    def _start_pipeline(self) -> None:
        """Run the pipeline, if that is the bridge's to do and it is known what the events look like."""
        options, schema = self._context.options, self._columns.schema
        if not options.runs_pipelines or schema is None:
            return
        arguments = ["pipeline", "run", "--events", str(self._folder.events), "--output", str(self._folder.output)]
        arguments += ["--checkpoint", str(self._folder.checkpoint), f"--tenant={self.tenant}", f"--topic={self.topic}"]
        arguments += ["--format", "json", "--schema", schema, "--events-per-batch", str(options.batch_events_max)]
        arguments += ["--interval", str(options.interval_seconds), "--only-matched"]
        arguments += ["--master", options.master] if options.master else []
        self._awaited = _NOT_WRITTEN
        # The store's address may hold a password, which others could read in a command line.
        self._child.start(arguments, {**os.environ, "FIELDFARE_STORE": options.store_address, "NO_COLOR": "1"})

    async def _await_mark(self) -> None:
        self._awaited = await self._in_thread(self._folder.write, [], self._columns)

    # Batches on their way back

    async def _follow(self) -> None:
        await asyncio.shield(self._opening)
        last = -1
        while True:
            try:
                for batch in await self._in_thread(committed_batches, self._folder.output, last):
                    await self._take(batch)
                    last = batch
                self._trouble = None
            except _MAY_PASS as error:
                self._complain(error)
                await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.sleep(self._context.options.poll_seconds)

    async def _take(self, batch: int) -> None:
        """Give a batch to the edge, if it has not got it, and remove what is no longer needed."""
        events, marks, quarantined = await self._in_thread(self._folder.read, batch)
        if quarantined:
            _log.warning(
                "topic %r: %d events could not be matched; %s says why", self.topic, quarantined, self._folder.output
            )
        if events:
            await self._give(batch, events)
        self._marks[batch] = marks
        self._handed.matched(marks, time.time())
        if self._awaited in marks:
            self._awaited = None
        for earlier in [number for number in self._marks if number < batch]:
            # Its commit is known to Spark, or this batch would not be there; so nobody asks for it again.
            await self._in_thread(self._folder.remove, earlier, self._marks.pop(earlier))

    async def _give(self, batch: int, events: list[MatchedEvent]) -> None:
        context, clock = self._context, asyncio.get_running_loop().time
        given_at = float("-inf")
        while context.stored_batch(self.tenant, self.topic) < batch:
            if clock() - given_at > _RETRY_SECONDS:
                context.tell(PipelineMatched(self.tenant, self.topic, batch, events))
                given_at = clock()
            await asyncio.sleep(context.options.poll_seconds / 10)

    def _complain(self, error: Exception) -> None:
        if self._trouble != str(error):
            self._trouble = str(error)
            _log.error("topic %r: %s (trying again)", self.topic, error)

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._context.threads, lambda: work(*args, **kwargs))


def _read(columns: Columns, effects: Sequence[HandEvents]) -> tuple[list[EventRows], dict[int, str]]:
    """What was handed over, and by the numbers of effects why some of it cannot be."""
    publications: list[EventRows] = []
    failures: dict[int, str] = {}
    for effect in effects:
        try:
            publications.append(columns.read(effect))
        except (UnreadableError, ValueError, msgspec.MsgspecError) as error:
            failures[effect.number] = f"not events: {error}"
    return publications, failures
