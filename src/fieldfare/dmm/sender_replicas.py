"""Replicas as in the DMM paper (section V.B): neighbours keep who sent entries to a region, not the entries themselves.

A line of such a copy has no condition: it names a peer, or a region of a space with more attributes, that has entries
here. A peer that takes a region over asks all of them to send theirs again, and vouches for its table when all have.
`DmmOptions.replicas_hold` chooses; copies of the entries themselves need nobody to answer, so they recover faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.messages import SendAgain
from fieldfare.dmm.region import Region
from fieldfare.dmm.requests import Requests
from fieldfare.dmm.spaces import RegionName, Spaces
from fieldfare.pastry.ports import Ring


class ReplicaContent(StrEnum):
    """What neighbours keep of a region."""

    ENTRIES = "the entries themselves"
    SENDERS = "who sent entries"


@dataclass(frozen=True, slots=True)
class AskSender:
    """A purpose: whoever has entries at a region is to send them again."""

    region: RegionName
    line: str


def senders_of(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """One line for each peer and each region that has entries."""
    lines: dict[str, Entry] = {}
    for entry in entries:
        line_id = f"from {entry.peer.name}" if entry.peer is not None else f"from {entry.region}"
        known = lines.get(line_id)
        seconds = entry.seconds_left if known is None else max(entry.seconds_left, known.seconds_left)
        life = 0 if entry.peer is None else entry.peer.life
        lines[line_id] = Entry(line_id, life, seconds, entry.peer, entry.region)
    return tuple(lines.values())


class Recovering:
    """Regions that a peer has taken over, of which it knows only who sent entries."""

    def __init__(self, ring: Ring, requests: Requests, spaces: Spaces) -> None:
        self._ring, self._requests, self._spaces = ring, requests, spaces
        self._awaited: dict[RegionName, set[str]] = {}

    def begin(self, region: Region, complete_seconds: float, now: float) -> None:
        """Ask all whose lines are in a table for their entries."""
        lines = () if region.table is None else region.table.lines
        awaited = self._awaited.get(region.name, set())
        new = [line for line in lines if line.id not in awaited]
        if not new:
            return
        region.complete_at = max(region.complete_at, now + complete_seconds)
        self._awaited[region.name] = awaited | {line.id for line in new}
        for line in new:
            message, purpose = SendAgain(0, region.name, line.region), AskSender(region.name, line.id)
            if line.peer is not None:
                self._requests.ask(message, purpose, now, contact=self._ring.contact(line.peer))
            elif line.region is not None:
                self._requests.ask(message, purpose, now, key=self._spaces.key(line.region))

    def answered(self, purpose: AskSender, region: Region | None, *, is_ok: bool, now: float) -> None:
        """Somebody has sent all again, or was given up: if it lives, it does so with its next refresh."""
        awaited = self._awaited.get(purpose.region)
        if awaited is None:
            return
        if region is None or region.table is None or not region.is_primary:
            del self._awaited[purpose.region]
            return
        region.table.discard_line(purpose.line)
        if is_ok:
            awaited.discard(purpose.line)
        if not awaited:
            del self._awaited[purpose.region]
            region.complete_at = now
