"""BlueDove section IV-F: searchable dimensions, skew of the subscriptions, adverse skew of the messages (figure 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fieldfare.experiments.bluedove_workload import ATTRIBUTES
from fieldfare.experiments.laboratory import REGIMES, Laboratory, Regime, Shape
from fieldfare.experiments.results import Cell, Figure, Panel, Series

DEVIATIONS = (250.0, 500.0, 750.0, 1000.0)
_METHOD = "Service times measured for the parts; saturation found in the queue model."

Rates = Mapping[Regime, Sequence[float]]


def figure_11a(lab: Laboratory) -> Figure:
    """Saturation rate with one to four searchable dimensions."""
    counts = range(1, len(ATTRIBUTES) + 1)
    shapes = [Shape(lab.scale.matchers[-1], ATTRIBUTES[:count]) for count in counts]
    rates = {regime: [lab.rate(lab.setup(regime, shape)) for shape in shapes] for regime in REGIMES}
    rows: dict[str, list[Cell]] = {
        "4 dimensions to 1": [5.5, *(column[-1] / column[0] for column in rates.values())],
        **_rates(rates, [f"{count} dimensions, events/s" for count in counts], {}),
    }
    conclusion = (
        "Every further dimension is another chance to avoid the hot spots; with an index the second brings the most."
    )
    panels = _panels(rates, list(counts), "searchable dimensions")
    return Figure("11a", "searchable dimensions", _METHOD, ("paper", *REGIMES), rows, conclusion, panels)


def figure_11b(lab: Laboratory) -> Figure:
    """Saturation rate with flatter and flatter subscriptions."""
    shape = Shape(lab.scale.matchers[-1])
    specs = [replace(lab.scale.spec, deviation=deviation) for deviation in DEVIATIONS]
    rates = {regime: [lab.rate(lab.setup(regime, shape, spec)) for spec in specs] for regime in REGIMES}
    rows: dict[str, list[Cell]] = {
        "drop from 250 to 1000": ["40%", *(_drop(column) for column in rates.values())],
        **_rates(rates, [f"deviation {deviation:g}, events/s" for deviation in DEVIATIONS], {0: 114_000.0}),
    }
    conclusion = (
        "Skew is an asset, as the paper says: the flatter the subscriptions, the less a choice helps a scan. "
        "An index loses less."
    )
    panels = _panels(rates, DEVIATIONS, "standard deviation of the subscriptions")
    return Figure("11b", "skew of the subscriptions", _METHOD, ("paper", *REGIMES), rows, conclusion, panels)


def figure_11c(lab: Laboratory) -> Figure:
    """Saturation rate with messages that crowd where subscriptions do."""
    shape = Shape(lab.scale.matchers[-1])
    counts = range(len(ATTRIBUTES) + 1)
    specs = [replace(lab.scale.spec, skewed_attributes=count) for count in counts]
    rates = {regime: [lab.rate(lab.setup(regime, shape, spec)) for spec in specs] for regime in REGIMES}
    baseline = [lab.rate(lab.setup(regime, Shape.peer_to_peer(shape.matchers))) for regime in REGIMES]
    rows: dict[str, list[Cell]] = {
        "drop from 0 to 4 dimensions": ["over 50%", *(_drop(column) for column in rates.values())],
        **_rates(rates, [f"{count} skewed, events/s" for count in counts], {0: 114_000.0, 4: 50_000.0}),
        "P2P with even messages, events/s": [30_000.0, *baseline],
    }
    conclusion = (
        "Adverse skew undoes what skew gave. With an index, messages in the hot spots also have more matches to be "
        "written, whatever the layout; the baseline is measured with even messages, as in the paper."
    )
    panels = _panels(rates, list(counts), "dimensions on which messages are skewed")
    return Figure("11c", "adverse skew of the messages", _METHOD, ("paper", *REGIMES), rows, conclusion, panels)


def _drop(rates: Sequence[float]) -> str:
    return f"{1 - rates[-1] / rates[0]:.0%}"


def _rates(rates: Rates, names: Sequence[str], paper: Mapping[int, float]) -> dict[str, list[Cell]]:
    return {name: [paper.get(i), *(column[i] for column in rates.values())] for i, name in enumerate(names)}


def _panels(rates: Rates, x: Sequence[float], x_label: str) -> list[Panel]:
    """All regimes against the first point of each, for their rates are far apart."""
    series = [Series(regime, x, [rate / column[0] for rate in column]) for regime, column in rates.items()]
    return [Panel("saturation rate against the first point", x_label, "relative rate", series)]
