"""What a task stages for Kafka: messages, ready to be sent, of events and the ids of the subscriptions they satisfy.

One message for each event is its JSON object with `subscription_ids`; one for each pair has `subscription_id`, which
is its key too. Where an event has more ids than a message can hold, several messages have the event, each with some of
the ids, its number as `piece` and their number as `pieces`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from fieldfare.errors import EventError
from fieldfare.files.quarantine import excerpt
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.row_structs import row_struct
from fieldfare.pipeline.writer import STAGED_SUFFIX, output_errors
from fieldfare.store.outputs import SUBSCRIPTION_IDS, WrittenFile

SUBSCRIPTION_ID, PIECE, PIECES = "subscription_id", "piece", "pieces"
_OURS = {SUBSCRIPTION_IDS, SUBSCRIPTION_ID, PIECE, PIECES}
_STAGED_BYTES = 16 << 20  # messages that are held before they go to the file, about
_IDS_TOGETHER = 1_000_000  # that are Python's integers at a time, about
_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """How messages are made. `key` is the event's column whose value is the key of its message; pairs have the id's."""

    explode: bool = False
    only_matched: bool = False
    key: str | None = None
    message_bytes_max: int = 1_000_000

    def writer(self, stage_folder: str | Path) -> MessageWriter:
        """A writer for one task."""
        return MessageWriter(stage_folder, self)


class MessageWriter:
    """A file in a staging folder, under a name that no other attempt has. Leaving it by an error removes the file."""

    def __init__(self, stage_folder: str | Path, options: MessageOptions) -> None:
        self.faults: list[BadEvent] = []  # events that no message can hold
        self._path = Path(stage_folder) / f"{uuid.uuid4().hex}{STAGED_SUFFIX}"
        self._options = options
        self._encoder = msgspec.json.Encoder()
        self._file: pa.ipc.RecordBatchStreamWriter | None = None
        self._keys: list[bytes | None] = []
        self._values: list[bytes] = []
        self._waiting_bytes = self._events = self._matches = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        if kind is not None:
            self._path.unlink(missing_ok=True)

    def write(self, events: pa.RecordBatch, subscription_ids: pa.ListArray) -> None:
        """Add events, and for each the ids of the subscriptions it satisfies."""
        for name in events.schema.names:
            if name in _OURS:
                raise EventError(name, "messages have a field of this name of their own: rename the event's")
        if self._options.key is not None and self._options.key not in events.schema.names:
            known = ", ".join(events.schema.names)
            raise EventError(self._options.key, f"the key of messages is no column of the events, which have {known}")
        if self._options.only_matched or self._options.explode:
            is_matched = pc.greater(pc.list_value_length(subscription_ids), 0)
            events, subscription_ids = events.filter(is_matched), subscription_ids.filter(is_matched)
        together = max(1, _IDS_TOGETHER * len(events) // max(1, len(subscription_ids.flatten())))
        for start in range(0, len(events), together):
            self._write_some(events.slice(start, together), subscription_ids.slice(start, together))

    def close(self) -> WrittenFile | None:
        """Finish the file; None if there were no messages, and so there is no file."""
        with output_errors(self._path):
            self._stage()
            if self._file is None:
                return None
            self._file.close()
            self._file = None
            return WrittenFile(str(self._path), self._events, self._matches, self._path.stat().st_size)

    def _write_some(self, events: pa.RecordBatch, subscription_ids: pa.ListArray) -> None:
        if not self._add_together(events, subscription_ids):
            for event, ids in zip(_rows(events), _lists(subscription_ids), strict=True):
                self._add(event, ids)

    def _add_together(self, events: pa.RecordBatch, subscription_ids: pa.ListArray) -> bool:
        """Add one message for each event. False, and nothing is added, if that cannot be done, or one is too long."""
        struct = None if self._options.explode else row_struct([*events.schema.names, SUBSCRIPTION_IDS])
        if struct is None:
            return False
        encode, name = self._encoder.encode, self._options.key
        values = list(map(encode, map(struct, *map(_values, events.columns), _lists(subscription_ids))))
        keys: list[bytes | None] = [None] * len(values)
        lengths = list(map(len, values))
        if name is not None:
            keys = [_key(value, self._encoder) for value in _values(events.column(name))]
            lengths = [len(value) + len(key or b"") for key, value in zip(keys, values, strict=True)]
        if max(lengths, default=0) > self._options.message_bytes_max:
            return False
        self._keep(keys, values)
        self._events += len(values)
        self._matches += len(subscription_ids.flatten())
        return True

    def _add(self, event: dict[str, Any], ids: list[Any]) -> None:
        limit = self._options.message_bytes_max
        key = None if self._options.key is None else _key(event[self._options.key], self._encoder)
        if self._options.explode:
            messages = [(_key(each, self._encoder), self._encoded({**event, SUBSCRIPTION_ID: each})) for each in ids]
        else:
            messages = [(key, self._encoded({**event, SUBSCRIPTION_IDS: ids}))]
            if len(messages[0][1]) > limit:
                messages = [(key, piece) for piece in self._pieces(event, ids)]
        if not messages or any(len(value) + len(name or b"") > limit for name, value in messages):
            raw = excerpt(self._encoded(event))
            self.faults.append(BadEvent("", f"the event is too large for a message of {limit:,} bytes", raw))
            return
        self._keep([name for name, _ in messages], [value for _, value in messages])
        self._events += 1
        self._matches += len(ids)

    def _keep(self, keys: Sequence[bytes | None], values: Sequence[bytes]) -> None:
        """Hold messages until there are enough for the file."""
        self._keys += keys
        self._values += values
        self._waiting_bytes += sum(map(len, values))
        if self._waiting_bytes >= _STAGED_BYTES:
            with output_errors(self._path):
                self._stage()

    def _pieces(self, event: dict[str, Any], ids: Sequence[Any]) -> Iterator[bytes]:
        """Messages that have some of the ids each, as few as will do; one of them too large if the event itself is."""
        frame = {**event, SUBSCRIPTION_IDS: [], PIECE: len(ids), PIECES: len(ids)}
        room = self._options.message_bytes_max - len(self._encoded(frame))
        groups: list[list[Any]] = [[]]
        left = room
        for each in ids:
            size = len(self._encoded(each)) + 1
            if size > left and groups[-1]:
                groups.append([])
                left = room
            groups[-1].append(each)
            left -= size
        for number, group in enumerate(groups, 1):
            yield self._encoded({**event, SUBSCRIPTION_IDS: group, PIECE: number, PIECES: len(groups)})

    def _encoded(self, value: Any) -> bytes:
        return self._encoder.encode(value)

    def _stage(self) -> None:
        if self._values:
            if self._file is None:
                self._file = pa.ipc.new_stream(self._path, _SCHEMA)
            columns = [pa.array(self._keys, pa.binary()), pa.array(self._values, pa.binary())]
            self._file.write_batch(pa.record_batch(columns, schema=_SCHEMA))
            self._keys, self._values, self._waiting_bytes = [], [], 0


def staged_messages(path: str | Path) -> Iterator[tuple[bytes | None, bytes]]:
    """The keys and values of a file that a task staged."""
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as batches:
        for batch in batches:
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _rows(events: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    names = events.schema.names
    return (dict(zip(names, row, strict=True)) for row in zip(*map(_values, events.columns), strict=True))


def _lists(ids: pa.ListArray) -> Iterator[list[Any]]:
    offsets = ids.offsets.to_numpy().tolist()
    first, values = offsets[0], _values(ids.values.slice(offsets[0], offsets[-1] - offsets[0]))
    return (values[start - first : stop - first] for start, stop in pairwise(offsets))


def _values(column: pa.Array) -> list[Any]:
    """The values of a column. NumPy is several times as fast where it can do it."""
    if column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    plain: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return plain


def _key(value: Any, encoder: msgspec.json.Encoder) -> bytes | None:
    """A text is its own key; of other values, their JSON."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else encoder.encode(value)
