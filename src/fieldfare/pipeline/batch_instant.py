"""The time of now of a batch, for conditions that ask for it.

It is recorded in the checkpoint before the batch is matched: a batch that comes again, after a crash, has the same one.
Only the last batch can come again, so one record is enough.
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
    if recorded is None or recorded.batch_id != batch_id:
        recorded = _Recorded(batch_id, datetime.now(UTC))
        with NewFile(path) as file:
            file.write(msgspec.json.encode(recorded))
    return recorded.now


def _read(path: Path) -> _Recorded | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Recorded)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise PipelineError(
            f"{path} is damaged ({error}): remove it, and the batch under way has a new time"
        ) from error
