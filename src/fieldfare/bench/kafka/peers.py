"""The same job as people write it by hand: a consumer, a test of every condition, a producer. Nothing of it is ours.

One tests conditions in Python, event by event; the other collects events and lets DuckDB join them with the
subscriptions. Both only produce: neither is exactly once, which would cost them more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, Message, Producer

from fieldfare.bench.kafka.topics import quiet, reader
from fieldfare.bench.workload import WantedRanges, Workload

_DUCKDB_EVENTS = 2_000  # that are joined at a time
_BY_HAND_EVENTS = 50
Handle = Callable[[list[Message]], list[bytes]]


Box = tuple[int, float, float, float, float, float, float, float, float]


def boxes_of(workload: Workload) -> list[Box]:
    """Subscriptions as rows: an id, and the bounds of each attribute."""
    columns = [column for column in workload.columns.values() if isinstance(column, WantedRanges)]
    bounds = [
        (column.low.tolist(), (column.high if column.high is not None else column.low).tolist()) for column in columns
    ]
    return list(zip(workload.ids.tolist(), *(side for pair in bounds for side in pair), strict=True))


def matches(boxes: list[Box], a: float, b: float, c: float, d: float) -> list[int]:
    """Test every condition."""
    return [
        box[0]
        for box in boxes
        if box[1] <= a < box[2] and box[3] <= b < box[4] and box[5] <= c < box[6] and box[7] <= d < box[8]
    ]


def by_hand(workload: Workload) -> Handle:
    """Test each condition of each event."""
    boxes = boxes_of(workload)

    def handle(messages: list[Message]) -> list[bytes]:
        results = []
        for message in messages:
            event = json.loads(message.value())
            event["subscription_ids"] = matches(boxes, event["a0"], event["a1"], event["a2"], event["a3"])
            results.append(json.dumps(event).encode())
        return results

    return handle


def with_duckdb(workload: Workload) -> Handle:
    """Join the events with the subscriptions, some at a time."""
    connection = duckdb.connect(":memory:", config={"threads": 2})
    table = {"id": pa.array(workload.ids)}
    tests = []
    for name, column in workload.columns.items():
        if isinstance(column, WantedRanges) and column.high is not None:
            table |= {f"{name}_low": pa.array(column.low), f"{name}_high": pa.array(column.high)}
            tests.append(f"e.{name} >= s.{name}_low AND e.{name} < s.{name}_high")
    connection.register("arriving", pa.table(table))
    connection.execute("CREATE TABLE subscriptions AS SELECT * FROM arriving")
    query = f"SELECT e.event_id, s.id FROM batch e, subscriptions s WHERE {' AND '.join(tests)}"  # noqa: S608

    def handle(messages: list[Message]) -> list[bytes]:
        events = [json.loads(message.value()) for message in messages]
        connection.register("batch", pa.Table.from_pylist(events))
        pairs = connection.sql(query).to_arrow_table()
        ids: dict[int, list[int]] = {event["event_id"]: [] for event in events}
        for event, found in zip(pairs["event_id"].to_pylist(), pairs["id"].to_pylist(), strict=True):
            ids[event].append(found)
        return [json.dumps({**event, "subscription_ids": ids[event["event_id"]]}).encode() for event in events]

    return handle


def measured(handle: Handle, address: str, source: str, target: str, seconds_max: float) -> float:
    """Events per second of a loop that consumes, handles and produces, for some seconds or until all is read."""
    client = Producer({**quiet(address), "compression.type": "lz4"})
    together = _BY_HAND_EVENTS if handle.__qualname__.startswith(by_hand.__name__) else _DUCKDB_EVENTS
    done = 0
    with closing(reader(address, source, "peer")) as events:
        messages = _messages(events, together)  # the first come late: a consumer has to connect
        began = time.perf_counter()
        while messages and time.perf_counter() - began < seconds_max:
            for value in handle(messages):
                client.produce(target, value)
            done += len(messages)
            client.poll(0)
            messages = _messages(events, together)
        client.flush(30)
        return done / (time.perf_counter() - began)


def _messages(events: Consumer, count: int) -> list[Message]:
    return [message for message in events.consume(count, timeout=10.0) if message.error() is None]
