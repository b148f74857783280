"""Figure 7: GRAPE's weights, and how many publications are traced before a decision; and what damping does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import msgspec

from fieldfare.experiments.placement.comparison import COLUMNS, MODEL, cells
from fieldfare.experiments.placement.laboratory import Laboratory, Outcomes, Strategy, Trial
from fieldfare.experiments.placement.settings import Distribution
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.placement.options import PAPERS_POP, UNDAMPED, GrapeOptions, PopOptions, Priority

_KINDS = ("undamped", "damped")


def figure_7a(lab: Laboratory) -> Figure:
    """From load alone to delay alone."""
    testbed, weights = lab.scale.testbeds[1], lab.scale.weights_percent
    strategies = {
        **{f"load {weight}%": lab.weighted(testbed, "load", weight) for weight in reversed(weights)},
        **{f"delay {weight}%": lab.weighted(testbed, "delay", weight) for weight in weights},
    }
    found = lab.run(Trial(testbed, spread=lab.scale.tuning_spread), strategies)
    paper = {"load 1%": "as delay 100%", "delay 1%": "as load 100%"}
    return Figure(
        "7a",
        "GRAPE's priority and weight, enterprise",
        f"{testbed.brokers} brokers, subscribers at {lab.scale.tuning_spread}. {MODEL}",
        ("paper", *COLUMNS),
        {name: [paper.get(name), *cells(outcomes)] for name, outcomes in found.items()},
        "What load 1% leaves open is decided by delay, and the other way round, so the ends of both scales meet.",
        [_both(found)],
    )


def figure_7bi(lab: Laboratory) -> Figure:
    """Thresholds of both algorithms."""
    testbed, thresholds = lab.scale.testbeds[1], lab.scale.thresholds
    strategies: dict[str, Strategy] = {}
    for threshold in thresholds:
        strategies[f"GRAPE, {threshold} traced"] = lab.grape(GrapeOptions(session_publications=threshold))
        options = PopOptions(traces_min=threshold, traces_max=max(1, threshold // 2))  # as the paper sets it
        strategies[f"POP, {threshold} traced"] = lab.pop(options)
    found = lab.run(Trial(testbed, spread=lab.scale.tuning_spread), strategies)
    paper: dict[str, Cell] = {
        "GRAPE, 10 traced": "more load than 400",
        "GRAPE, 400 traced": "best in the hundreds",
        "GRAPE, 12800 traced": "no relocation",
        "POP, 100 traced": "best below 100",
    }
    return Figure(
        "7bi",
        "publications traced before a decision, enterprise",
        f"{testbed.brokers} brokers, subscribers at {lab.scale.tuning_spread}; GRAPE with load 100%. {MODEL}",
        ("paper", *COLUMNS),
        {name: [paper.get(name), *cells(outcomes)] for name, outcomes in found.items()},
        f"GRAPE relocates {found[f'GRAPE, {thresholds[0]} traced'].relocations:.3g} times with the lowest threshold, "
        f"{found[f'GRAPE, {thresholds[-1]} traced'].relocations:.3g} times with the highest.",
        [
            _by_threshold("overhead", "placement's messages for each with an event", thresholds, found, "overhead"),
            _by_threshold("load", "messages/s that a broker receives", thresholds, found, "message_rate"),
        ],
    )


def figure_damping(lab: Laboratory) -> Figure:
    """The paper's algorithms as they are, and damped."""
    testbed = lab.scale.testbeds[0]
    strategies: dict[str, tuple[Strategy, Strategy]] = {}
    for priority in get_args(Priority):
        ours = GrapeOptions(session_publications=testbed.traced_min, priority=priority)
        papers = msgspec.structs.replace(ours, calm_factor_max=1)
        strategies[f"GRAPE {priority} 100%"] = lab.grape(papers, UNDAMPED), lab.grape(ours)
    papers_pop = msgspec.structs.replace(PAPERS_POP, traces_min=testbed.traced_min)
    strategies["POP"] = lab.pop(papers_pop, UNDAMPED), lab.pop(PopOptions(traces_min=testbed.traced_min))
    rows: dict[str, Sequence[Cell]] = {}
    found: dict[tuple[str, str], Outcomes] = {}
    for distribution in get_args(Distribution):
        case = Trial(testbed, distribution, lab.scale.tuning_spread)
        for name, both in strategies.items():
            for kind, outcomes in lab.run(case, dict(zip(_KINDS, both, strict=True))).items():
                rows[f"{distribution}, {name}, {kind}"] = [*cells(outcomes), outcomes.returns]
                found[f"{name}, {distribution}", kind] = outcomes
    returns = {kind: sum(each.returns for (_, other), each in found.items() if other == kind) for kind in _KINDS}
    return Figure(
        "damping",
        "with and without damping",
        f"{testbed.brokers} brokers, subscribers at {lab.scale.tuning_spread}. Undamped: as in the paper, for POP also "
        f"with its averages. Returns: a publisher comes back to a broker within ten minutes. {MODEL}",
        (*COLUMNS, "returns"),
        rows,
        f"Returns in all runs: {returns['undamped']:.0f} undamped, {returns['damped']:.0f} damped. Every session "
        "sees other publications, so brokers that are nearly alike take turns in being the best. Damped, each session "
        "that changes nothing also makes the next one cheaper.",
        [_ping_pong(found), *_relocations(found, lab.scale.minutes)],
    )


def _ping_pong(found: Mapping[tuple[str, str], Outcomes]) -> Panel:
    names = list(dict.fromkeys(name for name, _ in found))
    series = [Series(kind, names, [found[name, kind].returns for name in names]) for kind in _KINDS]
    short = [
        Series(each.name, [str(name).replace(" ", "\n", 1).replace(", ", ",\n") for name in each.x], each.y)
        for each in series
    ]
    return Panel("ping-pong", "", "returns to a broker, in a run", short)


def _relocations(found: Mapping[tuple[str, str], Outcomes], minutes: int) -> list[Panel]:
    moments = [float(minute) for minute in range(minutes + 1)]
    return [
        Panel(
            f"relocations, {distribution}",
            "minutes",
            "so far, of all publishers",
            [
                Series(f"{name.split(',')[0]}, {kind}", moments, outcomes.relocations_by_minute)
                for (name, kind), outcomes in found.items()
                if name.endswith(distribution)
            ],
        )
        for distribution in get_args(Distribution)
    ]


def _both(found: dict[str, Outcomes]) -> Panel:
    """Load and hops, each as a share of its largest value."""
    names = [name.replace(" ", "\n") for name in found]
    loads = [outcomes.message_rate for outcomes in found.values()]
    delays = [outcomes.hops for outcomes in found.values()]
    return Panel(
        "load and hops",
        "",
        "share of the largest",
        [
            Series("messages", names, [value / max(loads) for value in loads]),
            Series("hops", names, [value / max(delays) for value in delays]),
        ],
    )


def _by_threshold(title: str, label: str, thresholds: Sequence[int], found: dict[str, Outcomes], metric: str) -> Panel:
    return Panel(
        title,
        "publications traced",
        label,
        [
            Series(
                algorithm,
                [float(threshold) for threshold in thresholds],
                [getattr(found[f"{algorithm}, {threshold} traced"], metric) for threshold in thresholds],
            )
            for algorithm in ("GRAPE", "POP")
        ],
        log_x=True,
    )
