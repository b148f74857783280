"""Finds all active leaves of a search tree that a target touches, by asking regions what they are.

Along a path from the whole space to one point, regions first are inner, then one is a leaf, then there is nothing. So
the leaf is found by bisection of the prefix length, in far fewer steps than by climbing from the bottom, and without
asking the root each time. When it is found, its siblings and those of the regions above it are what is left of the
space; each that the target touches is searched the same way, all at once.

What is asked is the work itself (see messages.Visit): where a leaf is found, the work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from fieldfare.dmm.regions import Grid, Target
from fieldfare.dmm.zcodes import ROOT, ZCode, parent_of, siblings_on_path


class RegionKind(Enum):
    """What a region is."""

    LEAF = "leaf"
    INNER = "inner"
    NOTHING = "nothing"


class Strategy(Enum):
    """In which order the regions of a path are asked."""

    BISECT = "bisect"
    CLIMB = "climb"  # from the smallest region upwards, as in the paper


@dataclass(slots=True)
class _Search:
    """A search along one path. The leaf's code has from `low` to `high` bits; that of `area` bits is all we look at."""

    path: ZCode
    area: int
    low: int
    high: int
    guess: int | None = None

    @property
    def is_contradictory(self) -> bool:
        """There is nothing below an inner region, or nothing at all."""
        return self.low > self.high


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask a region. If a child is `missing`, the region is inner, and yet there was nothing below it."""

    region: ZCode
    missing: ZCode | None = None


class LeafWalk:
    """One walk over a search tree. `guess_depth` says how long the code of a path's leaf may be, if that is known."""

    def __init__(
        self,
        grid: Grid,
        target: Target,
        guess_depth: Callable[[ZCode], int | None] = lambda _: None,
        strategy: Strategy = Strategy.BISECT,
    ) -> None:
        self._grid, self._target, self._guess_depth, self._strategy = grid, target, guess_depth, strategy
        self._searches: dict[ZCode, list[_Search]] = {}  # by the region that is being asked
        self.leaves: set[ZCode] = set()  # found so far
        self._bottom = len(grid.enclosing(target)) if target else 0
        self._ready: list[Probe] = []
        self._begin(ROOT)

    @property
    def is_over(self) -> bool:
        """Whether all leaves have been found."""
        return not self._searches

    def probes(self) -> list[Probe]:
        """What is to be asked now."""
        ready, self._ready = self._ready, []
        return ready

    def asked(self) -> Iterator[ZCode]:
        """The regions that have not answered."""
        return iter(self._searches)

    def answer(self, region: ZCode, found: RegionKind) -> bool:
        """A region has answered; whether the tree contradicts itself here, so that it is better to wait a little.

        A root where there is nothing counts as a leaf.
        """
        searches = self._searches.pop(region, [])
        return max([self._narrow(search, region, found) for search in searches], default=False)

    def _narrow(self, search: _Search, region: ZCode, found: RegionKind) -> bool:
        if found is RegionKind.LEAF or (found is RegionKind.NOTHING and len(region) == 0):
            self._end(search, region)
            return False
        if search.is_contradictory:
            search.low, search.high, search.guess = 0, self._grid.bits, None
            self._go_on(search)
            return True
        if found is RegionKind.INNER:
            search.low = len(region) + 1
        else:
            search.high = len(region) - 1
        self._go_on(search)
        return False

    def _begin(self, area: ZCode, guess: int | None = None) -> None:
        path = self._grid.corner(area, self._target)
        if path is None:
            return
        depth = self._guess_depth(path)
        self._go_on(_Search(path, len(area), len(area), self._grid.bits, guess if depth is None else depth))

    def _go_on(self, search: _Search) -> None:
        missing = search.path[: search.low] if search.is_contradictory else None
        region = search.path[: self._next_length(search)] if missing is None else parent_of(missing)
        asking = self._searches.setdefault(region, [])
        asking.append(search)
        if len(asking) == 1 or missing is not None:
            self._ready.append(Probe(region, missing))

    def _next_length(self, search: _Search) -> int:
        guess, search.guess = search.guess, None
        if guess is not None and search.low <= guess <= search.high:
            return guess
        if self._strategy is Strategy.CLIMB:
            return min(max(self._bottom, search.low), search.high)
        return (search.low + search.high) // 2

    def _end(self, search: _Search, leaf: ZCode) -> None:
        self.leaves.add(leaf)
        for sibling in siblings_on_path(search.path, min(search.area, len(leaf)), len(leaf)):
            self._begin(sibling, len(leaf))
