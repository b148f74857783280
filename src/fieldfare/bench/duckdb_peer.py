"""DuckDB on one thread: subscriptions and events are tables, and matching is a join.

Bounds are columns to compare, a string to equal is an integer code to hash on, a choice of strings is a bit mask. A
prefix is found among the distinct ones first, so that the many subscriptions join on its code.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from fieldfare.bench.measuring import Lists
from fieldfare.bench.workload import Choices, Equals, Prefixes, WantedRanges, Workload


class DuckdbEngine:
    """A table of subscriptions, a table of events."""

    name = "duckdb"

    def __init__(self, workload: Workload, live: int) -> None:
        began = time.perf_counter()
        self._pool = _subscriptions(workload)
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET enable_progress_bar = false")
        self._create("subscriptions", self._pool.slice(0, live))
        self._create("events", _events(workload))
        for attribute, column in workload.columns.items():
            if isinstance(column, Prefixes):
                codes = np.arange(len(column.prefixes), dtype=np.int32)
                self._create(f"{attribute}_prefixes", pa.table({"code": codes, "prefix": list(column.prefixes)}))
        tests = " AND ".join(_tests(workload))
        others = "".join(
            f", {attribute}_prefixes" for attribute, column in workload.columns.items() if isinstance(column, Prefixes)
        )
        self._query = f"SELECT e.event, s.id FROM batch e{others}, subscriptions s WHERE {tests}"  # noqa: S608
        self.build_seconds = time.perf_counter() - began

    def _create(self, name: str, table: pa.Table) -> None:
        self._connection.register("arriving", table)
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")  # noqa: S608 (names are our own)
        self._connection.unregister("arriving")

    def match(self, start: int, stop: int) -> tuple[int, int, pa.Table]:
        """Pairs of event and id, in any order. A batch in a table of its own gets the better plan."""
        batch = "CREATE OR REPLACE TEMP TABLE batch AS SELECT * FROM events WHERE event >= ? AND event < ?"
        self._connection.execute(batch, [start, stop])
        return start, stop, self._connection.sql(self._query).to_arrow_table()

    def lists(self, answer: tuple[int, int, pa.Table]) -> Lists:
        """The answer, as lists of ids."""
        start, stop, pairs = answer
        events = pairs["event"].to_numpy() - start
        order = np.argsort(events, kind="stable")
        return Lists(np.bincount(events, minlength=stop - start), pairs["id"].to_numpy()[order])

    def change(self, added: slice, removed: slice) -> None:
        """Delete and insert rows."""
        gone = self._pool["id"]
        first, last = gone[removed.start].as_py(), gone[removed.stop - 1].as_py()
        self._connection.execute("DELETE FROM subscriptions WHERE id BETWEEN ? AND ?", [first, last])
        self._connection.register("arriving", self._pool.slice(added.start, added.stop - added.start))
        self._connection.execute("INSERT INTO subscriptions SELECT * FROM arriving")
        self._connection.unregister("arriving")


def _subscriptions(workload: Workload) -> pa.Table:
    columns = {"id": pa.array(workload.ids)}
    for attribute, column in workload.columns.items():
        if isinstance(column, WantedRanges):
            columns[f"{attribute}_low"] = pa.array(column.low)
            if column.high is not None:
                columns[f"{attribute}_high"] = pa.array(column.high)
        elif isinstance(column, Choices):
            columns[attribute] = pa.array(column.masks)
        else:
            columns[attribute] = pa.array(column.codes)
    return pa.table(columns)


def _events(workload: Workload) -> pa.Table:
    """The events as the tests read them: numbers, codes, bits, and texts where prefixes are asked for."""
    columns = {"event": pa.array(np.arange(len(workload.events), dtype=np.int64))}
    for attribute, column in workload.columns.items():
        values = workload.values[attribute]
        if isinstance(column, Prefixes):
            columns[attribute] = pa.array([column.vocabulary[code] for code in values.tolist()])
        elif isinstance(column, Choices):
            columns[attribute] = pa.array(np.uint64(1) << values.astype(np.uint64))
        else:
            columns[attribute] = pa.array(values)
    return pa.table(columns)


def _tests(workload: Workload) -> Iterator[str]:
    for attribute, column in workload.columns.items():
        if isinstance(column, Equals):
            yield f"e.{attribute} = s.{attribute}"
        elif isinstance(column, Choices):
            yield f"(e.{attribute} & s.{attribute}) != 0"
        elif isinstance(column, Prefixes):
            yield f"starts_with(e.{attribute}, {attribute}_prefixes.prefix)"
            yield f"{attribute}_prefixes.code = s.{attribute}"
        elif isinstance(column, WantedRanges):
            yield f"e.{attribute} >= s.{attribute}_low"
            if column.high is not None:
                yield f"e.{attribute} < s.{attribute}_high"
