"""Several pipelines in one process: one Spark session, and for each pipeline a thread, a query and a scheduler pool.

Spark's fair scheduler gives each pool the same share of the cores, so a pipeline that is flooded takes what the others
leave, and no more. Each pipeline fails by itself: it is told, and tried again while others work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from fieldfare.errors import (
    FieldfareError,
    KafkaTopicError,
    KafkaUnavailableError,
    OutputError,
    PipelineError,
    TableError,
    TableUnavailableError,
)
from fieldfare.pipeline.remedies import reason_of
from fieldfare.pipeline.run import OnBatch, Pipeline, PipelineOptions
from fieldfare.pipeline.sources import EventSource
from fieldfare.pipeline.summary import BatchSummary, Summary
from fieldfare.pipeline.watching import Watcher, Watchers

_WAIT_SECONDS_MAX = 60.0
_SOUND_SECONDS = 60.0  # a pipeline that ran this long works, also where no events came
_POLL_SECONDS = 0.1
# An output or a topic that is another's now, or gone: to open it again could end the driver that has it.
_NEED_A_PERSON = (KafkaTopicError, OutputError, TableError)
_PASS = (KafkaUnavailableError, TableUnavailableError)  # though they are of these
_POOL = "spark.scheduler.pool"
_FIFO = (
    "Spark's scheduler mode is not FAIR, so that a flood in one pipeline holds up the others: set "
    "spark.scheduler.mode=FAIR before the session is made"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one of several pipelines ended."""

    summary: Summary
    failure: str | None = None  # why it did not work at the end; None: it did
    failures: int = 0  # how often it had to be tried again

    def sentence(self) -> str:
        """The outcome in a sentence."""
        return self.summary.sentence() if self.failure is None else f"failed: {self.failure}"

    def as_dict(self) -> dict[str, Any]:
        """The outcome for JSON: the summary of the pipeline and, if it failed, why."""
        told = self.summary.as_dict()
        return told | {"failure": self.failure, "failures": self.failures} if self.failures else told


class Pipelines:
    """Pipelines that share a Spark session. `run` returns when `stop` was called, when all are idle, or none works."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._members: dict[str, _Member] = {}
        self._stopping = threading.Event()

    def add(
        self,
        name: str,
        events: DataFrame | EventSource,
        options: PipelineOptions,
        *,
        watcher: Watcher | None = None,
        on_batch: OnBatch | None = None,
    ) -> None:
        """Have a pipeline run with the others. Each has a checkpoint and an output of its own."""
        if name in self._members:
            raise PipelineError(f"two pipelines have the name {name!r}")
        for other in self._members.values():
            for key in ("checkpoint", "output"):
                if getattr(other.options, key) == getattr(options, key):
                    raise PipelineError(f"{other.name!r} and {name!r} have the same {key}; each needs its own")
        self._members[name] = _Member(self._spark, name, events, options, watcher or Watcher(), on_batch)

    def run(self) -> Mapping[str, Outcome]:
        """Run all of them until they are stopped, or idle with `until_idle`, or none works any more."""
        if self._spark.sparkContext.getConf().get("spark.scheduler.mode", "FIFO") != "FAIR" and len(self._members) > 1:
            next(iter(self._members.values())).watcher.notice(_FIFO)
        members = list(self._members.values())
        threads = [InheritableThread(target=self._keep_running, args=(member,)) for member in members]
        for member in members:
            member.begin()  # before any thread looks at the others
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_POLL_SECONDS)  # signals are handled between these
        return {member.name: member.outcome() for member in members}

    def stop(self) -> None:
        """End `run` after the batches that are under way."""
        self._stopping.set()
        for member in self._members.values():
            member.pipeline.stop()

    def _keep_running(self, member: _Member) -> None:
        """Run a pipeline; where it fails, again, after a wait that grows, as long as others work."""
        self._spark.sparkContext.setLocalProperty(_POOL, member.name)  # the query's thread inherits it
        while not member.run():
            member.watcher.failed(member.failure or "")
            if self._stopping.is_set() or not member.may_try_again:
                member.watcher.notice(f"{member.failure}: this pipeline has ended, and is not tried again")
                return
            if not any(other.works for other in self._members.values() if other is not member):
                member.watcher.notice(f"{member.failure}; no other pipeline works: ending")
                self.stop()
                return
            seconds = min(2.0 ** (member.failures - 1), _WAIT_SECONDS_MAX)
            member.watcher.notice(f"{member.failure}: this pipeline has ended; trying again in {seconds:.0f} s")
            if self._stopping.wait(seconds):
                return


@dataclass
class _Member:
    """One of the pipelines, and how it goes. Its own thread changes it; others look."""

    spark: SparkSession
    name: str
    events: DataFrame | EventSource
    options: PipelineOptions
    watcher: Watcher
    on_batch: OnBatch | None
    pipeline: Pipeline = field(init=False)
    failure: str | None = None  # the last one, until a batch is committed
    failures: int = 0  # without a batch between them
    failed: int = 0  # in all
    may_try_again: bool = True
    _running_since: float | None = None

    def __post_init__(self) -> None:
        watcher = Watchers([_OnCommit(self), self.watcher])
        self.pipeline = Pipeline(self.spark, self.options, watcher=watcher, on_batch=self.on_batch)

    def begin(self) -> None:
        """It is about to run."""
        self._running_since = time.monotonic()

    def run(self) -> bool:
        """Run it once; whether it ended well."""
        self.begin()
        try:
            self.pipeline.run(self.events)
        except Exception as error:  # noqa: BLE001 - whatever ends one pipeline must not end the others
            self._fail(error)
            return False
        finally:
            self._running_since = None
        self.failure = None
        return True

    def _fail(self, error: Exception) -> None:
        if self.is_sound:
            self.failures = 0
        self.failures, self.failed = self.failures + 1, self.failed + 1
        self.failure = str(error) if isinstance(error, FieldfareError | OSError) else reason_of(error)
        self.may_try_again = not (self.options.until_idle or _needs_a_person(error))

    def committed(self) -> None:
        """A batch was committed: it works again."""
        self.failures, self.failure = 0, None

    @property
    def is_sound(self) -> bool:
        """Whether it has run for so long that it works."""
        return self._running_since is not None and time.monotonic() - self._running_since > _SOUND_SECONDS

    @property
    def works(self) -> bool:
        """Whether it runs, and nothing is known against it."""
        return self._running_since is not None and (self.failure is None or self.is_sound)

    def outcome(self) -> Outcome:
        """How it ended."""
        return Outcome(self.pipeline.summary, self.failure, self.failed)


def _needs_a_person(error: Exception) -> bool:
    return isinstance(error, _NEED_A_PERSON) and not isinstance(error, _PASS)


class _OnCommit(Watcher):
    def __init__(self, member: _Member) -> None:
        self._member = member

    def batch(self, summary: BatchSummary) -> None:  # noqa: ARG002 - whatever it was
        """A batch was committed."""
        self._member.committed()
