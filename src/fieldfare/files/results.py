"""Results to files: the events' keys and the ids of the subscriptions that each satisfies.

JSON lines and Parquet have one row per event with a list of ids; CSV, which has no lists, one row per pair.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fieldfare.files.formats import Format


@dataclass(frozen=True, slots=True)
class EventMatches:
    """Events' keys, and for each the ids of its subscriptions."""

    keys: list[str | int]
    subscription_ids: pa.ListArray

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def pairs(self) -> int:
        """How many (event, subscription) there are."""
        return len(self.subscription_ids.flatten())

    def matched(self) -> EventMatches:
        """Without the events that satisfy no subscription."""
        mask = pc.greater(pc.list_value_length(self.subscription_ids), 0)
        keys = [key for key, is_matched in zip(self.keys, mask.to_pylist(), strict=True) if is_matched]
        return EventMatches(keys, self.subscription_ids.filter(mask))

    def __iter__(self) -> Iterator[tuple[str | int, list[Any]]]:
        # Converting all values at once and slicing is many times faster than Arrow's own conversion of lists.
        ids = plain(self.subscription_ids)
        values = ids.values.to_numpy(zero_copy_only=False).tolist()
        offsets = ids.offsets.to_pylist()
        for key, start, end in zip(self.keys, offsets[:-1], offsets[1:], strict=True):
            yield key, values[start:end]


def plain(lists: pa.ListArray) -> pa.ListArray:
    """The lists with dictionary-encoded strings written out."""
    return lists.cast(pa.list_(pa.string())) if pa.types.is_dictionary(lists.type.value_type) else lists


class ResultWriter(Protocol):
    """Writes results in one format."""

    def write(self, matches: EventMatches) -> None:
        """Append results."""
        ...

    def finish(self) -> None:
        """Write what the format has at its end."""
        ...


def result_writer(stream: BinaryIO, file_format: Format, key_type: pa.DataType, id_type: pa.DataType) -> ResultWriter:
    """A writer of one format onto a stream."""
    if file_format is Format.PARQUET:
        return _ParquetWriter(stream, key_type, id_type)
    return _CsvWriter(stream) if file_format is Format.CSV else _JsonLinesWriter(stream)


class _JsonLinesWriter:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.json.Encoder()

    def write(self, matches: EventMatches) -> None:
        self._stream.write(
            self._encoder.encode_lines([{"event": key, "subscription_ids": ids} for key, ids in matches])
        )

    def finish(self) -> None:
        self._stream.flush()


class _CsvWriter:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._stream.write(b"event,subscription_id\n")

    def write(self, matches: EventMatches) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for key, ids in matches:
            writer.writerows((key, subscription_id) for subscription_id in ids or [None])
        self._stream.write(text.getvalue().encode())

    def finish(self) -> None:
        self._stream.flush()


class _ParquetWriter:
    def __init__(self, stream: BinaryIO, key_type: pa.DataType, id_type: pa.DataType) -> None:
        fields = [pa.field("event", key_type, nullable=False), pa.field("subscription_ids", pa.list_(id_type))]
        self._schema = pa.schema(fields)
        self._writer = pq.ParquetWriter(stream, self._schema)

    def write(self, matches: EventMatches) -> None:
        is_text = self._schema.field("event").type == pa.string()
        keys = pa.array(map(str, matches.keys) if is_text else matches.keys, self._schema.field("event").type)
        ids = matches.subscription_ids.cast(self._schema.field("subscription_ids").type)
        self._writer.write_batch(pa.RecordBatch.from_arrays([keys, ids], schema=self._schema))

    def finish(self) -> None:
        self._writer.close()
