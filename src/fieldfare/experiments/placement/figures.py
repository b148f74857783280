"""The figures of the evaluation of POP and GRAPE, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fieldfare.errors import InputError
from fieldfare.experiments.placement.comparison import (
    figure_5abc,
    figure_5def,
    figure_6cd,
    figure_6h,
    figure_6i,
    figure_ours,
    figure_ours_random,
)
from fieldfare.experiments.placement.laboratory import Laboratory
from fieldfare.experiments.placement.live import figure_live
from fieldfare.experiments.placement.selection import figure_selection
from fieldfare.experiments.placement.settings import Scale
from fieldfare.experiments.placement.tree_comparison import figure_brokers
from fieldfare.experiments.placement.tree_moving import figure_moving
from fieldfare.experiments.placement.tuning import figure_7a, figure_7bi, figure_damping
from fieldfare.experiments.placement.waiting_times import figure_6efg
from fieldfare.experiments.results import Figure

FIGURES: Mapping[str, Callable[[Laboratory], Figure]] = {
    "5abc": figure_5abc,
    "5def": figure_5def,
    "6cd": figure_6cd,
    "6efg": figure_6efg,
    "6h": figure_6h,
    "6i": figure_6i,
    "7a": figure_7a,
    "7bi": figure_7bi,
    "ours": figure_ours,
    "ours-random": figure_ours_random,
    "damping": figure_damping,
    "selection": figure_selection,
    "brokers": figure_brokers,
    "moving": figure_moving,
    "live": figure_live,
}


def chosen(names: Sequence[str]) -> list[str]:
    """The figures that somebody named: 5 stands for all parts of figure 5."""
    found: list[str] = []
    for name in names:
        parts = [figure for figure in FIGURES if name and figure.startswith(name)]
        if not parts:
            raise InputError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
        found += [part for part in parts if part not in found]
    return found


def run(names: Sequence[str], scale: Scale, progress: Callable[[str], None]) -> list[Figure]:
    """Run some experiments, all if none is named; `progress` is told what is being done."""
    laboratory = Laboratory(scale, progress)
    return [FIGURES[name](laboratory) for name in (chosen(names) if names else FIGURES)]
