"""How an inner region becomes a leaf again: the mirror of splitting.

Halves tell the region above them how large they are. Where both are small it asks them for their tables; a half that
gave its table takes no entries and no longer vouches for its answers. The region is a leaf then, copies included, but
takes entries only when both halves have vanished: so no entry is confirmed that an active half does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.dmm.entries import TABLE_BYTES_MAX, EntryTable
from fieldfare.dmm.messages import Fulfilled, Give, Given, Release, Report, Retire, encode
from fieldfare.dmm.region import ChildReport, Region, RegionState
from fieldfare.dmm.region_book import RegionBook
from fieldfare.dmm.spaces import RegionName
from fieldfare.dmm.splitting import AnswerDone
from fieldfare.dmm.zcodes import ROOT, ZCode, children_of
from fieldfare.pastry.ports import Contact

_SHARE = 4  # a region is small if it has less than this part of what its peer wants at most
_BYTES_MAX = TABLE_BYTES_MAX // _SHARE  # and its table has no more


@dataclass(frozen=True, slots=True)
class GiveTable:
    """A purpose: a half is to give its table."""

    region: RegionName
    half: ZCode


@dataclass(frozen=True, slots=True)
class RetireHalf:
    """A purpose: a half is to vanish."""

    region: RegionName
    half: ZCode


@dataclass(frozen=True, slots=True)
class ReleaseHalf:
    """A purpose: a half is to go on as a leaf."""


@dataclass(frozen=True, slots=True)
class TurnedLeaf:
    """What follows a copy: the neighbours know that a region is a leaf."""

    region: RegionName


class Merging:
    """Merges regions of one peer, and gives parts to regions of others."""

    def __init__(
        self,
        book: RegionBook,
        resume: Callable[[Region, float], None],
        activated: Callable[[Region, float], None],
    ) -> None:
        self._book, self._resume, self._activated = book, resume, activated
        self.merges = 0

    # Reports

    def report_all(self, now: float) -> None:
        """Tell the regions above of those that this peer has."""
        for region in self._book.primaries():
            if region.name.code != ROOT and region.state in (RegionState.LEAF, RegionState.INNER):
                size = None if region.state is RegionState.INNER else region.size
                key = self._book.spaces.key(region.name.parent)
                self._book.ring.route(key, encode(Report(region.name, region.version, size)), now)

    def reported(self, source: Contact, report: Report, now: float) -> None:
        """A half tells how large it is."""
        if report.region.code == ROOT:
            return
        book, name = self._book, report.region.parent
        region = book.active(name, now)
        if region is None and not book.has_room_for(()):
            return
        if region is None:  # it was lost, with all copies
            region = book.create(name, RegionState.INNER, report.version, book.settled_at)
            book.replicate(region, None, now)
        if region.state is RegionState.LEAF:
            self._settle_with_child(region, report, source, now)
        elif region.state is RegionState.INNER:
            region.reports[report.region.code] = ChildReport(report.size, report.version, now)
            self._merge_if_small(region, now)

    def _settle_with_child(self, region: Region, report: Report, source: Contact, now: float) -> None:
        """A leaf hears of an active region below it. The later version is right; the other's entries are not lost."""
        if report.version > region.version:
            former = () if region.table is None else tuple(region.table.entries(now))
            region.turn(RegionState.INNER)  # it was made again after all copies were lost
            region.version = report.version
            self._book.replicate(region, None, now)
            self._book.place_anew(region.name.space, former, now)
        elif report.size is not None:
            self._retire(region, report.region.code, (report.version, -1), now, contact=source)

    def _merge_if_small(self, region: Region, now: float) -> None:
        halves = [region.reports.get(code) for code in children_of(region.name.code)]
        oldest = now - 2 * self._book.options.refresh_seconds
        sizes = [half.size for half in halves if half is not None and half.size is not None and half.at > oldest]
        load = sum(leaf.size for leaf in self._book.primaries() if leaf.answers)
        room = self._book.options.entries_max - load
        if (
            len(sizes) < len(halves)
            or region.waiting
            or sum(sizes) * _SHARE > min(room, self._book.options.entries_max)
        ):
            return
        region.turn(RegionState.COLLECTING)
        region.given.clear()
        region.table = EntryTable(region.name.space, self._book.spaces)
        region.complete_at = now
        for code in children_of(region.name.code):
            name = region.name.at(code)
            self._book.requests.ask(Give(0, name), GiveTable(region.name, code), now, key=self._book.spaces.key(name))

    # The region that merges

    def given(self, purpose: GiveTable, given: Given | None, now: float) -> None:
        """A half gave its table, or cannot."""
        region = self._book.regions.get(purpose.region)
        if region is None or region.state is not RegionState.COLLECTING or region.table is None:
            return
        if given is None or given.table is None or not region.table.has_room_for(given.table, _BYTES_MAX):
            self._give_up(region, now)
            return
        self._take(region, purpose.half, given, now)
        if len(region.given) == len(children_of(purpose.half)):
            self.merges += 1
            region.version = max(region.version, *(version for version, _ in region.given.values())) + 1
            table = region.table
            region.turn(RegionState.CLOSING)
            region.table = table
            region.waiting = set(region.given)
            self._book.replicate(region, TurnedLeaf(region.name), now)

    def _take(self, region: Region, half: ZCode, given: Given, now: float) -> None:
        if region.table is not None and given.table is not None:
            region.table.put(given.table, now)
            region.given[half] = given.version, given.sequence
            region.complete_at = max(region.complete_at, now + given.complete_in_seconds)

    def _give_up(self, region: Region, now: float) -> None:
        region.turn(RegionState.INNER)
        for code in children_of(region.name.code):
            name = region.name.at(code)
            self._book.requests.ask(Release(0, name), ReleaseHalf(), now, key=self._book.spaces.key(name))
        region.given.clear()
        self._resume(region, now)

    def turned_leaf(self, then: TurnedLeaf, now: float) -> None:
        """The region is a leaf for good: its halves may vanish."""
        region = self._book.regions.get(then.region)
        if region is not None and region.state is RegionState.CLOSING:
            for half, version_and_sequence in list(region.given.items()):
                self._retire(region, half, version_and_sequence, now)

    def _retire(
        self, region: Region, half: ZCode, given: tuple[int, int], now: float, *, contact: Contact | None = None
    ) -> None:
        name = region.name.at(half)
        retire = Retire(0, name, *given)
        key = self._book.spaces.key(name)
        self._book.requests.ask(retire, RetireHalf(region.name, half), now, key=key, contact=contact)

    def retired(self, purpose: RetireHalf, answer: Fulfilled | Given | None, now: float) -> None:
        """A half has vanished; or it has changed since it gave its table, and gives it again; or it was given up."""
        region = self._book.regions.get(purpose.region)
        if region is None or region.state not in (RegionState.CLOSING, RegionState.LEAF):
            return
        if isinstance(answer, Given) and answer.table is not None:
            self._take(region, purpose.half, answer, now)
            self._book.replicate(region, None, now, entries=answer.table)
            self._retire(region, purpose.half, (answer.version, answer.sequence), now)
            return
        region.waiting.discard(purpose.half)
        if region.state is RegionState.CLOSING and not region.waiting:
            region.given.clear()
            region.turn(RegionState.LEAF)
            region.renew_entries(now + self._book.options.entry_seconds)
            self._activated(region, now)
            self._resume(region, now)

    # The halves

    def give(self, source: Contact, give: Give, now: float) -> None:
        """The region above wants to merge."""
        region = self._book.active(give.region, now)
        if region is None or region.state not in (RegionState.LEAF, RegionState.GIVEN):
            self._book.send(source, Given(give.number, None), now)
        else:
            self._give(source, give.number, region, now)

    def _give(self, source: Contact, number: int, region: Region, now: float) -> None:
        if region.state is RegionState.LEAF:
            region.turn(RegionState.GIVEN)
        region.renew_entries(now + self._book.options.entry_seconds)
        entries = () if region.table is None else tuple(region.table.entries(now))
        complete_in = max(0.0, region.complete_at - now)
        self._book.send(source, Given(number, entries, region.version, region.sequence, complete_in), now)

    def retire(self, source: Contact, retire: Retire, now: float) -> None:
        """The region above has the table: vanish, unless it has changed."""
        region = self._book.active(retire.region, now)
        if region is None or region.state in (RegionState.INNER, RegionState.COLLECTING, RegionState.SPLITTING):
            self._book.send(source, Fulfilled(retire.number), now)
        elif (region.version, region.sequence) != (retire.version, retire.sequence):
            self._give(source, retire.number, region, now)
        else:
            self.vanish(region, AnswerDone(source, retire.number), now)

    def vanish(self, region: Region, then: object, now: float) -> None:
        """A region is here no more."""
        self._book.replicate(region, then, now, is_gone=True)
        del self._book.regions[region.name]
        self._resume(region, now)

    def release(self, source: Contact, release: Release, now: float) -> None:
        """The region above does not merge after all."""
        region = self._book.active(release.region, now)
        if region is not None and region.state is RegionState.GIVEN:
            region.turn(RegionState.LEAF)
            self._resume(region, now)
        self._book.send(source, Fulfilled(release.number), now)
