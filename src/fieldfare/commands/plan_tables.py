"""What a plan looks like at a terminal, of 100 columns or fewer."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fieldfare.planning.application import Application
from fieldfare.planning.choosing import Plan, Threshold
from fieldfare.planning.costs import Costs
from fieldfare.planning.nodes import GIBIBYTE
from fieldfare.planning.predicting import Prediction
from fieldfare.planning.presets import PRESETS
from fieldfare.planning.together import Share, Together

_ALL_COLUMNS = 96  # of a terminal that has room for every column
_HEADINGS = ("way", "p50", "p99", "events/s\nmax", "memory", "network", "nodes", "lacks, or first limit")
_NARROW_HEADINGS = tuple(heading for heading in _HEADINGS if heading not in {"memory", "network"})
_WORDS = {
    "events_per_second": ("events a second", 1.0, ""),
    "subscriptions": ("subscriptions", 1.0, ""),
    "matches_per_event": ("matches for an event", 1.0, ""),
    "latency_seconds_max": ("of p99 allowed", 1e3, " ms"),
}


def plan_view(plan: Plan, costs: Costs, columns: int) -> Group:
    """The ways side by side, the recommended one, why, and what would change that."""
    return Group(
        _title(plan),
        _ways(plan, is_narrow=columns < _ALL_COLUMNS),
        *(Text(line) for line in _sentences(plan, costs)),
        Text(),
    )


def _title(plan: Plan) -> Text:
    application = plan.application
    peak = " at its peak" if application.peak_events_per_second else ""
    return Text(
        f"{application.name}: {application.subscriptions:,} subscriptions ({application.shape}), "
        f"{number(application.carried_events_per_second)} events/s{peak} of {application.event_bytes:,} bytes, "
        f"{number(application.matches_per_event)} match{'' if application.matches_per_event == 1 else 'es'} each, "
        f"p99 < {duration(application.latency_seconds_max)}",
        style="bold",
    )


def _ways(plan: Plan, *, is_narrow: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, caption=_caption(plan, is_narrow=is_narrow), caption_justify="left", pad_edge=False)
    for heading in _NARROW_HEADINGS if is_narrow else _HEADINGS:
        is_text = heading in {"way", "lacks, or first limit"}
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=heading == "way")
    for found in plan.predictions:
        is_best = found is plan.recommended
        cells = {
            "way": f"{'→ ' if is_best else '  '}{found.way}",
            "p50": duration(found.latency_p50_seconds),
            "p99": duration(found.latency_p99_seconds),
            "events/s\nmax": number(found.throughput_events),
            "memory": memory(found.memory_bytes_per_node),
            "network": network(found.network_bytes_per_node),
            "nodes": str(found.nodes),
            "lacks, or first limit": "; ".join(found.unmet) or found.limited_by,
        }
        table.add_row(
            *(cells[column.header] for column in table.columns if isinstance(column.header, str)),
            style="bold" if is_best else "" if found.is_enough else "dim",
        )
    return table


def _caption(plan: Plan, *, is_narrow: bool) -> str:
    part = f"For one of {plan.parts} equal parts. " if plan.parts > 1 else ""
    where = (
        f"Memory and network are shown from {_ALL_COLUMNS} columns on."
        if is_narrow
        else "Memory and network: of the busiest node."
    )
    return f"{part}{where} Latency: from publishing to delivery."


def _sentences(plan: Plan, costs: Costs) -> Iterator[str]:
    best = plan.recommended
    yield from _recommendation(plan)
    yield from (f"  {note}" for note in best.notes)
    if plan.thresholds:
        yield "What would change it:"
        yield from (f"  {threshold_text(each)}" for each in plan.thresholds)
    if best.way.kind.is_spark:
        yield (
            "  The pipeline measures, too: with --matchers auto it splits the most loaded matcher where batches take "
            f"longer than the interval; {best.way.nodes} is where that should end."
        )
    yield from _standing(costs, best)


def _recommendation(plan: Plan) -> Iterator[str]:
    best, application = plan.recommended, plan.application
    if not best.is_enough:
        yield f"Nothing is enough. {best.way} comes nearest, and lacks: {'; '.join(best.unmet)}."
        return
    if plan.parts > 1:
        yield (
            f"No way is enough for all of it. Recommended: {plan.parts} topics, divided by an attribute that every "
            f"condition names, each in the way {best.way}: {plan.parts * best.nodes} nodes in all."
        )
    else:
        yield f"Recommended: {best.way}, on {best.nodes} node{'s' if best.nodes > 1 else ''}."
    yield (
        f"  Because it has the fewest nodes, then the fewest processes ({best.processes}), of those that are enough: "
        f"p99 {duration(best.latency_p99_seconds)} of {duration(application.latency_seconds_max)}, "
        f"{best.utilisation:.0%} of its throughput used. First limit: {best.limited_by}."
    )


def threshold_text(threshold: Threshold) -> str:
    """A threshold as a sentence."""
    words, factor, unit = _WORDS[threshold.setting]
    value = number(threshold.value * factor)
    then = "nothing is enough" if threshold.then is None else f"then {threshold.then}"
    return f"{'beyond' if threshold.above else 'below'} {value}{unit} {words}: {threshold.because}; {then}"


def _standing(costs: Costs, best: Prediction) -> Iterator[str]:
    """What the numbers stand on."""
    yield from _origin(costs)
    if best.extrapolated:
        yield f"Extrapolated: {'; '.join(best.extrapolated)}."


def _origin(costs: Costs) -> Iterator[str]:
    origin = costs.origin
    if origin.is_reference:
        yield (
            "Reference costs, of another machine: read the order of the ways rather than the numbers, and measure "
            "yours: fieldfare plan --calibrate"
        )
    else:
        yield f"Costs measured here at {origin.measured_at}, with a load of {origin.load:.1f} from other programs."
    if origin.not_measured:
        yield f"Not measured, but taken from the reference: {', '.join(origin.not_measured)}."


def together_view(found: Together, costs: Costs) -> Group:
    """Several applications on the same nodes."""
    table = Table(
        box=SIMPLE_HEAD,
        caption="Events/s: at most, with all nodes alone, and beside the others. Memory: of all its processes.",
        caption_justify="left",
        pad_edge=False,
    )
    for heading in ("application", "way", "cores", "memory", "p99", "alone", "here", "nodes"):
        is_text = heading in {"application", "way", "nodes"}
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=heading in {"application", "way"})
    for share in found.shares:
        table.add_row(*_share_cells(share))
    lines = [line for share in found.shares if not share.is_enough for line in _lacking(share)]
    free = ", ".join(f"{size.name}: {size.cores} cores, {size.memory_gib:.1f} GiB" for size in found.left)
    heading = "Placed together, the one that needs most first; a process has a core of its own."
    shown = (*lines, f"Left: {free}", *_origin(costs))
    return Group(Text(heading, style="bold"), table, *map(Text, shown))


def _share_cells(share: Share) -> list[str]:
    placed = share.placed
    if placed is None:
        return [share.application.name, "no room", "-", "-", "-", number(share.alone.throughput_events), "-", "-"]
    names = share.nodes if len(share.nodes) < 4 else (share.nodes[0], "…", share.nodes[-1])
    return [
        share.application.name,
        str(placed.way),
        str(share.cores),
        memory(share.memory_bytes),
        duration(placed.latency_p99_seconds),
        number(share.alone.throughput_events),
        number(placed.throughput_events),
        ", ".join(names),
    ]


def _lacking(share: Share) -> Iterator[str]:
    what = "; ".join(share.placed.unmet) if share.placed else "no core or memory is left"
    yield f"{share.application.name} does not fit beside the others: {what}."


def presets_view() -> Table:
    """The presets: what the paper says, and how it is read."""
    table = Table(
        caption="Write one out to start from: fieldfare plan games --toml > mine.toml", caption_justify="left"
    )
    for heading in ("preset", "paper: Table 1", "read as"):
        table.add_column(heading, overflow="fold")
    for name, one in PRESETS.items():
        paper = one.paper
        said = (
            f"{paper.title}: {paper.expressiveness}; publisher bandwidth {paper.publisher_bandwidth}; latency "
            f"{paper.maximum_latency}; {paper.subscription_clustering}; {paper.subscribers} subscribers, subscribe "
            f"frequency {paper.subscribe_frequency}; {paper.publishers} publishers, {paper.publish_frequency}"
        )
        table.add_row(name, said, _reading(one.application))
    return table


def _reading(application: Application) -> str:
    return "; ".join(application.assumptions)


def number(value: float) -> str:
    """Three digits, grouped; millions are named."""
    if math.isinf(value):
        return "∞"
    if value >= 1e6:
        return f"{value / 1e6:.3g}M" if value < 1e9 else f"{value:.3g}"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def memory(size: float) -> str:
    """Bytes, in the unit of a node's memory."""
    gibibytes = size / GIBIBYTE
    return f"{gibibytes:.1f} GiB" if gibibytes < 1000 else f"{number(gibibytes)} GiB"


def network(bytes_per_second: float) -> str:
    """Bytes per second, as links are sold."""
    megabits = bytes_per_second * 8 / 1e6
    return f"{megabits:.0f} Mb/s" if megabits < 10_000 else f"{number(megabits / 1e3)} Gb/s"


def duration(seconds: float) -> str:
    """As people say it."""
    if math.isinf(seconds):
        return "∞"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{number(seconds)} s"
