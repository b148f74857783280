"""All regions that a peer keeps, and their copies at its neighbours on the ring.

Whoever is closest to a region's key answers for it, and has its nearest neighbours keep a copy. If it fails, messages
for the region come to one of these, which then simply answers. An entry is confirmed to a subscriber only when the
neighbours have it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from itertools import count

from fieldfare.dmm.entries import Entry, EntryTable
from fieldfare.dmm.messages import AnyPeerMessage, Copy, Fulfilled, encode
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.region import Region, RegionState
from fieldfare.dmm.requests import Requests
from fieldfare.dmm.sender_replicas import Recovering, ReplicaContent, senders_of
from fieldfare.dmm.spaces import RegionName, Space, Spaces
from fieldfare.pastry.ids import is_closer
from fieldfare.pastry.ports import Contact, Ring

_STATES = {
    "leaf": RegionState.LEAF,
    "inner": RegionState.INNER,
    "prepared": RegionState.PREPARED,
    "prepared inner": RegionState.PREPARED,
}


@dataclass(frozen=True, slots=True)
class CopyTo:
    """A purpose: a neighbour is to confirm a copy."""

    confirmation: int
    region: RegionName
    neighbour: Contact
    is_whole: bool = False


@dataclass(slots=True)
class _Confirmation:
    """Something that happens when some neighbours have confirmed a copy."""

    then: object
    missing: set[tuple[RegionName, int]] = field(default_factory=set)  # regions, and ids of neighbours


class RegionBook:
    """The regions of one peer.

    `follow` is called with what was to happen when copies are confirmed, `place_anew` with entries that have lost their
    leaf.
    """

    def __init__(
        self,
        ring: Ring,
        requests: Requests,
        spaces: Spaces,
        options: DmmOptions,
        follow: Callable[[object, float], None],
        place_anew: Callable[[Space, tuple[Entry, ...], float], None],
    ) -> None:
        self.ring, self.requests, self.spaces, self.options = ring, requests, spaces, options
        self.place_anew = place_anew
        self.recovering = Recovering(ring, requests, spaces)
        self._holds_senders = options.replicas_hold is ReplicaContent.SENDERS
        self.regions: dict[RegionName, Region] = {}
        self.settled_at = 0.0  # from then on this peer would know of a region if it existed
        self._follow = follow
        self.newcomers: dict[int, float] = {}  # peers that asked for copies, and until when they count as such
        self._confirmations: dict[int, _Confirmation] = {}
        self._numbers = count()

    # Regions

    def is_responsible(self, name: RegionName) -> bool:
        """Whether no peer that is known is closer to a region's key."""
        key, me = self.spaces.key(name), self.ring.me.id
        if self.ring.next_hop(key) is not None:
            return False
        return not any(is_closer(newcomer, me, key) for newcomer in self.newcomers)

    def active(self, name: RegionName, now: float) -> Region | None:
        """A region for which this peer is asked, because it is the closest now; None if it knows nothing of it.

        A peer that begins to answer has its own neighbours keep copies: some are none of its predecessor's.
        """
        region = self.regions.get(name)
        if region is not None and not region.is_primary:
            region.is_primary = True
            if region.table is not None:  # nobody refreshed the entries of a copy
                region.table.renew(now + self.options.entry_seconds)
            self.recovering.begin(region, self.options.complete_seconds, now)
            self.replicate(region, None, now)
        return region

    def create(self, name: RegionName, state: RegionState, version: int, complete_at: float) -> Region:
        """A region that was not here."""
        table = None if state is RegionState.INNER else EntryTable(name.space, self.spaces)
        region = self.regions[name] = Region(name, state, version, table, complete_at, is_primary=True)
        return region

    def primaries(self) -> list[Region]:
        """The regions for which this peer answers."""
        return [region for region in self.regions.values() if region.is_primary]

    def has_room_for(self, entries: Collection[Entry], table: EntryTable | None = None) -> bool:
        """Whether this peer can keep these entries, for itself or as a copy: in a table, or else in a new region."""
        if table is not None and not table.has_room_for(entries):
            return False
        count_new = 1 + len(entries) if table is None else sum(entry.id not in table for entry in entries)
        if not count_new:
            return True
        tables = (region.table for region in self.regions.values() if region.table is not None)
        kept = len(self.regions) + sum(len(table) + len(table.lines) for table in tables)
        return kept + count_new <= self.options.entries_kept_max

    def send(self, target: Contact, message: AnyPeerMessage, now: float) -> None:
        """Answer a peer."""
        self.ring.send(target, encode(message), now)

    # Copies

    def neighbours(self) -> dict[int, Contact]:
        """Who keeps copies."""
        count_each, leaves = self.options.replicas_each_side, self.ring.leaves
        contacts = (*leaves.before[:count_each], *leaves.after[:count_each])
        return {contact.id: contact for contact in contacts if contact.id != self.ring.me.id}

    def replicate(
        self,
        region: Region,
        then: object,
        now: float,
        *,
        entries: tuple[Entry, ...] | None = None,
        removed: tuple[str, ...] = (),
        is_gone: bool = False,
    ) -> None:
        """Have the neighbours keep a change: some entries, or without them all there is. Then go on with `then`."""
        if self._holds_senders and self._are_known(region, now, entries) and not is_gone:
            if then is not None:
                self._follow(then, now)
            return
        region.sequence += 1
        message = self.copy_of(region, now, entries, removed, is_gone=is_gone)
        self.have_kept([(message, neighbour) for neighbour in self.neighbours().values()], then, now)

    def _are_known(self, region: Region, now: float, entries: tuple[Entry, ...] | None) -> bool:
        """Whether neighbours, which keep who sent entries, know all who sent these. From now on they do."""
        is_whole = entries is None
        if entries is None:
            entries = () if region.table is None else (*region.table.entries(now), *region.table.lines)
        lines = {(line.id, line.version) for line in senders_of(entries)}
        if is_whole:
            region.copied_lines = lines
        elif lines <= region.copied_lines and not self.is_copying(region):
            return True
        region.copied_lines |= lines
        return False

    def have_kept(self, copies: Collection[tuple[Copy, Contact]], then: object, now: float) -> None:
        """Send copies to neighbours; when all have confirmed theirs, go on with `then`."""
        number = next(self._numbers)
        missing = {(copy.region, neighbour.id) for copy, neighbour in copies}
        self._confirmations[number] = _Confirmation(then, missing)
        for copy, neighbour in copies:
            self.requests.ask(copy, CopyTo(number, copy.region, neighbour, copy.is_whole), now, contact=neighbour)
        if not copies:
            self._confirmed(number, now)

    def is_copying(self, region: Region) -> bool:
        """Whether neighbours have yet to confirm changes of a region."""
        pending = (item for confirmation in self._confirmations.values() for item in confirmation.missing)
        return any(name == region.name for name, _ in pending)

    def copy_of(
        self,
        region: Region,
        now: float,
        entries: tuple[Entry, ...] | None = None,
        removed: tuple[str, ...] = (),
        *,
        is_gone: bool = False,
    ) -> Copy:
        """What a neighbour is to keep: some entries, or without them all there is."""
        is_whole = entries is None
        if entries is None:
            table = None if is_gone else region.table
            entries = () if table is None else (*table.entries(now), *table.lines)
        kind = "gone" if is_gone else region.kind
        complete_in = max(0.0, region.complete_at - now)
        if self._holds_senders:
            entries, removed = senders_of(entries), ()
        return Copy(
            0,
            region.name,
            region.version,
            region.sequence,
            kind,
            is_whole,
            entries,
            removed,
            complete_in,
            region.origin,
        )

    def copy_answered(self, purpose: CopyTo, is_ok: bool, now: float) -> None:  # noqa: FBT001 - it is what was answered
        """A neighbour has a copy; or it has missed something, and gets all; or it is full, or was given up."""
        region = self.regions.get(purpose.region)
        if not is_ok and not purpose.is_whole and region is not None and purpose.neighbour.id in self.neighbours():
            whole = replace(purpose, is_whole=True)
            self.requests.ask(self.copy_of(region, now), whole, now, contact=purpose.neighbour)
            return
        self._no_longer_missing(purpose.confirmation, {(purpose.region, purpose.neighbour.id)}, now)

    def _no_longer_missing(self, number: int, confirmed: Collection[tuple[RegionName, int]], now: float) -> None:
        confirmation = self._confirmations.get(number)
        if confirmation is not None:
            confirmation.missing.difference_update(confirmed)
            if not confirmation.missing:
                self._confirmed(number, now)

    def _confirmed(self, number: int, now: float) -> None:
        then = self._confirmations.pop(number).then
        if then is not None:
            self._follow(then, now)

    def do_not_wait_for(self, gone: Collection[int], now: float) -> None:
        """Some neighbours are gone: they will not confirm anything."""
        for number, confirmation in list(self._confirmations.items()):
            self._no_longer_missing(number, [item for item in confirmation.missing if item[1] in gone], now)

    def take_copy(self, source: Contact, copy: Copy, now: float) -> None:
        """Keep what a neighbour has."""
        self.send(source, Fulfilled(copy.number, self._kept(copy, now)), now)

    def _kept(self, copy: Copy, now: float) -> bool:
        region = self.regions.get(copy.region)
        if copy.kind == "gone":
            if region is not None and region.version <= copy.version:
                del self.regions[copy.region]
            return True
        is_mine = region is not None and self.is_responsible(copy.region)
        if region is not None and (is_mine or (copy.version, copy.sequence) <= (region.version, region.sequence)):
            return not is_mine or self._united(region, copy, now)
        former = None if region is None or copy.is_whole else region.table
        if not self.has_room_for(copy.entries, former):
            self.regions.pop(copy.region, None)  # a copy that misses something is worse than none
            return False
        if not copy.is_whole:
            if region is None or (region.version, region.sequence + 1) != (copy.version, copy.sequence):
                return False
        else:
            region = self.create(copy.region, _STATES[copy.kind], copy.version, now + copy.complete_in_seconds)
        self._apply(region, copy, now)
        return True

    def _apply(self, region: Region, copy: Copy, now: float) -> None:
        region.is_primary = False
        if copy.kind == "prepared inner":
            region.table = None
        region.version, region.sequence, region.origin = copy.version, copy.sequence, copy.origin
        if region.table is not None:
            region.table.put(copy.entries, now)
            for entry_id in copy.removed:
                region.table.discard(entry_id)

    def _united(self, region: Region, copy: Copy, now: float) -> bool:
        """What another peer says that it has, of a region for which this one answers: the ring was in doubt.

        Where the two differ in what the region is, the later version is right, and the other's entries are placed anew.
        """
        self.active(region.name, now)
        if region.state is RegionState.LEAF and copy.kind == "leaf" and region.table is not None:
            region.version = max(region.version, copy.version)
            if not region.table.has_room_for(copy.entries):
                self.place_anew(region.name.space, copy.entries, now)
            elif region.table.put(copy.entries, now):
                self.recovering.begin(region, self.options.complete_seconds, now)
                self.replicate(region, None, now, entries=copy.entries)
        elif copy.is_whole and copy.version > region.version and region.state in (RegionState.LEAF, RegionState.INNER):
            former = () if region.table is None else tuple(region.table.entries(now))
            replaced = self.create(copy.region, _STATES[copy.kind], copy.version, now + self.options.complete_seconds)
            self._apply(replaced, copy, now)
            replaced.is_primary = True
            self.replicate(replaced, None, now)
            self.place_anew(region.name.space, former, now)
        elif copy.kind == "leaf":
            self.place_anew(region.name.space, copy.entries, now)
        return True
