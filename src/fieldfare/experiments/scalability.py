"""BlueDove section IV-C: how many events, and how many subscriptions, so many matchers sustain (figure 6).

And what the paper could not ask: from which size on partitioning pays at all, with an index in place of a scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fieldfare.experiments.costs import busy_seconds
from fieldfare.experiments.laboratory import REGIMES, Laboratory, Regime, Shape
from fieldfare.experiments.results import Cell, Figure, Panel, Series

PAPER_RATE = 100_000.0  # messages per second at which the paper adds subscriptions
INDEX_RATE = 5_000_000.0  # the same for an engine that a hundred thousand do not occupy
DISPATCH_SECONDS = 1.8e-6  # of a core per event, for dispatch and shuffle in Spark, as `bench pipeline` measures it

Rates = Mapping[Regime, Mapping[int, float]]


def figure_6a(lab: Laboratory) -> Figure:
    """Saturation rate against the number of matchers."""
    spec, sizes = lab.scale.spec, lab.scale.matchers
    multi = {regime: {n: lab.rate(regime, spec, Shape(n)) for n in sizes} for regime in REGIMES}
    single = {regime: {n: lab.rate(regime, spec, Shape.peer_to_peer(n)) for n in sizes} for regime in REGIMES}
    whole = {regime: {n: lab.replicated_rate(regime, spec, n) for n in sizes} for regime in REGIMES}
    few, many = sizes[0], sizes[-1]
    rows: dict[str, list[Cell]] = {
        f"{few} matchers: mPartition to P2P": [3.5, *_ratios(multi, single, few)],
        f"{few} matchers: mPartition to replication": [14.0, *_ratios(multi, whole, few)],
        f"{many} matchers: mPartition to P2P": [4.2, *_ratios(multi, single, many)],
        f"{many} matchers: mPartition to replication": [67.0, *_ratios(multi, whole, many)],
        f"{many} matchers: mPartition, events/s": [114_000.0, *(multi[regime][many] for regime in REGIMES)],
        f"{many} matchers: P2P, events/s": [27_000.0, *(single[regime][many] for regime in REGIMES)],
        f"{many} matchers: replication, events/s": [1_700.0, *(whole[regime][many] for regime in REGIMES)],
        f"{many} matchers: mPartition, replayed, events/s": [None, None, None, _replayed_rate(lab, Shape(many))],
    }
    panels = [
        Panel(regime, "matchers", "events per second at saturation", [
            Series(name, sizes, list(rates[regime].values()))
            for name, rates in (("mPartition", multi), ("P2P", single), ("replicated", whole))
        ], log=regime is not Regime.INDEX)
        for regime in REGIMES
    ]  # fmt: skip
    gain = multi[Regime.INDEX][many] / whole[Regime.INDEX][many]
    return Figure(
        "6a",
        "saturation rate against the number of matchers",
        "Service times measured for every part; saturation found in the queue model. Replayed: the events that the "
        "policy sent, matched part by part; all events over the busiest matcher's seconds.",
        ("paper", *REGIMES),
        rows,
        "A scan over narrow ranges gives the paper's ratios; over ranges of 250 every matcher of 20 holds about a "
        "third of everything, so no layout can gain 67 times. With an index the cost hardly grows with the "
        f"subscriptions searched: mPartition gains {gain:.2g} times over replication, before dispatch and shuffle.",
        panels,
    )


def _ratios(above: Rates, below: Rates, matchers: int) -> list[float]:
    return [above[regime][matchers] / below[regime][matchers] for regime in REGIMES]


def _replayed_rate(lab: Laboratory, shape: Shape) -> float:
    """Events over the seconds of the busiest matcher, measured on the events that the policy sent to each."""
    spec = lab.scale.spec
    lab.progress(f"replaying {shape.matchers} matchers")
    sent = lab.saturation(Regime.INDEX, spec, shape)
    deployment = lab.cluster(Regime.INDEX, spec, shape).deployment
    busy = busy_seconds(lab.workload(spec), deployment, sent.rows, sent.parts)
    return len(sent.rows) / float(busy.max())


def figure_6b(lab: Laboratory) -> Figure:
    """Subscriptions that can be held at a fixed rate."""
    spec, many, sizes = lab.scale.spec, lab.scale.matchers[-1], lab.scale.held_sizes
    rates = {
        name: [rate(replace(spec, subscriptions=size)) for size in sizes]
        for name, rate in (
            ("mPartition", lambda spec: lab.rate(Regime.INDEX, spec, Shape(many))),
            ("P2P", lambda spec: lab.rate(Regime.INDEX, spec, Shape.peer_to_peer(many))),
            ("replicated", lambda spec: lab.replicated_rate(Regime.INDEX, spec, many)),
        )
    }
    held = {name: _held(np.array(sizes, np.float64), np.array(column)) for name, column in rates.items()}
    scans: dict[str, list[float]] = {}
    for regime in (Regime.NARROW_SCAN, Regime.SCAN):
        of_layout = {
            "mPartition": lab.rate(regime, spec, Shape(many)),
            "P2P": lab.rate(regime, spec, Shape.peer_to_peer(many)),
            "replicated": lab.replicated_rate(regime, spec, many),
        }
        for name, rate in of_layout.items():  # a scan's time is proportional to what it searches
            scans.setdefault(name, []).append(spec.subscriptions * rate / PAPER_RATE)
    rows: dict[str, list[Cell]] = {
        f"{name}, subscriptions held": [None, *scans[name], held[name]] for name in rates
    }
    for name, paper in (("P2P", 4.0), ("replicated", 30.0)):
        gains = [first / other for first, other in zip(scans["mPartition"], scans[name], strict=True)]
        rows[f"mPartition to {name}"] = [paper, *gains, held["mPartition"] / held[name]]
    return Figure(
        "6b",
        f"subscriptions held by {many} matchers at a fixed rate",
        f"Scans: {PAPER_RATE:,.0f} events/s, by proportion from measured service times. Index: {INDEX_RATE:,.0f} "
        f"events/s, interpolated between saturation rates at {', '.join(f'{size:,}' for size in sizes)}.",
        ("paper", *REGIMES),
        rows,
        "An index bounds how much partitioning can add: much of its time goes into writing the matches, which are "
        "the same wherever an event is matched.",
        [
            Panel(
                Regime.INDEX,
                "subscriptions, thousands",
                "events per second at saturation",
                [Series(name, [size / 1000 for size in sizes], column) for name, column in rates.items()],
                log=True,
            )
        ],
    )


def _held(sizes: np.ndarray, rates: np.ndarray) -> float:
    """The size at which the rate falls to the fixed one, by straight lines between logarithms."""
    return float(np.exp(np.interp(-np.log(INDEX_RATE), -np.log(rates), np.log(sizes))))


def figure_size(lab: Laboratory) -> Figure:
    """From which size on partitioning pays."""
    many = lab.scale.matchers[-1]
    rows: dict[str, list[Cell]] = {}
    micros: dict[str, list[float]] = {"replicated": [], "mPartition": []}
    for size in lab.scale.large_sizes:
        spec = replace(lab.scale.spec, subscriptions=size, width=lab.scale.large_width)
        whole = many / lab.replicated_rate(Regime.INDEX, spec, many)
        parted = many / lab.rate(Regime.INDEX, spec, Shape(many))
        micros["replicated"].append(whole * 1e6)
        micros["mPartition"].append(parted * 1e6)
        rows[f"{size:,} subscriptions"] = [whole * 1e6, parted * 1e6, whole / parted, whole / (parted + DISPATCH_SECONDS)]
    return Figure(
        "size",
        f"from which size partitioning over {many} matchers pays (not in the paper)",
        f"Ranges of {lab.scale.large_width:g}. Service times measured, of larger sizes for a sample of the parts. "
        f"Dispatch and shuffle cost {DISPATCH_SECONDS * 1e6:g} µs of a core in Spark.",
        ("replicated, µs", "mPartition, µs", "gain", "gain with dispatch"),
        rows,
        "Replication is hard to beat while its index answers faster than an event can be dispatched and shuffled; "
        "partitioning is for indexes that outgrow one machine's memory, or whose time outgrows the dispatch.",
        [
            Panel(
                "our index",
                "subscriptions, thousands",
                "core µs per event",
                [Series(name, [size / 1000 for size in lab.scale.large_sizes], y) for name, y in micros.items()],
            )
        ],
    )


