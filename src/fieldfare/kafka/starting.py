"""Where reading a topic begins, as people say it: earliest, latest, a time, or offsets."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from fieldfare.errors import InputError
from fieldfare.kafka.offsets import Offsets

EARLIEST, LATEST = "earliest", "latest"


class Beginning(msgspec.Struct, frozen=True):
    """A starting point that was resolved: the topic that is read, by the id that Kafka gave it, and first offsets."""

    topic: str
    topic_id: str
    offsets: Offsets


def parsed(text: str) -> str | datetime | Offsets:
    """What a starting point says: earliest, latest, a time, or an offset for each partition, such as 0:120,1:44."""
    if text in {EARLIEST, LATEST}:
        return text
    try:
        pairs = [pair.split(":") for pair in text.split(",")]
        if all(len(pair) == 2 and all(number.strip().isdecimal() for number in pair) for pair in pairs):
            return {int(partition): int(offset) for partition, offset in pairs}
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{text!r} is no starting point: it is earliest, latest, a time such as 2026-01-31T12:00:00Z, "
            "or an offset for each partition, such as 0:120,1:44"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
