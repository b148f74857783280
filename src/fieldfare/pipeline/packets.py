"""Events on their way through a shuffle: all that one dispatcher sends to one matcher at a time, as one row.

Spark moves rows one by one, and pays for each of their columns. A packet is a single binary value, the events in
Arrow's own format, so a shuffle moves few rows and copies memory; nothing is converted on either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.pipeline.system_columns import MATCHER

PACKET = "_packet"
PACKET_SCHEMA = f"{MATCHER} INT, {PACKET} BINARY"
_ARROW_SCHEMA = pa.schema([(MATCHER, pa.int32()), (PACKET, pa.binary())])


def packed(events: pa.RecordBatch, matchers: npt.NDArray[np.int32]) -> pa.RecordBatch:
    """A packet for each matcher that gets some of the events."""
    order = np.argsort(matchers, kind="stable")
    found, starts = np.unique(matchers[order], return_index=True)
    ordered = events if len(found) == 1 else events.take(pa.array(order))
    sink, offsets = pa.BufferOutputStream(), [0]
    for start, end in pairwise([*starts.tolist(), len(order)]):
        with pa.ipc.new_stream(sink, events.schema) as stream:
            stream.write_batch(ordered.slice(start, end - start))
        offsets.append(sink.tell())
    places = pa.py_buffer(np.array(offsets, np.int32))
    packets = pa.Array.from_buffers(pa.binary(), len(found), [None, places, sink.getvalue()])
    return pa.record_batch([pa.array(found, pa.int32()), packets], schema=_ARROW_SCHEMA)


def unpacked(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of packets."""
    for batch in rows:
        for packet in batch.column(PACKET):
            yield from pa.ipc.open_stream(packet.as_buffer())
