"""A topic at one edge: what it offers, who subscribes, and the reading of the log for those who are behind.

All that are behind read the log together: a piece is matched once, by the one index, for all of them. Readers that
join later and need earlier pieces wait for the next round, so that a round always comes to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Raw

from fieldfare.events import event_attributes
from fieldfare.messages import Delivery, EventsStored, Fetch, Fetched, Position
from fieldfare.qos import Matching, Offered
from fieldfare.routing.interest import Interest
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.outbox import Entry, Outbox
from fieldfare.routing.publishers import Publishers, RecentIds

START: Position = -1  # before all events
_delivery = msgspec.json.Decoder(Delivery)

Matches = Iterable[tuple[Outbox, list[Entry]]]


class Topic:
    """A topic of a tenant."""

    def __init__(self, tenant: str, name: str, options: EdgeOptions) -> None:
        self.tenant, self.name = tenant, name
        self.offered = Offered()
        self.matching: Matching = "edge"
        self.interest = Interest()
        self.outboxes: dict[int, Outbox] = {}  # by handle
        self.by_id: dict[str, Outbox] = {}
        self.publishers = Publishers(options.publishers_max)
        self.published_ids = RecentIds(options.recent_ids_max)
        self.matched_ids = RecentIds(options.recent_ids_max)  # of events that came back from the pipeline
        self.matched: Position = START  # all events up to here have been matched
        self.stored: Position = START  # the last of them that is in the log
        self.event_count = 0
        self.change_count = 0  # changes of what it offers that are on their way to the log
        self.handed_count = 0  # publications that are on their way to the pipeline
        self.batch = self.stored_batch = -1  # the pipeline's last that was taken, and that is in the log
        self._behind: dict[int, Outbox] = {}  # those who wait for a piece of the log
        self._read: Position = START  # of this round
        self._is_reading = False

    @property
    def key(self) -> tuple[str, str]:
        """The tenant and the name."""
        return self.tenant, self.name

    def insert(self, outbox: Outbox) -> None:
        """A subscription, whose condition is in the index."""
        outbox.first_count = self.event_count
        self.outboxes[outbox.handle] = self.by_id[outbox.subscription.id] = outbox

    def remove(self, outbox: Outbox) -> None:
        """A subscription ends."""
        del self.outboxes[outbox.handle], self.by_id[outbox.subscription.id]
        self._behind.pop(outbox.handle, None)
        self.interest.remove(outbox.handle)

    def matches(self, entries: Sequence[Entry], rows: Sequence[Mapping[str, Any]]) -> Matches:
        """Who wants which of some events."""
        for handle, numbers in self.interest.match(rows):
            outbox = self.outboxes.get(handle)
            if outbox is not None:
                yield outbox, [entries[number] for number in numbers]

    def known_matches(self, entries: Sequence[Entry], subscriptions: Sequence[Sequence[str]]) -> Matches:
        """The same where the pipeline has found it out."""
        found: dict[str, list[Entry]] = {}
        for entry, ids in zip(entries, subscriptions, strict=True):
            for subscription_id in ids:
                found.setdefault(subscription_id, []).append(entry)
        for subscription_id, wanted in found.items():
            outbox = self.by_id.get(subscription_id)
            if outbox is not None:
                yield outbox, wanted

    def stored_matches(self, records: Iterable[EventsStored]) -> Matches:
        """Who wants which of the events of some records: found for all that follow each other together."""
        for is_known, group in groupby(records, lambda record: record.subscriptions is not None):
            alike = list(group)
            entries = [entry for record in alike for entry in entries_of(record)]
            if is_known:
                yield from self.known_matches(entries, [ids for record in alike for ids in record.subscriptions or ()])
            else:
                yield from self.matches(entries, [_attributes(entry.delivery) for entry in entries])

    # Reading the log

    def read_for(self, outbox: Outbox) -> Iterator[Fetch]:
        """Read the log for a subscription that is behind."""
        if outbox.handle in self._behind:
            return
        self._behind[outbox.handle] = outbox
        if not self._is_reading:
            yield from self._next_piece()

    def leave(self, outbox: Outbox) -> None:
        """Read no more for a subscription."""
        self._behind.pop(outbox.handle, None)

    def behind_before(self, lost_before: Position) -> Iterator[Outbox]:
        """Those who miss events up to a position, which the log no longer has; they go on after it."""
        for outbox in self._behind.values():
            after, outbox.behind_after = _behind_after(outbox), max(_behind_after(outbox), lost_before)
            begins = after == START and outbox.subscription.qos.durability == "transient"
            if after < lost_before and not begins:  # who begins with all that is alive has not missed what is not
                yield outbox

    def taken(self, piece: Fetched, waiting_max: int) -> tuple[list[Outbox], list[Fetch]]:
        """Give a piece of the log to those who wait for it: who they are, and what to read next."""
        self._is_reading = False
        readers = {handle: outbox for handle, outbox in self._behind.items() if _behind_after(outbox) >= self._read}
        for outbox, entries in self.stored_matches(piece.records):
            if outbox.handle in readers:
                self._give(outbox, entries, waiting_max)
        self._read = piece.position
        for handle, outbox in readers.items():
            if handle not in self._behind:
                continue
            outbox.behind_after = max(_behind_after(outbox), piece.position)
            if piece.position >= self.stored:
                outbox.caught_up(outbox.behind_after)
                del self._behind[handle]
        return list(readers.values()), list(self._next_piece())

    def _give(self, outbox: Outbox, entries: list[Entry], waiting_max: int) -> None:
        after = _behind_after(outbox)
        if outbox.handle not in self._behind:
            return
        entries = [entry for entry in entries if entry.position > after]
        is_bounded = outbox.subscription.qos.keep_last is not None
        room = len(entries) if is_bounded else waiting_max - len(outbox.waiting)
        if room > 0:
            outbox.waiting.extend(entries[:room])
        if is_bounded:
            outbox.trim(waiting_max)
        elif len(entries) > room:  # it goes on after what it got when it has room again
            outbox.behind_after = entries[room].position - 1
            del self._behind[outbox.handle]

    def _next_piece(self) -> Iterator[Fetch]:
        """What to read next: on in this round, or from where the next round has to begin."""
        if self._behind:
            starts = [_behind_after(outbox) for outbox in self._behind.values()]
            self._read = min((start for start in starts if start >= self._read), default=min(starts))
            self._is_reading = True
            yield Fetch(f"{self.tenant}/{self.name}", self.tenant, self.name, self._read)


def _behind_after(outbox: Outbox) -> Position:
    assert outbox.behind_after is not None, "it would not be among those who read"  # noqa: S101
    return outbox.behind_after


def entries_of(record: EventsStored) -> list[Entry]:
    """The events of a record, ready to be sent."""
    return [
        Entry(position, record.expires_at, Raw(delivery))
        for position, delivery in enumerate(record.deliveries, record.position)
    ]


def _attributes(delivery: Raw) -> dict[str, Any]:
    return event_attributes(bytes(_delivery.decode(delivery).event))
