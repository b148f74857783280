"""Figures 8 to 11: what is delivered and sent, by the number of subscriptions."""

from __future__ import annotations

from collections.abc import Callable

from fieldfare.experiments.dmm.experiment import PeerRun
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.dmm.metering import (
    ACKNOWLEDGED,
    ANSWERS,
    DELIVERY,
    FRAMES_ACKNOWLEDGED,
    LARGE,
    PLACED,
    PUBLICATION_KINDS,
    RING,
    SEARCH,
    SUBSCRIPTIONS,
    TREES,
)
from fieldfare.experiments.dmm.outcome import Outcome
from fieldfare.experiments.dmm.settings import (
    AR,
    AR_CACHE,
    BISECTION,
    BISECTION_CACHE,
    DMM,
    DMM_CACHE,
    HERMES,
    NARROWEST,
    RELIABLE,
    Algorithm,
)
from fieldfare.experiments.results import Cell, Figure, Panel, Series

WIDE = (AR_CACHE, NARROWEST, RELIABLE)  # with every number of subscriptions
NARROW = (DMM, DMM_CACHE, AR, HERMES, BISECTION, BISECTION_CACHE)  # with the smallest only
METHOD = "simulated: real peers, virtual time, a transit-stub network"
_APART = (RING, FRAMES_ACKNOWLEDGED)  # heartbeats and acknowledgements are not in the paper's counts


def run_all(laboratory: Laboratory) -> dict[Algorithm, dict[int, Outcome]]:
    """Every algorithm with its numbers of subscriptions."""
    counts = laboratory.scale.subscriptions
    cases = [PeerRun(each, count) for each in WIDE for count in counts] + [PeerRun(each, counts[0]) for each in NARROW]
    outcomes = laboratory.run_all(cases)
    found: dict[Algorithm, dict[int, Outcome]] = {}
    for case, outcome in zip(cases, outcomes, strict=True):
        found.setdefault(case.algorithm, {})[case.subscriptions] = outcome
    return found


def _rows(
    found: dict[Algorithm, dict[int, Outcome]], counts: tuple[int, ...], value: Callable[[Outcome], Cell]
) -> dict[str, list[Cell]]:
    return {
        each.name: [value(by_count[count]) if count in by_count else None for count in counts]
        for each, by_count in found.items()
    }


def _series(found: dict[Algorithm, dict[int, Outcome]], value: Callable[[Outcome], float]) -> list[Series]:
    return [
        Series(each.name, list(by_count), [value(outcome) for outcome in by_count.values()])
        for each, by_count in found.items()
        if len(by_count) > 1
    ]


def figure_8(laboratory: Laboratory) -> Figure:
    """What share of expected deliveries was made."""
    found, counts = run_all(laboratory), laboratory.scale.subscriptions
    rows = _rows(found, counts, lambda outcome: outcome.delivery_ratio)
    paper: dict[str, Cell] = {
        AR_CACHE.name: "virtually all",
        AR.name: "less",
        DMM.name: "worse",
        DMM_CACHE.name: "worse",
    }
    kept = {each.name: by_count[counts[0]].kept_ratio for each, by_count in found.items()}
    reliable = found[RELIABLE]
    return Figure(
        "8",
        "delivered, of all that was expected",
        METHOD,
        [*(f"{count:,}" for count in counts), f"of those active, {counts[0]:,}", "paper"],
        {name: [*cells, kept[name], paper.get(name)] for name, cells in rows.items()},
        "Multicast loses what the network loses. Reliable delivery loses nothing: "
        f"{min(outcome.kept_ratio for outcome in reliable.values()):.4%} of what active subscriptions were to get.",
        [Panel("Delivery ratio", "subscriptions", "delivered", _series(found, lambda each: each.delivery_ratio))],
    )


def _own(outcome: Outcome, place: int) -> int:
    return outcome.messages()[place] - outcome.messages(*_APART)[place]


def figure_9(laboratory: Laboratory) -> Figure:
    """All messages of a run."""
    found, counts = run_all(laboratory), laboratory.scale.subscriptions
    links = _rows(found, counts, lambda outcome: _own(outcome, 1))
    datagrams = _rows(found, counts, lambda outcome: _own(outcome, 0))
    growth = {
        each.name: _own(by_count[counts[-1]], 1) / _own(by_count[counts[0]], 1) if counts[-1] in by_count else None
        for each, by_count in found.items()
    }
    paper: dict[str, Cell] = {AR_CACHE.name: "below 5"}
    return Figure(
        "9",
        "messages of a whole run, without heartbeats and acknowledgements of frames",
        METHOD,
        [
            *(f"datagrams, {count:,}" for count in counts),
            *(f"links, {count:,}" for count in counts),
            "growth of links",
            "paper",
        ],
        {name: [*datagrams[name], *cells, growth[name], paper.get(name)] for name, cells in links.items()},
        f"From {counts[0]:,} to {counts[-1]:,} subscriptions the links passed grow by "
        + ", ".join(f"{value:.1f} ({name})" for name, value in growth.items() if value is not None)
        + ".",
        [
            Panel("Datagrams", "subscriptions", "datagrams", _series(found, lambda each: _own(each, 0))),
            Panel("Links passed", "subscriptions", "links", _series(found, lambda each: _own(each, 1))),
        ],
    )


_KINDS = {
    "publications: search": (SEARCH,),
    "publications: delivery": (DELIVERY,),
    "answers, confirmations": (ANSWERS, ACKNOWLEDGED, PLACED),
    "subscriptions": (SUBSCRIPTIONS,),
    "trees, links, pieces": (TREES, LARGE),
    "frames acknowledged": (FRAMES_ACKNOWLEDGED,),
    "ring": (RING,),
}


def figure_10(laboratory: Laboratory) -> Figure:
    """Messages by kind."""
    counts = laboratory.scale.subscriptions
    shown = (AR_CACHE, NARROWEST, RELIABLE)
    cases = [PeerRun(each, count) for each in shown for count in counts]
    outcomes = dict(zip(cases, laboratory.run_all(cases), strict=True))
    columns = [f"{case.algorithm.name}, {case.subscriptions:,}" for case in cases]
    rows = {name: [outcomes[case].messages(*kinds)[1] for case in cases] for name, kinds in _KINDS.items()}
    drawn = {name: kinds for name, kinds in _KINDS.items() if name not in ("ring", "frames acknowledged")}
    return Figure(
        "10",
        "links passed by messages, by kind",
        METHOD,
        columns,
        rows,
        "The paper: publications dominate, subscriptions are few, TreeCache messages almost none.",
        [
            Panel(
                each.name,
                "subscriptions",
                "links",
                [
                    Series(name, list(counts), [outcomes[PeerRun(each, count)].messages(*kinds)[1] for count in counts])
                    for name, kinds in drawn.items()
                ],
            )
            for each in shown
        ],
    )


def figure_11(laboratory: Laboratory) -> Figure:
    """Publication messages for each match."""
    found, counts = run_all(laboratory), laboratory.scale.subscriptions
    links = _rows(found, counts, lambda outcome: outcome.publication_links_per_match)
    datagrams = _rows(found, counts, lambda outcome: outcome.publication_datagrams_per_match)
    paper: dict[str, Cell] = {AR_CACHE.name: "7 links at 1,000"}
    rows: dict[str, list[Cell]] = {name: [*cells, *datagrams[name], paper.get(name)] for name, cells in links.items()}
    one, blank = found[AR_CACHE], [None] * len(counts)
    floors: dict[str, Callable[[Outcome], float]] = {
        "floor: tree of shortest ways": lambda outcome: outcome.floor_links,
        "floor: tree among takers": lambda outcome: outcome.overlay_floor_links,
        "one direct way to each": lambda outcome: outcome.unicast_links,
    }
    for name, floor in floors.items():
        rows[name] = [*(floor(one[count]) for count in counts), *blank, None]
    lines = _series(found, lambda outcome: outcome.publication_links_per_match)
    bounds = [Series(name, list(counts), [floor(one[count]) for count in counts]) for name, floor in floors.items()]
    share = [
        sum(each.messages(*PUBLICATION_KINDS)[1] for each in found[algorithm].values())
        for algorithm in (RELIABLE, AR_CACHE)
    ]
    return Figure(
        "11",
        "publication messages for each match",
        METHOD,
        [*(f"links, {count:,}" for count in counts), *(f"datagrams, {count:,}" for count in counts), "paper"],
        rows,
        f"Over all sizes, reliable delivery passes {share[0] / share[1]:.2f} of the links of the paper's algorithm.",
        [Panel("Links passed for each match", "subscriptions", "links", [*lines, *bounds[:2]])],
    )
