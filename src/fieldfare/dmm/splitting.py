"""How a leaf becomes an inner region.

The parts are prepared at their peers with all entries that touch them, and confirm that; then the region is inner, here
and at the neighbours that keep copies; then the parts are told to be active, and entries that came meanwhile are sent
on to them. A part whose region never became inner finds that out by asking it, and vanishes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.dmm.entries import TABLE_BYTES_MAX, Entry
from fieldfare.dmm.messages import Activate, Fulfilled, Install
from fieldfare.dmm.region import Region, RegionState
from fieldfare.dmm.region_book import RegionBook
from fieldfare.dmm.spaces import RegionName
from fieldfare.dmm.split_plan import inner_regions, split_plan
from fieldfare.dmm.zcodes import ZCode
from fieldfare.pastry.ports import Contact

_SMALL_SHARE = 8  # a region is left whole if it has less than this part of what its peer wants at most
_LONG_BYTES = TABLE_BYTES_MAX // 2
_GROWTH = 1.25  # a region that could not be divided is looked at again when it has grown so much


@dataclass(frozen=True, slots=True)
class InstallPart:
    """A purpose: a part is to be prepared."""

    region: RegionName
    part: ZCode
    version: int


@dataclass(frozen=True, slots=True)
class ActivatePart:
    """A purpose: a part is to be active."""

    region: RegionName
    part: ZCode
    version: int


@dataclass(frozen=True, slots=True)
class TurnedInner:
    """What follows a copy: the neighbours know that a region is inner."""

    region: RegionName
    parts: tuple[ZCode, ...]


@dataclass(frozen=True, slots=True)
class AnswerDone:
    """What follows a copy: tell that a request is fulfilled."""

    source: Contact
    number: int
    is_ok: bool = True


class Splitting:
    """Splits the regions of one peer, and prepares parts of regions of others."""

    def __init__(
        self,
        book: RegionBook,
        resume: Callable[[Region, float], None],
        activated: Callable[[Region, float], None],
    ) -> None:
        self._book, self._resume, self._activated = book, resume, activated
        self._parts: dict[RegionName, tuple[ZCode, ...]] = {}  # of the regions that are splitting
        self.splits = 0

    # The region that splits

    def split_if_full(self, now: float) -> None:
        """Divide the largest region that can be divided, if this peer has more entries than it wants.

        A region whose table will soon be too long for a message is divided in any case.
        """
        leaves = [region for region in self._book.primaries() if region.answers]
        if sum(region.size for region in leaves) <= self._book.options.entries_max:
            leaves = [region for region in leaves if _is_long(region)]
        for region in sorted(leaves, key=lambda leaf: -leaf.size):
            if region.state is RegionState.SPLITTING:
                return  # one after the other
            if (
                region.state is RegionState.LEAF
                and region.size > _GROWTH * region.unsplit_size
                and self._split(region, now)
            ):
                return

    def _split(self, region: Region, now: float) -> bool:
        is_small = region.size < self._book.options.entries_max // _SMALL_SHARE and not _is_long(region)
        if region.table is None or region.size < 2 or is_small:
            return False
        targets = region.table.targets()
        pieces = split_plan(self._book.spaces.grid(region.name.space), region.name.code, targets)
        if len(pieces) == 1:
            region.unsplit_size = region.size
            return False
        self.splits += 1
        region.renew_entries(now + self._book.options.entry_seconds)
        entries = region.table.entries(now)
        inner = inner_regions(region.name.code, pieces)
        parts = (*inner, *(piece.region for piece in pieces))
        region.turn(RegionState.SPLITTING)
        region.version += 1
        region.waiting = set(parts)
        self._parts[region.name] = parts
        for code in inner:
            self._install(region, code, now, is_inner=True)
        for piece in pieces:
            self._install(region, piece.region, now, entries=tuple(entries[number] for number in piece.members))
        return True

    def _install(
        self, region: Region, code: ZCode, now: float, *, is_inner: bool = False, entries: tuple[Entry, ...] = ()
    ) -> None:
        name, complete_in = region.name.at(code), max(0.0, region.complete_at - now)
        self._book.requests.ask(
            Install(0, name, region.name.code, region.version, is_inner, entries, complete_in),
            InstallPart(region.name, code, region.version),
            now,
            key=self._book.spaces.key(name),
        )

    def installed(self, purpose: InstallPart, is_ok: bool, now: float) -> None:  # noqa: FBT001 - it is what was answered
        """A part is prepared, or could not be."""
        region = self._book.regions.get(purpose.region)
        if region is None or region.version != purpose.version or purpose.part not in region.waiting:
            return
        if region.state is RegionState.INNER:  # a part that was missing
            region.waiting.discard(purpose.part)
            if is_ok:
                self._activate(region, purpose.part, now)
            return
        if region.state is not RegionState.SPLITTING:
            return
        region.waiting.discard(purpose.part)
        if not is_ok:
            region.waiting.clear()
            region.turn(RegionState.LEAF)
            region.unsplit_size = region.size
            self._resume(region, now)
        elif not region.waiting:
            parts = self._parts.pop(region.name)
            region.turn(RegionState.INNER)
            region.waiting = set(parts)
            self._book.replicate(region, TurnedInner(region.name, parts), now)

    def turned_inner(self, then: TurnedInner, now: float) -> None:
        """The region is inner for good: its parts may be active."""
        region = self._book.regions.get(then.region)
        if region is None or region.state is not RegionState.INNER:
            return
        for code in then.parts:
            self._activate(region, code, now)

    def _activate(self, region: Region, code: ZCode, now: float) -> None:
        name = region.name.at(code)
        purpose = ActivatePart(region.name, code, region.version)
        self._book.requests.ask(Activate(0, name, region.version), purpose, now, key=self._book.spaces.key(name))

    def activated(self, purpose: ActivatePart, now: float) -> None:
        """A part is active, or does not answer: then whoever finds it missing says so."""
        region = self._book.regions.get(purpose.region)
        if region is None or region.version != purpose.version:
            return
        region.waiting.discard(purpose.part)
        if not region.waiting and region.deferred:
            self._resume(region, now)

    def repair(self, region: Region, missing: ZCode, now: float) -> None:
        """A half of an inner region is not there: make it again. What it had comes with the next refresh."""
        if region.state is not RegionState.INNER or missing in region.waiting or missing[:-1] != region.name.code:
            return
        region.waiting.add(missing)
        name = region.name.at(missing)
        self._book.requests.ask(
            Install(
                0,
                name,
                region.name.code,
                region.version,
                is_inner=False,
                entries=(),
                complete_in_seconds=self._book.options.complete_seconds,
            ),
            InstallPart(region.name, missing, region.version),
            now,
            key=self._book.spaces.key(name),
        )

    # The parts

    def install(self, source: Contact, install: Install, now: float) -> None:
        """Prepare a part."""
        book = self._book
        region = book.active(install.region, now)
        if region is not None and region.version >= install.version:
            if region.version == install.version:  # it comes again
                book.replicate(region, AnswerDone(source, install.number), now)
            else:
                book.send(source, Fulfilled(install.number, is_ok=False), now)
            return
        if not book.has_room_for(install.entries):
            book.send(source, Fulfilled(install.number, is_ok=False), now)
            return
        region = book.create(install.region, RegionState.PREPARED, install.version, now + install.complete_in_seconds)
        region.origin = install.origin
        if install.is_inner or region.table is None:
            region.table = None
        else:
            region.table.put(install.entries, now)
        book.replicate(region, AnswerDone(source, install.number), now)

    def activate(self, source: Contact, activate: Activate, now: float) -> None:
        """A part is active now."""
        region = self._book.active(activate.region, now)
        if region is None or region.version != activate.version:
            self._book.send(source, Fulfilled(activate.number, is_ok=region is not None), now)
        elif region.state is RegionState.PREPARED:
            self.become_active(region, AnswerDone(source, activate.number), now)
        else:
            self._book.send(source, Fulfilled(activate.number), now)

    def become_active(self, region: Region, then: object, now: float) -> None:
        """A prepared region begins to answer."""
        region.renew_entries(now + self._book.options.entry_seconds)
        region.turn(RegionState.INNER if region.table is None else RegionState.LEAF)
        self._book.replicate(region, then, now)
        self._activated(region, now)


def _is_long(region: Region) -> bool:
    return region.table is not None and region.table.size_bytes > _LONG_BYTES
