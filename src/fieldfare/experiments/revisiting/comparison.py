"""Five applications in every way: measured in turns, predicted beside it, and judged.

Each round measures every application in every way once, so that what the machine does meanwhile falls on all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fieldfare.bench.broker.workers import TICK_SECONDS
from fieldfare.errors import FieldfareError
from fieldfare.experiments.revisiting.measured import Middle, Run
from fieldfare.experiments.revisiting.settings import BATCHES, FILES_PER_SECOND, Scale
from fieldfare.experiments.revisiting.workloads import Workload, workload_of
from fieldfare.planning.application import Application, Destination
from fieldfare.planning.choosing import chosen
from fieldfare.planning.costs import Costs
from fieldfare.planning.nodes import Nodes, NodeSize
from fieldfare.planning.predicting import Prediction, at_speed, predict, work_of
from fieldfare.planning.presets import PRESETS
from fieldfare.planning.ways import Way, WayKind
from fieldfare.planning.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2  # of the machine that the experiment is made for; more are used where there are more
LIVE = (Way(WayKind.EDGE), Way(WayKind.STAR, 2), Way(WayKind.TREE, 3))
SPARK = (
    Way(WayKind.REPLICATED, 2),
    Way(WayKind.MULTI, 2),
    Way(WayKind.SINGLE, 2),
    Way(WayKind.CLUSTERS, 4, replicas=2, hops=2),
)
WAYS = (Way(WayKind.PROCESS), *LIVE, *SPARK, Way(WayKind.PEERS, 3))
LOOPBACK_MBPS = 1e7  # nothing leaves the machine
WITHIN, P99_WITHIN = 0.3, 1.0  # the aims: throughput and p50 within 30%, p99 within 2 times
_BISECTIONS = 12  # to a part in 4,000


@dataclass(frozen=True, slots=True)
class Compared:
    """One application in one way."""

    application: Application  # as it was run
    way: Way
    runs: tuple[Run, ...]
    predicted: Prediction
    failure: str = ""

    @property
    def throughput(self) -> Middle:
        """As measured."""
        return Middle.of([run.throughput for run in self.runs])

    @property
    def p50(self) -> Middle:
        """As measured."""
        return Middle.of([run.p50_seconds for run in self.runs])

    @property
    def p99(self) -> Middle:
        """As measured."""
        return Middle.of([run.p99_seconds for run in self.runs])

    @property
    def hits(self) -> dict[str, bool]:
        """Which of the three aims the prediction reaches."""
        found = self.predicted
        return {
            "throughput": self.throughput.agrees(found.throughput_events, WITHIN),
            "p50": self.p50.agrees(found.latency_p50_seconds, WITHIN),
            "p99": self.p99.agrees(found.latency_p99_seconds, P99_WITHIN),
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """The way that is recommended to an application here, and the ways that measured better."""

    application: str
    recommended: Way
    better: tuple[Way, ...]  # ways that do what it needs, faster than the recommended one beyond the spread


def delivered(application: Application, way: Way) -> Application:
    """The application as a way can deliver it: into the program, into files, or to clients."""
    if way.kind is WayKind.PROCESS:
        return msgspec.structs.replace(application, delivery=Destination.PROCESS)
    return msgspec.structs.replace(application, delivery=Destination.TABLE) if way.kind.is_spark else application


@dataclass(frozen=True, slots=True)
class Clients:
    """What others take of the same cores: publisher and subscribers for each event, and programs that ran beside."""

    seconds: float = 0.0  # of all
    busiest_seconds: float = 0.0  # of the process that has most to do: nothing goes faster than it
    cores_of_others: float = 0.0  # which other programs used while it was measured

    @staticmethod
    def of(runs: Sequence[Run]) -> Clients:
        """As measured."""
        if not runs:
            return Clients()
        return Clients(
            Middle.of([run.generator_seconds_per_event for run in runs]).median,
            Middle.of([run.busiest_client_seconds_per_event for run in runs]).median,
            Middle.of([run.cores_of_others for run in runs]).median,
        )


def predicted(
    application: Application, way: Way, costs: Costs, rate: float, clients: Clients, events_per_batch: int = 20_000
) -> Prediction:
    """The prediction for this machine at a rate, where clients use its cores, too; Spark takes a backlog in batches."""
    asked = msgspec.structs.replace(
        delivered(application, way), events_per_second=rate, events_per_publication=_together(way, rate)
    )

    def at(load: float) -> Prediction:
        left = max(0.01, CORES - clients.cores_of_others - load * clients.seconds)
        speed = min(1.0, left / CORES * _crowd(way))
        size = NodeSize(cores=CORES, memory_gib=8.0, speed=speed, network_mbps=LOOPBACK_MBPS)
        return predict(asked, way, costs, Nodes((size,), may_grow=False))

    low, high = 0.0, at(0.0).throughput_events
    for _ in range(_BISECTIONS):  # the faster it goes, the more do its clients take
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).throughput_events > middle else (low, middle)
    throughput = high if clients.seconds else at(0.0).throughput_events
    if way.kind.is_spark:
        throughput = _of_backlog(work_of(asked, way, costs), way, events_per_batch)
    if clients.busiest_seconds:
        throughput = min(throughput, 1.0 / clients.busiest_seconds)
    idle = at(min(rate, throughput))
    return msgspec.structs.replace(idle, throughput_events=throughput)


def _together(way: Way, rate: float) -> float:
    """Events that come at once: what is due in a publisher's tick, or stands in a file."""
    if way.kind is WayKind.PROCESS or way.kind is WayKind.PEERS:
        return 1.0
    return max(1.0, rate / FILES_PER_SECOND if way.kind.is_spark else round(rate * TICK_SECONDS))


def _of_backlog(work: Work, way: Way, events_per_batch: int) -> float:
    """Events per second in batches of one size, one after the other; matchers share the cores."""
    (station,) = work.stations
    return events_per_batch / float(at_speed(station, min(1.0, CORES / way.nodes)).seconds(events_per_batch))


def _crowd(way: Way) -> float:
    """Cores for each process: one process alone leaves the others to its clients."""
    processes = way.nodes + (way.kind is WayKind.STAR)
    return max(1.0, CORES / processes)


def compare(
    costs: Costs, scale: Scale, progress: Callable[[str], None], names: Sequence[str] = tuple(PRESETS)
) -> list[Compared]:
    """Measure everything in turns."""
    workloads = {}
    for name in names:
        progress(f"{name}: drawing")
        workloads[name] = workload_of(PRESETS[name].application, scale)
    runs: dict[tuple[str, Way], list[Run]] = {(name, way): [] for name in names for way in WAYS}
    failures: dict[tuple[str, Way], str] = {}
    for number in range(scale.rounds):
        for name, way, run in _round(workloads, scale, lambda text, n=number: progress(f"round {n + 1}: {text}")):  # type: ignore[misc]
            if isinstance(run, Run):
                runs[name, way].append(run)
            else:
                failures[name, way] = run
    return [_compared(workloads[name], way, found, failures.get((name, way), ""), costs, scale)
            for (name, way), found in runs.items()]  # fmt: skip


def _round(
    workloads: dict[str, Workload], scale: Scale, progress: Callable[[str], None]
) -> Iterator[tuple[str, Way, Run | str]]:
    from fieldfare.experiments.revisiting.among_peers import run_among_peers
    from fieldfare.experiments.revisiting.in_process import run_in_process
    from fieldfare.experiments.revisiting.live import run_live

    for name, workload in workloads.items():
        progress(f"{name}, process")
        yield name, WAYS[0], run_in_process(workload, scale)
        for way in LIVE:
            progress(f"{name}, {way}")
            yield name, way, _tried(lambda kind=way.kind, w=workload: run_live(kind, w, scale))  # type: ignore[misc]
        progress(f"{name}, {WAYS[-1]}")
        fewer = fewer_subscriptions(workload, scale)
        yield name, WAYS[-1], _tried(lambda w=fewer: run_among_peers(w, scale))  # type: ignore[misc]
    yield from _round_on_spark(workloads, scale, progress)


def _round_on_spark(
    workloads: dict[str, Workload], scale: Scale, progress: Callable[[str], None]
) -> Iterator[tuple[str, Way, Run | str]]:
    from fieldfare.experiments.revisiting.on_spark import run_on_spark, session

    with tempfile.TemporaryDirectory(prefix="fieldfare-revisiting-") as folder:
        progress("starting Spark")
        with session(Path(folder)) as spark:
            _warm(spark, next(iter(workloads.values())), scale)
            for name, workload in workloads.items():
                for way in SPARK:
                    progress(f"{name}, {way} on Spark")
                    yield name, way, _tried(lambda s=spark, y=way, w=workload: run_on_spark(s, y, w, scale))  # type: ignore[misc]


def _warm(spark: SparkSession, workload: Workload, scale: Scale) -> None:
    """A session's first pipelines load classes and compile: nobody's measurement."""
    from dataclasses import replace

    from fieldfare.experiments.revisiting.on_spark import run_on_spark

    short = replace(scale, spark_events=scale.spark_events // 4, spark_pacing_seconds=1.0)
    for way in (SPARK[0], SPARK[-1]):
        run_on_spark(spark, way, workload, short)


def _tried(run: Callable[[], Run]) -> Run | str:
    """Run one way; where it fails, for example because deliveries never came, return why."""
    try:
        return run()
    except (FieldfareError, OSError, ExceptionGroup) as error:
        found: BaseException = error
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
        return f"{type(found).__name__}: {found}"


def fewer_subscriptions(workload: Workload, scale: Scale) -> Workload:
    """The first of the subscriptions: peers are asked one by one, which takes its time."""
    count = min(len(workload.conditions), scale.peer_subscriptions_max)
    share = count / len(workload.conditions)
    application = msgspec.structs.replace(
        workload.application,
        subscriptions=count,
        subscribers=min(count, workload.application.subscribers),
        matches_per_event=workload.application.matches_per_event * share,
    )
    return Workload(application, workload.conditions[:count], workload.events, workload.padding)


def _compared(workload: Workload, way: Way, runs: Sequence[Run], failure: str, costs: Costs, scale: Scale) -> Compared:
    run_as = fewer_subscriptions(workload, scale) if way.kind is WayKind.PEERS else workload
    rate = Middle.of([run.rate for run in runs]).median if runs else run_as.application.events_per_second
    found = predicted(run_as.application, way, costs, rate, Clients.of(runs), scale.spark_events // BATCHES)
    return Compared(run_as.application, way, tuple(runs), found, failure)


def choices(compared: Sequence[Compared]) -> list[Choice]:
    """For each application the way that the planner recommends among these, and ways that measured better.

    A way counts as better if it delivers to clients as the application needs, carries the application's events, as run
    here, and has a shorter p99, beyond the spread of both. A way of more processes is no better unless the recommended
    one fails the latency that is asked for: the planner takes the fewest.
    """
    names = dict.fromkeys(one.application.name for one in compared)
    return [_choice(name, [one for one in compared if one.application.name == name and one.runs]) for name in names]


def _choice(name: str, ways: Sequence[Compared]) -> Choice:
    able = [one for one in ways if one.way.kind is not WayKind.PROCESS and not one.way.kind.is_spark]
    recommended = chosen([one.predicted for one in able]).way
    taken = next(one for one in able if one.way == recommended)
    better = tuple(one.way for one in able if one is not taken and _is_better(one, taken))
    return Choice(name, recommended, better)


def _is_better(one: Compared, taken: Compared) -> bool:
    """Whether a way does what is needed where the taken one does not, or carries more and answers sooner."""
    spread = 1.0 + max(one.throughput.spread, taken.throughput.spread)
    slow = 1.0 + max(one.p99.spread, taken.p99.spread)
    carries_more = one.throughput.median > taken.throughput.median * spread
    is_sooner = one.p99.median * slow < taken.p99.median
    return carries_more and is_sooner


def score(compared: Sequence[Compared]) -> dict[str, tuple[int, int]]:
    """For each of the aims how many predictions reach it, of how many."""
    measured = [one for one in compared if one.runs]
    return {aim: (sum(one.hits[aim] for one in measured), len(measured)) for aim in ("throughput", "p50", "p99")}
