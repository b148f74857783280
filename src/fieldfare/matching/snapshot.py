"""An index in a folder: plain arrays that are mapped into memory as they are, and a manifest that checks them.

    index.json     what there is: for each segment its attributes and its arrays, each with place, type and checksum
    arrays.bin     all arrays, one after the other, each at a multiple of 64 bytes
    ids.arrow      the ids of all segments, as Arrow IPC

The folder is written under another name and renamed when complete, so it is there whole or not at all.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.durable import flush_file, flush_folder, rename
from fieldfare.errors import SnapshotError
from fieldfare.matching.axis import Axis
from fieldfare.matching.batch import Texts
from fieldfare.matching.ids import IdLookup
from fieldfare.matching.members import Members
from fieldfare.matching.part import Part
from fieldfare.matching.passing import names_on
from fieldfare.matching.postings import Postings
from fieldfare.matching.residual import Residuals
from fieldfare.matching.segment import Segment
from fieldfare.matching.slots import Grid
from fieldfare.matching.tree import Tree, fine_of_exact, without_codes
from fieldfare.matching.vocabulary import Vocabulary, cells_of
from fieldfare.model import NOW, AxisKey, Derived

FORMAT = 7
_READABLE = (2, 3, 4, 5, 6, FORMAT)
# 2 had no derived axes, 3 no members of lists, 4 exact bounds in place of fine ones, 5 no codes, 6 no cells.
_ALIGNMENT = 64
Manifest = TypeVar("Manifest", bound=msgspec.Struct)
_MANIFEST, _ARRAYS, _IDS = "index.json", "arrays.bin", "ids.arrow"


class _Array(msgspec.Struct, frozen=True):
    dtype: str
    offset: int
    nbytes: int
    checksum: int


class _Axis(msgspec.Struct, frozen=True, omit_defaults=True):
    attribute: str
    origin: float
    cells_per_unit: float
    expression: bytes | None = None  # of a derived axis, whose attribute is empty


class _Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    axes: list[_Axis]
    owner_count: int
    several: bool
    arrays: dict[str, _Array]
    lists: tuple[bytes, ...] = ()  # the expressions whose members boxes ask for
    first_place: int = 0  # of the boxes that are found by members
    asks_now: bool = False  # some residual test needs the time of now


class _Manifest(msgspec.Struct, frozen=True):
    format: int
    ids_checksum: int
    segments: list[_Segment]
    checksum: int = 0  # of all this


def sealed(manifest: Manifest) -> Manifest:
    """A manifest, which has a field `checksum`, with that checksum in place."""
    return msgspec.structs.replace(manifest, checksum=_checksum(manifest))


def is_sound(manifest: msgspec.Struct) -> bool:
    """Whether a manifest is as it was sealed."""
    return bool(msgspec.structs.asdict(manifest)["checksum"] == _checksum(manifest))


def _checksum(manifest: msgspec.Struct) -> int:
    return zlib.crc32(msgspec.json.encode(msgspec.structs.replace(manifest, checksum=0)))


def save_segments(segments: tuple[Segment, ...], folder: Path) -> None:
    """Write a snapshot. `folder` must not exist, or be empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SnapshotError(f"{folder} is there already: save to a folder that does not exist or is empty")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            unfinished = Path(scratch) / "snapshot"
            unfinished.mkdir()
            _write(segments, unfinished)
            rename(unfinished, folder)
    except OSError as error:
        raise SnapshotError(f"the index could not be saved to {folder}: {error.strerror or error}") from error


def _write(segments: tuple[Segment, ...], folder: Path) -> None:
    with (folder / _ARRAYS).open("wb") as file:
        described = [_write_segment(file, segment) for segment in segments]
        flush_file(file)
    ids = _encoded_ids(segments)
    with (folder / _IDS).open("wb") as file:
        file.write(ids)
        flush_file(file)
    with (folder / _MANIFEST).open("wb") as file:
        manifest = sealed(_Manifest(FORMAT, zlib.crc32(ids), described))
        file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        flush_file(file)
    flush_folder(folder)


def _write_segment(file: Any, segment: Segment) -> _Segment:
    part = segment.part
    keys: list[AxisKey] = [*part.attributes, *part.derived]
    axes = [
        _Axis(key if isinstance(key, str) else "", axis.grid.origin, axis.grid.cells_per_unit, _code(key))
        for key, axis in zip(keys, part.axes, strict=True)
    ]
    arrays = {name: _write_array(file, array) for name, array in _arrays(segment)}
    asks_now = NOW in part.residuals.attributes
    if part.members is None:
        return _Segment(axes, part.owner_count, part.several, arrays, asks_now=asks_now)
    lists = tuple(axis.code for axis in part.members.lists)
    return _Segment(axes, part.owner_count, part.several, arrays, lists, part.members.first_place, asks_now)


def _code(key: AxisKey) -> bytes | None:
    return None if isinstance(key, str) else key.code


def _arrays(segment: Segment) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    part = segment.part
    for field in Tree._fields:
        yield f"tree.{field}", getattr(part.tree, field)
    for number, axis in enumerate(part.axes):
        yield f"axis{number}.booleans", axis.booleans
        yield f"axis{number}.before", axis.grid.before
        yield f"axis{number}.cuts", axis.grid.cuts
        if axis.integers is not None:
            yield f"axis{number}.integers", axis.integers
        yield f"axis{number}.offsets", axis.strings.offsets
        yield f"axis{number}.data", axis.strings.data
        yield f"axis{number}.times", axis.times
    if part.members is not None:
        yield from _member_arrays(part.members)
    yield "owners", part.owners
    yield "live", segment.live
    yield "residuals", np.frombuffer(part.residuals.encoded(), np.uint8)


def _member_arrays(members: Members) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for field in Vocabulary._fields:
        yield f"vocabulary.{field}", getattr(members.vocabulary, field)
    for field in Postings._fields:
        yield f"postings.{field}", getattr(members.postings, field)
    yield "tested.places", members.tested_places
    yield "tested.starts", members.tested_starts
    yield "tested.members", members.tested


def _write_array(file: Any, array: npt.NDArray[Any]) -> _Array:
    file.write(b"\x00" * (-file.tell() % _ALIGNMENT))
    offset = file.tell()
    data = array.tobytes()
    file.write(data)
    return _Array(array.dtype.str, offset, array.nbytes, zlib.crc32(data))


def _encoded_ids(segments: tuple[Segment, ...]) -> pa.Buffer:
    ids = [segment.ids for segment in segments]
    schema = pa.schema([("id", ids[0].type if ids else pa.int64())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for array in ids:
            writer.write_batch(pa.record_batch([array], schema))
    return sink.getvalue()


def saved_attributes(folder: Path) -> set[str]:
    """The attributes that the boxes of a saved index constrain, read from its manifest alone."""
    segments = _read_manifest(folder).segments
    axes = [axis for segment in segments for axis in segment.axes]
    names = {axis.attribute for axis in axes if axis.expression is None}
    names |= {NOW for segment in segments if segment.asks_now}
    codes = [axis.expression for axis in axes if axis.expression is not None]
    codes += [code for segment in segments for code in segment.lists]
    return names.union(*(names_on(Derived(code)) for code in codes))


def load_segments(folder: Path, *, verify: bool) -> tuple[Segment, ...]:
    """Map a snapshot; with `verify`, read it all once and compare the checksums."""
    manifest = _read_manifest(folder)
    try:
        size = (folder / _ARRAYS).stat().st_size
        data = np.memmap(folder / _ARRAYS, np.uint8, "c").view(np.ndarray) if size else np.empty(0, np.uint8)
        mapped_ids = pa.memory_map(str(folder / _IDS))
        if verify and zlib.crc32(mapped_ids.read_buffer()) != manifest.ids_checksum:
            raise SnapshotError(f"{folder} is damaged: {_IDS} is not what was saved")
        reader = pa.ipc.open_file(mapped_ids)
        ids = [reader.get_batch(number).column(0) for number in range(reader.num_record_batches)]
    except (OSError, pa.ArrowInvalid) as error:
        raise SnapshotError(f"{folder} is not a whole snapshot: {error}") from error
    if len(ids) != len(manifest.segments):
        raise SnapshotError(f"{folder} is damaged: {_IDS} has {len(ids)} segments, not {len(manifest.segments)}")
    segments = []
    for described, segment_ids in zip(manifest.segments, ids, strict=True):
        if len(segment_ids) != described.owner_count:
            raise SnapshotError(f"{folder} is damaged: {_IDS} does not fit the arrays")
        arrays = {name: _mapped(data, array, name, verify=verify) for name, array in described.arrays.items()}
        try:
            segments.append(_segment(described, arrays, segment_ids))
        except KeyError as error:
            raise SnapshotError(f"{folder} is damaged: it lacks the array {error}") from error
    return tuple(segments)


def _read_manifest(folder: Path) -> _Manifest:
    try:
        text = (folder / _MANIFEST).read_bytes()
    except OSError as error:
        raise SnapshotError(f"{folder} holds no saved index: {error.strerror}") from error
    try:
        found = msgspec.json.decode(text, type=dict[str, Any]).get("format")
        if found not in _READABLE:
            readable = " and ".join(map(str, _READABLE))
            raise SnapshotError(
                f"{folder} has format {found}; this version reads formats {readable}: build the index anew"
            )
        manifest = msgspec.json.decode(text, type=_Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotError(f"{folder} is damaged: {_MANIFEST} cannot be read: {error}") from error
    if not is_sound(manifest):
        raise SnapshotError(f"{folder} is damaged: {_MANIFEST} is not what was saved")
    return manifest


def _mapped(data: npt.NDArray[np.uint8], array: _Array, name: str, *, verify: bool) -> npt.NDArray[Any]:
    part = data[array.offset : array.offset + array.nbytes]
    if len(part) != array.nbytes or (verify and zlib.crc32(part.data) != array.checksum):
        raise SnapshotError(f"the snapshot is damaged: array {name!r} is not what was saved")
    return part.view(array.dtype)


def _segment(described: _Segment, arrays: Mapping[str, npt.NDArray[Any]], ids: pa.Array) -> Segment:
    axes = tuple(_axis(number, axis, arrays) for number, axis in enumerate(described.axes))
    tree = _tree(arrays)
    part = Part(
        attributes=tuple(axis.attribute for axis in described.axes if axis.expression is None),
        axes=axes,
        tree=tree,
        owners=arrays["owners"],
        owner_count=described.owner_count,
        several=described.several,
        residuals=Residuals.decoded(arrays["residuals"].tobytes()),
        derived=tuple(Derived(axis.expression) for axis in described.axes if axis.expression is not None),
        members=_members(described, arrays),
    )
    return Segment(part, ids, arrays["live"], IdLookup(ids))


def _tree(arrays: Mapping[str, npt.NDArray[Any]]) -> Tree:
    given = {name.removeprefix("tree."): array for name, array in arrays.items() if name.startswith("tree.")}
    if "exact" in given:
        given |= fine_of_exact(given, given["exact"])
    if "tile_narrow" not in given:
        given |= without_codes(len(given["tile_modes"]))
    return Tree(**{field: given[field] for field in Tree._fields})


def _members(described: _Segment, arrays: Mapping[str, npt.NDArray[Any]]) -> Members | None:
    if not described.lists:
        return None
    return Members(
        tuple(map(Derived, described.lists)),
        _vocabulary(arrays),
        Postings(**{field: arrays[f"postings.{field}"] for field in Postings._fields}),
        described.first_place,
        *(arrays[f"tested.{name}"] for name in ("places", "starts", "members")),
    )


def _vocabulary(arrays: Mapping[str, npt.NDArray[Any]]) -> Vocabulary:
    offsets, data, kinds = (arrays[f"vocabulary.{field}"] for field in ("offsets", "data", "kinds"))
    cells = arrays.get("vocabulary.cells")  # formats before 7 had another table
    return Vocabulary(offsets, data, kinds, cells_of(offsets, data, kinds) if cells is None else cells)


def _axis(number: int, described: _Axis, arrays: Mapping[str, npt.NDArray[Any]]) -> Axis:
    def of(name: str) -> npt.NDArray[Any]:
        return arrays[f"axis{number}.{name}"]

    return Axis(
        booleans=of("booleans"),
        grid=Grid(of("before"), of("cuts"), described.origin, described.cells_per_unit),
        integers=arrays.get(f"axis{number}.integers"),
        strings=Texts(of("offsets"), of("data")),
        times=of("times"),
    )
