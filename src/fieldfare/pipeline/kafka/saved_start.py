"""Where a pipeline begins to read a topic: resolved once, and saved before the first batch, with the topic's id.

A pipeline that is killed before its first batch begins anew, and "latest" would be another place by then.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from fieldfare.durable import NewFile, flush_folder, make_folder
from fieldfare.errors import InputError
from fieldfare.kafka.starting import Beginning

_FILE = "kafka_start.json"


def saved(folder: Path) -> Beginning | None:
    """What an earlier run on this checkpoint resolved."""
    path = folder / _FILE
    if not path.exists():
        return None
    flush_folder(folder)  # the run that wrote it may have been killed before it did this
    try:
        return msgspec.json.decode(path.read_bytes(), type=Beginning)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: it is damaged ({error}); restore it, or start with a new checkpoint") from error


def save(folder: Path, beginning: Beginning) -> None:
    """Remember the beginning. It is durable when this returns."""
    make_folder(folder)
    with NewFile(folder / _FILE) as file:
        file.write(msgspec.json.encode(beginning))
