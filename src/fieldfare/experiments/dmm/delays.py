"""Figures 12 and 13: how long publications take, without and with TreeCache."""

from __future__ import annotations

from fieldfare.experiments.dmm.experiment import PeerRun
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.outcome import Outcome, mean, quantile
from fieldfare.experiments.dmm.scalability import METHOD
from fieldfare.experiments.dmm.settings import (
    AR,
    AR_CACHE,
    BISECTION,
    HERMES,
    NARROWEST,
    RELIABLE,
    Algorithm,
)
from fieldfare.experiments.results import Cell, Figure, Panel, Series

_BIN_SECONDS = 5.0
_WARM_SHARE = 0.5  # of the time of publishing, after which caches count as filled


def figure_12(laboratory: Laboratory) -> Figure:
    """Without TreeCache."""
    return _figure(laboratory, "12", "delay without TreeCache", (AR, BISECTION), {AR.name: "15 s"})


def figure_13(laboratory: Laboratory) -> Figure:
    """With TreeCache."""
    algorithms = (AR_CACHE, NARROWEST, RELIABLE, HERMES)
    return _figure(laboratory, "13", "delay with TreeCache", algorithms, {AR_CACHE.name: "3 s after 20 s"})


def _figure(
    laboratory: Laboratory, name: str, title: str, algorithms: tuple[Algorithm, ...], paper: dict[str, Cell]
) -> Figure:
    scale = laboratory.scale
    cases = [PeerRun(each, scale.few_subscriptions) for each in algorithms]
    outcomes = dict(zip((each.name for each in algorithms), laboratory.run_all(cases), strict=True))
    warm_seconds = _WARM_SHARE * scale.publishing_seconds
    rows: dict[str, list[Cell]] = {}
    for each, outcome in outcomes.items():
        warm = outcome.delays(warm_seconds)
        average = mean(warm)
        rows[each] = [
            mean(outcome.delays()),
            average,
            quantile(warm, 0.5),
            quantile(warm, 0.95),
            average / max(1e-9, outcome.direct_seconds),
            paper.get(each),
        ]
    direct = outcomes[algorithms[0].name].direct_seconds
    rows["direct way"] = [direct, direct, None, None, 1.0, None]
    return Figure(
        name,
        f"{title}, {scale.few_subscriptions:,} subscriptions",
        METHOD,
        ["mean s", f"after {warm_seconds:g} s: mean", "median", "95%", "to the direct way", "paper"],
        rows,
        "Each publication counts with the mean over its deliveries.",
        [
            Panel(
                "Delay of publications",
                "seconds since the first publication",
                "seconds",
                [_by_time(each, outcome) for each, outcome in outcomes.items()],
            )
        ],
    )


def _by_time(name: str, outcome: Outcome) -> Series:
    bins: dict[int, list[float]] = {}
    for event in outcome.events:
        if event.delay_seconds is not None:
            bins.setdefault(int(event.at_seconds / _BIN_SECONDS), []).append(event.delay_seconds)
    places = sorted(bins)
    return Series(name, [(place + 0.5) * _BIN_SECONDS for place in places], [mean(bins[place]) for place in places])
