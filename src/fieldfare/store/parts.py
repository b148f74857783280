"""The indexes that a matcher searches, mapped from shared storage and kept for the next batch.

A worker process lives through many batches. It maps a part of the base when it first needs it, marks what a delta
has removed, and puts the shared part and the delta's own index beside it; nothing is copied.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fieldfare.matching.index import Index
from fieldfare.model import NOW
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.summary import Summary
from fieldfare.store.base import Base, open_base
from fieldfare.store.delta import read_added, read_removed

_KEPT = 2  # a new version, and the one before it for tasks that are still at it; older ones let go of their files
_CATALOGS = 16  # of as many pipelines


@dataclass(frozen=True, slots=True)
class Version:
    """The subscriptions that a batch is matched against. Names of folders: small enough to send with every task."""

    base: str
    delta: str | None
    number: int

    @property
    def layout(self) -> Layout:
        """How the base is divided."""
        return _mapped_base(self.base).base.layout

    @property
    def summary(self) -> Summary | None:
        """What each part of the base holds, in few boxes. What was added since is found at any visit."""
        return _mapped_base(self.base).summary

    @property
    def part_sizes(self) -> list[int]:
        """How many subscriptions each part of the base holds."""
        return _mapped_base(self.base).base.manifest.part_sizes

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that the subscriptions' boxes constrain."""
        return _kept_of(self.base).attributes(self.base, self.delta) - {NOW}

    @property
    def asks_now(self) -> bool:
        """Whether some condition asks for the time of now."""
        return NOW in _kept_of(self.base).attributes(self.base, self.delta)

    def index(self, part: int) -> Index:
        """The index of everything that must be searched for an event that visits a part."""
        return _kept_of(self.base).version(self.base, self.delta).index(part)


class _MappedBase:
    """A base and those of its parts that were needed so far."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self._parts: dict[int, tuple[Index, npt.NDArray[np.int32]]] = {}

    @cached_property
    def summary(self) -> Summary | None:
        return self.base.summary()

    def part(self, number: int) -> tuple[Index, npt.NDArray[np.int32]]:
        """A part's index, and the positions in the base of its subscriptions."""
        if number not in self._parts:
            self._parts[number] = self.base.index(number), self.base.members(number)
        return self._parts[number]


class _MappedVersion:
    """A base without the subscriptions that a delta removed, and with those that it added."""

    def __init__(self, mapped: _MappedBase, delta: Path | None) -> None:
        self._mapped = mapped
        self._added = Index() if delta is None else read_added(delta)
        self._removed = np.zeros(mapped.base.manifest.subscriptions, np.bool_)
        if delta is not None:
            self._removed[read_removed(delta)] = True
        self._indexes: dict[int, Index] = {}

    def index(self, part: int) -> Index:
        if part not in self._indexes:
            shared = self._mapped.base.layout.shared_part_of(part)
            pieces = [self._live(number) for number in (part, shared) if number is not None]
            self._indexes[part] = Index.joined([*pieces, self._added])
        return self._indexes[part]

    def _live(self, part: int) -> Index:
        index, members = self._mapped.part(part)
        gone = self._removed[members]
        return index.without(gone) if gone.any() else index


class _Kept:
    """What a process keeps of one catalog: a worker may serve several pipelines, which do not displace each other."""

    def __init__(self) -> None:
        self.base = lru_cache(maxsize=_KEPT)(lambda folder: _MappedBase(open_base(Path(folder))))
        self.attributes = lru_cache(maxsize=_KEPT)(_attributes)
        self.version = lru_cache(maxsize=_KEPT)(_mapped_version)


@lru_cache(maxsize=_CATALOGS)
def _kept(_catalog: str) -> _Kept:
    return _Kept()


def _kept_of(base: str) -> _Kept:
    return _kept(os.path.dirname(base))  # noqa: PTH120 - for each batch: a Path would take longer


def _mapped_base(folder: str) -> _MappedBase:
    return _kept_of(folder).base(folder)


def _attributes(base: str, delta: str | None) -> frozenset[str]:
    index = Index() if delta is None else read_added(Path(delta))
    added = {*index.attributes, NOW} if index.asks_now else index.attributes
    return frozenset({*_mapped_base(base).base.attributes(), *added})


def _mapped_version(base: str, delta: str | None) -> _MappedVersion:
    return _MappedVersion(_mapped_base(base), None if delta is None else Path(delta))
