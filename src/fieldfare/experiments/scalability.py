"""BlueDove section IV-C: how many events and subscriptions a number of matchers can sustain (figure 6).

And what the paper could not ask: from which size on partitioning pays at all, with an index in place of a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fieldfare.experiments.laboratory import REGIMES, Laboratory, Regime, Setup, Shape
from fieldfare.experiments.results import Cell, Figure, Panel, Series

PAPER_RATE = 100_000.0  # messages per second at which the paper adds subscriptions
INDEX_RATE = 10_000_000.0  # the same for an engine that a hundred thousand do not occupy
DISPATCH_SECONDS = 1.8e-6  # of a core per event: dispatch and shuffle alone reach 1.1M events/s on 2 cores of Spark

MULTI, SINGLE, WHOLE = "mPartition", "P2P", "replicated"
PAPER_GAINS = {5: {SINGLE: 3.5, WHOLE: 14.0}, 20: {SINGLE: 4.2, WHOLE: 67.0}}
PAPER_RATES = {MULTI: 114_000.0, SINGLE: 27_000.0, WHOLE: 1_700.0}  # at 20; two of them by the gains


def _rates(lab: Laboratory) -> Mapping[str, Callable[[Setup], float]]:
    """The saturation rate of each layout, for as many matchers as a setup has."""
    return {
        MULTI: lab.rate,
        SINGLE: lambda setup: lab.rate(replace(setup, shape=Shape.peer_to_peer(setup.shape.matchers))),
        WHOLE: lab.replicated_rate,
    }


def figure_6a(lab: Laboratory) -> Figure:
    """Saturation rate against the number of matchers."""
    sizes = lab.scale.matchers
    found = {
        (name, size): [rate(lab.setup(regime, Shape(size))) for regime in REGIMES]
        for name, rate in _rates(lab).items()
        for size in sizes
    }
    rows: dict[str, list[Cell]] = {}
    for size in (sizes[0], sizes[-1]):
        for name in (SINGLE, WHOLE):
            gains = np.divide(found[MULTI, size], found[name, size]).tolist()
            rows[f"{size} matchers: mPartition to {name}"] = [PAPER_GAINS.get(size, {}).get(name), *gains]
    for name, paper in PAPER_RATES.items():
        rows[f"{sizes[-1]} matchers: {name}, events/s"] = [paper, *found[name, sizes[-1]]]
    panels = [
        Panel(
            regime,
            "matchers",
            "events per second at saturation",
            [Series(name, sizes, [found[name, size][i] for size in sizes]) for name in PAPER_RATES],
            log_y=regime is not Regime.INDEX,
        )
        for i, regime in enumerate(REGIMES)
    ]
    gain = found[MULTI, sizes[-1]][-1] / found[WHOLE, sizes[-1]][-1]
    return Figure(
        "6a",
        "saturation rate against the number of matchers",
        "Service times measured for every part, on the events that the policy sends there; saturation found in the "
        "queue model. A matcher is one core. The paper's rates of P2P and replication follow from its gains.",
        ("paper", *REGIMES),
        rows,
        "The paper's gains fit a scan over ranges that lie in one segment. Ranges of 250 lie in six of 20, so that a "
        "matcher holds three tenths of everything, and no layout can gain 67 times. With an index the cost grows far "
        f"slower than what is searched: mPartition gains {gain:.2g} times on replication, before dispatch and shuffle.",
        panels,
    )


def figure_6b(lab: Laboratory) -> Figure:
    """Subscriptions that can be held at a fixed rate."""
    spec, shape, sizes = lab.scale.spec, Shape(lab.scale.matchers[-1]), lab.scale.held_sizes
    held: dict[str, list[float]] = {}
    curves: dict[str, list[float]] = {}
    for name, rate in _rates(lab).items():
        # A scan's time is proportional to what it searches; an index is measured at several sizes.
        scans = [rate(lab.setup(regime, shape)) / PAPER_RATE for regime in REGIMES if regime is not Regime.INDEX]
        curves[name] = [rate(lab.setup(Regime.INDEX, shape, replace(spec, subscriptions=size))) for size in sizes]
        held[name] = [*(spec.subscriptions * share for share in scans), _held(sizes, curves[name])]
    rows: dict[str, list[Cell]] = {f"{name}, subscriptions held": [None, *column] for name, column in held.items()}
    for name, paper in ((SINGLE, 4.0), (WHOLE, 30.0)):
        rows[f"mPartition to {name}"] = [paper, *np.divide(held[MULTI], held[name]).tolist()]
    thousands = [size / 1000 for size in sizes]
    series = [Series(name, thousands, curve) for name, curve in curves.items()]
    return Figure(
        "6b",
        f"subscriptions held by {shape.matchers} matchers at a fixed rate",
        f"Scans: {PAPER_RATE:,.0f} events/s, by proportion from measured service times. Index: {INDEX_RATE:,.0f} "
        f"events/s, interpolated between saturation rates at {', '.join(f'{size:,}' for size in sizes)}.",
        ("paper", *REGIMES),
        rows,
        "An index bounds how much partitioning can add: much of its time goes into writing the matches, and these "
        "are the same wherever an event is matched.",
        [
            Panel(
                Regime.INDEX,
                "subscriptions, thousands",
                "events per second at saturation",
                series,
                log_x=True,
                log_y=True,
            )
        ],
    )


def _held(sizes: Sequence[int], rates: Sequence[float]) -> float:
    """The size at which the rate falls to the fixed one, by straight lines between logarithms."""
    return float(np.exp(np.interp(-np.log(INDEX_RATE), -np.log(rates), np.log(sizes))))


def figure_size(lab: Laboratory) -> Figure:
    """From which size on partitioning pays."""
    shape, sizes = Shape(lab.scale.matchers[-1]), lab.scale.large_sizes
    rows: dict[str, list[Cell]] = {}
    seconds: dict[str, list[float]] = {WHOLE: [], MULTI: []}
    for size in sizes:
        spec = replace(lab.scale.spec, subscriptions=size, width=lab.scale.large_width)
        for name, column in seconds.items():
            column.append(shape.matchers / _rates(lab)[name](lab.setup(Regime.INDEX, shape, spec)))
        whole, parted = seconds[WHOLE][-1], seconds[MULTI][-1]
        gains = whole / parted, whole / (parted + DISPATCH_SECONDS)
        rows[f"{size:,} subscriptions"] = [whole * 1e6, parted * 1e6, *gains]
    thousands = [size / 1000 for size in sizes]
    series = [Series(name, thousands, [second * 1e6 for second in column]) for name, column in seconds.items()]
    return Figure(
        "size",
        f"when partitioning over {shape.matchers} matchers pays",
        f"Ranges of {lab.scale.large_width:g}. Service times measured, of larger sizes for a sample of the parts. "
        f"Dispatch and shuffle take {DISPATCH_SECONDS * 1e6:g} µs of a core for each event in Spark.",
        ("replicated, µs", "mPartition, µs", "gain", "gain with dispatch"),
        rows,
        "Replication is hard to beat while its index answers faster than an event can be dispatched and shuffled. "
        "Partitioning is for an index whose time or memory outgrows that.",
        [Panel("our index", "subscriptions, thousands", "core µs per event", series, log_x=True)],
    )
