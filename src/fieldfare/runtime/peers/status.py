"""A peer as it sees itself: its place on the ring, the regions that it keeps, and how much it has to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

import msgspec

from fieldfare.pastry.ids import ID_BYTES

if TYPE_CHECKING:
    from fieldfare.dmm.peer import DmmPeer
    from fieldfare.dmm.region import Region
    from fieldfare.pastry.node import PastryNode
    from fieldfare.pastry.ports import Contact
    from fieldfare.runtime.peers.program import PeerProgram
    from fieldfare.runtime.peers.strangers import PeerDatagrams

REGIONS_SHOWN_MAX = 1_000


class Neighbour(msgspec.Struct, frozen=True):
    """Another peer, and on which side of this one it is on the ring."""

    id: str
    name: str
    address: str
    side: Literal["before", "after", "both"]


class RegionStatus(msgspec.Struct, frozen=True):
    """A region that this peer answers for."""

    topic: str
    attributes: tuple[str, ...]
    code: str  # which part of the space: halved so often
    state: str
    entries: int


class PeerStatus(msgspec.Struct, frozen=True):
    """All of it. Ids are hexadecimal, in the order of the ring."""

    name: str
    id: str
    address: str
    is_ready: bool
    neighbours: tuple[Neighbour, ...]  # the leaf set: in a ring of up to 17 peers, all others
    known_peers: int  # in all tables together
    regions: tuple[RegionStatus, ...]  # the first of those that it answers for
    regions_count: int
    copies_count: int  # regions of others that it keeps copies of
    entries: int  # subscriptions of all peers that it matches events with
    subscriptions: int  # its own
    load: dict[str, int]
    counts: dict[str, int]


def status_of(node: PastryNode, dmm: DmmPeer, udp: PeerDatagrams, program: PeerProgram) -> PeerStatus:
    """The status of a peer that has started."""
    book = dmm.keeper.book
    answered = sorted(book.primaries(), key=lambda region: str(region.name))
    counts = {name: value for name, value in asdict(node.counts).items() if value}
    return PeerStatus(
        name=node.me.name,
        id=hexadecimal(node.me.id),
        address=node.me.address,
        is_ready=dmm.is_ready,
        neighbours=_neighbours(node),
        known_peers=len({each.id for each in node.place.contacts()}),
        regions=tuple(map(_region, answered[:REGIONS_SHOWN_MAX])),
        regions_count=len(answered),
        copies_count=len(book.regions) - len(answered),
        entries=sum(region.size for region in answered),
        subscriptions=len(dmm.subscribing),
        load={
            "unsettled_publications": len(program),
            "undelivered_events": len(dmm.publishing.outboxes),
            "open_requests": len(dmm.requests),
            "unacknowledged_messages": len(node.courier),
            **asdict(dmm.load()),
        },
        counts={
            "published": program.published_count,
            "delivered": program.delivered_count,
            "held": dmm.held,
            **counts,
            "packets_unreadable": udp.unreadable_count,
            "packets_unsent": udp.unsent_count,
            "messages_unreadable": dmm.unreadable,
            "messages_of_liars": dmm.requests.false_answers + dmm.taking.misattributed,
        },
    )


def _neighbours(node: PastryNode) -> tuple[Neighbour, ...]:
    sides: Counter[Contact] = Counter()
    before, after = node.leaves.before, node.leaves.after
    sides.update(before)
    sides.update(after)
    ordered = sorted(sides, key=lambda contact: contact.id)
    return tuple(
        Neighbour(
            hexadecimal(each.id),
            each.name,
            each.address,
            "both" if sides[each] > 1 else "before" if each in before else "after",
        )
        for each in ordered
    )


def _region(region: Region) -> RegionStatus:
    space = region.name.space
    return RegionStatus(space.topic, space.attributes, region.name.code, region.state.value, region.size)


def hexadecimal(node_id: int) -> str:
    """An id as people read it."""
    return f"{node_id:0{2 * ID_BYTES}x}"
