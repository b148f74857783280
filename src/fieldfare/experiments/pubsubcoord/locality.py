"""Section 3.2: how long events take, by the share of a network's topics that nobody wants elsewhere (figure 5).

And what content saves, which the paper could not ask: where subscribers elsewhere want a part of a topic only.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.experiments.pubsubcoord.laboratory import Laboratory, milliseconds
from fieldfare.experiments.pubsubcoord.networks import Flow, Measured
from fieldfare.experiments.pubsubcoord.settings import EVERYTHING, VALUES
from fieldfare.experiments.results import Cell, Figure, Panel, Series

_WANTED_VALUES = VALUES // 10  # of a topic, by each network elsewhere, where content decides


def networks_of(count: int) -> list[str]:
    """The names of networks."""
    return [f"n{number}" for number in range(count)]


def flows_of(networks: Sequence[str], topics: int, locality: float) -> list[Flow]:
    """So many topics in each network; those that are not local have their subscriber in another one."""
    flows = []
    for place, origin in enumerate(networks):
        local = round(locality * topics)
        for number in range(topics):
            away = 0 if number < local else 1 + number % (len(networks) - 1)
            flows.append(Flow.to(f"{origin}-{number}", origin, networks[(place + away) % len(networks)]))
    return flows


def content_flows(networks: Sequence[str], topics: int, *, is_by_content: bool) -> list[Flow]:
    """Topics with a subscriber in every other network, each of which wants other values, or all of them."""
    flows = []
    for place, origin in enumerate(networks):
        others = [networks[(place + step) % len(networks)] for step in range(1, len(networks))]
        for number in range(topics):
            conditions = {
                other: f"v >= {step * _WANTED_VALUES} AND v < {(step + 1) * _WANTED_VALUES}"
                if is_by_content
                else EVERYTHING
                for step, other in enumerate(others)
            }
            flows.append(Flow(f"{origin}-{number}", origin, conditions))
    return flows


def figure_5(lab: Laboratory) -> Figure:
    """Latency against locality."""
    scale = lab.scale.locality
    networks = networks_of(scale.networks)
    rows: dict[str, list[Cell]] = {}
    averages: dict[int, list[float]] = {topics: [] for topics in scale.topics}
    for locality in scale.localities:
        cells: list[Cell] = []
        for topics in scale.topics:
            lab.progress(f"Figure 5: locality {locality:g}, {topics} topics per network")
            flows = flows_of(networks, topics, locality)
            measured = lab.run(networks, scale.routing_count, flows, scale.measured_seconds)
            average, _, longest = milliseconds(measured)
            averages[topics].append(average)
            cells += [average, longest, f"{measured.load_of(networks).mean:.0%}"]
        rows[f"locality {locality:g}"] = ["falls" if locality else None, *cells]
    columns = [
        f"{what}, {topics} topics" for topics in scale.topics for what in ("average ms", "longest ms", "edges busy")
    ]
    samples = round(scale.measured_seconds / 0.05)
    return Figure(
        "5",
        "latency from publisher to subscriber, by locality",
        f"Simulated: {scale.networks} networks with an edge each, {scale.routing_count} routing brokers, a publisher "
        f"and a subscriber for each topic; {samples} samples of each stand for the paper's 5,000. Brokers take the "
        "measured service times. The paper draws its values and does not print them.",
        ("paper", *columns),
        rows,
        "Local events take two ways of 10 ms, the others two more of 40 ms; the average lies on the line between. The "
        "rest is flushing to disk, which events that travel meet twice, and waiting at the brokers.",
        [
            Panel(
                "latency",
                "locality",
                "average latency, ms",
                [Series(f"{topics} topics per network", scale.localities, averages[topics]) for topics in scale.topics],
            )
        ],
    )


def figure_content(lab: Laboratory) -> Figure:
    """What travels between brokers where content decides, and what topic-based PubSubCoord would have sent."""
    scale = lab.scale.locality
    networks, topics = networks_of(scale.networks), scale.topics[0]
    found: dict[str, Measured] = {}
    for name, is_by_content in (("by topic", False), ("by content", True)):
        lab.progress(f"What content saves: {name}")
        flows = content_flows(networks, topics, is_by_content=is_by_content)
        found[name] = lab.run(networks, scale.routing_count, flows, scale.measured_seconds)
    by_topic, by_content = found.values()
    rows: dict[str, list[Cell]] = {
        "events that reached edges, for each published": _both(
            *(each.events_between / each.published for each in (by_topic, by_content))
        ),
        "bytes between brokers, for each published": _both(
            *(each.bytes_between / each.published for each in (by_topic, by_content))
        ),
        "edges busy": _both(*(each.load_of(networks).mean for each in (by_topic, by_content))),
        "routing brokers busy": _both(*(each.routing_load.mean for each in (by_topic, by_content))),
        "average latency, ms": _both(*(milliseconds(each)[0] for each in (by_topic, by_content))),
    }
    share = _WANTED_VALUES / VALUES
    return Figure(
        "content",
        "what is sent where content decides",
        f"Simulated: {scale.networks} networks, {topics} topics in each, with a subscriber in every other network who "
        f"wants {share:.0%} of the events. By topic, every event goes to every edge with an endpoint of its topic, as "
        "in PubSubCoord, and is filtered there.",
        ("topic-based PubSubCoord", "ours", "ours / theirs"),
        rows,
        "The origin matches once for all edges, so an event leaves its network only if somebody elsewhere wants it, "
        "and reaches only edges where somebody does. Frames that say what was passed over are in the bytes.",
        [
            Panel(
                "events and bytes for each published event",
                "",
                "share of what goes by topic",
                [
                    Series("by topic", ["events", "bytes"], [1.0, 1.0]),
                    Series(
                        "by content",
                        ["events", "bytes"],
                        [
                            _ratio(
                                by_content.events_between / by_content.published,
                                by_topic.events_between / by_topic.published,
                            ),
                            _ratio(
                                by_content.bytes_between / by_content.published,
                                by_topic.bytes_between / by_topic.published,
                            ),
                        ],
                    ),
                ],
            )
        ],
    )


def _both(theirs: float, ours: float) -> list[Cell]:
    return [theirs, ours, _ratio(ours, theirs)]


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else 0.0
