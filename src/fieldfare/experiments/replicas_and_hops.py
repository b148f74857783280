"""Latency against throughput for every R and H of a clusters layout, as the planner predicts them."""

from __future__ import annotations

from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.planning.application import Application
from fieldfare.planning.choosing import ways_of
from fieldfare.planning.costs import Costs
from fieldfare.planning.nodes import GIBIBYTE, Nodes
from fieldfare.planning.predicting import Prediction, predict
from fieldfare.planning.spark_ways import hops_to_fit
from fieldfare.planning.ways import WayKind

_MATCHERS = 16
_RATE_SHARE = 0.5  # of its throughput, at which each choice's latency is predicted


def figure(application: Application, costs: Costs, nodes: Nodes, matchers: int = _MATCHERS) -> Figure:
    """Every R, and H 1, 2 and all clusters, each at half of its own throughput."""
    memory = nodes.sizes[0].memory_bytes
    rows: dict[str, list[Cell]] = {}
    points: dict[int, list[Prediction]] = {}
    for way in ways_of(WayKind.CLUSTERS, matchers):
        most = predict(application, way, costs, nodes).throughput_events
        at_half = _at_rate(application, most * _RATE_SHARE)
        found = predict(at_half, way, costs, nodes)
        points.setdefault(way.replicas, []).append(found)
        rows[f"R {way.replicas}, H {way.hops}"] = [found.latency_p50_seconds * 1e3, most, way.load_indicator]
    series = [
        Series(f"R {r}", [each.throughput_events for each in found], [1e3 * each.latency_p50_seconds for each in found])
        for r, found in points.items()
    ]
    return Figure(
        "replicas-and-hops",
        f"{application.name} on {matchers} matchers",
        "Predicted, each choice at half of its throughput. Along a line H grows from the right to the left. "
        f"The paper's H is {hops_to_fit(application, costs, memory):,}: so many nodes of {memory / GIBIBYTE:g} GiB "
        "hold all subscriptions.",
        ("p50 ms", "events/s", "I = N/(H·R)"),
        rows,
        "",
        [Panel("clusters", "events/s at most", "p50, ms", series, log_x=True)],
    )


def _at_rate(application: Application, rate: float) -> Application:
    import msgspec

    return msgspec.structs.replace(application, events_per_second=max(rate, 1e-6), peak_events_per_second=None)
