"""Residual tests: what intervals cannot say (`weight < 2 * price`, LIKE '%x%'), checked on (event, box) pairs.

Comparisons of numbers are answered pair by pair in one compiled loop (see number_tests.py). Other tests of one shape
are a group (see residual_groups.py), whose pairs are answered together. Tests that AND and OR combine are answered one
after the other, each for all its events (see combined.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fieldfare.errors import SnapshotError
from fieldfare.matching.batch import Batch
from fieldfare.matching.combined import CombinedTests
from fieldfare.matching.number_tests import OPEN, PASSED, NumberTests, judged, number_tests
from fieldfare.matching.operands import Mask
from fieldfare.matching.passing import attributes_of
from fieldfare.matching.residual_groups import Array, Group, Places, Shape, group_of, grouped, shape_of
from fieldfare.model import CombinedTest, Test

_SPARSE_RATIO = 8  # a table of all places pays if more than so small a part of them has tests
_COMBINED = -1  # stands for the group of the combined tests until the groups are counted


class Residuals(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The residual tests of many boxes.

    Box boxes[i] has the tests starts[i]:starts[i + 1]; test t is test places[t] of group groups_of[t], or, if there is
    no group of that number, test places[t] of `combined`.
    """

    boxes: npt.NDArray[np.int32]  # ascending
    starts: Places
    groups_of: npt.NDArray[np.int32]
    places: Places
    groups: tuple[Group, ...]
    combined: tuple[CombinedTest, ...] = ()

    @staticmethod
    def of(tests: Mapping[int, tuple[Test, ...]]) -> Residuals:
        """The tests of each box, by the box's number."""
        boxes = sorted(tests)
        combined: dict[CombinedTest, int] = {}
        numbers: dict[Shape, int] = {}
        literals: list[list[tuple[Any, ...]]] = []
        groups_of: list[int] = []
        places: list[int] = []
        for box in boxes:
            for test in tests[box]:
                if isinstance(test, CombinedTest):
                    groups_of.append(_COMBINED)
                    places.append(combined.setdefault(test, len(combined)))
                    continue
                shape, values = shape_of(test)
                number = numbers.setdefault(shape, len(numbers))
                if number == len(literals):
                    literals.append([])
                groups_of.append(number)
                places.append(len(literals[number]))
                literals[number].append(values)
        counts = [len(tests[box]) for box in boxes]
        groups = np.array(groups_of, np.int32)
        groups[groups == _COMBINED] = len(numbers)
        return Residuals(
            np.array(boxes, np.int32),
            np.cumsum([0, *counts], dtype=np.int64),
            groups,
            np.array(places, np.int64),
            tuple(group_of(shape, rows) for shape, rows in zip(numbers, literals, strict=True)),
            tuple(combined),
        )

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes whose values the tests need."""
        names = frozenset(name for group in self.groups for name in group.attributes)
        return names | attributes_of(self.combined)

    @cached_property
    def _combined_tests(self) -> CombinedTests:
        return CombinedTests(self.combined)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        columns: list[Array] = [array for group in self.groups for arrays in group.columns for array in arrays]
        columns += [self.boxes, self.starts, self.groups_of, self.places]
        return sum(array.nbytes for array in columns)

    def tests(self) -> dict[int, tuple[Test, ...]]:
        """The tests of each box, by the box's number: what `of` took."""
        found = [
            self.groups[group].test(place) if group < len(self.groups) else self.combined[place]
            for group, place in zip(self.groups_of, self.places, strict=True)
        ]
        bounds = zip(self.starts.tolist(), self.starts[1:].tolist(), strict=False)
        return {box: tuple(found[start:end]) for box, (start, end) in zip(self.boxes.tolist(), bounds, strict=True)}

    def holds(self, rows: Places, boxes: npt.NDArray[np.int32], batch: Batch) -> Mask:
        """Whether event `rows[i]` passes every test of box `boxes[i]`, for every i; a box without tests it passes."""
        if not len(self.boxes):
            return np.ones(len(rows), np.bool_)
        at = self._ranks_of(boxes)
        if self._number_tests is not None:
            states = judged(self._number_tests, rows, at, batch)
            held: Mask = states == PASSED
            left = np.flatnonzero(states == OPEN)
            if len(left):
                held[left] = self._hold(rows[left], at[left], batch)
            return held
        if self._is_uniform and (len(at) == 0 or int(at.min()) >= 0):
            return self.groups[0].holds(rows, at, batch)
        return self._hold(rows, at, batch)

    def _hold(self, rows: Places, at: Places, batch: Batch) -> Mask:
        """The same in columns, group by group, for boxes by their numbers among these."""
        held = np.ones(len(rows), np.bool_)
        tested = np.flatnonzero(at >= 0)
        counts = self.starts[at[tested] + 1] - self.starts[at[tested]]
        pairs = np.repeat(tested, counts)
        before = np.cumsum(counts) - counts
        tests = np.repeat(self.starts[at[tested]] - before, counts) + np.arange(len(pairs))
        for number, members in grouped(self.groups_of[tests]):
            holder = self.groups[number] if number < len(self.groups) else self._combined_tests
            failed = ~holder.holds(rows[pairs[members]], self.places[tests[members]], batch)
            held[pairs[members[failed]]] = False
        return held

    @cached_property
    def _number_tests(self) -> NumberTests | None:
        return number_tests(self.groups, self.starts, self.groups_of, self.places)

    @cached_property
    def _is_uniform(self) -> bool:
        """Whether every box has one test, and all are of one group, in the order of the boxes."""
        return len(self.groups) == 1 and not self.combined and len(self.boxes) == len(self.places)

    @cached_property
    def _ranks(self) -> npt.NDArray[np.int64] | None:
        """The number of a box among these, by its place, or -1; None where most places have no tests."""
        count = int(self.boxes[-1]) + 1
        if count > _SPARSE_RATIO * len(self.boxes):
            return None
        ranks = np.full(count, -1, np.int64)
        ranks[self.boxes] = np.arange(len(self.boxes))
        return ranks

    def _ranks_of(self, boxes: npt.NDArray[np.int32]) -> Places:
        """The numbers of some boxes among these; -1 where a box has no tests."""
        if self._ranks is not None:
            ranks = self._ranks[np.minimum(boxes, len(self._ranks) - 1)]
            ranks[boxes >= len(self._ranks)] = -1
            return ranks
        at = np.minimum(np.searchsorted(self.boxes, boxes), len(self.boxes) - 1)
        at[self.boxes[at] != boxes] = -1
        return at

    def encoded(self) -> bytes:
        """These tests as bytes, for a snapshot."""
        return msgspec.msgpack.encode(self, enc_hook=_array_to_wire)

    @staticmethod
    def decoded(data: bytes) -> Residuals:
        """What `encoded` gave."""
        try:
            return msgspec.msgpack.decode(data, type=Residuals, dec_hook=_array_from_wire)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise SnapshotError(f"the residual tests of the snapshot are damaged: {error}") from error


# To and from bytes


def _array_to_wire(array: Array) -> tuple[str, bytes]:
    return array.dtype.str, array.tobytes()


def _array_from_wire(_: type, wire: tuple[str, bytes]) -> Array:
    return np.frombuffer(wire[1], np.dtype(wire[0]))
