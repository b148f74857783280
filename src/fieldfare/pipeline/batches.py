"""What is done with each batch, on the driver: match it, and then commit what it came to."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructType

from fieldfare.errors import FieldfareError
from fieldfare.matching.unknown_names import told_unknown
from fieldfare.partitioning.layout import Layout
from fieldfare.pipeline.batch_instant import instant_of_batch
from fieldfare.pipeline.batch_jobs import BatchJobs
from fieldfare.pipeline.batch_output import BatchOutput
from fieldfare.pipeline.control import Control
from fieldfare.pipeline.output import CommittedBatch
from fieldfare.pipeline.reports import BatchReport
from fieldfare.pipeline.stages import BatchInput, BatchPlan
from fieldfare.pipeline.summary import BatchSummary
from fieldfare.pipeline.types import attribute_names
from fieldfare.store.catalog import Catalog
from fieldfare.store.parts import Version

T = TypeVar("T")


class BatchHost(Protocol):
    """What batches need of the pipeline."""

    def turn(self) -> AbstractContextManager[None]:
        """Surrounds one try at a batch."""
        ...

    def overcome(self, failure: Exception, catalog: Catalog) -> None:
        """Wait until a retry makes sense. Raises the failure if nothing is known to help against it."""
        ...

    def committed(self, batch: BatchSummary, files: CommittedBatch | None) -> None:
        """Tell of a batch."""
        ...

    def seen_again(self, files: CommittedBatch | None) -> None:
        """Tell of a batch that was committed before, and may be unknown."""
        ...

    def notice(self, text: str) -> None:
        """Tell of a decision."""
        ...


@dataclass(frozen=True, slots=True)
class MatchedBatch:
    """A batch whose output is staged."""

    batch_id: int
    events: BatchInput
    report: BatchReport
    version: int  # of the subscriptions
    layout: Layout
    subscriptions: int
    began: float  # time.monotonic()


@dataclass(slots=True)
class Batches:
    """Matches and commits batches. One may be matched while the one before it is committed by another thread."""

    host: BatchHost
    catalog: Catalog
    control: Control
    output: BatchOutput
    id_type: LongType | StringType
    jobs: BatchJobs
    state: Path  # what is remembered beside Spark's own checkpoint
    _told: set[str] = field(default_factory=set)  # attributes that the events do not have, and that were told of
    _ended: float = 0.0  # time.monotonic() of the last commit

    def process(self, read: Callable[[], BatchInput], batch_id: int) -> None:
        """Match a batch and commit its output, unless it is committed already. Tries again where that helps."""

        def attempt() -> None:
            if not self._is_there(batch_id):
                self._commit(self._match(read, batch_id))

        self._insist(attempt)

    def match(self, read: Callable[[], BatchInput], batch_id: int) -> MatchedBatch:
        """Match a batch and stage its output. Tries again where that helps."""
        return self._insist(lambda: self._match(read, batch_id))

    def commit(self, batch: MatchedBatch) -> None:
        """Commit a batch, unless it is committed already. After an error only `process` can tell whether it is."""
        if not self._is_there(batch.batch_id):
            self._commit(batch)

    def _insist(self, attempt: Callable[[], T]) -> T:
        while True:
            try:
                with self.host.turn():
                    return attempt()
            except ConnectionError:
                raise  # Spark has ended
            except (PySparkException, FieldfareError, OSError) as error:
                self.host.overcome(error, self.catalog)

    def _is_there(self, batch_id: int) -> bool:
        """Whether a batch is committed already, by a run that was killed before it could tell of it."""
        if not self.output.is_committed(batch_id):
            return False
        self.host.seen_again(self.output.read_commit(batch_id))
        return True

    def _match(self, read: Callable[[], BatchInput], batch_id: int) -> MatchedBatch:
        began = time.monotonic()
        version = self.catalog.version(time.time())
        layout, subscriptions = self.catalog.layout, self.catalog.subscriptions
        now = instant_of_batch(self.state / "instant", batch_id) if version.asks_now else None
        plan = BatchPlan(version, self.control.forwarding(batch_id), self.id_type, now)
        stage = self.output.stage(batch_id)
        events = read()
        self._tell_unknown(version, events.schema)
        if events.lost:
            self.host.notice(f"the source has lost {events.lost:,} events of batch {batch_id} before they were read")
        report = self.jobs.run(events, plan, stage)
        for decision in self.control.observe(report, time.monotonic() - began):
            self.host.notice(decision)
        return MatchedBatch(batch_id, events, report, version.number, layout, subscriptions, began)

    def _commit(self, batch: MatchedBatch) -> None:
        report = batch.report
        note = {"subscriptions_version": batch.version, "layout": batch.layout.kind}
        files = self.output.commit(batch.batch_id, report.files, report.faults, note)
        ended = time.monotonic()
        seconds = ended - max(batch.began, self._ended)  # without the time that it shared with the one before
        self._ended = ended
        self.host.committed(BatchSummary.of(batch, seconds), files)

    def _tell_unknown(self, version: Version, schema: StructType) -> None:
        """Tell once of each attribute that subscriptions ask about and the events do not have."""
        asked = sorted(version.attributes - self._told)
        self._told.update(asked)
        for sentence in told_unknown(asked, set(attribute_names(schema))):
            self.host.notice(f"subscriptions ask in vain: {sentence}")
