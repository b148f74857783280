"""The long-running pipeline: a stream of events is matched batch by batch against what the subscription store says.

Each micro-batch takes the store's version of that moment, so a subscription that was acknowledged before an event was
appended sees the event. The output of a batch is committed under its id, or found committed already: so each batch is
there exactly once, also after a crash. Troubles that may pass (a store that is away, a full disk) are waited for.
"""

from __future__ import annotations

import fcntl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StringType

from fieldfare.durable import NewFile, flush_folder, make_folder
from fieldfare.errors import (
    BucketUnavailableError,
    FieldfareError,
    HistoryError,
    PipelineError,
    TableUnavailableError,
)
from fieldfare.forwarding import Policy
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan
from fieldfare.pipeline.batch_jobs import BatchJobs
from fieldfare.pipeline.batch_log import BatchLog, PlannedBatch
from fieldfare.pipeline.batch_output import BatchOutput
from fieldfare.pipeline.batches import Batches, MatchedBatch
from fieldfare.pipeline.bucket.address import is_url
from fieldfare.pipeline.control import Control, Elasticity
from fieldfare.pipeline.output import CommittedBatch, WriteOptions
from fieldfare.pipeline.output_places import OutputPlace, opened_output
from fieldfare.pipeline.planned_batches import Pace, run_batches
from fieldfare.pipeline.remedies import Remedy, reason_of, remedy_for
from fieldfare.pipeline.sources import BatchPlanner, EventSource, PlannedSource, StreamedSource
from fieldfare.pipeline.stages import BatchInput
from fieldfare.pipeline.summary import BatchSummary, Summary
from fieldfare.pipeline.system_columns import APPENDED_AT, refuse_system_columns
from fieldfare.pipeline.watching import Watcher
from fieldfare.pipeline.worker_python import check_worker_python
from fieldfare.store.base import ALL, Order, Scope
from fieldfare.store.catalog import Catalog
from fieldfare.store.subscription_store import SubscriptionStore, open_store

AUTO = "auto"
_QUERY = "spark"  # the checkpoint of Spark's query, in the pipeline's
_POLL_SECONDS = 0.1
_WAIT_SECONDS_MAX = 30.0
_RETRIES_MAX = 3  # without a batch between them
_SPARK_GONE = "Spark has ended: its JVM was killed, or ran out of memory; start it again with the same checkpoint"


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """Where subscriptions come from and output goes, and how the work is divided."""

    store: str
    output: OutputPlace  # a folder, a place in an object store, Kafka topics, a lake table, or a table in PostgreSQL
    checkpoint: Path
    scope: Scope = ALL
    layout: str = AUTO  # or a LayoutKind
    policy: str = Policy.ADAPTIVE
    matchers: int | None = None  # None: as many as needed
    dimensions: tuple[str, ...] = ()
    replicas: int = 1
    hops: int = 1
    interval_seconds: float = 0.5
    write: WriteOptions = field(default_factory=WriteOptions)
    event_time: str | None = None  # a column to measure latency from, where events do not come from a folder
    until_idle: bool = False  # stop when all events that are there have been matched

    def __post_init__(self) -> None:
        _one_of("layout", self.layout, [AUTO, *LayoutKind])
        _one_of("policy", self.policy, list(Policy))
        if is_url(str(self.checkpoint)):
            raise PipelineError(
                f"{self.checkpoint}: a checkpoint is a folder of a file system, because Spark's logs in it need an "
                "atomic rename: use a local folder or NFS; events and output may be in an object store"
            )


OnBatch = Callable[[CommittedBatch], None]


class Pipeline:
    """One pipeline on one checkpoint. `run` returns when `stop` was called, or at the end with `until_idle`."""

    def __init__(
        self,
        spark: SparkSession,
        options: PipelineOptions,
        *,
        watcher: Watcher | None = None,
        on_batch: OnBatch | None = None,
    ) -> None:
        """`on_batch` gets every batch after its commit; after a crash it may get the last one again, by the same id."""
        self._spark = _classic(spark)
        # The JVM and the tasks have working folders of their own, in which a relative path is another one.
        output = options.output.absolute() if isinstance(options.output, Path) else options.output
        self._options = replace(options, output=output, checkpoint=options.checkpoint.absolute())
        if on_batch is not None and not isinstance(options.output, Path):
            raise PipelineError("on_batch needs a folder as the output: other places are read with their own clients")
        self._watcher = watcher or Watcher()
        self._on_batch = on_batch
        self._stopping = threading.Event()
        self._turn = threading.Lock()  # held by the batch under way
        self._failure: Exception | None = None
        self._failures = 0
        self.summary = Summary()

    def run(self, events: DataFrame | EventSource) -> Summary:
        """Match a stream of events, the files of a folder, or the messages of a Kafka topic, until stopped."""
        check_worker_python(self._spark)
        self._failures = 0
        state = self._options.checkpoint / "fieldfare"
        make_folder(state)
        with (
            _sole_owner(state / "lock"),
            open_store(self._options.store, create=False) as store,
            closing(self._opened_output(state)) as output,
        ):
            self._refuse_other_kind(events, state)
            self._prepare(output)
            with self._batches(store, output, state) as batches:
                self._supervise(events, batches)
        return self.summary

    def stop(self) -> None:
        """End `run` after the batch that is under way."""
        self._stopping.set()

    def _opened_output(self, state: Path) -> BatchOutput:
        options = self._options
        return opened_output(options.output, state, _identity(state), options.write, self.notice)

    def _prepare(self, output: BatchOutput) -> None:
        """Take the output over; wait for it where it is away."""
        while True:
            try:
                return output.prepare()
            except (TableUnavailableError, BucketUnavailableError) as error:
                self._wait(error)
                if self._stopping.is_set():
                    raise

    def _refuse_other_kind(self, events: DataFrame | EventSource, state: Path) -> None:
        """Batches are numbered by Spark's query or by the pipeline: one checkpoint cannot have both."""
        is_planned = not isinstance(events, DataFrame) and isinstance(events, PlannedSource)
        if (self._options.checkpoint / _QUERY).exists() if is_planned else BatchLog(state).exists:
            raise PipelineError(
                f"{self._options.checkpoint}: this checkpoint has batches of another kind of source (a Kafka topic, or "
                "a folder or stream): go on with that, or use a new checkpoint and a new output"
            )

    @contextmanager
    def _batches(self, store: SubscriptionStore, output: BatchOutput, state: Path) -> Iterator[Batches]:
        options = self._options
        started = time.monotonic()
        order = Order(options.scope, self._plan())
        catalog = Catalog(store, state / "snapshots", order, reader=_identity(state))
        catalog.open()
        manifest = catalog.base.manifest
        self._watcher.notice(
            f"{manifest.subscriptions:,} subscriptions compiled in {time.monotonic() - started:.1f} s: "
            f"{described(catalog.layout)}, {manifest.nbytes / 1e6:,.1f} MB, {manifest.copies:.1f} copies each"
        )
        try:
            control = Control(catalog, Policy(options.policy), self._elasticity(), auto=options.layout == AUTO)
            id_type = _id_type(state, store)
            write = replace(options.write, string_ids=isinstance(id_type, StringType))
            yield Batches(self, catalog, control, output, id_type, BatchJobs(output.task_options(write)), state)
        finally:
            catalog.close()

    def _plan(self) -> LayoutPlan:
        options = self._options
        kind = LayoutKind.REPLICATED if options.layout == AUTO else LayoutKind(options.layout)
        matchers = options.matchers or self._parallelism()
        return LayoutPlan(kind, matchers, options.dimensions, options.replicas, options.hops)

    def _elasticity(self) -> Elasticity:
        fixed, parallelism = self._options.matchers, self._parallelism()
        return Elasticity(fixed or parallelism, fixed or 8 * parallelism, max(self._options.interval_seconds, 0.1))

    def _parallelism(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def _supervise(self, events: DataFrame | EventSource, batches: Batches) -> None:
        """Run the query; where it ends by something that may pass, start it again on its checkpoint."""
        while not self._stopping.is_set():
            self._failure = None
            try:
                if not isinstance(events, DataFrame) and not self._await_events(events):
                    return
                if isinstance(events, PlannedSource):
                    self._run_planned(events.planner(self._spark), batches)
                else:
                    self._follow(self._start(events, batches))
                break
            except (Py4JError, ConnectionError) as error:
                raise PipelineError(_SPARK_GONE) from error
            except (PySparkException, FieldfareError, OSError) as error:
                if self._stopping.is_set():
                    return  # it ended because it was told to
                self.overcome(self._cause_of(error), batches.catalog)

    def _await_events(self, source: EventSource) -> bool:
        """Wait for the first events, if only those can tell what events are like. False: there is none to read."""
        if source.is_ready():
            return True
        if self._options.until_idle:
            self._watcher.notice(f"{source.place} is empty: there is nothing to match")
            return False
        self._watcher.notice(f"waiting for the first {source.first}, which says what the events are like")
        while not self._stopping.wait(_POLL_SECONDS):
            if source.is_ready():
                return True
        return False

    def _cause_of(self, error: Exception) -> Exception:
        """The error of the batch itself, if that is what ended the query, which gives only its text."""
        return self._failure or error

    def overcome(self, failure: Exception, catalog: Catalog) -> None:
        """Wait until a retry makes sense. Raises the failure if nothing is known to help against it."""
        remedy = remedy_for(failure)
        if remedy is Remedy.NONE or (remedy is Remedy.RETRY and self._failures >= _RETRIES_MAX):
            if isinstance(failure, FieldfareError):
                raise failure
            raise PipelineError(reason_of(failure)) from failure
        if remedy is Remedy.REBUILD:
            forgotten = isinstance(failure, HistoryError)
            reason = "the store's history since the snapshot was forgotten" if forgotten else "a snapshot is damaged"
            self._watcher.notice(f"{reason}: making it anew from the store")
            catalog.discard()
        self._wait(failure)

    def _wait(self, failure: Exception) -> None:
        self._failures += 1
        seconds = min(2.0 ** (self._failures - 1), _WAIT_SECONDS_MAX)
        self._watcher.notice(f"{reason_of(failure)} (trying again in {seconds:.0f} s)")
        self._stopping.wait(seconds)

    def _run_planned(self, planner: BatchPlanner, batches: Batches) -> None:
        """Run the batches of a source that plans them, without a query of Spark's."""
        options = self._options
        pace = Pace(options.interval_seconds, options.until_idle, self._stopping)
        work = _PlannedWork(self._spark, planner, batches)
        run_batches(planner, BatchLog(options.checkpoint / "fieldfare"), work, pace)

    def _start(self, events: DataFrame | StreamedSource, batches: Batches) -> StreamingQuery:
        stream, batch_of = self._stream(events)
        writer = stream.writeStream.foreachBatch(
            lambda rows, batch_id: batches.process(lambda: batch_of(rows), batch_id)
        )
        writer = writer.option("checkpointLocation", str(self._options.checkpoint / _QUERY))
        if self._options.until_idle:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._options.interval_seconds} seconds").start()

    def _stream(self, events: DataFrame | StreamedSource) -> tuple[DataFrame, Callable[[DataFrame], BatchInput]]:
        """What Spark streams, and what makes events of a batch of that."""
        if not isinstance(events, DataFrame):
            stream = events.stream(self._spark)
            return stream.rows, stream.batch
        if not events.isStreaming:
            raise PipelineError("the pipeline matches a stream; for a batch DataFrame use fieldfare.pipeline.match")
        refuse_system_columns(events.columns)
        if self._options.event_time is not None:
            events = events.withColumn(APPENDED_AT, events[self._options.event_time].cast("timestamp"))
        return events, BatchInput.of

    def _follow(self, query: StreamingQuery) -> None:
        while query.isActive:
            if self._stopping.wait(_POLL_SECONDS):
                with self._turn:
                    pass  # the batch under way is finished; another one will not begin
                query.stop()
                return
        query.awaitTermination()  # raises what made it end, if it was not the end of the events

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Surrounds one try at a batch. Keeps the error if it fails: the query itself would pass on only its text."""
        with self._turn:
            self._failure = None
            if self._stopping.is_set():
                raise PipelineError("the pipeline is stopping")
            try:
                yield
            except Exception as error:
                self._failure = error
                raise

    def committed(self, batch: BatchSummary, files: CommittedBatch | None) -> None:
        """Tell of a batch; called by the batches."""
        self._failures = 0
        self.summary.add(batch)
        self._watcher.batch(batch)
        self.seen_again(files)

    def seen_again(self, files: CommittedBatch | None) -> None:
        """Give a batch to `on_batch`; again if it was committed just before a crash, and may be unknown."""
        if self._on_batch and files is not None:
            self._on_batch(files)

    def notice(self, text: str) -> None:
        """Tell of a decision."""
        self._watcher.notice(text)


@dataclass(frozen=True, slots=True)
class _PlannedWork:
    """What is done with batches of a source that plans them."""

    spark: SparkSession
    planner: BatchPlanner
    batches: Batches

    def process(self, batch: PlannedBatch) -> None:
        self.batches.process(partial(self._events, batch), batch.batch_id)

    def match(self, batch: PlannedBatch) -> MatchedBatch:
        return self.batches.match(partial(self._events, batch), batch.batch_id)

    def commit(self, matched: MatchedBatch) -> None:
        self.batches.commit(matched)

    def _events(self, batch: PlannedBatch) -> BatchInput:
        return self.planner.batch(self.spark, batch.start, batch.end)


def described(layout: Layout) -> str:
    """A layout in a few words."""
    count = len(layout.matchers)
    matchers = "1 matcher" if count == 1 else f"{count} matchers"
    return f"layout {layout.kind} with {matchers}" + (
        f" on {', '.join(layout.attributes)}" if layout.attributes else ""
    )


def _classic(spark: SparkSession) -> SparkSession:
    """The session, which calls back into this process for every batch: one of Spark Connect cannot."""
    if not isinstance(spark, SparkSession):
        raise PipelineError(
            "the pipeline decides about each batch in this process, which a session of Spark Connect cannot call: use "
            "fieldfare.pipeline.match(stream, subscriptions) there, or run the pipeline by spark-submit"
        )
    return spark


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise PipelineError(f"{name} {value!r} is not known; it is one of {', '.join(known)}")


@contextmanager
def _sole_owner(lock: Path) -> Iterator[None]:
    """Hold a checkpoint; the system lets go of it when this process ends, however it ends."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PipelineError(
                f"another pipeline runs on {lock.parent.parent}: stop it, or use another one"
            ) from error
        yield


def _identity(state: Path) -> str:
    """The id by which the output knows its owner; it is kept in the checkpoint."""
    return _remembered(state / "identity", lambda: uuid.uuid4().hex)


def _id_type(state: Path, store: SubscriptionStore) -> LongType | StringType:
    """The type of ids in the output, decided once: that of the store, or text while the store is empty."""
    kind = _remembered(state / "id_type", lambda: store.id_type or "string")
    return LongType() if kind == "integer" else StringType()


def _remembered(path: Path, make: Callable[[], str]) -> str:
    """What an earlier run decided, or what `make` says now. It is durable when this returns."""
    if path.exists():
        flush_folder(path.parent)  # the run that wrote it may have been killed before it did this
    else:
        with NewFile(path) as file:
            file.write(make().encode())
    return path.read_text(encoding="utf-8")
