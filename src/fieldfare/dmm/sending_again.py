"""What a peer does for another that has taken a region over, and knows only who has entries there: send them again.

The other side of this is `sender_replicas`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldfare.dmm.linking import Linking
from fieldfare.dmm.messages import Fulfilled, SendAgain
from fieldfare.dmm.region_book import RegionBook
from fieldfare.dmm.spaces import RegionName
from fieldfare.dmm.subscribing import Subscribing
from fieldfare.pastry.ports import Contact

_ASKED_MAX = 1_000  # that are being answered; others have to ask again


@dataclass(frozen=True, slots=True)
class AgainWalk:
    """A walk's purpose: an entry is placed again because a peer asked for it."""

    source: Contact
    number: int


class SendingAgain:
    """What others have asked this peer to send again, and how many walks that takes still."""

    def __init__(self, book: RegionBook, subscribing: Subscribing, linking: Linking) -> None:
        self._book, self._subscribing, self._linking = book, subscribing, linking
        self._pending: dict[AgainWalk, int] = {}

    def asked(self, source: Contact, message: SendAgain, now: float) -> None:
        """A peer asks for this peer's own entries, or for the link of a region that this peer keeps."""
        asked = AgainWalk(source, message.number)
        if asked in self._pending or len(self._pending) >= _ASKED_MAX:
            return  # it is asked again
        if message.link is None:
            self._wait_for(asked, self._subscribing.place_again(asked, message.region, now), now)
        else:
            self._link_again(asked, message.link, now)

    def _link_again(self, asked: AgainWalk, link: RegionName, now: float) -> None:
        book = self._book
        region = book.active(link, now) if book.is_responsible(link) else None
        if region is None or not region.answers or now < region.complete_at:  # what it wants is not known here
            is_gone = now >= book.settled_at and (region is None or not region.answers)
            book.send(asked.source, Fulfilled(asked.number, is_ok=is_gone), now)
        else:
            self._wait_for(asked, self._linking.place_again(asked, region, now), now)

    def _wait_for(self, asked: AgainWalk, walks: int, now: float) -> None:
        self._pending[asked] = walks + 1
        self.over(asked, now)

    def over(self, asked: AgainWalk, now: float) -> None:
        """One of the walks is over; when all are, the peer that asked is told."""
        left = self._pending.pop(asked, 0) - 1
        if left > 0:
            self._pending[asked] = left
        elif left == 0:
            self._book.send(asked.source, Fulfilled(asked.number), now)
