"""The time of now of a batch, for conditions that ask for it.

It is recorded in the checkpoint before the batch is matched: a batch that comes again, after a crash, has the same one.
Only the last two batches can come again: one is matched while the other is committed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fieldfare.durable import NewFile
from fieldfare.errors import PipelineError


class _Recorded(msgspec.Struct, frozen=True):
    batch_id: int
    now: datetime


def instant_of_batch(path: Path, batch_id: int) -> datetime:
    """When a batch was first begun. It is durable when this returns."""
    recorded = _read(path)
    for each in recorded:
        if each.batch_id == batch_id:
            return each.now
    new = _Recorded(batch_id, datetime.now(UTC))
    with NewFile(path) as file:
        file.write(msgspec.json.encode([*recorded[-1:], new]))
    return new.now


def _read(path: Path) -> list[_Recorded]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[_Recorded])
    except FileNotFoundError:
        return []
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PipelineError(
            f"{path} is damaged ({error}): remove it, and the batch under way has a new time"
        ) from error
