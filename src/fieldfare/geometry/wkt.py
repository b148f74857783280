"""Well-known text -> polygons: POLYGON and MULTIPOLYGON, strictly, with the place of what is wrong."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfare.geometry.rows import Floats
from fieldfare.geometry.validity import FAULTS, SOUND, fault_of_rings

CORNERS_MAX = 2_000  # of one text
COORDINATE_MAX = 1e100  # see orientation.py
_WORD = re.compile(r"\s*([(),]|[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])|[A-Za-z]+)", re.ASCII)
_REFUSED_WORDS = {
    "EMPTY": "an empty polygon covers nothing: leave it out",
    **dict.fromkeys(("Z", "M", "ZM"), "a corner is x and y: leave out Z and M"),
}
_END = re.compile(r"\s*")
_KINDS = {"POLYGON": 2, "MULTIPOLYGON": 3}  # how deep the corners stand in parentheses


class WktError(ValueError):
    """A text is no sound polygon. `position` counts characters of the text from 0."""

    def __init__(self, reason: str, position: int) -> None:
        self.reason = reason
        self.position = position
        super().__init__(reason)

    def __reduce__(self) -> tuple[type[WktError], tuple[str, int]]:
        return type(self), (self.reason, self.position)


@dataclass(frozen=True, slots=True)
class Rings:
    """The rings of one or several polygons: ring i is data[starts[i]:ends[i]], NaN NaN stands between two."""

    data: Floats
    starts: tuple[int, ...]
    ends: tuple[int, ...]


@functools.lru_cache(maxsize=1_024)
def read_polygons(text: str) -> Rings:
    """The polygons of a text; a WktError where it is not one, or they are not sound."""
    return _Reader(text).rings()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.word = ""
        self.start = 0
        self.data: list[float] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.places: list[int] = []  # where each ring begins in the text
        self.shells: list[int] = []

    def rings(self) -> Rings:
        self._advance()
        depth = _KINDS.get(self.word.upper())
        if depth is None:
            raise WktError("a polygon is written POLYGON((…)) or MULTIPOLYGON(((…)))", self.start)
        self._advance()
        if depth == 2:
            self._polygon()
        else:
            self._listed(self._polygon)
        if self.word:
            raise WktError(f"nothing may follow the polygon, but {self.word!r} does", self.start)
        data = np.array(self.data, np.float64)
        starts, ends, shells = (np.array(column, np.int64) for column in (self.starts, self.ends, self.shells))
        fault, ring = fault_of_rings(data, starts, ends, shells)
        if fault != SOUND:
            raise WktError(FAULTS[fault], self.places[ring])
        return Rings(data, tuple(self.starts), tuple(self.ends))

    def _advance(self) -> None:
        found = _WORD.match(self.text, self.at)
        if found is None:
            end = _END.match(self.text, self.at)
            self.start = end.end() if end else self.at
            if self.start < len(self.text):
                raise WktError(f"not understood: {self.text[self.start]!r}", self.start)
            self.word = ""
            return
        self.word, self.start, self.at = found[1], found.start(1), found.end()

    def _take(self, symbol: str) -> None:
        if self.word != symbol:
            if self.word.upper() in _REFUSED_WORDS:
                raise WktError(_REFUSED_WORDS[self.word.upper()], self.start)
            found = repr(self.word) if self.word else "the end"
            raise WktError(f"{symbol!r} is missing before {found}", self.start)
        self._advance()

    def _listed(self, read: Callable[[], None]) -> None:
        """One or more of something, in parentheses."""
        self._take("(")
        read()
        while self.word == ",":
            self._advance()
            read()
        self._take(")")

    def _polygon(self) -> None:
        shell = len(self.starts)
        self._listed(lambda: self._ring(shell))

    def _ring(self, shell: int) -> None:
        if self.starts:
            self.data += (math.nan, math.nan)
        self.places.append(self.start)
        self.starts.append(len(self.data))
        self.shells.append(shell)
        self._listed(self._corner)
        self.ends.append(len(self.data))

    def _corner(self) -> None:
        place = self.start
        x, y = self._number(), self._number()
        if len(self.data) > self.starts[-1] and self.data[-2:] == [x, y]:
            return
        self.data += (x, y)
        if len(self.data) > 2 * CORNERS_MAX:
            raise WktError(f"a polygon has at most {CORNERS_MAX:,} corners: make it simpler", place)

    def _number(self) -> float:
        if not self.word or self.word in "()," or self.word[0].isalpha():
            reason = "a corner is two numbers, x (longitude) and y (latitude)"
            raise WktError(reason, self.start)
        number = float(self.word)
        if not abs(number) <= COORDINATE_MAX:
            raise WktError(f"{self.word} is too large for a coordinate", self.start)
        self._advance()
        return number + 0.0
