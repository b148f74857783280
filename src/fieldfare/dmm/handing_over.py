"""What happens to regions when peers come to the ring, or go.

Whoever comes asks its neighbours for copies, and answers only when it has them; they stop answering for what is closer
to it the moment it asks. Whoever fails is followed by a neighbour that has a copy. A peer that loses a region gives all
it has to the one that answers now: while a ring forms or heals, several may have believed that they were the closest.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldfare.dmm.messages import Answer
from fieldfare.dmm.region import Region, RegionState
from fieldfare.dmm.region_book import RegionBook
from fieldfare.pastry.ports import Contact, NeighboursChanged

_GIVERS = 3  # peers that give a newcomer copies of the same region
_OLD_SECONDS = 30.0  # a peer that started longer ago is not new
_NEWCOMER_SECONDS = 10.0  # after which a peer that has come is in the leaf sets, or gone again


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A purpose: the peer that answers for a region now is to have what this one had of it."""


class HandingOver:
    """Gives regions to others, and takes those of others over."""

    def __init__(self, book: RegionBook) -> None:
        self._book = book
        self._keepers: set[int] = set()  # the neighbours that were given copies
        self._lost_at: dict[int, float] = {}  # when neighbours lost their copies, because they stopped, not long ago

    def neighbours_changed(self, change: NeighboursChanged, now: float) -> None:
        """Give what there is to those that came, and do not wait for those that are gone."""
        book = self._book
        gone = {neighbour.id for neighbour in change.gone}
        self._forget_newcomers(gone, now)
        book.do_not_wait_for(gone, now)
        self._note_lost(gone & self._keepers, now)
        self._pass_responsibility(now)
        neighbours = book.neighbours()  # of the leaf set only some, so others than those that came may be new
        for contact in neighbours.values():
            if contact.id not in self._keepers:
                self._give_all(contact, None, now)
        self._keepers = set(neighbours)

    def _note_lost(self, lost: set[int], now: float) -> None:
        """Neighbours have lost copies: if they are many, a region may be lost, which nobody can know for a while."""
        oldest = now - self._book.options.complete_seconds
        self._lost_at = {each: at for each, at in self._lost_at.items() if at > oldest} | dict.fromkeys(lost, now)
        if lost and len(self._lost_at) >= self._book.options.replicas_each_side:
            self._book.settled_at = now + self._book.options.complete_seconds

    def have_rings_merged(self, change: NeighboursChanged, now: float) -> bool:
        """Whether peers that are not new have come nearer than others that were known: they lay beyond a partition."""
        came = {contact.id for contact in change.came}
        for side in (change.leaves.before, change.leaves.after):
            farthest = max((place for place, contact in enumerate(side) if contact.id not in came), default=0)
            if any(contact.id in came and _is_old(contact, now) for contact in side[:farthest]):
                return True
        return False

    def welcome(self, newcomer: Contact, then: object, now: float) -> None:
        """A peer has come and asks for copies. From now on it answers for what is closer to it, not this peer."""
        self._forget_newcomers(set(), now)
        if newcomer.id in self._keepers:  # it has started again before anybody missed it
            self._note_lost({newcomer.id}, now)
        self._book.newcomers[newcomer.id] = now + _NEWCOMER_SECONDS
        self._pass_responsibility(now)
        self._give_all(newcomer, then, now)

    def drop_far_copies(self) -> None:
        """Forget copies that others keep now: they would be old if this peer were asked for them one day.

        Neighbours are neighbours of each other, so a copy stays here exactly if the peer that answers for it gives this
        one its changes. To count the peers that are closer to the region would be wrong where more lie on one side.
        """
        book = self._book
        neighbours = book.neighbours()
        for region in list(book.regions.values()):
            (closest,) = book.ring.closest(book.spaces.key(region.name), 1)
            if not region.is_primary and closest != book.ring.me and closest.id not in neighbours:
                del book.regions[region.name]

    def _forget_newcomers(self, gone: set[int], now: float) -> None:
        newcomers = self._book.newcomers
        for each in [each for each, until in newcomers.items() if each in gone or until <= now]:
            del newcomers[each]

    def _pass_responsibility(self, now: float) -> None:
        book = self._book
        for region in list(book.regions.values()):
            is_responsible = book.is_responsible(region.name)
            if region.is_primary and not is_responsible:
                self._resign(region, now)
            elif is_responsible and not region.is_primary:
                book.active(region.name, now)

    def _give_all(self, neighbour: Contact, then: object, now: float) -> None:
        """Give a neighbour all that this peer has and knows to be current; then go on with `then`."""
        book = self._book
        regions = [each for each in book.regions.values() if each.is_primary or not self._is_far(each, _GIVERS)]
        book.have_kept([(book.copy_of(region, now), neighbour) for region in regions], then, now)

    def _is_far(self, region: Region, count: int) -> bool:
        """Whether so many other peers are closer to a region."""
        ring = self._book.ring
        return ring.me not in ring.closest(self._book.spaces.key(region.name), count)

    def _resign(self, region: Region, now: float) -> None:
        """Another peer is closer to a region: it is to have what is here. A split or merge has not happened."""
        book = self._book
        region.is_primary = False
        book.requests.ask(book.copy_of(region, now), GivenUp(), now, key=book.spaces.key(region.name))
        if region.state in (RegionState.SPLITTING, RegionState.CLOSING, RegionState.GIVEN):
            region.turn(RegionState.LEAF)
        elif region.state is RegionState.COLLECTING:
            region.turn(RegionState.INNER)
        region.waiting.clear()
        region.given.clear()
        for source, visit in region.deferred:
            book.send(source, Answer(visit.number, visit.region, None), now)
        region.deferred.clear()


def _is_old(contact: Contact, now: float) -> bool:
    return contact.card.life / 1000 < now - _OLD_SECONDS
