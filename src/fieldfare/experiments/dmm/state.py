"""Figure 14: how the subscriptions are spread over the peers."""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.experiments.dmm.experiment import PeerRun
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.outcome import mean
from fieldfare.experiments.dmm.scalability import METHOD
from fieldfare.experiments.dmm.settings import AR_CACHE, NARROWEST, RELIABLE
from fieldfare.experiments.results import Cell, Figure, Panel, Series


def figure_14(laboratory: Laboratory) -> Figure:
    """How many peers keep how many entries."""
    count = laboratory.scale.subscriptions[-1]
    algorithms = (AR_CACHE, NARROWEST, RELIABLE)
    outcomes = dict(zip(algorithms, laboratory.run_all([PeerRun(each, count) for each in algorithms]), strict=True))
    rows: dict[str, list[Cell]] = {}
    for each, outcome in outcomes.items():
        for kind, state in (("leaf", outcome.leaf_state), ("tree", outcome.hop_state)):
            if state and state[-1]:
                rows[f"{each.name}, {kind}"] = [
                    mean(state),
                    state[len(state) // 2],
                    state[int(0.99 * len(state))],
                    state[-1],
                    sum(1 for size in state if not size) / len(state),
                ]
    shown = outcomes[NARROWEST]
    both = {"leaf state": shown.leaf_state, "tree state": shown.hop_state}
    return Figure(
        "14",
        f"entries that peers keep, {count:,} subscriptions",
        METHOD,
        ["mean", "median", "99%", "most", "share without any"],
        rows,
        "The paper: most peers keep little, few keep much. A leaf is divided at the limit of its peer, "
        f"{laboratory.scale.entries_max} entries; Hermes has all of them at one peer.",
        [
            Panel(
                f"Peers with at least so many entries ({NARROWEST.name})",
                "entries",
                "peers",
                [_at_least(name, state) for name, state in both.items()],
                log_x=True,
                log_y=True,
            )
        ],
    )


def _at_least(name: str, state: Sequence[int]) -> Series:
    sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000]
    found = [(size, sum(1 for each in state if each >= size)) for size in sizes]
    return Series(name, [size for size, peers in found if peers], [float(peers) for _, peers in found if peers])
