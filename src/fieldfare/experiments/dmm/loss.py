"""Not in the paper: what is delivered while the network loses more and more, with acknowledgements and without."""

from __future__ import annotations

from fieldfare.experiments.dmm.experiment import Case
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.outcome import Outcome, mean, quantile
from fieldfare.experiments.dmm.scalability import METHOD
from fieldfare.experiments.dmm.settings import NARROWEST, RELIABLE
from fieldfare.experiments.results import Cell, Figure, Panel, Series


def figure_loss(laboratory: Laboratory) -> Figure:
    """Reliable delivery beside multicast without acknowledgements, on the same network."""
    scale = laboratory.scale
    cases = [
        Case(each, scale.few_subscriptions, loss_per_hop=loss)
        for each in (NARROWEST, RELIABLE)
        for loss in scale.losses_per_hop
    ]
    outcomes = dict(zip(cases, laboratory.run_all(cases), strict=True))
    rows = {f"{case.algorithm.name}, {case.loss_per_hop:.2%}": _row(outcome) for case, outcome in outcomes.items()}
    reliable = [outcome for case, outcome in outcomes.items() if case.algorithm is RELIABLE]
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
        + ", ".join(f"{outcome.kept_ratio:.4%}" for outcome in reliable)
        + " of what subscriptions were to get that had been acknowledged when the event was published.",
        [
            Panel(
                "Delivered to acknowledged subscriptions",
                "lost on each link, %",
                "delivered",
                [
                    Series(
                        algorithm.name,
                        [100 * loss for loss in scale.losses_per_hop],
                        [
                            outcomes[Case(algorithm, scale.few_subscriptions, loss_per_hop=loss)].kept_ratio
                            for loss in scale.losses_per_hop
                        ],
                    )
                    for algorithm in (NARROWEST, RELIABLE)
                ],
                log_x=True,
            )
        ],
    )


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
