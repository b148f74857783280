"""What peers say to each other about regions and events, and how it becomes bytes.

Requests have a number, which their answer repeats; all of them may come twice, and nothing happens twice by that.
Times travel as seconds left.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from fieldfare.dmm.entries import Entry
from fieldfare.dmm.leaf_walk import RegionKind
from fieldfare.dmm.spaces import RegionName, Space
from fieldfare.dmm.zcodes import ZCode
from fieldfare.pastry.ports import Card


class PeerMessage(msgspec.Struct, frozen=True, tag=True, array_like=True, omit_defaults=True):
    """Anything that a peer says."""


class Request(PeerMessage, frozen=True):
    """Something that is repeated until it is answered."""

    number: int


# Visits: work that is done where an active leaf is found


class PlaceWork(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Keep these entries."""

    entries: tuple[Entry, ...]


class RemoveWork(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Forget an entry, up to a version."""

    entry_id: str
    version: int


class MatchWork(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Say who wants this event."""

    event: bytes
    at: float = 0.0  # when it was published


class MulticastWork(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Send this event on to all who want it."""

    id: str
    event: bytes
    at: float = 0.0


class LookWork(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Do nothing: only say what the region is."""


Work: TypeAlias = PlaceWork | RemoveWork | MatchWork | MulticastWork | LookWork


class Visit(Request, frozen=True):
    """Do some work, if the region is an active leaf; say what it is."""

    region: RegionName
    work: Work
    missing: ZCode | None = None  # a half of this region, which said that it is inner, is not there


class Answer(PeerMessage, frozen=True):
    """What a visited region is, and what its leaf found."""

    number: int
    region: RegionName
    found: RegionKind | None  # None: another peer is closer to the region
    version: int = 0
    is_complete: bool = False  # nothing is missing from the table
    peers: tuple[Card, ...] = ()  # those that want the event
    regions: tuple[RegionName, ...] = ()  # where the event is to go next
    events_per_second: float = 0.0  # that come there, where only that was asked for
    is_full: bool = False  # entries were to be placed, and the peer cannot keep more


class AskPrimary(Request, frozen=True):
    """Ask the root of a space for its primary attribute."""

    region: RegionName  # the leaf that asks
    hull: tuple[tuple[int, int], ...]  # where its entries lie, on each axis
    attribute: str  # the primary attribute that it knows
    version: int


class Primary(PeerMessage, frozen=True):
    """The primary attribute of a space."""

    number: int
    attribute: str
    version: int


# Splitting and merging


class Install(Request, frozen=True):
    """Prepare a region that comes from a split. It is not active before it is told so."""

    region: RegionName
    origin: ZCode  # the region that splits
    version: int
    is_inner: bool
    entries: tuple[Entry, ...]
    complete_in_seconds: float


class Activate(Request, frozen=True):
    """The region above is inner now: a region that was prepared is active."""

    region: RegionName
    version: int


class Give(Request, frozen=True):
    """Give the table to the region above, which wants to merge, and take no new entries for now."""

    region: RegionName


class Given(PeerMessage, frozen=True):
    """A table. Without a table the region is not a leaf that could give one."""

    number: int
    table: tuple[Entry, ...] | None
    version: int = 0
    sequence: int = 0
    complete_in_seconds: float = 0.0


class Retire(Request, frozen=True):
    """Vanish: the region above has the table, as of this sequence. If it has changed since, give it again."""

    region: RegionName
    version: int
    sequence: int


class Release(Request, frozen=True):
    """Go on as a leaf: the region above does not merge."""

    region: RegionName


class Report(PeerMessage, frozen=True):
    """Tell the region above that this one is here, and how large it is; an inner region has no size."""

    region: RegionName  # that which reports
    version: int
    size: int | None


# Replicas


class Copy(Request, frozen=True):
    """Keep what a region has, or what has changed there."""

    region: RegionName
    version: int
    sequence: int
    kind: Literal["leaf", "inner", "prepared", "prepared inner", "gone"]
    is_whole: bool  # the entries are all; else they come on top of the sequence before
    entries: tuple[Entry, ...]
    removed: tuple[str, ...]
    complete_in_seconds: float
    origin: ZCode


class SendAgain(Request, frozen=True):
    """A region was taken over: place all entries there again. Of a linked region, its peer is to place its link."""

    region: RegionName
    link: RegionName | None = None


class AskForCopies(Request, frozen=True):
    """A peer has come: give it what it is to keep."""


class Fulfilled(PeerMessage, frozen=True, tag="Done"):
    """A request has been fulfilled, or could not be."""

    number: int
    is_ok: bool = True


# Events


class OwedEvent(PeerMessage, frozen=True, tag="Event"):
    """An event for a peer that wants it, by its number in the log that the outbox is named after."""

    outbox: str
    number: int
    lowest: int  # none below is going to come
    topic: str
    event: bytes
    at: float = 0.0


class MulticastEvent(PeerMessage, frozen=True):
    """An event on its way back along the paths that subscriptions of a space came by."""

    id: str
    space: Space
    event: bytes
    at: float = 0.0


class EventTaken(PeerMessage, frozen=True):
    """An event has been taken."""

    outbox: str
    number: int


class Locate(PeerMessage, frozen=True):
    """Routed to the place of a peer that does not confirm: it may have come back at another address."""

    name: str


class Located(PeerMessage, frozen=True):
    """Its answer, which comes from where it is."""


AnyPeerMessage: TypeAlias = (
    Visit
    | Answer
    | AskPrimary
    | Primary
    | Install
    | Activate
    | Give
    | Given
    | Retire
    | Release
    | Report
    | Copy
    | SendAgain
    | AskForCopies
    | Fulfilled
    | OwedEvent
    | MulticastEvent
    | EventTaken
    | Locate
    | Located
)

encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(AnyPeerMessage)


def decode(data: bytes) -> AnyPeerMessage | None:
    """The message that bytes hold; None if they hold none."""
    try:
        message: AnyPeerMessage = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return message
