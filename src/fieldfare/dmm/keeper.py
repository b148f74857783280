"""A peer as a keeper of regions: brings its parts together, and looks after them from time to time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.handing_over import GivenUp, HandingOver
from fieldfare.dmm.leaf_walk import RegionKind
from fieldfare.dmm.merging import GiveTable, Merging, ReleaseHalf, RetireHalf, TurnedLeaf
from fieldfare.dmm.messages import (
    Activate,
    Answer,
    AnyPeerMessage,
    AskForCopies,
    Copy,
    Fulfilled,
    Give,
    Given,
    Install,
    LookWork,
    MulticastWork,
    Release,
    Report,
    Retire,
    Visit,
)
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.region import Region, RegionState
from fieldfare.dmm.region_book import CopyTo, RegionBook
from fieldfare.dmm.requests import Requests
from fieldfare.dmm.sender_replicas import AskSender
from fieldfare.dmm.spaces import RegionName, Space, Spaces
from fieldfare.dmm.splitting import ActivatePart, AnswerDone, InstallPart, Splitting, TurnedInner
from fieldfare.dmm.visiting import AnswerPlaced, Visiting
from fieldfare.pastry.ports import Contact, NeighboursChanged, Ring

_ROUNDS_WAITED_MAX = 2  # after so many, a region that depends on another asks it


@dataclass(frozen=True, slots=True)
class AskOrigin:
    """A purpose: a region that depends on another wants to know what that is."""

    region: RegionName


@dataclass(frozen=True, slots=True)
class CopiesFrom:
    """A purpose: a neighbour is to give copies to this peer, which has come."""

    neighbour: int


@dataclass(frozen=True, slots=True)
class LeafHooks:
    """What the rest of a peer does about the leaves that it keeps."""

    changed: Callable[[Region, Iterable[str] | None, float], None]  # these entries are new; None: it has become active
    confirm: Callable[[AnswerPlaced, float], None]  # do this when entries can be confirmed
    multicast: Callable[[Region, MulticastWork, float], None]  # send an event on to all who want it
    place_anew: Callable[[Space, tuple[Entry, ...], float], None]  # find the leaves of entries that lost theirs


class RegionKeeper:
    """Keeps regions."""

    def __init__(
        self,
        ring: Ring,
        requests: Requests,
        spaces: Spaces,
        options: DmmOptions,
        hooks: LeafHooks,
    ) -> None:
        self.book = RegionBook(ring, requests, spaces, options, self._follow, hooks.place_anew)
        self.visiting = Visiting(self.book, self._entries_came, hooks.confirm, self._repair, hooks.multicast)
        self.splitting = Splitting(self.book, self.visiting.resume, self._became_active)
        self.merging = Merging(self.book, self.visiting.resume, self._became_active)
        self._handing_over = HandingOver(self.book)
        self._hooks = hooks
        self._has_joined = False
        self._sides: list[list[int]] = []  # neighbours that were asked for copies, the nearest first, on each side
        self._awaited: set[int] = set()  # those that have not answered
        self._givers: set[int] = set()  # those that gave all there was

    @property
    def is_ready(self) -> bool:
        """Whether this peer has what it needs to answer for its place on the ring.

        Until it has joined, it may be asked by those who remember it from a former life.
        """
        return self._has_joined and not self._awaited

    def joined(self, now: float, *, is_back: bool = False) -> None:
        """Take the place on the ring: get what the neighbours have kept there so far.

        A peer that comes back from a log, and finds nobody, knows that it may be the first of many that come back.
        """
        self._has_joined = True
        leaves, count = self.book.ring.leaves, self.book.options.replicas_each_side
        self._sides = [[contact.id for contact in side[:count]] for side in (leaves.before, leaves.after)]
        neighbours = self.book.neighbours()
        self._awaited = set(neighbours)
        if neighbours or is_back:
            self.book.settled_at = now + self.book.options.complete_seconds
        for contact in neighbours.values():
            self.book.requests.ask(AskForCopies(0), CopiesFrom(contact.id), now, contact=contact)

    def handle(self, source: Contact, message: AnyPeerMessage, now: float) -> None:
        """Another peer says something about a region."""
        match message:
            case Copy():
                self.book.take_copy(source, message, now)
            case AskForCopies():
                is_ok = self.is_ready and now >= self.book.settled_at
                self._handing_over.welcome(source, AnswerDone(source, message.number, is_ok), now)
            case _ if not self.is_ready:
                pass  # it is asked again
            case Visit():
                self.visiting.visit(source, message, now)
            case Install():
                self.splitting.install(source, message, now)
            case Activate():
                self.splitting.activate(source, message, now)
            case Give():
                self.merging.give(source, message, now)
            case Retire():
                self.merging.retire(source, message, now)
            case Release():
                self.merging.release(source, message, now)
            case Report():
                self.merging.reported(source, message, now)

    def answered(self, purpose: Any, answer: AnyPeerMessage | None, now: float) -> None:
        """A request has been answered; without an answer it was given up."""
        is_ok = isinstance(answer, Fulfilled) and answer.is_ok
        match purpose:
            case CopyTo():
                self.book.copy_answered(purpose, is_ok or answer is None, now)
            case CopiesFrom():
                self._copies_came(purpose, answer, now)
            case InstallPart():
                self.splitting.installed(purpose, is_ok, now)
            case ActivatePart():
                self.splitting.activated(purpose, now)
            case GiveTable():
                self.merging.given(purpose, answer if isinstance(answer, Given) else None, now)
            case RetireHalf():
                self.merging.retired(purpose, answer if isinstance(answer, Fulfilled | Given) else None, now)
            case ReleaseHalf() | GivenUp():
                pass
            case AskOrigin():
                self._origin_answered(purpose, answer, now)
            case AskSender():
                region = self.book.regions.get(purpose.region)
                self.book.recovering.answered(purpose, region, is_ok=is_ok, now=now)

    def _copies_came(self, purpose: CopiesFrom, answer: AnyPeerMessage | None, now: float) -> None:
        """A neighbour has given what it has. On each side the nearest that knew all there is to know is enough."""
        self._awaited.discard(purpose.neighbour)
        if isinstance(answer, Fulfilled) and answer.is_ok:
            self._givers.add(purpose.neighbour)
        if self._sides and all(map(self._has_given, self._sides)):
            self._sides.clear()
            self._awaited.clear()
            self.book.settled_at = now

    def _has_given(self, side: list[int]) -> bool:
        nearest = next((each for each in side if each in self._givers or each in self._awaited), None)
        return nearest in self._givers

    def _follow(self, then: object, now: float) -> None:
        """The neighbours have confirmed a copy: go on."""
        match then:
            case AnswerPlaced():
                self._hooks.confirm(then, now)
            case AnswerDone():
                self.book.send(then.source, Fulfilled(then.number, then.is_ok), now)
            case TurnedInner():
                self.splitting.turned_inner(then, now)
            case TurnedLeaf():
                self.merging.turned_leaf(then, now)

    def _entries_came(self, region: Region, entry_ids: list[str], now: float) -> None:
        self._hooks.changed(region, entry_ids, now)
        self.splitting.split_if_full(now)

    def _became_active(self, region: Region, now: float) -> None:
        self._hooks.changed(region, None, now)

    def _repair(self, region: Region, missing: str, now: float) -> None:
        self.splitting.repair(region, missing, now)

    def neighbours_changed(self, change: NeighboursChanged, now: float) -> bool:
        """Copies have to move. Returns whether two rings have become one."""
        for contact in change.gone:
            self._awaited.discard(contact.id)
        self._handing_over.neighbours_changed(change, now)
        return self._handing_over.have_rings_merged(change, now)

    # From time to time

    def look_after(self, now: float) -> None:
        """Forget entries that were not refreshed, report to the regions above, ask those that others depend on."""
        for region in self.book.primaries():
            if region.table is not None and region.answers and (expired := region.table.remove_expired(now)):
                self.book.replicate(region, None, now, entries=(), removed=tuple(expired))
            elif region.is_needless(now) and not self.book.is_copying(region):
                self.merging.vanish(region, None, now)
            if region.state in (RegionState.PREPARED, RegionState.GIVEN):
                region.rounds_waited += 1
                if region.rounds_waited >= _ROUNDS_WAITED_MAX:
                    self._ask_origin(region, now)
        self._handing_over.drop_far_copies()
        self.merging.report_all(now)
        self.splitting.split_if_full(now)

    def _ask_origin(self, region: Region, now: float) -> None:
        origin = region.name.at(region.origin) if region.state is RegionState.PREPARED else region.name.parent
        visit = Visit(0, origin, LookWork())
        self.book.requests.ask(visit, AskOrigin(region.name), now, key=self.book.spaces.key(origin))

    def _origin_answered(self, purpose: AskOrigin, answer: AnyPeerMessage | None, now: float) -> None:
        region = self.book.regions.get(purpose.region)
        if region is None or not isinstance(answer, Answer) or answer.found is None:
            return
        if region.state is RegionState.PREPARED:
            if answer.found is RegionKind.INNER and answer.version == region.version:
                self.splitting.become_active(region, None, now)
            else:
                self.merging.vanish(region, None, now)  # the split never happened
        elif region.state is RegionState.GIVEN:
            if answer.found is RegionKind.LEAF and answer.version > region.version:
                self.merging.vanish(region, None, now)
            else:
                region.turn(RegionState.LEAF)
                self.visiting.resume(region, now)

    def load(self) -> int:
        """How many entries lie at the leaves for which this peer answers."""
        return sum(region.size for region in self.book.primaries() if region.answers)
