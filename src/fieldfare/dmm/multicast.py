"""Best effort: events go back along the paths that subscriptions came by, filtered at each hop.

A subscription that is routed to a leaf leaves an entry at every peer on its way: its condition, and the peer that it
came from. Each names itself as the one to be told, so the leaf knows the last hop only. An event goes from the leaf to
the last hops whose entries it satisfies, from these to those before them, and so to the subscribers; peers that lie on
the way of many get it once. Nobody waits for an acknowledgement, and entries that are not refreshed are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import msgspec

from fieldfare.dmm.entries import Entry, EntryTable
from fieldfare.dmm.messages import MulticastEvent, MulticastWork, PlaceWork, Visit, decode, encode
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.region import Region
from fieldfare.dmm.spaces import Space, Spaces, codes_by_space
from fieldfare.dmm.walks import Walks
from fieldfare.errors import EventError
from fieldfare.events import UnreadableError, accepted_at, event_attributes
from fieldfare.pastry.ports import Card, Contact, Ring, RoutedMessage

_FORWARD_SECONDS = 30.0  # within which an event is to find the leaves of a linked space


@dataclass(frozen=True, slots=True)
class ForwardWalk:
    """A walk's purpose: a leaf sends an event on to a space of more attributes."""


class _Recent:
    """What was seen not long ago, the oldest forgotten first."""

    def __init__(self, items_max: int) -> None:
        self._items: OrderedDict[Hashable, None] = OrderedDict()
        self._items_max = items_max

    def add(self, item: Hashable) -> bool:
        """Note something; whether it is new."""
        if item in self._items:
            return False
        self._items[item] = None
        if len(self._items) > self._items_max:
            self._items.popitem(last=False)
        return True


class Multicast:
    """A peer as a hop of multicasts. `deliver` is called with the topic, the id and the text of an event, once."""

    def __init__(
        self,
        ring: Ring,
        spaces: Spaces,
        walks: Walks,
        options: DmmOptions,
        deliver: Callable[[str, str, bytes, float], None],
    ) -> None:
        self._ring, self._spaces, self._walks, self._options, self._deliver = ring, spaces, walks, options, deliver
        self._tables: dict[Space, EntryTable] = {}
        self._seen = _Recent(options.events_seen_max)
        self._delivered = _Recent(options.events_seen_max)

    @property
    def is_used(self) -> bool:
        """Whether any topic is multicast."""
        return self._spaces.has_multicast

    @property
    def state(self) -> int:
        """How many entries this peer keeps for others, as a hop."""
        return sum(map(len, self._tables.values()))

    def remove_expired(self, now: float) -> None:
        """Forget entries that were not refreshed."""
        for space in list(self._tables):
            self._tables[space].remove_expired(now)
            if not len(self._tables[space]):
                del self._tables[space]

    # Messages that pass

    def pass_on(self, routed: RoutedMessage, now: float) -> bytes:
        """A message goes on to the next hop: note where entries came from, and send events back from here already."""
        visit = decode(routed.message)
        if not isinstance(visit, Visit) or self._spaces.scheme(visit.region.space.topic).is_reliable:
            return routed.message
        space = visit.region.space
        match visit.work:
            case PlaceWork(entries):
                previous = [_noted(entry, routed.previous.card) for entry in entries]
                self._tables.setdefault(space, EntryTable(space, self._spaces)).put(previous, now)
                onwards = tuple(_from(entry, self._ring.me.card) for entry in entries)
                return encode(msgspec.structs.replace(visit, work=PlaceWork(onwards)))
            case MulticastWork():
                self._spread(MulticastEvent(visit.work.id, space, visit.work.event, visit.work.at), now)
        return routed.message

    # Events

    def from_leaf(self, region: Region, work: MulticastWork, now: float) -> None:
        """An event has come to a leaf: send it to the last hops, and on to linked spaces."""
        if region.table is None or not self._seen.add((work.id, region.name)):
            return
        try:
            event = accepted_at(event_attributes(work.event), work.at)
            entries = region.table.match(event)
        except (UnreadableError, EventError):
            return
        space = region.name.space
        self._send(entries, MulticastEvent(work.id, space, work.event, work.at), now)
        for linked, leaves in codes_by_space(entry.region for entry in entries if entry.region is not None).items():
            if self._seen.add((work.id, linked, "forwarded")):
                target = self._spaces.grid(linked).target_of_event(event)
                until = now + _FORWARD_SECONDS
                self._walks.begin(ForwardWalk(), linked, target, work, until, now, leaves=leaves)

    def receive(self, source: Contact, event: MulticastEvent, now: float) -> None:  # noqa: ARG002 - any hop may send it
        """An event has come to a hop, which may want it itself."""
        if self._delivered.add(event.id):
            self._deliver(event.space.topic, event.id, event.event, event.at)
        self._spread(event, now)

    def _spread(self, event: MulticastEvent, now: float) -> None:
        """Send an event to the hops before, once."""
        table = self._tables.get(event.space)
        if table is None or not self._seen.add((event.id, event.space)):
            return
        try:
            entries = table.match(accepted_at(event_attributes(event.event), event.at))
        except (UnreadableError, EventError):
            return
        self._send(entries, event, now)

    def _send(self, entries: Iterable[Entry], event: MulticastEvent, now: float) -> None:
        hops = dict.fromkeys(entry.peer for entry in entries if entry.peer is not None)
        for card in hops:
            self._send_to(card, event, now)

    def _send_to(self, card: Card, event: MulticastEvent, now: float) -> None:
        if card == self._ring.me.card:
            if self._delivered.add(event.id):
                self._deliver(event.space.topic, event.id, event.event, event.at)
            self._spread(event, now)
        else:
            self._ring.send(self._ring.contact(card), encode(event), now, self._options.multicast_assurance)


def _noted(entry: Entry, card: Card) -> Entry:
    """An entry as a hop keeps it: one for each peer that it came from, or two ways that cross could become a circle."""
    came_from = _from(entry, card)
    return msgspec.structs.replace(came_from, id=f"{entry.id} from {card.name}")


def _from(entry: Entry, card: Card) -> Entry:
    """The entry of a peer, with another peer to be told in its place. Links between spaces are left as they are."""
    return entry if entry.peer is None else msgspec.structs.replace(entry, peer=card)
