"""Peers for workloads of lists: each looks for a subscription by its rarest member, as ours does.

Events are prepared as codes of words before the clock starts; ours gets texts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.bench.measuring import Lists, Unchanging
from fieldfare.bench.workload import WantedMembers, Workload

Codes = npt.NDArray[np.int32]


def column_of(workload: Workload, live: int) -> tuple[WantedMembers, list[Codes]]:
    """What subscriptions want, and the codes of each event."""
    attribute, column = next(iter(workload.columns.items()))
    if not isinstance(column, WantedMembers):
        raise TypeError(f"{attribute} is no list")
    return column.between(0, live), workload.values[attribute].tolist()


def _rarest_first(wanted: WantedMembers) -> list[list[int]]:
    """The members of each subscription, each once, the rarest first."""
    counts = np.bincount(wanted.codes)
    rows = np.split(wanted.codes, wanted.offsets[1:-1])
    return [sorted(set(row.tolist()), key=lambda code: (counts[code], code)) for row in rows]


class InvertedEngine(Unchanging):
    """An inverted index by hand: dicts of lists, and Python's sets."""

    name = "inverted"

    def __init__(self, workload: Workload, live: int) -> None:
        wanted, self._events = column_of(workload, live)
        began = time.perf_counter()
        self._single: dict[int, list[int]] = {}
        self._several: dict[int, list[tuple[int, frozenset[int]]]] = {}
        for subscription_id, (first, *others) in zip(workload.ids.tolist(), _rarest_first(wanted), strict=False):
            if others:
                self._several.setdefault(first, []).append((subscription_id, frozenset(others)))
            else:
                self._single.setdefault(first, []).append(subscription_id)
        self.build_seconds = time.perf_counter() - began

    def match(self, start: int, stop: int) -> list[list[int]]:
        """A list of ids for each event."""
        single, several, answers = self._single, self._several, []
        for codes in self._events[start:stop]:
            members = set(codes.tolist())
            found: list[int] = []
            for code in members:
                found += single.get(code, ())
                found += [found_id for found_id, others in several.get(code, ()) if others <= members]
            answers.append(found)
        return answers

    def lists(self, answer: list[list[int]]) -> Lists:
        """The answer, as lists of ids."""
        counts = np.array([len(found) for found in answer], np.int64)
        return Lists(counts, np.array([found_id for found in answer for found_id in found], np.int64))


class NumpyMembersEngine(Unchanging):
    """Brute force by column: every member of every subscription is looked up in an event's."""

    name = "numpy"

    def __init__(self, workload: Workload, live: int) -> None:
        self._wanted, self._events = column_of(workload, live)
        self._ids = workload.ids[:live]
        self.build_seconds = 0.0

    def match(self, start: int, stop: int) -> list[npt.NDArray[np.int64]]:
        """The ids of each event."""
        return [self._ids[self._wanted.holds(codes)] for codes in self._events[start:stop]]

    def lists(self, answer: list[npt.NDArray[np.int64]]) -> Lists:
        """The answer, as lists of ids."""
        return Lists(np.array([len(found) for found in answer], np.int64), np.concatenate(answer))


class DuckdbMembersEngine(Unchanging):
    """A join on the rarest member, and another for what is left of those that want several."""

    name = "duckdb"

    def __init__(self, workload: Workload, live: int) -> None:
        import duckdb

        wanted, events = column_of(workload, live)
        began = time.perf_counter()
        ordered = _rarest_first(wanted)
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET enable_progress_bar = false")
        ids = workload.ids[:live]
        firsts = {"id": ids, "code": [codes[0] for codes in ordered], "more": [len(codes) - 1 for codes in ordered]}
        self._create("firsts", firsts)
        pairs = [(i, code) for i, codes in zip(ids.tolist(), ordered, strict=True) for code in codes[1:]]
        self._create("others", {"id": [i for i, _ in pairs], "code": [code for _, code in pairs]})
        distinct = [np.unique(codes) for codes in events]
        self._create(
            "events",
            {
                "event": np.repeat(np.arange(len(events)), [len(codes) for codes in distinct]),
                "code": np.concatenate(distinct),
            },
        )
        self.build_seconds = time.perf_counter() - began

    def _create(self, name: str, columns: dict[str, Any]) -> None:
        self._connection.register("arriving", pa.table({key: pa.array(column) for key, column in columns.items()}))
        self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")  # noqa: S608 (names are our own)
        self._connection.unregister("arriving")

    def match(self, start: int, stop: int) -> tuple[int, int, pa.Table]:
        """Pairs of event and id, in any order."""
        for statement in (
            "CREATE OR REPLACE TEMP TABLE batch AS SELECT * FROM events WHERE event >= ? AND event < ?",
            "CREATE OR REPLACE TEMP TABLE found AS SELECT event, id, more FROM batch JOIN firsts USING (code)",
        ):
            self._connection.execute(statement, [start, stop] if "?" in statement else [])
        query = """
            SELECT event, id FROM found WHERE more = 0 UNION ALL
            SELECT event, id FROM (SELECT * FROM found WHERE more > 0)
            JOIN others USING (id) JOIN batch USING (event, code)
            GROUP BY event, id, more HAVING count(*) = more
        """
        return start, stop, self._connection.sql(query).to_arrow_table()

    def lists(self, answer: tuple[int, int, pa.Table]) -> Lists:
        """The answer, as lists of ids."""
        start, stop, pairs = answer
        events = pairs["event"].to_numpy() - start
        order = np.argsort(events, kind="stable")
        return Lists(np.bincount(events, minlength=stop - start), pairs["id"].to_numpy()[order])
