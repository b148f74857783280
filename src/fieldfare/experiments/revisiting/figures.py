"""The figures of this experiment, and its raw results as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fieldfare.durable import NewFile
from fieldfare.errors import InputError
from fieldfare.experiments.results import Cell, Figure, Panel, Series, to_markdown
from fieldfare.experiments.revisiting.comparison import WAYS, Compared, choices, compare, score
from fieldfare.experiments.revisiting.curves import popularity, replicas_and_hops, skipping
from fieldfare.experiments.revisiting.settings import Scale
from fieldfare.planning.costs import Costs

Progress = Callable[[str], None]

CURVES: Mapping[str, Callable[[Scale, Progress], Figure]] = {
    "rh": replicas_and_hops,
    "hops": skipping,
    "popularity": popularity,
}
APPLICATIONS = "applications"
MEASURED = "<!-- measured -->"
FIGURES = (APPLICATIONS, *CURVES)
STEPS_OF_CURVES = {"rh": 16, "hops": 14, "popularity": 3}  # that `progress` is told of, about


def check_names(names: Sequence[str]) -> None:
    """Refuse a figure that is not there."""
    for name in names:
        if name not in FIGURES:
            raise InputError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")


def steps(names: Sequence[str], scale: Scale, applications: int) -> int:
    """How often `run` will tell its progress, about."""
    of_applications = applications * (1 + len(WAYS) * scale.rounds) + scale.rounds
    return sum(of_applications if name == APPLICATIONS else STEPS_OF_CURVES[name] for name in names)


def run(
    names: Sequence[str], scale: Scale, costs: Costs, progress: Progress, applications: Sequence[str]
) -> tuple[list[Figure], list[Compared]]:
    """Run some parts of the experiment; `progress` is told of every step."""
    figures: list[Figure] = []
    compared: list[Compared] = []
    if APPLICATIONS in names:
        compared = compare(costs, scale, progress, applications)
        figures += application_figures(compared)
    figures += [CURVES[name](scale, progress) for name in names if name in CURVES]
    return figures, compared


def application_figures(compared: Sequence[Compared]) -> list[Figure]:
    """One figure for each application, one that tells how often predictions hold, and what is recommended."""
    names = dict.fromkeys(one.application.name for one in compared)
    each = [_application(name, [one for one in compared if one.application.name == name]) for name in names]
    return [*each, _summary(compared)]


def _application(name: str, ways: Sequence[Compared]) -> Figure:
    rows: dict[str, list[Cell]] = {}
    for one in ways:
        found = one.predicted
        if not one.runs:
            rows[str(one.way)] = [found.throughput_events, one.failure or "-", *[None] * 7]
            continue
        misses = [aim for aim, is_hit in one.hits.items() if not is_hit]
        rows[str(one.way)] = [
            found.throughput_events, one.throughput.median, f"± {one.throughput.spread:.0%}",
            _milliseconds(found.latency_p50_seconds), 1e3 * one.p50.median,
            _milliseconds(found.latency_p99_seconds), 1e3 * one.p99.median,
            one.runs[0].rate, ", ".join(misses) or "none",
        ]  # fmt: skip
    shown = [one for one in ways if one.runs]
    labels = [_label(one) for one in shown]
    scaled = ways[0].application
    return Figure(
        f"revisiting-{name}",
        f"{name}, {scaled.subscriptions:,} subscriptions on {scaled.open_connections} connections",
        f"{scaled.matches_per_event:.3g} matches and {scaled.event_bytes:,} bytes an event; real processes, or a local "
        "Spark session, with their clients on the same cores. Medians of the rounds.",
        ("predicted events/s", "measured", "spread", "predicted p50, ms", "measured", "predicted p99, ms", "measured",
         "at events/s", "missed"),
        rows,
        "",
        [
            Panel("throughput", "", "events/s", [
                Series("predicted", labels, [one.predicted.throughput_events for one in shown]),
                Series("measured", labels, [one.throughput.median for one in shown]),
            ], log_y=True),
            Panel("p50", "", "ms", [
                Series("predicted", labels, [_drawn(one.predicted.latency_p50_seconds) for one in shown]),
                Series("measured", labels, [1e3 * one.p50.median for one in shown]),
            ], log_y=True),
            Panel("p99", "", "ms", [
                Series("predicted", labels, [_drawn(one.predicted.latency_p99_seconds) for one in shown]),
                Series("measured", labels, [1e3 * one.p99.median for one in shown]),
            ], log_y=True),
        ],
        place="Table 1",
    )  # fmt: skip


def _summary(compared: Sequence[Compared]) -> Figure:
    rows: dict[str, list[Cell]] = {}
    names = {"throughput": "throughput within 30%", "p50": "p50 within 30%", "p99": "p99 within 2 times"}
    for aim, (hits, count) in score(compared).items():
        rows[f"{names[aim]}, beyond the spread"] = ["9 of 10", f"{hits} of {count}"]
    for choice in choices(compared):
        better = ", ".join(map(str, choice.better)) or "none"
        rows[f"{choice.application}: recommended {choice.recommended}"] = ["none better", f"better: {better}"]
    measured = [one for one in compared if one.runs]
    apart = {
        "throughput": [one.predicted.throughput_events / one.throughput.median for one in measured],
        "p50": [one.predicted.latency_p50_seconds / one.p50.median for one in measured],
        "p99": [one.predicted.latency_p99_seconds / one.p99.median for one in measured],
    }
    order = range(1, len(measured) + 1)
    return Figure(
        "revisiting-score",
        "predictions against measurements, and what is recommended",
        "A prediction that lies below by a factor counts like one that lies above by it.",
        ("aim", "reached"),
        rows,
        "",
        [
            Panel("predicted to measured", "application and way, in order of the ratio", "times", [
                Series(name, [float(place) for place in order], sorted(np.clip(values, 0.01, 100.0).tolist()))
                for name, values in apart.items()
            ], log_y=True)
        ],
        place="Table 1",
    )  # fmt: skip


def _label(one: Compared) -> str:
    short = {"process": "in\nprocess", "replicated": "Spark\nrepl.", "multi": "Spark\nmulti", "single": "Spark\nsingle"}
    return short.get(one.way.kind.value, "Spark\nclusters" if one.way.kind.is_spark else one.way.kind.value)


def _milliseconds(seconds: float) -> Cell:
    return 1e3 * seconds if math.isfinite(seconds) else "saturated"


def _drawn(seconds: float) -> float:
    """A saturated way has no bar."""
    return 1e3 * seconds if math.isfinite(seconds) else math.nan


def raw(compared: Sequence[Compared], figures: Sequence[Figure], costs: Costs) -> dict[str, Any]:
    """Everything that was measured and predicted, as JSON has it."""
    return {
        "costs": msgspec.to_builtins(costs),
        "compared": [
            {
                "application": msgspec.to_builtins(one.application),
                "way": str(one.way),
                "runs": [asdict(run) for run in one.runs],
                "failure": one.failure,
                "predicted": msgspec.to_builtins(one.predicted),
                "hits": one.hits if one.runs else {},
            }
            for one in compared
        ],
        "figures": [asdict(figure) for figure in figures],
    }


def write_page(figures: Sequence[Figure], file: Path) -> None:
    """Put the figures in place of what a page has after the line MEASURED."""
    prose, found, _ = file.read_text(encoding="utf-8").partition(MEASURED)
    if not found:
        raise InputError(f"{file} has no line {MEASURED}, after which the figures would stand")
    with NewFile(file) as stream:
        stream.write(f"{prose}{MEASURED}\n\n{to_markdown(figures)}".encode())


def save(results: dict[str, Any], file: Path) -> None:
    """Write results, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NewFile(file) as stream:
        stream.write(json.dumps(_finite(results), indent=1).encode() + b"\n")


def _finite(value: Any) -> Any:
    """The same without infinities, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value
