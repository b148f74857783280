"""The model beside the brokers that run live: the same workload and places on both, the brokers in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fieldfare.experiments.placement.laboratory import BEST_LOAD, DELAY, LOAD, POP, STATIC, Laboratory
from fieldfare.experiments.placement.load_model import LoadModel, ServiceTime, TreeLoad, scaled_to
from fieldfare.experiments.placement.settings import BUSIEST_STATIC
from fieldfare.experiments.placement.tree_simulation import StockTree, TreeMeasured
from fieldfare.experiments.placement.workloads import stock_workload
from fieldfare.experiments.results import Cell, Figure, Panel, Series

_COMPARED = (STATIC, POP, LOAD, DELAY, BEST_LOAD)


@dataclass(frozen=True, slots=True)
class Compared:
    """One placement of publishers: what the model says, and what the brokers did."""

    model: TreeLoad
    brokers: TreeMeasured  # with service times
    idle_brokers: TreeMeasured  # without: only links take time

    def hops_seen(self, link_seconds: float) -> float:
        """What the delays without queues tell: a link to the first broker, one for each hop, one to the subscriber."""
        return self.idle_brokers.delay_seconds / link_seconds - 2.0


def compare(lab: Laboratory) -> Mapping[str, Compared]:
    """Every strategy's places, which it found on the model."""
    scale = lab.scale.brokers
    workload = stock_workload(
        scale.testbed, "enterprise", scale.spread, fan_out=2, minutes=lab.scale.minutes, seed=scale.seed
    )
    link_seconds = scale.testbed.link_seconds
    matching_seconds = scaled_to(workload, BUSIEST_STATIC).matching_seconds
    service = ServiceTime(matching_seconds, 0.0, link_seconds)  # a broker's one server; sending is free
    model = LoadModel(workload, service)
    strategies = lab.strategies(scale.testbed)
    found = {}
    for name in _COMPARED:
        lab.progress(f"Brokers of a tree: {name}")
        places = strategies[name](model, scale.seed).places
        measured = []
        for each in (service, ServiceTime(0.0, 0.0, link_seconds)):
            tree = StockTree(workload, places, each)
            tree.begin()
            measured.append(tree.measure(scale.warm_seconds, scale.measured_seconds))
        found[name] = Compared(model.load(places), *measured)
    return found


def figure_brokers(lab: Laboratory) -> Figure:
    """Message rate, utilisation, delay and hops, by both."""
    found, scale = compare(lab), lab.scale.brokers
    link_seconds = scale.testbed.link_seconds
    rows: dict[str, list[Cell]] = {}
    for name, each in found.items():
        rows[name] = [
            each.model.message_rate,
            each.brokers.message_rate,
            f"{each.model.input_utilisation:.1%}",
            f"{each.brokers.utilisation:.1%}",
            f"{each.model.busiest:.0%}",
            f"{each.brokers.busiest:.0%}",
            each.model.delay_seconds * 1e3,
            each.brokers.delay_seconds * 1e3,
            each.model.hops,
            each.hops_seen(link_seconds),
            each.brokers.other_rate,
            each.brokers.cpu_seconds * 1e6,
        ]
    names = [name.replace(" ", "\n", 1) for name in found]
    rates = (
        ("model", [each.model.message_rate for each in found.values()]),
        (
            "brokers",
            [each.brokers.message_rate for each in found.values()],
        ),
    )
    delays = (
        ("model", [each.model.delay_seconds * 1e3 for each in found.values()]),
        (
            "brokers",
            [each.brokers.delay_seconds * 1e3 for each in found.values()],
        ),
    )
    both = ("messages/s", "brokers'", "input use", "brokers'", "busiest", "brokers'", "delay ms", "brokers'")
    testbed = scale.testbed
    return Figure(
        "brokers",
        "the model beside the brokers of a tree, which run in the simulator",
        f"Enterprise, {testbed.brokers} brokers, {testbed.publishers} publishers, "
        f"{testbed.publishers * testbed.subscribers_per_publisher} subscribers at {scale.spread} brokers, links of "
        f"{link_seconds * 1e3:g} ms, {scale.measured_seconds:g} s measured. Brokers are the real ones, with publishers "
        "where each strategy put them on the model; each event that comes in keeps its broker busy for as long as in "
        "the model. Hops: as delays without service times show them. Others: frames of neighbours without events.",
        (*both, "hops", "brokers'", "others/s", "CPU µs an event"),
        rows,
        "Publications come at random times, as the model assumes.",
        [
            Panel("message rate", "", "messages/s that a broker receives", [Series(n, names, y) for n, y in rates]),
            Panel("delay", "", "ms from publisher to subscriber", [Series(n, names, y) for n, y in delays]),
        ],
    )
