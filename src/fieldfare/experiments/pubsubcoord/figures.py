"""The figures of PubSubCoord's evaluation, by name: run some of them, print them, plot them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fieldfare.errors import InputError
from fieldfare.experiments.pubsubcoord.joining import figure_6cf
from fieldfare.experiments.pubsubcoord.laboratory import Laboratory
from fieldfare.experiments.pubsubcoord.latency_budgets import figure_7a, figure_7b, figure_7c
from fieldfare.experiments.pubsubcoord.live import figure_live, host_seconds
from fieldfare.experiments.pubsubcoord.locality import figure_5, figure_content
from fieldfare.experiments.pubsubcoord.scaling import figure_6ad, figure_6be
from fieldfare.experiments.pubsubcoord.settings import Scale
from fieldfare.experiments.results import Figure
from fieldfare.experiments.wan import why_unavailable

FIGURES: Mapping[str, Callable[[Laboratory], Figure]] = {
    "5": figure_5,
    "content": figure_content,
    "6ad": figure_6ad,
    "6be": figure_6be,
    "6cf": figure_6cf,
    "7a": figure_7a,
    "7b": figure_7b,
    "7c": figure_7c,
    "live": figure_live,
}
_TOGETHER = {"5": ("5", "content")}  # what else a figure's number stands for


def chosen(names: Sequence[str]) -> list[str]:
    """The figures that somebody named: 6 stands for all parts of figure 6, and 6d for the one that shows it."""
    found: list[str] = []
    for name in names:
        parts = _TOGETHER.get(name) or [
            figure
            for figure in FIGURES
            if name == figure or (figure[0].isdigit() and name[:1] == figure[0] and set(name[1:]) <= set(figure[1:]))
        ]
        if not parts or not name:
            raise InputError(
                f"there is no figure {name!r}; there are 5, 6, 7, their parts such as 6c, content and live"
            )
        found += [part for part in parts if part not in found]
    return found


def run(
    names: Sequence[str], scale: Scale, progress: Callable[[str], None], *, calibrates: bool = False
) -> list[Figure]:
    """Run some experiments, all if none is named; `progress` is told what is being done.

    `calibrates`: measure again what a process adds for each message. The service times that were used come last.
    """
    laboratory = Laboratory(scale, progress)
    if calibrates:
        laboratory = Laboratory(scale, progress, lambda times: host_seconds(times, progress))
    figures = []
    for name in chosen(names) if names else FIGURES:
        if name == "live" and not names and (reason := why_unavailable()) is not None:
            progress(f"Real processes are left out: {reason}")
            continue
        figures.append(FIGURES[name](laboratory))
    if calibrates or laboratory.has_service_times:
        figures.append(laboratory.service_times.figure())
    return figures
