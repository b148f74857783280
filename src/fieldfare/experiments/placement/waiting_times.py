"""Figures 6e to 6g: how long a publisher's pings, the selection of a broker and the relocation itself take: modelled.

A frame of placement takes the way that an event takes: it waits in the same queues and passes the same links. So these
times follow from the delays of brokers and links; what brokers compute is added by figure `selection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from statistics import fmean

from fieldfare.experiments.placement.comparison import OURS
from fieldfare.experiments.placement.laboratory import Laboratory, Trial
from fieldfare.experiments.placement.load_model import LoadModel
from fieldfare.experiments.placement.workloads import StockPublisher
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.placement.placement_frames import BrokerDelays

_PAPERS_PINGS = 5  # to each broker, one after the other


@dataclass(frozen=True, slots=True)
class Times:
    """Of the first decision about a publisher, in seconds; averages over publishers and seeds."""

    pings: float  # to all candidates at once
    serial_pings: float  # as on the paper's PlanetLab
    grape_selection: float  # the request down to the farthest broker, and the reports back
    pop_selection: float  # the search to the target, and the answer back
    hops: float  # to POP's target
    relocation: float  # an update along the path and its completion back, while the publisher waits


def figure_6efg(lab: Laboratory) -> Figure:
    """By the brokers with subscribers, in both regimes."""
    case = Trial(lab.scale.testbeds[0])
    rows: dict[str, list[Cell]] = {}
    found: dict[int, Times] = {}
    for regime, service in (("near saturation", None), ("ours", OURS)):
        for spread in lab.scale.spreads:
            lab.progress(f"Waiting times, {regime}, {spread} brokers")
            times = times_of(lab, replace(case, spread=spread, service=service))
            found.setdefault(spread, times)
            rows[f"{regime}, {spread} broker{'s' if spread > 1 else ''}"] = list(astuple(times))
    paper: list[Cell] = ["~0.4 (cluster)", "~30", "~5", "less", None, "5 for 10 hops"]
    rows = {"paper, PlanetLab, 63 brokers": paper, **rows}
    spreads = [float(spread) for spread in found]
    drawn = {
        "GRAPE's selection": [each.grape_selection for each in found.values()],
        "POP's selection": [each.pop_selection for each in found.values()],
        "pings at once": [each.pings for each in found.values()],
        "relocation": [each.relocation for each in found.values()],
    }
    return Figure(
        "6efg",
        "time for pings, selection and relocation, enterprise",
        f"{case.testbed.brokers} brokers with the publishers where they begin. Modelled: frames of placement wait and "
        "travel as events do. Computing is not in it: see figure selection.",
        ("pings s", "pings one by one s", "GRAPE's selection s", "POP's selection s", "hops", "relocation s"),
        rows,
        "GRAPE waits for the farthest broker with subscribers, POP only for its target.",
        [Panel("near saturation", "brokers with subscribers", "s", [Series(n, spreads, y) for n, y in drawn.items()])],
    )


def times_of(lab: Laboratory, case: Trial) -> Times:
    """Averages over all publishers of all seeds."""
    found = []
    for seed in range(1, case.testbed.runs + 1):
        model = lab.model(case, seed)
        delays = model.delays(model.rates(model.workload.places))
        targets = lab.best(model).by_hops()
        found += [_times(model, delays, each, targets[each.name]) for each in model.workload.publishers]
    return Times(*(fmean(column) for column in zip(*map(astuple, found), strict=True)))


def _times(model: LoadModel, delays: Mapping[str, BrokerDelays], publisher: StockPublisher, target: str) -> Times:
    shape, link_seconds = model.workload.shape, model.service.link_seconds

    def round_trip(broker: str) -> float:
        path = shape.path(publisher.place, broker)
        both_ways = zip(path + path[-2::-1], (path + path[-2::-1])[1:], strict=False)
        return sum(_passing(delays[one], other) for one, other in both_ways)

    receivers = frozenset(name for kind in publisher.kinds for name in kind.deliveries)
    brokers = shape.ways(publisher.place, receivers)
    ping_seconds = 2 * link_seconds
    return Times(
        ping_seconds,
        ping_seconds * _PAPERS_PINGS * len(brokers),
        max(map(round_trip, brokers)),
        round_trip(target),
        len(shape.path(publisher.place, target)) - 1,
        round_trip(target) + ping_seconds,  # the publisher speaks to its new broker, and is told when it is over
    )


def _passing(delays: BrokerDelays, neighbour: str) -> float:
    return delays.input_seconds + delays.matching_seconds + delays.output_seconds[neighbour]
