"""Not in the paper: what is delivered while the network loses more and more, with acknowledgements and without."""

from __future__ import annotations

from fieldfare.experiments.dmm.experiment import PeerRun
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.outcome import Outcome, mean, quantile
from fieldfare.experiments.dmm.scalability import METHOD
from fieldfare.experiments.dmm.settings import NARROWEST, RELIABLE, Algorithm
from fieldfare.experiments.results import Cell, Figure, Panel, Series


def figure_loss(laboratory: Laboratory) -> Figure:
    """Reliable delivery beside multicast without acknowledgements, on the same network."""
    scale = laboratory.scale
    found = {each: _outcomes(laboratory, each) for each in (NARROWEST, RELIABLE)}
    percents = [100 * loss for loss in scale.losses_per_hop]
    rows = {
        f"{each.name}, {percent:g}%": _row(outcome)
        for each, outcomes in found.items()
        for percent, outcome in zip(percents, outcomes, strict=True)
    }
    return Figure(
        "loss",
        f"delivered, by what each link loses, {scale.few_subscriptions:,} subscriptions",
        METHOD,
        [
            "of datagrams lost",
            "delivered",
            "of those active",
            "active",
            "delay s: mean",
            "95%",
            "slowest publication",
            "publication datagrams for each match",
        ],
        rows,
        "Reliable delivery brings "
        + ", ".join(f"{outcome.kept_ratio:.4%}" for outcome in found[RELIABLE])
        + " of what subscriptions were to get that had been acknowledged when the event was published.",
        [
            Panel(
                "Delivered to acknowledged subscriptions",
                "lost on each link, %",
                "delivered",
                [Series(each.name, percents, [one.kept_ratio for one in outcomes]) for each, outcomes in found.items()],
                log_x=True,
            )
        ],
    )


def _outcomes(laboratory: Laboratory, algorithm: Algorithm) -> list[Outcome]:
    scale = laboratory.scale
    usual = scale.network.loss_per_hop  # such runs are shared with other figures
    losses = [None if loss == usual else loss for loss in scale.losses_per_hop]
    return laboratory.run_all([PeerRun(algorithm, scale.few_subscriptions, loss_per_hop=loss) for loss in losses])


def _row(outcome: Outcome) -> list[Cell]:
    delays = outcome.delays()
    return [
        outcome.datagrams_lost_share,
        outcome.delivery_ratio,
        outcome.kept_ratio,
        outcome.active,
        mean(delays),
        quantile(delays, 0.95),
        max(delays, default=0.0),
        outcome.publication_datagrams_per_match,
    ]
