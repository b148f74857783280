"""The conditions of a topic's subscriptions, in one index.

A subscription is a small integer here, its handle. Adding compiles many conditions at once and puts them in a segment
of their own; removing only notes the handle until enough have gathered. So a change costs little, however many are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fieldfare.errors import ConditionError
from fieldfare.language import compile_many
from fieldfare.matching.index import Index

_GONE_MIN = 1000  # handles to be removed from the index together


class CompiledConditions(NamedTuple):
    """Conditions as an index of their own, and by handle what is wrong with those that are not sound."""

    segment: Index
    errors: dict[int, ConditionError]


def compile_conditions(handles: Sequence[int], conditions: Sequence[str]) -> CompiledConditions:
    """Compile conditions; this may be done in a thread."""
    compiled = compile_many(conditions)
    errors = {handles[number]: error for number, error in compiled.errors}
    return CompiledConditions(Index.of_compiled(handles, compiled.table), errors)


class Interest:
    """Which subscriptions an event satisfies."""

    def __init__(self) -> None:
        self._index = Index()
        self._gone: set[int] = set()

    def add(self, compiled: CompiledConditions) -> dict[int, ConditionError]:
        """Add conditions; those that are not sound are left out and returned with what is wrong."""
        self._index = self._index.extended(compiled.segment)
        self._gone.update(compiled.errors)
        return compiled.errors

    def remove(self, handle: int) -> None:
        """Forget a subscription."""
        self._gone.add(handle)
        if len(self._gone) > max(_GONE_MIN, len(self._index) // 8):
            self._index = self._index.updated(remove=self._gone)
            self._gone = set()

    def match(self, events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, list[int]]]:
        """For every subscription that any of the events satisfies, its handle and the numbers of those events."""
        lists = self._index.match_rows(events)
        handles = lists.values.to_numpy()
        if not len(handles):
            return
        numbers = np.repeat(np.arange(len(events)), np.diff(lists.offsets.to_numpy()))
        order = np.argsort(handles, kind="stable")  # within a subscription, events keep their order
        handles, in_order = handles[order], numbers[order].tolist()
        starts = np.flatnonzero(np.diff(handles, prepend=handles[0] - 1))
        ends = [*starts[1:].tolist(), len(in_order)]
        for handle, start, end in zip(handles[starts].tolist(), starts.tolist(), ends, strict=True):
            if handle not in self._gone:
                yield handle, in_order[start:end]


def warm_up() -> None:
    """Match something of every common type, so that no client waits for it: a machine's first time compiles for it."""
    interest = Interest()
    interest.add(compile_conditions([1, 2], ["number < 5 AND text = 'a'", "decimal > 0.5"]))
    interest.add(compile_conditions([3], ["number + decimal > 1"]))
    for _ in interest.match([{"number": 1, "text": "a"}, {"number": 2, "decimal": 0.7}]):
        pass


def is_quick(conditions: Sequence[str]) -> bool:
    """Whether compiling takes less than about a millisecond."""
    return sum(map(len, conditions)) < 500
