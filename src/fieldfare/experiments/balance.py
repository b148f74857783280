"""BlueDove section IV-D: what the choice of a candidate is worth (figure 7), how evenly matchers work (figure 8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fieldfare.experiments.bluedove_workload import Floats
from fieldfare.experiments.laboratory import REGIMES, Laboratory, Regime, Shape
from fieldfare.experiments.pushing import Estimate, saturation_by_growth
from fieldfare.experiments.queues import busy_seconds
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.forwarding import Policy

_PAPER_GAINS = {Policy.RESPONSE_TIME: 1.1, Policy.SUBSCRIPTIONS: 1.2, Policy.RANDOM: 3.5}


def figure_7(lab: Laboratory) -> Figure:
    """Saturation rate of the four policies."""
    shape = Shape(lab.scale.matchers[-1])
    rates = {policy: [lab.rate(lab.setup(regime, shape), policy) for regime in REGIMES] for policy in Policy}
    rows: dict[str, list[Cell]] = {
        f"adaptive to {policy}": [gain, *np.divide(rates[Policy.ADAPTIVE], rates[policy]).tolist()]
        for policy, gain in _PAPER_GAINS.items()
    }
    rows["adaptive, events/s"] = [114_000.0, *rates[Policy.ADAPTIVE]]
    shares = {policy: np.divide(column, rates[Policy.ADAPTIVE]) for policy, column in rates.items()}
    return Figure(
        "7",
        f"four policies on {shape.matchers} matchers",
        "Trace-driven model with measured service times; every matcher reports once a second, all at once.",
        ("paper", *REGIMES),
        rows,
        "To count on the last report alone, without extrapolation, sends everybody to whoever was idle when it was "
        "made. Here that costs more than in the paper.",
        [
            Panel(
                "saturation rate against adaptive",
                "policy",
                "share of the adaptive policy's rate",
                [
                    Series(regime, list(Policy), [float(shares[p][i]) for p in Policy])
                    for i, regime in enumerate(REGIMES)
                ],
            )
        ],
    )


def figure_7_pushed(lab: Laboratory) -> Figure:
    """The response-time policy once more, with pushes and saturation as in the paper."""
    pushing = lab.scale.pushing
    short = replace(pushing, seconds=lab.scale.reports)
    regimes = [regime for regime in REGIMES if regime is not Regime.INDEX]
    clusters = [lab.scanning(lab.setup(regime, Shape(lab.scale.matchers[-1]))) for regime in regimes]
    rows: dict[str, list[Cell]] = {}
    for name, estimate in (("all of a matcher's queues", Estimate.ALL_QUEUES), ("its own queue", Estimate.OWN_QUEUE)):
        for looked_at in (short, pushing):
            lab.progress(f"figure 7: response time by {name}, {looked_at.seconds} s")
            rates = [
                [saturation_by_growth(cluster, each, looked_at) for each in (Estimate.ADAPTIVE, estimate)]
                for cluster in clusters
            ]
            rows[f"by {name}, looked at for {looked_at.seconds} s"] = [1.1, *(rate / other for rate, other in rates)]
    columns = list(zip(*rows.values(), strict=True))[1:]
    return Figure(
        "7-pushed",
        "the adaptive policy to that of response times, with pushes",
        "Trace-driven model with measured service times. Each matcher looks at its load once a second, at its own "
        "moment, and pushes when it has changed by a tenth; a rate saturates if responses still grow at the end.",
        ("paper", *regimes),
        rows,
        "Two things make up the difference. The paper estimates an event's wait by the queue of its dimension alone, "
        "which keeps events away from costly parts; and queues that swing, but do not grow, are no saturation, which "
        "only minutes tell.",
        [
            Panel(
                "how much more the adaptive policy sustains",
                "what is counted, and for how long a rate is looked at",
                "times the response-time policy",
                [
                    Series(
                        regime,
                        ["all queues\nshort", "all queues\nlong", "own queue\nshort", "own queue\nlong"],
                        [float(value) for value in column if isinstance(value, float)],
                    )
                    for regime, column in zip(regimes, columns, strict=True)
                ],
            )
        ],
    )


def figure_8(lab: Laboratory) -> Figure:
    """How unequal the work of the matchers is, near saturation."""
    shapes = {"mPartition": Shape(lab.scale.matchers[-1]), "P2P": Shape.peer_to_peer(lab.scale.matchers[-1])}
    loads = {name: [_load(lab, regime, shape) for regime in REGIMES] for name, shape in shapes.items()}
    paper = {"mPartition": 0.14, "P2P": 0.82}
    panels = [
        Panel(
            regime,
            "matcher, from the busiest",
            "seconds of work, mean = 1",
            [
                Series(
                    name, list(range(1, len(columns[i]) + 1)), np.sort(columns[i] / columns[i].mean())[::-1].tolist()
                )
                for name, columns in loads.items()
            ],
        )
        for i, regime in enumerate(REGIMES)
    ]
    return Figure(
        "8",
        "deviation of the matchers' work from its mean",
        "Scans: seconds of work in the model. Index: measured once more, on the events that the policy sent.",
        ("paper", *REGIMES),
        {name: [paper[name], *(float(load.std() / load.mean()) for load in loads[name])] for name in shapes},
        "The adaptive policy makes the matchers equally busy; along one dimension the hot spot decides.",
        panels,
    )


def _load(lab: Laboratory, regime: Regime, shape: Shape) -> Floats:
    """Seconds of work of each matcher at saturation."""
    setup = lab.setup(regime, shape)
    found = lab.saturation(setup, Policy.ADAPTIVE)
    if regime is not Regime.INDEX:
        return found.busy
    deployment, parts = lab.parts(setup)
    return busy_seconds(deployment, parts.service_of_sent(found.rows, found.parts), found.parts)
