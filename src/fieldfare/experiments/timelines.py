"""BlueDove sections IV-B and IV-E over time: saturation (figure 5), elasticity (figure 9), failures (figure 10).

All of it is a trace-driven model with measured service times: 20 matchers do not fit the machine. What it shows of our
own pipeline on real processes, its tests of faults show too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfare.experiments.laboratory import Laboratory, Regime, Shape
from fieldfare.experiments.queues import NONE, Events, Queues, Second, run
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.forwarding import Policy
from fieldfare.partitioning.elastic import merge, split

REGIMES = (Regime.NARROW_SCAN, Regime.INDEX)
_METHOD = "Trace-driven model with measured service times. A second of the model is a report, or a micro-batch."
RISE = 1.01  # of the rate, each second
DETECTION_SECONDS = 17.5  # the paper's mean time until a failure is known everywhere


def figure_5(lab: Laboratory) -> Figure:
    """Response time below and above saturation."""
    shape, seconds = Shape(lab.scale.matchers[-1]), lab.scale.timeline_seconds
    shares = {"below": 100 / 114, "above": 150 / 114}  # the paper's two rates against its saturation
    rows: dict[str, list[Cell]] = {}
    panels = []
    for regime in REGIMES:
        found = lab.saturation(lab.site(regime, shape), Policy.ADAPTIVE)
        cluster, limit, series = found.cluster, found.rate, []
        for name, share in shares.items():
            responses = _responses(run(cluster, Policy.ADAPTIVE, limit * share, seconds))
            growth = (responses[-1] - responses[seconds // 2]) / (seconds - 1 - seconds // 2)
            paper = "constant" if share < 1 else "linear growth"
            rows[f"{regime}, {share:.2f} of saturation"] = [paper, limit * share, responses[-1] * 1e3, growth * 1e3]
            series.append(Series(f"{limit * share:,.0f} events/s, {name}", list(range(seconds)), responses))
        panels.append(Panel(regime, "seconds", "mean response time, s", series))
    return Figure(
        "5",
        "response time below and above saturation",
        _METHOD,
        ("paper", "events/s", "response at the end, ms", "growth, ms per s"),
        rows,
        "Below saturation the response time is constant, above it grows by what cannot be served.",
        panels,
    )


@dataclass(frozen=True, slots=True)
class Elastic:
    """How a growing load was met."""

    responses: list[float]
    joined: list[int]  # seconds at which a matcher was added
    relief: list[int]  # seconds from there until responses were shorter than at that moment
    matchers: int


def figure_9(lab: Laboratory) -> Figure:
    """Matchers are added while the rate rises."""
    runs = {regime: _grow(lab, regime) for regime in REGIMES}
    rows: dict[str, list[Cell]] = {
        "matchers at the start": [5.0, *(float(run.matchers - len(run.joined)) for run in runs.values())],
        "matchers added": [3.0, *(float(len(run.joined)) for run in runs.values())],
        "seconds from adding to relief": [5.0, *(float(np.mean(run.relief or [0])) for run in runs.values())],
    }
    panels = [
        Panel(
            regime,
            "seconds",
            "mean response time, s",
            [Series("response", list(range(len(run.responses))), run.responses)],
            moments={float(second): "a matcher joins" for second in run.joined},
        )
        for regime, run in runs.items()
    ]
    return Figure(
        "9",
        "adding matchers under a rising load",
        _METHOD
        + " The rate rises by 1% each second; a matcher joins, by `split`, when more than a second of work waits.",
        ("paper", *REGIMES),
        rows,
        "A split takes effect with the next batch. It helps the matcher that was split; "
        "where another is as loaded, the next split follows.",
        panels,
    )


def _grow(lab: Laboratory, regime: Regime) -> Elastic:
    lab.progress(f"{regime}: a rising load")
    site = lab.site(regime, Shape(lab.scale.matchers[0]))
    found = lab.saturation(site, Policy.ADAPTIVE)
    cluster, rate, table = found.cluster, 0.8 * found.rate, lab.workload(site).table
    queues, responses, joined = Queues(Policy.ADAPTIVE), [], []
    for second in range(lab.scale.timeline_seconds):
        rate *= RISE
        passed = queues.second(cluster, rate)
        responses.append(float(passed.responses.mean()))
        if passed.backlog > 1.0 and (not joined or second - joined[-1] >= 3):
            layout = cluster.deployment.layout
            cluster = lab.reshaped(site, split(layout, queues.busiest(layout), table)[0])
            joined.append(second)
    relief = [_seconds_to_relief(responses, second) for second in joined]
    return Elastic(responses, joined, relief, len(cluster.deployment.layout.matchers))


def _seconds_to_relief(responses: Sequence[float], second: int) -> int:
    shorter = np.flatnonzero(np.array(responses[second + 1 :]) < responses[second])
    return int(shorter[0]) + 1 if len(shorter) else len(responses) - second


@dataclass(frozen=True, slots=True)
class Failures:
    """How the loss of matchers was met."""

    responses: list[float]
    died: list[int]
    stranded_share: float  # of the events that came while a death was not known
    redone: int  # of them, matched later
    lost: int
    recovered: list[int]  # seconds from the detection until the mean response was as before


def figure_10(lab: Laboratory) -> Figure:
    """Matchers die, one after the other."""
    runs = {regime: _fail(lab, regime) for regime in REGIMES}
    rows: dict[str, list[Cell]] = {
        "matchers that died": [None, *(float(len(run.died)) for run in runs.values())],
        "sent to a dead matcher meanwhile": ["5%", *(f"{run.stranded_share:.1%}" for run in runs.values())],
        "lost": ["5%", *(f"{run.lost / max(1, run.lost + run.redone):.0%}" for run in runs.values())],
        "seconds until the failure is known (given)": [DETECTION_SECONDS] * 3,
        "seconds from there until latency is as before": [
            None, *(float(np.mean(run.recovered or [0])) for run in runs.values())
        ],
    }  # fmt: skip
    panels = [
        Panel(
            regime,
            "seconds",
            "mean response time, s",
            [Series("response", list(range(len(run.responses))), run.responses)],
            moments={float(second): "a matcher dies" for second in run.died},
        )
        for regime, run in runs.items()
    ]
    return Figure(
        "10",
        "losing matchers",
        _METHOD + " What was sent to a dead matcher is sent again when the failure is known, as Spark redoes tasks.",
        ("paper", *REGIMES),
        rows,
        "BlueDove loses what it sends to a dead matcher. Here it is late, by the time of detection, and none is lost.",
        panels,
    )


def _fail(lab: Laboratory, regime: Regime) -> Failures:
    lab.progress(f"{regime}: failures")
    site = lab.site(regime, Shape(lab.scale.matchers[-1]))
    found = lab.saturation(site, Policy.ADAPTIVE)
    cluster, rate, table = found.cluster, 0.7 * found.rate, lab.workload(site).table
    seconds, outage = lab.scale.timeline_seconds, round(DETECTION_SECONDS)
    died = list(range(seconds // 6, seconds - outage, seconds // 2))
    queues, responses, waiting = Queues(Policy.ADAPTIVE), [], NONE
    came = sent_to_dead = redone = 0
    dead: int | None = None
    for second in range(seconds):
        if second in died:
            dead = queues.busiest(cluster.deployment.layout)
        again = NONE
        if dead is not None and second - outage in died:
            cluster = lab.reshaped(site, merge(cluster.deployment.layout, dead, table)[0])
            dead, again, waiting = None, waiting, NONE
        passed = queues.second(cluster, rate, again=again, dead=dead)
        responses.append(float(passed.responses.mean()))
        redone += len(again.rows)
        came += len(passed.events.rows) + len(passed.stranded.rows) if dead is not None else 0
        sent_to_dead += len(passed.stranded.rows)
        waiting = _joined(waiting, passed.stranded)
    recovered = [_seconds_to_recovery(responses, start, start + outage) for start in died]
    return Failures(responses, died, sent_to_dead / max(1, came), redone, sent_to_dead - redone, recovered)


def _seconds_to_recovery(responses: Sequence[float], died: int, known: int) -> int:
    before = 1.2 * float(np.mean(responses[max(0, died - 5) : died]))
    calm = np.flatnonzero(np.array(responses[known:]) <= before)
    return int(calm[0]) if len(calm) else len(responses) - known


def _joined(first: Events, second: Events) -> Events:
    return Events(np.concatenate([first.rows, second.rows]), np.concatenate([first.arrivals, second.arrivals]))


def _responses(seconds: Sequence[Second]) -> list[float]:
    return [float(second.responses.mean()) for second in seconds]
