"""The figures of BlueDove's evaluation, by name: run some of them, print them, plot them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fieldfare.cores import one_core
from fieldfare.errors import InputError
from fieldfare.experiments.balance import figure_7, figure_7_pushed, figure_8
from fieldfare.experiments.characteristics import figure_11a, figure_11b, figure_11c
from fieldfare.experiments.laboratory import Laboratory, Scale
from fieldfare.experiments.results import Figure
from fieldfare.experiments.scalability import figure_6a, figure_6b, figure_size
from fieldfare.experiments.timelines import figure_5, figure_9, figure_10

FIGURES: Mapping[str, Callable[[Laboratory], Figure]] = {
    "5": figure_5,
    "6a": figure_6a,
    "6b": figure_6b,
    "7": figure_7,
    "7-pushed": figure_7_pushed,
    "8": figure_8,
    "9": figure_9,
    "10": figure_10,
    "11a": figure_11a,
    "11b": figure_11b,
    "11c": figure_11c,
    "size": figure_size,
}


def run(names: Sequence[str], scale: Scale, progress: Callable[[str], None]) -> list[Figure]:
    """Run some experiments on one core; `progress` is told what is being done."""
    for name in names:
        if name not in FIGURES:
            raise InputError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    laboratory = Laboratory(scale, progress)
    with one_core():
        return [FIGURES[name](laboratory) for name in names]
