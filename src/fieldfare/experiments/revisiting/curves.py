"""R from 1 to N and H from 1 to X: latency and throughput, by the paper's formulas and simulated; R and H as they are.

The paper's latency is k1 · H + H · match(store), where a matcher stores the X-th part of all; its throughput with N
matchers is N / (H · match(store)), for every event makes H visits and all work evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from fieldfare.experiments.bluedove_workload import ATTRIBUTES, BluedoveWorkload, Spec, generate
from fieldfare.experiments.costs import index_seconds, scan_seconds_per_subscription
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.experiments.revisiting.settings import SEED, Scale
from fieldfare.experiments.revisiting.walks import Walks
from fieldfare.forwarding import Dispatcher, Load, Policy, forward
from fieldfare.partitioning.cuts import Cutting
from fieldfare.partitioning.layout import Candidates, Layout
from fieldfare.partitioning.layouts import clusters
from fieldfare.partitioning.placement import Placement
from fieldfare.partitioning.replicas import by_load
from fieldfare.partitioning.summary import Summary, hops

Floats = npt.NDArray[np.float64]

HOP_SECONDS = 0.0002  # k1: what a message takes from one matcher to the next
WIDTH = 25.0  # of ranges, of a domain of 1,000
LIGHT_LOAD = 0.3  # of the throughput, at which latency is looked at
_METHOD = (
    "Where events go is decided by the real layout, summary and dispatcher, service times are measured for several "
    "sizes and interpolated, queues and hops are simulated: 2 cores are not enough for so many matchers."
)


@dataclass(frozen=True)
class Deployed:
    """A layout with its subscriptions, and where events may go."""

    layout: Layout
    placement: Placement
    plain: Candidates
    narrowed: Candidates

    @cached_property
    def searched(self) -> Floats:
        """Subscriptions that a visit to each part searches."""
        sizes = self.placement.subscriptions
        shared = [self.layout.shared_part_of(part) for part in range(self.layout.starts[-1])]
        return np.array([sizes[part] + (0 if other is None else sizes[other]) for part, other in enumerate(shared)])


class Bench:
    """A workload, and how long matchers work."""

    def __init__(self, scale: Scale, progress: Callable[[str], None]) -> None:
        self.scale = scale
        self.subscriptions = scale.sizes[-1]
        self._spec = Spec(self.subscriptions, WIDTH, events=scale.simulated_events, seed=SEED)
        self.workload = generate(self._spec)
        self._progress = progress
        self.deployed = lru_cache(maxsize=None)(self._deployed)

    @cached_property
    def index_curve(self) -> tuple[Floats, Floats]:
        """Sizes, and the seconds of an event in an index of that size."""
        self._progress("measuring match times")
        rows = np.arange(min(4_096, self.scale.simulated_events))
        seconds = [
            index_seconds(self.workload.index(np.arange(size)), self.workload, rows) for size in self.scale.sizes
        ]
        return np.array(self.scale.sizes, np.float64), np.array(seconds)

    @cached_property
    def scan_seconds(self) -> float:
        """The seconds of comparing an event with a subscription."""
        some = generate(Spec(min(20_000, self.subscriptions), WIDTH, events=256, seed=SEED))
        return scan_seconds_per_subscription(some)

    def match_seconds(self, matching: str, searched: Floats) -> Floats:
        """match(store) of the paper."""
        if matching == "scan":
            return np.maximum(1.0, searched) * self.scan_seconds
        return np.interp(searched, *self.index_curve)

    def _deployed(self, replicas: int, hops: int) -> Deployed:
        self._progress(f"clusters with R {replicas}, H {hops}")
        return deploy(
            clusters(self.workload.table, self.scale.matchers, replicas=replicas, hops=hops, dimension=ATTRIBUTES[0]),
            self.workload,
        )


def deploy(layout: Layout, workload: BluedoveWorkload) -> Deployed:
    """Place the subscriptions, and find where events may go."""
    placement = layout.place(workload.table)
    plain = layout.candidates(workload.batch)
    summary = Summary.of(layout, workload.table, placement)
    return Deployed(layout, placement, plain, summary.narrowed(layout, plain, workload.events(slice(None))))


def walks(
    deployed: Deployed, candidates: Candidates, service: Floats, speeds: Floats | None = None, *, is_told: bool = True
) -> Walks:
    """Where all events go: to a random matcher of each cluster, as in the paper.

    Matchers may differ in speed, which the dispatcher is told or not.
    """
    layout = deployed.layout
    rates = np.zeros(layout.part_count)
    rates[: len(service)] = 1.0 / service
    nothing = np.zeros(layout.part_count)
    load = Load(nothing, nothing, rates, deployed.placement.subscriptions, speeds if is_told else None)
    visits = forward(layout, candidates, load, Policy.RANDOM, dispatcher=Dispatcher(seed=SEED))
    factor = 1.0 if speeds is None else speeds[np.searchsorted(layout.matchers, visits.matchers)]
    return Walks(visits, service[visits.parts] / factor, len(candidates.first))


def replicas_and_hops(scale: Scale, progress: Callable[[str], None]) -> Figure:
    """Latency and throughput for all R and some H."""
    bench = Bench(scale, progress)
    count = scale.matchers
    all_replicas = [replicas for replicas in range(1, count + 1) if count % replicas == 0]
    rows: dict[str, list[Cell]] = {}
    panels = []
    for matching in ("scan", "index"):
        latency, throughput = [], []
        for name, wanted in (("H = 1", 1), ("H = 2", 2), ("H = X", count)):
            points = [
                (replicas, _modelled_and_simulated(bench, matching, replicas, min(wanted, count // replicas)))
                for replicas in all_replicas
                if wanted in {1, count} or wanted <= count // replicas
            ]
            x = [float(replicas) for replicas, _ in points]
            for kind, place in (("simulated", 1), ("model", 0)):
                is_model = kind == "model"
                latency.append(Series(f"{name}, {kind}", x, [1e3 * found[place] for _, found in points], is_model))
                throughput.append(Series(f"{name}, {kind}", x, [found[place + 2] for _, found in points], is_model))
            for replicas, found in points:
                measured = bench.deployed(replicas, 1).placement.copies.replicas
                rows[f"{matching}, R {replicas}, {name}"] = [
                    measured, 1e3 * found[0], 1e3 * found[1], found[2], found[3], found[4],
                ]  # fmt: skip
        panels.append(Panel(f"{matching}: latency", "R, of N = X · R", "ms", latency, log_y=True))
        panels.append(Panel(f"{matching}: throughput", "R", "events/s", throughput, log_y=True))
    return Figure(
        "revisiting-rh",
        f"R and H on {count} matchers, {bench.subscriptions:,} subscriptions",
        f"{_METHOD} Without skipping. Latency at {LIGHT_LOAD:.0%} of the throughput.",
        ("R as measured", "model: latency, ms", "simulated, ms", "model: events/s", "simulated", "busiest to mean"),
        rows,
        "Latency grows with H, and falls as X grows, for a matcher searches less; throughput falls with H, whatever R: "
        "each visit is work. The model is right where clusters have the same to do. What it does not know is that "
        "subscriptions crowd: the busiest cluster limits the rate, and more replicas, of fewer and larger clusters, "
        "even that out. Ranges that span clusters make R larger than it was asked to be.",
        panels,
        place="Sections 4.1 and 4.2",
    )


def _modelled_and_simulated(
    bench: Bench, matching: str, replicas: int, h: int
) -> tuple[float, float, float, float, float]:
    """Latency by the model and simulated, throughput by the model and simulated, and the busiest matcher's work."""
    count = bench.scale.matchers
    store = bench.subscriptions * replicas / count
    match = float(bench.match_seconds(matching, np.array([store]))[0])
    deployed = bench.deployed(replicas, h)
    walked = walks(deployed, deployed.plain, bench.match_seconds(matching, deployed.searched))
    latencies = walked.latencies(LIGHT_LOAD * walked.throughput, HOP_SECONDS, np.random.default_rng(SEED))
    return (
        h * (HOP_SECONDS + match),
        float(latencies.mean()),
        count / (h * match),
        walked.throughput,
        float(walked.busy.max() / walked.busy.mean()),
    )


def skipping(scale: Scale, progress: Callable[[str], None]) -> Figure:
    """Average and worst number of hops, with and without skipping clusters, for H from 1 to X."""
    bench = Bench(scale, progress)
    count = scale.matchers
    rows: dict[str, list[Cell]] = {}
    for h in range(1, count + 1):
        deployed = bench.deployed(1, h)
        service = bench.match_seconds("index", deployed.searched)
        every, needed = (walks(deployed, candidates, service) for candidates in (deployed.plain, deployed.narrowed))
        made = hops(deployed.layout, deployed.narrowed)
        rows[f"H = {h}"] = [
            float(h), float(made.mean()), float(made.max()), every.throughput, needed.throughput,
        ]  # fmt: skip
    x = [float(h) for h in range(1, count + 1)]
    columns = [
        [float(cell) for cell in column if isinstance(cell, float)] for column in zip(*rows.values(), strict=True)
    ]
    return Figure(
        "revisiting-hops",
        f"clusters that are skipped: R 1 on {count} matchers",
        _METHOD,
        ("hops in the paper", "average", "worst", "events/s without skipping", "with it"),
        rows,
        "An event makes H visits in the paper. Spread over its hops by a second attribute, and with a summary of each "
        "cluster in at most 256 boxes, it makes far fewer on average, never more than H, and always one.",
        [
            Panel(
                "visits of an event", "H", "visits",
                [
                    Series(name, x, column)
                    for name, column in zip(("all (the paper)", "on average", "worst"), columns, strict=False)
                ],
            ),
            Panel(
                "throughput", "H", "events/s",
                [Series("without skipping", x, columns[3]), Series("with it", x, columns[4])],
            ),
        ],
        place="Section 4.2, left open",
    )  # fmt: skip


def popularity(scale: Scale, progress: Callable[[str], None]) -> Figure:
    """Uniform replicas beside replicas by load, of equal and unequal matchers, where events crowd."""
    count = scale.matchers
    replicas = max(2, count // 4)
    progress("replicas by popularity")
    bench = Bench(scale, progress)
    crowded = generate(Spec(bench.subscriptions, WIDTH, skewed_attributes=1, events=scale.simulated_events, seed=SEED))
    attribute = ATTRIBUTES[0]
    uniform = deploy(
        clusters(crowded.table, count, replicas=replicas, dimension=attribute, cutting=Cutting("equal")), crowded
    )
    service = bench.match_seconds("index", uniform.searched)
    loads = np.bincount(walks(uniform, uniform.plain, service).visits.parts, minlength=len(service)) * service
    unequal = np.where(np.arange(count) % 3 == 0, 2.0, 0.5)
    by_popularity = deploy(by_load(uniform.layout, loads), crowded)
    by_both = deploy(by_load(uniform.layout, loads, unequal), crowded)
    popular = _matches_of(crowded)
    cases = {
        "equal matchers, uniform R": (uniform, None, True),
        "equal matchers, R by popularity": (by_popularity, None, True),
        "unequal matchers, uniform R, speeds ignored": (uniform, unequal, False),
        "unequal matchers, uniform R, events by speed": (uniform, unequal, True),
        "unequal matchers, R by popularity and speed": (by_both, unequal, True),
    }
    rows: dict[str, list[Cell]] = {}
    for name, (deployed, speeds, is_told) in cases.items():
        walked = walks(deployed, deployed.plain, service, speeds, is_told=is_told)
        held = _held(deployed)
        rows[name] = [
            deployed.placement.copies.replicas, _weighted(deployed, popular),
            walked.throughput, float(walked.busy.max() / walked.busy.mean()), float(held.mean()), float(held.max()),
        ]  # fmt: skip
    names = ["uniform", "popularity", "unequal,\nignored", "unequal,\nby speed", "popularity\nand speed"]
    return Figure(
        "revisiting-popularity",
        f"replicas by popularity: {count} matchers in clusters of {replicas}",
        f"{_METHOD} On one attribute events crowd where subscriptions do, and clusters are equally wide. Of unequal "
        "matchers every third is twice as fast as usual, the others half.",
        ("R, mean", "R, by matches", "events/s", "busiest to mean", "held by a matcher, mean", "most"),
        rows,
        "Subscriptions that match more events get more replicas: the busiest matcher is less busy, and more events are "
        "carried, for as many matchers. What is popular is also what many subscribe to, so that they hold more.",
        [
            Panel("throughput", "", "events/s", [Series("", names, _column(rows, 2))]),
            Panel("subscriptions held by a matcher", "", "subscriptions",
                  [Series("mean", names, _column(rows, 4)), Series("most", names, _column(rows, 5))]),
        ],
        place="Section 4.2, left open",
    )  # fmt: skip


def _column(rows: dict[str, list[Cell]], place: int) -> list[float]:
    return [float(cells[place] or 0.0) for cells in rows.values()]


def _held(deployed: Deployed) -> Floats:
    """Subscriptions that each matcher holds; a shared part is held by all."""
    layout, sizes = deployed.layout, deployed.placement.subscriptions
    held = np.zeros(len(layout.matchers))
    for part in range(layout.part_count):
        held[np.searchsorted(layout.matchers, layout.matchers_of(part))] += sizes[part]
    return held


def _matches_of(workload: BluedoveWorkload) -> Floats:
    """How many events of a sample each subscription matches."""
    index = workload.index(np.arange(workload.low.shape[1]))
    found = index.match_table(workload.events(slice(0, 2_048))).flatten().to_numpy().astype(np.int64)
    return np.bincount(found, minlength=workload.low.shape[1]).astype(np.float64)


def _weighted(deployed: Deployed, matches: Floats) -> float:
    """The mean number of copies of a subscription, where each subscription counts as often as it matches."""
    layout, placement = deployed.layout, deployed.placement
    servers = np.array([len(layout.matchers_of(part)) for part in range(layout.part_count)])
    copies = np.bincount(placement.boxes, servers[placement.parts], minlength=len(matches))
    return float(copies @ matches / max(1.0, matches.sum()))
