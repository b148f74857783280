"""A delta: what has changed since a base. A function of the base and of the store's version, so it can be made again.

    removed.bin     the positions in the base of the subscriptions that have ended, and a checksum of them
    added/          the index of those that have begun and not ended; not there if there are none

Every matcher uses the whole delta beside its part of the base: it is small, or a new base is made.
"""

from __future__ import annotations

import shutil
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fieldfare.errors import SnapshotError
from fieldfare.matching.index import Index
from fieldfare.store.base import UNFINISHED, Base
from fieldfare.store.subscription_store import Changes

_REMOVED, _ADDED = "removed.bin", "added"


@dataclass(frozen=True, slots=True)
class Delta:
    """A delta in its folder, which holds the store's changes up to `version`."""

    folder: Path
    version: int
    added: int
    removed: int

    @property
    def size(self) -> int:
        """How many subscriptions have changed."""
        return self.added + self.removed


def write_delta(base: Base, changes: Changes) -> Delta:
    """Save what has changed since the base, beside it."""
    snapshots = base.folder.parent
    unfinished = snapshots / f"{UNFINISHED}{uuid.uuid4().hex}"
    unfinished.mkdir()
    try:
        removed = base.positions(np.asarray(changes.ended, np.int64))
        (unfinished / _REMOVED).write_bytes(np.append(removed, _checksum(removed)).tobytes())
        if changes.started.num_rows:
            Index(changes.started.select(["subscription_id", "condition"])).save(unfinished / _ADDED)
        folder = snapshots / f"delta-{changes.version:012}-{uuid.uuid4().hex[:8]}"
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return Delta(folder, changes.version, changes.started.num_rows, len(removed))


def read_removed(folder: Path) -> npt.NDArray[np.int64]:
    """The positions in the base of the subscriptions that have ended."""
    try:
        removed = np.frombuffer((folder / _REMOVED).read_bytes(), np.int64)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{folder / _REMOVED} cannot be read: {error}") from error
    if not len(removed) or removed[-1] != _checksum(removed[:-1]):
        raise SnapshotError(f"{folder / _REMOVED} is damaged")
    return removed[:-1]


def _checksum(positions: npt.NDArray[np.int64]) -> int:
    return zlib.crc32(positions.tobytes())


def read_added(folder: Path) -> Index:
    """The index of the subscriptions that have begun."""
    return Index.load(folder / _ADDED) if (folder / _ADDED).exists() else Index()
