"""The figures of the evaluation of DMM and DMM-AR, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fieldfare.errors import InputError
from fieldfare.experiments.dmm.crash import figure_17
from fieldfare.experiments.dmm.delays import figure_12, figure_13
from fieldfare.experiments.dmm.dimensionality import figure_15, figure_16
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.loss import figure_loss
from fieldfare.experiments.dmm.replicas import figure_replicas
from fieldfare.experiments.dmm.scalability import figure_8, figure_9, figure_10, figure_11
from fieldfare.experiments.dmm.settings import Scale
from fieldfare.experiments.dmm.state import figure_14
from fieldfare.experiments.results import Figure

FIGURES: Mapping[str, Callable[[Laboratory], Figure]] = {
    "8": figure_8,
    "9": figure_9,
    "10": figure_10,
    "11": figure_11,
    "12": figure_12,
    "13": figure_13,
    "14": figure_14,
    "15": figure_15,
    "16": figure_16,
    "17": figure_17,
    "loss": figure_loss,
    "replicas": figure_replicas,
}


def run(names: Sequence[str], scale: Scale, progress: Callable[[str], None], kept: Path | None = None) -> list[Figure]:
    """Make some figures, all if none is named; `progress` is told what is being run."""
    for name in names:
        if name not in FIGURES:
            raise InputError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    laboratory = Laboratory(scale, progress, kept)
    return [FIGURES[name](laboratory) for name in (names or FIGURES)]
