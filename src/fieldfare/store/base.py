"""A base: the subscriptions of one store version, compiled once and divided among matchers by a layout.

    base.json            what it was made from: store, version, scope, layout; and what each part holds
    numbers.npy          the store's numbers of the subscriptions, ascending: their places here are their positions
    part-0007/           the index of a part, as Index.save leaves it; an empty part has none
    part-0007.npy        the positions of the subscriptions in that index
    summary/             where an event may have to visit several parts: what each holds, in few boxes

It is never changed. Executors map from shared storage only the parts that their matcher needs.
"""

from __future__ import annotations

import shutil
import uuid
import zlib
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.boxes import BoxTable
from fieldfare.errors import SnapshotError
from fieldfare.language import compile_many
from fieldfare.matching.index import Index
from fieldfare.matching.snapshot import is_sound, saved_attributes, sealed
from fieldfare.partitioning.indexes import part_index
from fieldfare.partitioning.layout import Layout
from fieldfare.partitioning.plan import LayoutPlan, Reshape
from fieldfare.partitioning.summary import Summary
from fieldfare.store.subscription_store import SubscriptionStore

FORMAT = 2
_MANIFEST, _NUMBERS, _SUMMARY = "base.json", "numbers.npy", "summary"
UNFINISHED = ".unfinished-"


class Scope(msgspec.Struct, frozen=True):
    """Which subscriptions of a store to take: those of a tenant and a topic; None means all."""

    tenant: str | None = None
    topic: str | None = None


ALL = Scope()


class _Manifest(msgspec.Struct, frozen=True):
    format: int
    store: str
    version: int
    scope: Scope
    plan: LayoutPlan
    layout: str
    subscriptions: int
    part_sizes: list[int]
    checksums: dict[str, int]  # of the .npy files
    nbytes: int  # of all indexes
    checksum: int = 0  # of all this

    @property
    def copies(self) -> float:
        """How many parts hold a subscription, on average."""
        return sum(self.part_sizes) / max(1, self.subscriptions)


@dataclass(frozen=True)
class Base:
    """A base as it lies in its folder."""

    folder: Path
    manifest: _Manifest

    @property
    def version(self) -> int:
        """The store's version that it holds."""
        return self.manifest.version

    @cached_property
    def layout(self) -> Layout:
        """The layout by which its subscriptions are divided among matchers."""
        return Layout.from_json(self.manifest.layout)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The store's numbers of its subscriptions, ascending."""
        return self._array(_NUMBERS)

    def summary(self) -> Summary | None:
        """What each part holds in few boxes, where events may visit several."""
        folder = self.folder / _SUMMARY
        return Summary.load(folder) if folder.exists() else None

    def positions(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The positions in this base of subscriptions, given by their numbers in the store."""
        return np.searchsorted(self.numbers, numbers)

    def index(self, part: int) -> Index:
        """The index of a part, mapped into memory."""
        return Index.load(self.folder / _part_name(part)) if self.manifest.part_sizes[part] else Index()

    def attributes(self) -> set[str]:
        """The attributes that the boxes of all parts constrain; nothing but manifests is read."""
        parts = [part for part, size in enumerate(self.manifest.part_sizes) if size]
        return {name for part in parts for name in saved_attributes(self.folder / _part_name(part))}

    def members(self, part: int) -> npt.NDArray[np.int32]:
        """The positions of the subscriptions in a part's index, in its order."""
        return self._array(f"{_part_name(part)}.npy") if self.manifest.part_sizes[part] else np.empty(0, np.int32)

    def _array(self, name: str) -> npt.NDArray[Any]:
        try:
            content = (self.folder / name).read_bytes()
        except OSError as error:
            raise SnapshotError(f"{self.folder / name} cannot be read: {error}") from error
        if zlib.crc32(content) != self.manifest.checksums[name]:
            raise SnapshotError(f"{self.folder / name} is damaged")
        array: npt.NDArray[Any] = np.load(BytesIO(content), allow_pickle=False)
        return array


def open_base(folder: Path) -> Base:
    """The base in a folder."""
    try:
        manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SnapshotError(f"{folder} holds no base of subscriptions: {error}") from error
    if manifest.format != FORMAT:
        raise SnapshotError(f"{folder} has format {manifest.format}; this version reads {FORMAT}")
    if not is_sound(manifest):
        raise SnapshotError(f"{folder / _MANIFEST} is damaged")
    return Base(folder, manifest)


def newest_base(snapshots: Path, store: SubscriptionStore, scope: Scope, plan: LayoutPlan) -> Base | None:
    """The newest base that was made from this store for the same purpose, if there is one."""
    found = []
    for folder in snapshots.glob("base-*"):
        try:
            base = open_base(folder)
        except SnapshotError:
            continue  # it is made anew
        manifest = base.manifest
        if (manifest.store, manifest.scope, manifest.plan) == (store.identity, scope, plan):
            found.append(base)
    return max(found, key=lambda base: (base.version, base.layout.version), default=None)


class Order(msgspec.Struct, frozen=True):
    """Which base to make: its subscriptions, divided by a plan, or by reshaping an earlier layout if that is given."""

    scope: Scope
    plan: LayoutPlan
    reshape: Reshape | None = None

    def layout(self, boxes: BoxTable) -> Layout:
        """The layout for these boxes."""
        return self.plan.layout(boxes) if self.reshape is None else self.reshape.layout(boxes)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a base is made of: the subscriptions of one version of a store, and their boxes, compiled."""

    store: str
    version: int
    subscriptions: pa.Table  # number, ascending, and subscription_id
    boxes: BoxTable


def build_base(store: SubscriptionStore, snapshots: Path, order: Order) -> Base:
    """Compile what the store holds now, divide it, and save it in a folder of its own."""
    state = store.active(tenant=order.scope.tenant, topic=order.scope.topic)
    compiled = compile_many(state.table.column("condition").to_pylist())
    for number, error in compiled.errors:
        error.add_note(f"in subscription {state.table.column('subscription_id')[number].as_py()!r}")
        raise error
    return save_base(Contents(store.identity, state.version, state.table, compiled.table), snapshots, order)


def save_base(contents: Contents, snapshots: Path, order: Order) -> Base:
    """Divide compiled subscriptions, and save them in a folder of their own."""
    layout = order.layout(contents.boxes)
    unfinished = snapshots / f"{UNFINISHED}{uuid.uuid4().hex}"
    unfinished.mkdir(parents=True)
    try:
        parts = _write(unfinished, contents, layout)
        manifest = _Manifest(
            format=FORMAT,
            store=contents.store,
            version=contents.version,
            scope=order.scope,
            plan=order.plan,
            layout=layout.to_json(),
            subscriptions=contents.subscriptions.num_rows,
            part_sizes=parts.sizes,
            checksums=parts.checksums,
            nbytes=parts.nbytes,
        )
        (unfinished / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(sealed(manifest))))
        folder = snapshots / f"base-{contents.version:012}-{uuid.uuid4().hex[:8]}"
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return Base(folder, manifest)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What was written: how many subscriptions each part holds, and the size of all indexes together."""

    sizes: list[int]
    checksums: dict[str, int]
    nbytes: int


def _write(folder: Path, contents: Contents, layout: Layout) -> _Parts:
    ids = contents.subscriptions.column("subscription_id").combine_chunks()
    numbers = contents.subscriptions.column("number").to_numpy().astype(np.int64)
    checksums = {_NUMBERS: _save(folder / _NUMBERS, numbers)}
    placement = layout.place(contents.boxes)
    if any(dimension.hops > 1 for dimension in layout.dimensions):
        Summary.of(layout, contents.boxes, placement).save(folder / _SUMMARY)
    sizes, nbytes = [], 0
    for part in range(layout.part_count):
        held, index = part_index(ids, contents.boxes, placement.boxes_of(part))
        sizes.append(len(index))
        if len(index):
            index.save(folder / _part_name(part))
            name = f"{_part_name(part)}.npy"
            checksums[name] = _save(folder / name, held)
            nbytes += index.nbytes
    return _Parts(sizes, checksums, nbytes)


def _save(path: Path, array: npt.NDArray[Any]) -> int:
    """Save an array, and return its checksum."""
    content = BytesIO()  # writing to a file itself, NumPy does not say that the disk is full, only that it failed
    np.save(content, array)
    path.write_bytes(content.getbuffer())
    return zlib.crc32(content.getbuffer())


def _part_name(part: int) -> str:
    return f"part-{part:04}"
