"""Many conditions of one shape -> boxes, in columns: the shape's tree is evaluated once, on columns of literals.

A row whose literals would give another structure than its neighbours' (a string that is also a time, a number beyond
2**53, values of an IN that touch) is set aside, to be compiled singly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fieldfare.boxes import AxisColumn, BoxTable, Cuts, MemberColumn
from fieldfare.language import tree
from fieldfare.language.column_leaves import ColumnLeaves
from fieldfare.language.column_products import (
    AxisRows,
    ColumnProduct,
    TestRows,
    UnfitShapeError,
    all_of,
    any_of,
    resolved,
)
from fieldfare.language.cut_columns import CutColumn, Mask, MemberKey, Piece
from fieldfare.language.tree import Side
from fieldfare.model import Derived, Test

__all__ = ["UnfitShapeError", "fill"]

_COMBINATIONS_MAX = 64

Rows = npt.NDArray[np.int64]


def fill(
    node: tree.Node, literals: Sequence[Sequence[str]], owners: npt.NDArray[np.int32], boxes_max: int
) -> tuple[BoxTable, Mask]:
    """The boxes of conditions that share a tree, given their literals in columns; and which rows to compile singly."""
    leaves = ColumnLeaves(len(owners), literals)
    products = _products(node, Side.TRUE, leaves)
    boxes = sum(math.prod(map(len, product.sets.values())) for product in products)
    if boxes > min(_COMBINATIONS_MAX, boxes_max):
        raise UnfitShapeError
    kept, overlapping = resolved(products, leaves.aside)
    kept = [mask & ~leaves.aside for mask in kept]
    tables = [
        table
        for product, mask in zip(products, kept, strict=True)
        for table in _boxes(product, mask, overlapping, owners)
    ]
    return BoxTable.concatenated(tables), leaves.aside


def _products(node: tree.Node, side: Side, leaves: ColumnLeaves) -> list[ColumnProduct]:
    """Where a node is on a side."""
    match node:
        case tree.Constant():
            raise UnfitShapeError
        case tree.Not(part):
            return _products(part, side.under_not, leaves)
        case tree.Asked(part):
            return _products(part, tree.inner_side(node, side), leaves)
        case tree.Case():
            return _products(tree.spelled_out(node, side), Side.TRUE, leaves)
        case tree.And(parts) | tree.Or(parts):
            alternatives = [_products(part, side, leaves) for part in parts]
            if isinstance(node, tree.And) is side.needs_all:
                return all_of(alternatives)
            return any_of(alternatives, leaves.aside)
        case _:
            return leaves.products(node, side)


def _boxes(product: ColumnProduct, kept: Mask, overlapping: Mask, owners: npt.NDArray[np.int32]) -> list[BoxTable]:
    """The boxes of one product: a table for each choice of a piece on every axis."""
    held = [[(piece, piece.holds()) for piece in pieces] for pieces in product.sets.values()]
    has_alternatives = any(isinstance(key, MemberKey) and len(pieces) > 1 for key, pieces in product.sets.items())
    tables = []
    for choice in itertools.product(*held):
        rows = np.flatnonzero(np.logical_and.reduce([kept, *(mask for _, mask in choice)]))
        pieces = [piece for piece, _ in choice]
        shared = np.full(len(rows), True) if has_alternatives else overlapping[rows]  # noqa: FBT003
        tables.append(_table(product, pieces, rows, owners[rows], shared))
    return tables


def _table(
    product: ColumnProduct, pieces: Sequence[Piece], rows: Rows, owners: npt.NDArray[np.int32], shared: Mask
) -> BoxTable:
    boxes = np.arange(len(rows), dtype=np.int32)
    axes: dict[str, AxisColumn] = {}
    derived: dict[Derived, AxisColumn] = {}
    members: dict[Derived, list[Cuts]] = {}
    for key, piece in zip(product.sets, pieces, strict=True):
        if isinstance(key, MemberKey):
            members.setdefault(key.lists, []).append(_cuts(piece.low, rows))
            continue
        column = AxisColumn(boxes, _cuts(piece.low, rows), _cuts(piece.high, rows))
        if isinstance(key, str):
            axes[key] = column
        elif isinstance(key, Derived):
            derived[key] = column
        else:
            for axis, part in _by_axis(key, column, rows).items():
                derived[axis] = _beside(derived[axis], part) if axis in derived else part
    asked = {
        lists: MemberColumn(np.tile(boxes, len(values)), Cuts.concatenated(values)) for lists, values in members.items()
    }
    return BoxTable(owners, axes, shared, _tests_of(product.tests, rows), derived, asked)


def _by_axis(key: AxisRows, column: AxisColumn, rows: Rows) -> dict[Derived, AxisColumn]:
    """The intervals of a column by the axis that each of its rows has."""
    places: dict[Derived, list[int]] = {}
    for place, row in enumerate(rows.tolist()):
        places.setdefault(key.axes[row], []).append(place)
    return {
        axis: AxisColumn(column.boxes[some], column.low.take(np.array(some)), column.high.take(np.array(some)))
        for axis, some in places.items()
    }


def _beside(one: AxisColumn, other: AxisColumn) -> AxisColumn:
    """The intervals of two columns that share no box."""
    boxes = np.concatenate([one.boxes, other.boxes])
    order = np.argsort(boxes)
    low, high = (Cuts.concatenated(ends).take(order) for ends in ((one.low, other.low), (one.high, other.high)))
    return AxisColumn(boxes[order], low, high)


def _tests_of(tests: Sequence[TestRows], rows: Rows) -> dict[int, tuple[Test, ...]]:
    """The residual tests of some rows, by their places among these."""
    if not tests:
        return {}
    columns = [[column.tests[row] for row in rows.tolist()] for column in tests]
    if len(columns) == 1:
        return {place: (test,) for place, test in enumerate(columns[0])}
    return {place: tuple(dict.fromkeys(some)) for place, some in enumerate(zip(*columns, strict=True))}


def _cuts(column: CutColumn, rows: Rows) -> Cuts:
    return Cuts(np.full(len(rows), column.section, np.uint8), column.values[rows])
