"""Peers as tables: their ring, their regions, their load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from fieldfare.dmm.peer_load import Spread

if TYPE_CHECKING:
    from fieldfare.runtime.peers.status import PeerStatus

# What the columns of the two tables of load are called, and where a status has them.
_STATE = {
    "regions": "regions",
    "entries": "entries",
    "at most": "entries_max",
    "copied entries": "copied_entries",
    "own subscriptions": "subscriptions",
    "undelivered": "undelivered_events",
}
_WORK = {
    "messages": "messages",
    "visits": "visits",
    "events matched": "matched_events",
    "entries refused": "refused_entries",
    "published": "published",
    "delivered": "delivered",
    "packets repeated": "retransmissions",
}


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


def state_table(found: list[PeerStatus]) -> Table:
    """How much these peers keep: entries are subscriptions of all peers, by which they match events."""
    return _load_table("Load: state", _STATE, found)


def work_table(found: list[PeerStatus]) -> Table:
    """How much these peers have done since their start."""
    return _load_table("Load: work", _WORK, found)


def _load_table(title: str, columns: dict[str, str], found: list[PeerStatus]) -> Table:
    table = Table("peer", *columns, title=title)
    rows = [{"subscriptions": status.subscriptions, **status.load, **status.counts} for status in found]
    for status, row in zip(found, rows, strict=True):
        table.add_row(status.name, *(f"{row.get(source, 0):,}" for source in columns.values()))
    if len(found) > 1:
        spreads = [Spread.of(row.get(source, 0) for row in rows) for source in columns.values()]
        table.add_section()
        table.add_row("mean", *(f"{spread.mean:,.1f}" for spread in spreads))
        table.add_row("largest", *(f"{spread.largest:,.0f}" for spread in spreads))
    return table
