"""How long it takes GRAPE to choose a broker, once all reports are there: CPU time, measured."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from fieldfare.experiments.placement.laboratory import Laboratory
from fieldfare.experiments.placement.workloads import balanced_tree
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.placement.grape_selection import rank, relocations
from fieldfare.placement.options import GrapeOptions
from fieldfare.placement.placement_frames import BrokerDelays, BrokerReport
from fieldfare.placement.trace_tree import trace_tree

_PUBLICATIONS = 100
_PAPER: dict[int, Cell] = {63: "< 70 (wall clock)"}


def reports_of(brokers: int, seed: int) -> list[BrokerReport]:
    """A session that reached all brokers of a tree with a fan-out of 2, each of which has subscribers."""
    rng = random.Random(seed)  # noqa: S311
    shape = balanced_tree(brokers, 2)
    reports = []
    for name, neighbours in shape.neighbours.items():
        bits = rng.getrandbits(_PUBLICATIONS)
        delays = BrokerDelays(rng.random(), rng.random(), {each: rng.random() for each in neighbours}, rng.random())
        delivered = bits.to_bytes(_PUBLICATIONS // 8 + 1, "little")
        reports.append(BrokerReport(name, tuple(neighbours), delivered, bits.bit_count() * 2, delays))
    return reports


def figure_selection(lab: Laboratory) -> Figure:
    """From the reports to the choice, for every size of tree."""
    rows: dict[str, list[Cell]] = {}
    taken: list[float] = []
    for brokers in lab.scale.selection_brokers:
        lab.progress(f"Selection among {brokers} brokers")
        taken.append(_milliseconds(partial(_select, reports_of(brokers, 1)), lab.scale.selection_rounds))
        rows[f"{brokers} brokers"] = [_PAPER.get(brokers), taken[-1], taken[-1] / brokers * 1e3]
    sizes = [float(brokers) for brokers in lab.scale.selection_brokers]
    return Figure(
        "selection",
        "time to choose among brokers",
        f"Measured CPU time, the least of {lab.scale.selection_rounds} rounds; sessions of {_PUBLICATIONS} "
        "publications, subscribers at all brokers, delay 100% with measured ways. The paper's algorithm is quadratic.",
        ("paper", "ms", "µs for each broker"),
        rows,
        "Messages and delays of all candidates come from one pass up and one pass down the tree.",
        [Panel("selection", "brokers", "CPU ms", [Series("ours", sizes, taken)])],
    )


def _select(reports: list[BrokerReport]) -> None:
    options = GrapeOptions(priority="delay")
    tree = trace_tree("b0", reports, _PUBLICATIONS)
    if tree is not None:
        ranked = rank(tree, options, dict.fromkeys(tree.brokers, 0.01))
        relocations("publisher", tree, ranked, options, 1.0)


def _milliseconds(work: Callable[[], None], rounds: int) -> float:
    least = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        work()
        least = min(least, time.process_time() - started)
    return least * 1e3
