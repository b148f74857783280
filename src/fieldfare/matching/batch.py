"""A batch of events in columns: what the index and the residual tests read, whatever the events came as.

A column is a list of pieces, each of one section of the axis, because events need no schema: the same attribute
may be a number here and a string there. A row that no piece names has no value: it is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.model import Derived, Section


@dataclass(frozen=True, slots=True)
class Texts:
    """Strings as UTF-8: string i is data[offsets[i]:offsets[i + 1]]."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(values: Sequence[bytes]) -> Texts:
        """Texts of some byte strings."""
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=offsets[1:])
        return Texts(offsets, np.frombuffer(b"".join(values), np.uint8))

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()


def _no_numbers() -> npt.NDArray[Any]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a piece: texts, or else numbers. With `codes`, value i is string number `codes[i]` of the texts."""

    numbers: npt.NDArray[Any] = field(
        default_factory=_no_numbers
    )  # float64 or int64; booleans (0, 1) and times (microseconds) are int64
    texts: Texts | None = None
    codes: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Lists:
    """Lists in one column: list i has the members from offsets[i] up to offsets[i + 1]."""

    offsets: npt.NDArray[np.int64]
    members: Callable[[], Sequence[Piece]]  # all members as a column: row i is member i; objects and lists are left out
    listed: Callable[[int], Any]  # list i as Python has it

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """The members as a column."""
        return self.members()


@dataclass(frozen=True, slots=True)
class Piece:
    """The values of one attribute, in one section, for some rows of a batch."""

    section: Section  # BOOLEAN, NUMBER (NaN among them), STRING or TIME; NAN: lists
    rows: npt.NDArray[np.int64] | None  # ascending; None: all rows of the batch
    low: Values  # zeros for lists
    high: Values | None = None  # the upper ends where the values are ranges [low, high]; None: points
    lists: Lists | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Some events, by attribute; and the values of the expressions that were asked for, once each."""

    rows: int
    columns: Mapping[str, Sequence[Piece]]
    computed: dict[Derived, Any] = field(default_factory=dict, compare=False, repr=False)  # see evaluation.py
    lists: dict[Derived, Any] = field(default_factory=dict, compare=False, repr=False)  # see list_columns.py
