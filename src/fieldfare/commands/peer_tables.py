"""Peers as tables: their ring, their regions, their load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from fieldfare.runtime.peers.status import PeerStatus


def ring_table(found: list[PeerStatus]) -> Table:
    """Who is on the ring, as these peers see it."""
    table = Table("id", "name", "address", "seen by", title="Ring")
    seen: dict[str, tuple[str, str, list[str]]] = {}
    for status in found:
        seen.setdefault(status.id, (status.name, status.address, []))[2].append("itself")
        for each in status.neighbours:
            seen.setdefault(each.id, (each.name, each.address, []))[2].append(status.name)
    for node_id, (name, address, by) in sorted(seen.items()):
        table.add_row(f"{node_id[:12]}…", name, address, ", ".join(by))
    return table


def region_table(found: list[PeerStatus]) -> Table:
    """The regions that these peers answer for."""
    table = Table("peer", "topic", "attributes", "part", "state", "entries", title="Regions")
    for status in found:
        for region in status.regions:
            table.add_row(
                status.name,
                region.topic,
                ", ".join(region.attributes) or "none",
                region.code or "all",
                region.state,
                f"{region.entries:,}",
            )
    return table


def load_table(found: list[PeerStatus]) -> Table:
    """How much these peers have to do."""
    columns = ("regions", "copies", "entries", "subscriptions", "unsettled", "undelivered", "published", "delivered")
    table = Table("peer", *columns, "repeated packets", title="Load")
    for status in found:
        numbers = (
            status.regions_count,
            status.copies_count,
            status.entries,
            status.subscriptions,
            status.load["unsettled_publications"],
            status.load["undelivered_events"],
            status.counts["published"],
            status.counts["delivered"],
            status.counts.get("retransmissions", 0),
        )
        table.add_row(status.name, *(f"{number:,}" for number in numbers))
    return table
