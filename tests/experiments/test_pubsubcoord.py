"""PubSubCoord's evaluation at tiny sizes: what must hold whatever the machine does."""

from __future__ import annotations

import numpy as np
import pytest

from fieldfare.errors import InputError
from fieldfare.experiments.pubsubcoord.figures import run
from fieldfare.experiments.pubsubcoord.latency_budgets import CASES, simulate
from fieldfare.experiments.pubsubcoord.live import Comparison
from fieldfare.experiments.pubsubcoord.settings import QUICK


def test_figures_of_the_simulator_are_made() -> None:
    names = ("5", "content", "6ad", "6be", "7c")
    figures = run(names, QUICK, lambda _: None)
    assert [figure.name for figure in figures][: len(names)] == list(names)
    assert all(figure.rows for figure in figures)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_a_second_path_makes_nothing_later(number: int) -> None:
    single, double = (simulate(CASES[number], 60, has_second_path=has_two) for has_two in (False, True))
    assert double.average_ms <= single.average_ms
    assert double.average_ms >= CASES[number].least_seconds * 1e3, "nothing is faster than the better path"
    assert double.bytes > single.bytes


def test_an_unknown_figure_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="there is no figure '8'"):
        run(["8"], QUICK, lambda _: None)


@pytest.mark.parametrize(("real_seconds", "agrees"), [(0.1, True), (0.119, True), (0.06, False), (0.14, False)])
def test_real_processes_agree_unless_they_take_a_hop_more_or_less(real_seconds: float, *, agrees: bool) -> None:
    simulated, real = np.full(9, 0.102), np.full(9, real_seconds)
    assert Comparison("two hops of 40 ms", 0.1, 0.04, simulated, real).agrees is agrees
