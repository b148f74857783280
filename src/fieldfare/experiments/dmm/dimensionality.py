"""Figures 15 and 16: subscriptions of more attributes, of which only the first tells publications apart."""

from __future__ import annotations

from collections.abc import Callable

from fieldfare.experiments.dmm.experiment import PeerRun
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.outcome import Outcome, mean
from fieldfare.experiments.dmm.scalability import METHOD
from fieldfare.experiments.dmm.settings import AR, AR_CACHE, RELIABLE, Algorithm
from fieldfare.experiments.results import Cell, Figure, Panel, Series

_ALGORITHMS = (AR, AR_CACHE, RELIABLE)


def _run(laboratory: Laboratory) -> dict[Algorithm, list[Outcome]]:
    scale = laboratory.scale
    cases = [PeerRun(each, scale.few_subscriptions, many) for each in _ALGORITHMS for many in scale.dimensions]
    outcomes = iter(laboratory.run_all(cases))
    return {each: [next(outcomes) for _ in scale.dimensions] for each in _ALGORITHMS}


def _figure(laboratory: Laboratory, name: str, title: str, value: Callable[[Outcome], float], words: str) -> Figure:
    found, dimensions = _run(laboratory), laboratory.scale.dimensions
    rows: dict[str, list[Cell]] = {
        each.name: [*map(value, outcomes), *(mean(outcome.delays()) for outcome in outcomes)]
        for each, outcomes in found.items()
    }
    return Figure(
        name,
        f"{title}, by the attributes of each subscription",
        METHOD,
        [*(f"{many}" for many in dimensions), *(f"delay s, {many}" for many in dimensions)],
        rows,
        words,
        [
            Panel(
                title,
                "attributes",
                title,
                [Series(each.name, list(dimensions), [*map(value, outcomes)]) for each, outcomes in found.items()],
            )
        ],
    )


def figure_15(laboratory: Laboratory) -> Figure:
    """What is delivered."""
    words = "The paper: TreeCache raises the share that is delivered; DMM is below 20% and not drawn."
    return _figure(laboratory, "15", "delivered", lambda outcome: outcome.delivery_ratio, words)


def figure_16(laboratory: Laboratory) -> Figure:
    """What is sent."""
    words = "The paper: TreeCache lowers the cost, and attributes have a negligible influence on it."
    return _figure(laboratory, "16", "links for each match", lambda each: each.publication_links_per_match, words)
