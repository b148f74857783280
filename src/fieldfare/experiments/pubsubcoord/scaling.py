"""Section 3.3.1: many edges and routing brokers (figures 6a, 6b, 6d and 6e).

As in the paper, publishers are in some networks and subscribers in the others; a topic has one publisher, and the
subscribers of a network want some of all topics.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from fieldfare.experiments.pubsubcoord.laboratory import Laboratory, milliseconds
from fieldfare.experiments.pubsubcoord.networks import Flow, Measured
from fieldfare.experiments.pubsubcoord.settings import PERIOD_SECONDS, BrokerScale
from fieldfare.experiments.results import Cell, Figure, Panel, Series


def publishing_networks(scale: BrokerScale) -> list[str]:
    """Those with publishers."""
    return [f"p{number}" for number in range(scale.publishing_networks)]


def subscribing_networks(scale: BrokerScale) -> list[str]:
    """Those with subscribers."""
    return [f"s{number}" for number in range(scale.subscribing_networks)]


def flows_of(scale: BrokerScale, topics_per_network: int) -> list[Flow]:
    """All topics, with the networks that want them, drawn at random."""
    rng = random.Random("topics of networks")  # noqa: S311 - for a simulation
    publishing = publishing_networks(scale)
    receivers: list[list[str]] = [[] for _ in range(scale.topics)]
    for network in subscribing_networks(scale):
        for topic in rng.sample(range(scale.topics), topics_per_network):
            receivers[topic].append(network)
    return [
        Flow.to(f"t{number}", publishing[number % len(publishing)], *wanting)
        for number, wanting in enumerate(receivers)
    ]


@cache
def simulate(lab: Laboratory, topics_per_network: int, routing_count: int) -> Measured:
    """One point of the figures; both have the one with all topics and all routing brokers."""
    scale = lab.scale.brokers
    lab.progress(f"Figure 6: {topics_per_network} topics per network, {routing_count} routing brokers")
    networks = [*publishing_networks(scale), *subscribing_networks(scale)]
    return lab.run(networks, routing_count, flows_of(scale, topics_per_network), scale.measured_seconds)


def figure_6ad(lab: Laboratory) -> Figure:
    """Latency and utilisation of edges against the topics of each network."""
    scale = lab.scale.brokers
    counts = scale.topics_per_network
    found = [simulate(lab, count, scale.routing_counts[-1]) for count in counts]
    edges = [measured.load_of(subscribing_networks(scale)) for measured in found]
    publishing = [measured.load_of(publishing_networks(scale)) for measured in found]
    rows: dict[str, list[Cell]] = {}
    for number, count in enumerate(counts):
        average, median, longest = milliseconds(found[number])
        rows[f"{count} topics per network"] = [
            "grows" if number else None,
            average,
            median,
            longest,
            f"{edges[number].mean:.1%}",
            f"{edges[number].highest:.1%}",
            f"{publishing[number].mean:.1%}",
        ]
    return Figure(
        "6ad",
        "latency and utilisation of edges, by the topics of each network",
        f"{_setting(scale)}, {scale.routing_counts[-1]} routing brokers. {_samples(scale, found)}",
        ("paper", "average ms", "median ms", "longest ms", "edges busy", "the busiest", "publishers' edges busy"),
        rows,
        "An edge's work grows linearly with its topics, as in the paper; its latency hardly does while it is not full.",
        [
            _latency_panel("topics per network", counts, found),
            Panel(
                "edges (6d)",
                "topics per network",
                "share of a core that is busy",
                [
                    Series("of subscribers, average", counts, [load.mean for load in edges]),
                    Series("of publishers, average", counts, [load.mean for load in publishing]),
                ],
            ),
        ],
    )


def figure_6be(lab: Laboratory) -> Figure:
    """Latency and utilisation of routing brokers against their number."""
    scale = lab.scale.brokers
    counts = scale.routing_counts
    found = [simulate(lab, scale.topics_per_network[-1], count) for count in counts]
    loads = [measured.routing_load for measured in found]
    rows: dict[str, list[Cell]] = {}
    for number, count in enumerate(counts):
        average, median, longest = milliseconds(found[number])
        paper = {0: "saturated", 1: "latency improves"}.get(number, "less busy")
        rows[f"{count} routing brokers"] = [
            paper,
            average,
            median,
            longest,
            f"{loads[number].mean:.1%}",
            f"{loads[number].highest:.1%}",
        ]
    return Figure(
        "6be",
        "latency and utilisation of routing brokers, by their number",
        f"{_setting(scale)}, {scale.topics_per_network[-1]} topics in each of these. {_samples(scale, found)}",
        ("paper", "average ms", "median ms", "longest ms", "routing brokers busy", "the busiest"),
        rows,
        "The leader gives every routing broker as many topics as the others, so their load falls as 1 / number "
        "where they are not full. One that is has a queue that grows as long as the run lasts.",
        [
            _latency_panel("routing brokers", counts, found),
            Panel(
                "routing brokers (6e)",
                "routing brokers",
                "share of a core that is busy",
                [
                    Series("average", counts, [load.mean for load in loads]),
                    Series("the busiest", counts, [load.highest for load in loads]),
                ],
            ),
        ],
    )


def _setting(scale: BrokerScale) -> str:
    return (
        f"Simulated, with measured service times: {scale.publishing_networks + scale.subscribing_networks} edges, "
        f"{scale.topics:,} publishers in {scale.publishing_networks} networks, {scale.topics:,} topics, "
        f"{scale.subscribing_networks} networks of subscribers with one for each of their topics"
    )


def _samples(scale: BrokerScale, found: Sequence[Measured]) -> str:
    samples = round(scale.measured_seconds / PERIOD_SECONDS)
    delivered = max(len(measured.latencies) for measured in found)
    return (
        f"{samples} samples of each subscriber, {delivered:,} deliveries at most, stand for the paper's 5,000 of each."
    )


def _latency_panel(x_label: str, counts: Sequence[int], found: Sequence[Measured]) -> Panel:
    latencies = [milliseconds(measured) for measured in found]
    return Panel(
        "latency",
        x_label,
        "latency, ms",
        [
            Series("average", counts, [average for average, _, _ in latencies]),
            Series("longest", counts, [longest for _, _, longest in latencies]),
        ],
    )
