"""What a peer has learnt of search trees: which regions were leaves, and which peer answered for them.

It only saves time. A region that is not a leaf any more, or has moved to another peer, says so when it is asked; what
was remembered is dropped then, and else after a while.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

from fieldfare.dmm.spaces import RegionName, Space
from fieldfare.dmm.zcodes import ZCode
from fieldfare.pastry.ports import Card


@dataclass(frozen=True, slots=True)
class _Leaf:
    card: Card
    until: float


class TreeCache:
    """Leaves that were seen, the least recently used forgotten first."""

    def __init__(self, leaves_max: int, seconds: float) -> None:
        self._leaves_max, self._seconds = leaves_max, seconds
        self._leaves: OrderedDict[RegionName, _Leaf] = OrderedDict()
        self._lengths: dict[Space, dict[int, int]] = {}  # how many leaves have codes of each length
        self._lengths_of_all: Counter[int] = Counter()  # the same for all spaces together

    def __len__(self) -> int:
        return len(self._leaves)

    def learn(self, region: RegionName, card: Card, now: float) -> None:
        """A peer answered for a leaf."""
        if not self._leaves_max:
            return
        if region not in self._leaves:
            lengths = self._lengths.setdefault(region.space, {})
            lengths[len(region.code)] = lengths.get(len(region.code), 0) + 1
            self._lengths_of_all[len(region.code)] += 1
        self._leaves[region] = _Leaf(card, now + self._seconds)
        self._leaves.move_to_end(region)
        if len(self._leaves) > self._leaves_max:
            self.forget(next(iter(self._leaves)))

    def forget(self, region: RegionName) -> None:
        """A region is no leaf, or not where it was."""
        if self._leaves.pop(region, None) is None:
            return
        lengths = self._lengths[region.space]
        lengths[len(region.code)] -= 1
        self._lengths_of_all[len(region.code)] -= 1
        if not lengths[len(region.code)]:
            del lengths[len(region.code)]
            if not lengths:
                del self._lengths[region.space]

    def card(self, region: RegionName, now: float) -> Card | None:
        """The peer that answered for a leaf."""
        leaf = self._leaves.get(region)
        if leaf is None:
            return None
        if leaf.until <= now:
            self.forget(region)
            return None
        return leaf.card

    def depth(self, space: Space, path: ZCode, now: float) -> int | None:
        """How long the code of the leaf on a path was; if that is unknown, the most frequent length in the space.

        Of a space that is unknown, the most frequent length in all others: trees of one topic are much alike.
        """
        for length in sorted(self._lengths.get(space, ())):
            if length <= len(path) and self.card(RegionName(space, path[:length]), now) is not None:
                return length
        lengths = self._lengths.get(space) or self._lengths_of_all
        return max(lengths, key=lengths.__getitem__) if self._leaves else None
