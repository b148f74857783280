"""Publishers that move by themselves, on the real brokers of a tree in the simulator, beside the same on the model.

All of it is what runs live: brokers trace what passes, POP or GRAPE decide, the target is asked, and the publisher's
client advertises there, seals at its old broker and goes on. The model counts, and moves publishers in no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from fieldfare.experiments.placement.laboratory import DELAY, LOAD, POP, Laboratory
from fieldfare.experiments.placement.load_model import LoadModel, ServiceTime, TreeLoad
from fieldfare.experiments.placement.strategies import Placed, run_grape, run_pop
from fieldfare.experiments.placement.tree_simulation import StockTree, TreeMeasured
from fieldfare.experiments.placement.workloads import stock_workload
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.placement.options import DampingOptions, GrapeOptions, PopOptions
from fieldfare.routing.tree.publisher_placement import PlacementOptions


@dataclass(frozen=True, slots=True)
class Moving:
    """One algorithm: on the brokers, minute by minute, and on the model."""

    before: TreeLoad  # where the publishers begin, by the model
    minutes: tuple[TreeMeasured, ...]
    model: Placed
    model_after: TreeLoad
    places: Mapping[str, str]  # where the publishers are in the end
    relocations: int
    after_load: TreeLoad  # of those places, by the model

    @property
    def overhead(self) -> float:
        """Placement's frames for each event that a broker receives, over the whole run."""
        return sum(each.placing_rate for each in self.minutes) / sum(each.message_rate for each in self.minutes)


def options_of(traced_min: int) -> dict[str, PlacementOptions]:
    """The algorithms, as a broker is configured for them."""
    load = GrapeOptions(session_publications=traced_min, priority="load")
    delay = GrapeOptions(session_publications=traced_min, priority="delay")
    return {
        POP: PlacementOptions(algorithm="pop", pop=PopOptions(traces_min=traced_min)),
        LOAD: PlacementOptions(algorithm="grape", grape=load),
        DELAY: PlacementOptions(algorithm="grape", grape=delay),
    }


def move(lab: Laboratory, options: PlacementOptions) -> Moving:
    """Publish for some minutes."""
    scale = lab.scale.moving
    testbed = scale.testbed
    workload = stock_workload(testbed, "enterprise", scale.spread, fan_out=2, minutes=scale.minutes, seed=scale.seed)
    model = LoadModel(workload, ServiceTime(0.0, 0.0, testbed.link_seconds))
    tree = StockTree(workload, workload.places, model.service, options)
    tree.begin()
    minutes = tuple(tree.measure(0.0, 60.0) for _ in range(scale.minutes))
    tree.check()
    if options.algorithm == "pop":
        placed = run_pop(model, options.pop, DampingOptions(), scale.minutes, scale.seed)
    else:
        placed = run_grape(model, options.grape, DampingOptions(), scale.minutes)
    return Moving(
        model.load(workload.places),
        minutes,
        placed,
        model.load(placed.places),
        tree.places,
        tree.relocations,
        model.load(tree.places),
    )


def figure_moving(lab: Laboratory) -> Figure:
    """Rates and hops by the minute, and where publishers ended."""
    scale = lab.scale.moving
    testbed = scale.testbed
    found: dict[str, Moving] = {}
    for name, options in options_of(testbed.traced_min).items():
        lab.progress(f"Brokers of a tree with publishers that move: {name}")
        found[name] = move(lab, options)
    rows: dict[str, list[Cell]] = {}
    for name, each in found.items():
        rows[name] = [
            each.before.message_rate,
            each.model_after.message_rate,
            each.after_load.message_rate,
            each.minutes[-1].message_rate,
            each.before.hops,
            each.model_after.hops,
            each.after_load.hops,
            each.minutes[0].delay_seconds * 1e3,
            each.minutes[-1].delay_seconds * 1e3,
            max(minute.longest_seconds for minute in each.minutes) * 1e3,
            len(each.model.counts.relocated),
            each.relocations,
            f"{each.model.overhead:.1%}",
            f"{each.overhead:.1%}",
            fmean(minute.echo_rate for minute in each.minutes),
        ]
    moments = [float(minute + 1) for minute in range(scale.minutes)]
    rates = [Series(name, moments, [each.message_rate for each in run.minutes]) for name, run in found.items()]
    delays = [Series(name, moments, [each.delay_seconds * 1e3 for each in run.minutes]) for name, run in found.items()]
    return Figure(
        "moving",
        "publishers that move by themselves, on the brokers of a tree in the simulator",
        f"Enterprise, {testbed.brokers} brokers, {testbed.publishers} publishers, "
        f"{testbed.publishers * testbed.subscribers_per_publisher} subscribers at {scale.spread} brokers, links of "
        f"{testbed.link_seconds * 1e3:g} ms, {scale.minutes} minutes. All of it is what runs live; only links take "
        "time. Brokers' places: what the model says of where the publishers ended on the brokers. Overhead: frames of "
        "placement for each event that a broker receives. Echoes: frames that measure hops, received by a broker. "
        "Nothing was lost, doubled or reordered.",
        (
            "messages/s before",
            "after, model",
            "after, brokers' places",
            "last minute, measured",
            "hops before",
            "after, model",
            "after, brokers' places",
            "delay ms, first minute",
            "last minute",
            "longest",
            "relocations, model",
            "brokers",
            "overhead, model",
            "brokers",
            "echoes/s",
        ),
        rows,
        "What a minute measures depends on chance: a tenth of the quotes makes most of the deliveries.",
        [
            Panel("message rate", "minutes", "messages/s that a broker receives", rates),
            Panel("delay", "minutes", "ms from publisher to subscriber", delays),
        ],
    )
