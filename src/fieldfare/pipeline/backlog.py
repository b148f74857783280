"""What a pipeline has before it, seen from outside: files and events of its source that no committed batch had.

The logs in the checkpoint, Spark's own or the pipeline's, say up to which offset of the source batches are committed;
nothing is locked, and nothing has to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from fieldfare.errors import InputError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.pipeline.batch_log import BatchLog
from fieldfare.pipeline.event_files import EventPath
from fieldfare.pipeline.folder_data_source import LEDGER_NAME, found_files
from fieldfare.pipeline.ledger import FileList


class Committed(NamedTuple):
    """The last batch that is committed, and the source's offsets at its end."""

    batch_id: int
    offsets: Mapping[str, int]


class Backlog(NamedTuple):
    """What waits for a pipeline."""

    batch_id: int | None  # the last that is committed
    events: int
    is_estimate: bool  # files that were not opened yet are counted by their size
    files: int | None  # None: the source has none
    oldest_seconds: float | None  # since the oldest of those files was written; None: nothing waits, or nobody knows


def last_committed(checkpoint: Path) -> Committed | None:
    """What the checkpoint says is done; None if that is nothing yet."""
    planned = BatchLog(checkpoint / "fieldfare").last_done()
    if planned is not None:
        return Committed(planned.batch_id, planned.end)
    logs = checkpoint / "spark"
    done = [int(file.name) for file in (logs / "commits").glob("*") if file.name.isdecimal()]
    if not done:
        return None
    batch_id = max(done)
    try:
        last_line = (logs / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()[-1]
        return Committed(batch_id, msgspec.json.decode(last_line, type=dict[str, int]))
    except (OSError, IndexError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{checkpoint}: Spark's log of batch {batch_id} cannot be read: {error}") from error


def folder_backlog(folder: EventPath, checkpoint: Path, ledger: Path, now_seconds: float) -> Backlog:
    """What waits in a folder of event files."""
    committed = last_committed(checkpoint)
    consumed = committed.offsets.get("events", 0) if committed else 0
    path = ledger / LEDGER_NAME
    listed = FileList.read(path) if path.exists() else FileList(path)
    begun = listed.after(consumed)
    new = [file for file in found_files(folder) if file.name not in listed]
    known_bytes, known_rows = sum(file.bytes for file in begun), sum(file.rows for file in begun)
    guessed = sum(file.bytes for file in new) * known_rows // known_bytes if known_bytes else 0
    written = [file.appended_at / 1e6 for file in begun] + [file.changed_at / 1e9 for file in new]
    return Backlog(
        None if committed is None else committed.batch_id,
        listed.events - consumed + guessed,
        bool(new),
        len(begun) + len(new),
        max(0.0, now_seconds - min(written)) if written else None,
    )


def topic_backlog(topic: KafkaTopic, checkpoint: Path) -> Backlog:
    """What waits in a Kafka topic, in offsets."""
    from fieldfare.kafka.watching import TopicWatch

    committed = last_committed(checkpoint)
    offsets = committed.offsets if committed else {}
    bounds = TopicWatch(topic).bounds()
    waiting = sum(max(0, bound.high - max(bound.low, offsets.get(str(place), 0))) for place, bound in bounds.items())
    batch_id = None if committed is None else committed.batch_id
    return Backlog(batch_id, waiting, is_estimate=False, files=None, oldest_seconds=None)
