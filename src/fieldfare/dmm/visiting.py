"""What a region does when it is visited: keep entries, or say who wants an event; and what it is, if no leaf.

Entries that come while a region splits or merges wait. When that is over they are done, or the visitor is told what the
region is now and goes on searching: so an entry that was confirmed is at every active leaf that it touches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from fieldfare.dmm.event_rates import EventRates
from fieldfare.dmm.leaf_walk import RegionKind
from fieldfare.dmm.messages import Answer, LookWork, MatchWork, MulticastWork, PlaceWork, RemoveWork, Visit
from fieldfare.dmm.region import FIRST_VERSION, Region, RegionState
from fieldfare.dmm.region_book import RegionBook
from fieldfare.dmm.spaces import RegionName
from fieldfare.dmm.zcodes import ROOT, ZCode
from fieldfare.errors import EventError
from fieldfare.events import UnreadableError, accepted_at, event_attributes
from fieldfare.pastry.ports import Contact

_DEFERRED_MAX = 10_000  # visits that wait at one region; those beyond are not answered, and come again


@dataclass(frozen=True, slots=True)
class AnswerPlaced:
    """What follows a copy: entries are safe, and the visitor is told so."""

    source: Contact
    number: int
    region: RegionName


class Visiting:
    """Answers visits."""

    def __init__(
        self,
        book: RegionBook,
        placed: Callable[[Region, list[str], float], None],
        confirm: Callable[[AnswerPlaced, float], None],
        repair: Callable[[Region, ZCode, float], None],
        multicast: Callable[[Region, MulticastWork, float], None],
    ) -> None:
        self._book, self._placed, self._confirm, self._repair = book, placed, confirm, repair
        self._multicast = multicast
        self.visits = self.matched = self.refused = 0  # so far: visits; events and refusals among them
        self._rates = EventRates(book.options.refresh_seconds)

    def visit(self, source: Contact, visit: Visit, now: float) -> None:
        """Somebody visits a region."""
        book = self._book
        self.visits += 1
        if not book.is_responsible(visit.region):
            book.send(source, Answer(visit.number, visit.region, None), now)
            return
        region = book.active(visit.region, now)
        if isinstance(visit.work, MatchWork | MulticastWork):
            self._rates.note(visit.region, now)
        if region is None and visit.region.code == ROOT and isinstance(visit.work, PlaceWork):
            if not book.has_room_for(visit.work.entries):
                self._refuse(source, visit, 0, now)
                return
            region = book.create(visit.region, RegionState.LEAF, FIRST_VERSION, book.settled_at)
            region.sequence = int(now * 1000)  # later than all copies that somebody may have of it from before
        if region is None or region.state is RegionState.PREPARED:
            answer = Answer(
                visit.number,
                visit.region,
                RegionKind.NOTHING,
                is_complete=region is None and now >= book.settled_at,
                events_per_second=self._rates.rate(visit.region, now),
            )
            book.send(source, answer, now)
        elif region.is_inner:
            if visit.missing is not None:
                self._repair(region, visit.missing, now)
            book.send(source, Answer(visit.number, visit.region, RegionKind.INNER, region.version), now)
        else:
            self._work(region, source, visit, now)

    def _work(self, region: Region, source: Contact, visit: Visit, now: float) -> None:
        match visit.work:
            case MatchWork():
                self._book.send(source, self._matched(region, visit, visit.work, now), now)
            case MulticastWork():
                self._multicast(region, visit.work, now)
                self._book.send(source, Answer(visit.number, visit.region, RegionKind.LEAF, region.version), now)
            case LookWork():
                if region.state in (RegionState.SPLITTING, RegionState.CLOSING):
                    return  # it is not known yet; who wants to know asks again
                rate = self._rates.rate(visit.region, now)
                answer = Answer(visit.number, visit.region, RegionKind.LEAF, region.version, events_per_second=rate)
                self._book.send(source, answer, now)
            case _ if region.state is not RegionState.LEAF:
                if len(region.deferred) < _DEFERRED_MAX:
                    region.deferred.append((source, visit))
            case PlaceWork() | RemoveWork():
                self._change(region, source, visit, now)

    def _matched(self, region: Region, visit: Visit, work: MatchWork, now: float) -> Answer:
        answer = Answer(visit.number, visit.region, RegionKind.LEAF, region.version)
        if region.table is None:
            return answer
        self.matched += 1
        try:
            event = accepted_at(event_attributes(work.event), work.at)
            entries = region.table.match(event)
        except (UnreadableError, EventError):
            return msgspec.structs.replace(answer, is_complete=True)
        peers = dict.fromkeys(entry.peer for entry in entries if entry.peer is not None)
        spaces = self._book.spaces
        regions = dict.fromkeys(
            entry.region
            for entry in entries
            if entry.region is not None
            and (grid := spaces.grid(entry.region.space)).touches(entry.region.code, grid.target_of_event(event))
        )
        is_complete = now >= region.complete_at and region.state is not RegionState.GIVEN
        return msgspec.structs.replace(answer, is_complete=is_complete, peers=tuple(peers), regions=tuple(regions))

    def _change(self, region: Region, source: Contact, visit: Visit, now: float) -> None:
        if region.table is None:
            return
        then = AnswerPlaced(source, visit.number, region.name)
        work = visit.work
        if isinstance(work, PlaceWork):
            if not self._book.has_room_for(work.entries, region.table):
                self._refuse(source, visit, region.version, now)
                return
            is_new = region.table.put(work.entries, now)
            if is_new or self._book.is_copying(region):  # the visit may be a repetition that overtakes the copies
                self._book.replicate(region, then, now, entries=work.entries)
            else:
                self._confirm(then, now)
            if is_new:
                self._placed(region, [entry.id for entry in work.entries], now)
        elif isinstance(work, RemoveWork):
            region.table.remove(work.entry_id, work.version)
            self._book.replicate(region, then, now, entries=(), removed=(work.entry_id,))

    def _refuse(self, source: Contact, visit: Visit, version: int, now: float) -> None:
        self.refused += 1
        self._book.send(source, Answer(visit.number, visit.region, RegionKind.LEAF, version, is_full=True), now)

    def follow(self, then: AnswerPlaced, now: float) -> None:
        """Tell a visitor that its work is done."""
        region = self._book.regions.get(then.region)
        version = 0 if region is None else region.version
        self._book.send(then.source, Answer(then.number, then.region, RegionKind.LEAF, version, is_complete=True), now)

    def resume(self, region: Region, now: float) -> None:
        """A split or merge is over: deal with the visits that waited for it."""
        deferred, region.deferred = region.deferred, []
        for source, visit in deferred:
            self.visit(source, visit, now)
