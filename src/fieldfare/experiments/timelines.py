"""BlueDove sections IV-B and IV-E over time: saturation (figure 5), elasticity (figure 9), failures (figure 10).

All of it is a trace-driven model with measured service times, since 20 matchers do not fit the machine. That the
streaming pipeline itself loses nothing when processes die is shown by its own tests, on real processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfare.experiments.laboratory import Laboratory, Regime, Shape
from fieldfare.experiments.queues import EVENTS_PER_REPORT, NONE, ArrivedEvents, Queues, Second, run
from fieldfare.experiments.results import Cell, Figure, Panel, Series, shown
from fieldfare.forwarding import Policy
from fieldfare.partitioning.elastic import merge, split

REGIMES = (Regime.NARROW_SCAN, Regime.INDEX)
_METHOD = (
    "Trace-driven model with measured service times. Of the real events, one in many is modelled and stands for the "
    "others, so that short waits look longer than they are."
)
RISE = 1.01  # of the rate, each second
DETECTION_SECONDS = 17.5  # the paper's mean time until a failure is known everywhere


def figure_5(lab: Laboratory) -> Figure:
    """Response time below and above saturation."""
    shape, seconds = Shape(lab.scale.matchers[-1]), lab.scale.timeline_seconds
    shares = {"below": 100 / 114, "above": 150 / 114}  # the paper's two rates against its saturation
    rows: dict[str, list[Cell]] = {}
    panels = []
    for regime in REGIMES:
        found = lab.saturation(lab.setup(regime, shape), Policy.ADAPTIVE)
        cluster, limit, series = found.cluster, found.rate, []
        for name, share in shares.items():
            responses = _responses(run(cluster, Policy.ADAPTIVE, limit * share, seconds))
            growth = (responses[-1] - responses[seconds // 2]) / (seconds - 1 - seconds // 2)
            paper = "constant" if share < 1 else "linear growth"
            rows[f"{regime}, {share:.2f} of saturation"] = [paper, limit * share, responses[-1] * 1e3, growth * 1e3]
            series.append(Series(f"{name}: {shown(limit * share)} events/s", list(range(seconds)), responses))
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
        _METHOD + " The rate rises by 1% each second; a matcher is split when more than a second of work waits.",
        ("paper", *REGIMES),
        rows,
        "A split takes effect with the next batch. It helps the matcher that was split; "
        "where another is as loaded, the next split follows.",
        panels,
    )


def _grow(lab: Laboratory, regime: Regime) -> Elastic:
    lab.progress(f"{regime}: a rising load")
    setup = lab.setup(regime, Shape(lab.scale.matchers[0]))
    found = lab.saturation(setup, Policy.ADAPTIVE)
    cluster, rate, table = found.cluster, 0.8 * found.rate, lab.workload(setup).table
    queues = Queues(Policy.ADAPTIVE)
    responses: list[float] = []
    joined: list[int] = []
    for second in range(lab.scale.timeline_seconds):
        rate *= RISE
        passed = queues.second(cluster, rate)
        responses.append(float(passed.responses.mean()))
        if passed.backlog > 1.0 and (not joined or second - joined[-1] >= 3):
            layout = cluster.deployment.layout
            cluster = lab.reshaped(setup, split(layout, queues.busiest(layout), table)[0])
            joined.append(second)
    relief = [_seconds_to_relief(responses, second) for second in joined]
    return Elastic(responses, joined, relief, len(cluster.deployment.layout.matchers))


def _seconds_to_relief(responses: Sequence[float], second: int) -> int:
    shorter = np.flatnonzero(np.array(responses[second + 1 :]) < responses[second])
    return int(shorter[0]) + 1 if len(shorter) else len(responses) - second


@dataclass(frozen=True, slots=True)
class Failures:
    """How the loss of matchers was met."""

    died: list[int]  # seconds at which a matcher died
    passed: list[Second]
    recovered: list[int]  # seconds from the detection until the mean response was as before

    @property
    def stranded_share(self) -> float:
        """Of the events that came while a death was not known, those sent to the dead."""
        outages = [second for second in self.passed if len(second.stranded.rows)]
        stranded = sum(len(second.stranded.rows) for second in outages)
        return stranded / (stranded + sum(len(second.events.rows) for second in outages))

    @property
    def lost_share(self) -> float:
        """Of all events, those that were never matched."""
        return 1.0 - sum(len(second.events.rows) for second in self.passed) / (len(self.passed) * EVENTS_PER_REPORT)


def figure_10(lab: Laboratory) -> Figure:
    """Matchers die, one after the other."""
    runs = {regime: _fail(lab, regime) for regime in REGIMES}
    longest = [max(float(second.responses.max()) for second in run.passed) for run in runs.values()]
    rows: dict[str, list[Cell]] = {
        "matchers that died": [None, *(float(len(run.died)) for run in runs.values())],
        "sent to a dead matcher meanwhile": ["5%", *(f"{run.stranded_share:.1%}" for run in runs.values())],
        "lost in the end": ["all of these", *(f"{run.lost_share:.0%}" for run in runs.values())],
        "seconds until a failure is known (given)": [DETECTION_SECONDS] * 3,
        "longest response, s": [None, *longest],
        "seconds from detection until latency is as before": [
            None,
            *(float(np.mean(run.recovered)) for run in runs.values()),
        ],
    }
    panels = [
        Panel(
            regime,
            "seconds",
            "mean response time, s",
            [Series("response", list(range(len(run.passed))), _responses(run.passed))],
            moments={float(second): "a matcher dies" for second in run.died},
        )
        for regime, run in runs.items()
    ]
    return Figure(
        "10",
        "losing matchers",
        _METHOD + " What was sent to a dead matcher is sent again once the failure is known, as Spark redoes tasks.",
        ("paper", *REGIMES),
        rows,
        "BlueDove loses what it sends to a dead matcher. The model sends it again, so that it is late, by the time of "
        "detection, and not lost; that the pipeline does so is tested on real processes.",
        panels,
    )


def _fail(lab: Laboratory, regime: Regime) -> Failures:
    lab.progress(f"{regime}: failures")
    setup = lab.setup(regime, Shape(lab.scale.matchers[-1]))
    found = lab.saturation(setup, Policy.ADAPTIVE)
    cluster, rate, table = found.cluster, 0.7 * found.rate, lab.workload(setup).table
    seconds, outage = lab.scale.timeline_seconds, round(DETECTION_SECONDS)
    died = list(range(seconds // 6, seconds - outage - 5, seconds // 2))
    queues, waiting, dead = Queues(Policy.ADAPTIVE), NONE, None
    passed: list[Second] = []
    for second in range(seconds):
        again, layout = NONE, cluster.deployment.layout
        if second in died:
            dead = queues.busiest(layout)
        elif dead is not None and second - outage in died:
            cluster = lab.reshaped(setup, merge(layout, dead, table)[0])
            again, waiting, dead = waiting, NONE, None
        passed.append(queues.second(cluster, rate, again=again, dead=dead))
        waiting = _joined(waiting, passed[-1].stranded)
    responses = _responses(passed)
    return Failures(died, passed, [_seconds_to_recovery(responses, start, start + outage) for start in died])


def _seconds_to_recovery(responses: Sequence[float], died: int, known: int) -> int:
    before = float(np.mean(responses[max(0, died - 5) : died]))
    calm = np.flatnonzero(np.array(responses[known:]) <= before + 0.1)
    return int(calm[0]) if len(calm) else len(responses) - known


def _joined(first: ArrivedEvents, second: ArrivedEvents) -> ArrivedEvents:
    return ArrivedEvents(np.concatenate([first.rows, second.rows]), np.concatenate([first.arrivals, second.arrivals]))


def _responses(seconds: Sequence[Second]) -> list[float]:
    return [float(second.responses.mean()) for second in seconds]
