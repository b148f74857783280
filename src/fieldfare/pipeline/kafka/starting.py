"""Where a pipeline begins to read a topic: resolved once, and saved before the first batch, with the topic's id.

Spark asks for the beginning again when it runs batch 0 again, and "latest" would be another place by then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fieldfare.durable import NewFile, flush_folder, make_folder
from fieldfare.errors import InputError
from fieldfare.pipeline.kafka.ranges import Offsets

EARLIEST, LATEST = "earliest", "latest"
_FILE = "kafka_start.json"


class Beginning(msgspec.Struct, frozen=True):
    """What is saved: the topic that is read, by the id that Kafka gave it, and the first offsets."""

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


def saved(folder: Path) -> Beginning | None:
    """What an earlier run on this checkpoint resolved."""
    path = folder / _FILE
    if not path.exists():
        return None
    flush_folder(folder)  # the run that wrote it may have been killed before it did this
    try:
        return msgspec.json.decode(path.read_bytes(), type=Beginning)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: it is damaged ({error}); restore it, or start with a new checkpoint") from error


def save(folder: Path, beginning: Beginning) -> None:
    """Remember the beginning. It is durable when this returns."""
    make_folder(folder)
    with NewFile(folder / _FILE) as file:
        file.write(msgspec.json.encode(beginning))
