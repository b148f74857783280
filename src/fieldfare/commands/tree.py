"""What `fieldfare brokers --url` prints: a tree as the broker at that address sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table

from fieldfare.commands.asking import ask

if TYPE_CHECKING:
    from fieldfare.commands.connecting import Service
    from fieldfare.routing.tree.view import TreeView


def read_tree(service: Service) -> TreeView:
    """Ask a broker. An error that says why it does not answer, or refuses."""
    from fieldfare.routing.tree.view import TreeView

    return ask(service, "/v1/tree", TreeView, "broker of a tree")


def print_tree(tree: TreeView) -> None:
    """Brokers, links and topics as tables."""
    console = Console()
    places = [Column(name, overflow="fold") for name in ("address", "clients at")]  # cut off they would be of no use
    brokers = Table(
        "broker", "hops", "over", *places, "load", "topics", "behind", title=f"Brokers, seen by {tree.name}"
    )
    for broker in tree.brokers:
        brokers.add_row(
            broker.name,
            str(broker.hops),
            broker.over,
            broker.address,
            broker.url,
            f"{broker.load:.0%}",
            str(broker.topic_count),
            f"{broker.behind:,}",
        )
    links = Table("neighbour", "sent", "waiting", "window", "received", title=f"Links of {tree.name}, in bytes")
    for link in tree.links:
        counts = (link.sent_bytes, link.waiting_bytes, link.window_bytes, link.received_bytes)
        links.add_row(link.neighbour, *(f"{count:,}" for count in counts))
    topics = Table("topic", "brokers", "published at", "owed", title="Topics")
    for topic in tree.topics:
        topics.add_row(topic.topic, *map(", ".join, (topic.brokers, topic.publishing, topic.owed)))
    for table in (brokers, links, topics):
        console.print(table)
    if tree.away:
        console.print(f"Neighbours that are away: {', '.join(tree.away)}")
