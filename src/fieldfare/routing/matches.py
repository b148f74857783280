"""Who wants which events: events as entries, and pairs of a taker with its entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from fieldfare.messages import Delivery, EventsStored, Follows, Position, all_attributes
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.taker import Taker

Matches: TypeAlias = Iterable[tuple[Taker, list[EventEntry]]]

_delivery = msgspec.json.Decoder(Delivery)


def entries_of(record: EventsStored) -> list[EventEntry]:
    """The events of a record, ready to be sent."""
    positions = range(record.position, record.position + len(record.deliveries))
    return list(zip(positions, repeat(record.expires_at), map(Raw, record.deliveries), strict=False))


def follows_of(records: Iterable[EventsStored]) -> dict[Position, Follows]:
    """After which events of other logs the events of some records come; by their positions, for those that do."""
    return {
        record.position + number: record.follows
        for record in records
        if record.follows
        for number in range(len(record.deliveries))
    }


def attributes_in(entry: EventEntry) -> Mapping[str, Any]:
    """The attributes of an event that comes from the log."""
    delivery = _delivery.decode(entry[2])
    return all_attributes(bytes(delivery.event), delivery.envelope, delivery.at)
