"""How a region that has become too large is divided: into smaller regions, over as many levels as it takes.

One halving may help nothing: all entries may lie in one half, or all of them in both halves, while the next level, on
another axis, tells them apart. So the plan looks further down. An entry that touches several parts is copied to each,
so the plan stops where copies become too many, and nothing is divided if some part would be as large as the whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from fieldfare.dmm.regions import Grid, Target, are_meeting
from fieldfare.dmm.zcodes import ZCode, children_of

_WORTH = 0.9  # a halving pays if a half has at most this share of the entries
_AHEAD_MAX = 3  # halvings that are tried together, each on another axis, where one does not pay
_PARTS_MAX = 8  # that have entries
_COPIES_MAX = 3.0  # entries in all parts together, for each entry of the whole


@dataclass(frozen=True, slots=True)
class Piece:
    """A region of a plan, and the numbers of the targets that touch it."""

    region: ZCode
    members: tuple[int, ...]


def split_plan(grid: Grid, region: ZCode, targets: Sequence[Target]) -> list[Piece]:
    """Regions that divide a region, each with at most half of its entries if that can be had. One: it stays whole."""
    whole = Piece(region, tuple(range(len(targets))))
    numbers = count()
    largest_first = [(-len(targets), next(numbers), whole)]
    final: list[Piece] = []  # that cannot be divided, or need not be
    parts, copies = 1, len(targets)
    while largest_first:
        _, _, piece = heapq.heappop(largest_first)
        divided = _divided(grid, piece, targets) if 2 * len(piece.members) > len(targets) else None
        if divided is not None:
            parts += sum(1 for part in divided if part.members) - 1
            copies += sum(len(part.members) for part in divided) - len(piece.members)
        if divided is None or parts > _PARTS_MAX or copies > _COPIES_MAX * len(targets):
            final += [piece, *(rest for _, _, rest in largest_first)]
            break
        for part in divided:
            heapq.heappush(largest_first, (-len(part.members), next(numbers), part))
    is_smaller = max(len(piece.members) for piece in final) < len(targets)
    return final if is_smaller else [whole]


def _divided(grid: Grid, piece: Piece, targets: Sequence[Target]) -> list[Piece] | None:
    """A piece in as few parts as pay; None if there are none."""
    parts = [piece]
    for _ in range(min(len(grid.axes), _AHEAD_MAX)):
        if any(len(part.region) == grid.bits for part in parts):
            return None
        parts = [_part(grid, child, part, targets) for part in parts for child in children_of(part.region)]
        if min(len(part.members) for part in parts) <= _WORTH * len(piece.members):
            return parts
    return None


def _part(grid: Grid, child: ZCode, piece: Piece, targets: Sequence[Target]) -> Piece:
    cell = grid.cell(child)
    members = [number for number in piece.members if any(are_meeting(cell, extent) for extent in targets[number])]
    return Piece(child, tuple(members))


def inner_regions(region: ZCode, pieces: Sequence[Piece]) -> list[ZCode]:
    """The regions that lie between a region and the pieces it was divided into, without itself."""
    lengths = ((piece.region, length) for piece in pieces for length in range(len(region) + 1, len(piece.region)))
    return list(dict.fromkeys(code[:length] for code, length in lengths))
