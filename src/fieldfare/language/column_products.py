"""Conjunctions of many conditions of one shape, in columns, and how they multiply out: as in normal_form, row by row.

A product is one conjunction in each row. What normal_form decides for one condition (a conjunction is empty, lies in
another, is apart from another) is a mask over the rows here. A row that would get another structure, because two sets
touch and become one, or two boxes are the same, is set aside.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfare.language.cut_columns import Mask, MemberKey, Piece
from fieldfare.model import Derived, Test

PRODUCTS_MAX = 16  # they are compared in pairs
_UNION_PIECES_MAX = 16
_PIECES_MAX = 64


class UnfitShapeError(ValueError):
    """A shape has too many boxes, or something that is not known in columns: compile its conditions singly."""


@dataclass(frozen=True, slots=True, eq=False)
class AxisRows:
    """An expression whose literals differ from row to row, so that it is another axis in each."""

    axes: list[Derived]


@dataclass(frozen=True, slots=True, eq=False)
class TestRows:
    """A residual test in each row."""

    tests: Sequence[Test]


Key = str | Derived | MemberKey | AxisRows
Sets = dict[Key, list[Piece]]


@dataclass(frozen=True, slots=True)
class ColumnProduct:
    """One conjunction in each row: on each axis the value lies in one of the pieces, and the tests hold."""

    sets: Sets
    tests: tuple[TestRows, ...] = ()


def all_of(parts: Sequence[Sequence[ColumnProduct]]) -> list[ColumnProduct]:
    """The conjunction of parts that have some products each."""
    result = [ColumnProduct({})]
    for products in parts:
        if len(result) * len(products) > PRODUCTS_MAX:
            raise UnfitShapeError
        result = [_both(one, other) for one in result for other in products]
    return result


def _both(one: ColumnProduct, other: ColumnProduct) -> ColumnProduct:
    sets = dict(one.sets)
    for key, pieces in other.sets.items():
        sets[key] = [old.intersection(new) for old in sets[key] for new in pieces] if key in sets else pieces
        if len(sets[key]) > _PIECES_MAX:
            raise UnfitShapeError
    return ColumnProduct(sets, (*one.tests, *(test for test in other.tests if test not in one.tests)))


def any_of(parts: Sequence[Sequence[ColumnProduct]], aside: Mask) -> list[ColumnProduct]:
    """The disjunction. What concerns one axis alone becomes one set; rows in which two of its pieces touch go aside."""
    alternatives = list(itertools.chain.from_iterable(parts))
    members = _any_member(alternatives, aside)
    if members is not None:
        return [members]
    single: dict[Key, list[Piece]] = {}
    counts: dict[Key, int] = {}
    others = []
    for product in alternatives:
        key = next(iter(product.sets), None)
        if len(product.sets) == 1 and not product.tests and key is not None and not isinstance(key, MemberKey):
            single.setdefault(key, []).extend(product.sets[key])
            counts[key] = counts.get(key, 0) + 1
        else:
            others.append(product)
    for key, pieces in single.items():
        if len(pieces) > _UNION_PIECES_MAX:
            raise UnfitShapeError
        for one, other in itertools.combinations(pieces if counts[key] > 1 else (), 2):
            aside |= ~(one.high.is_below(other.low) | other.high.is_below(one.low))
    result = [ColumnProduct({key: pieces}) for key, pieces in single.items()] + others
    if len(result) > PRODUCTS_MAX:
        raise UnfitShapeError
    return result


def _any_member(alternatives: Sequence[ColumnProduct], aside: Mask) -> ColumnProduct | None:
    """Alternative members of one list stay together: their boxes may share events. None where they are others.

    Rows in which two of them are the same member are set aside.
    """
    keys = [key for product in alternatives for key in product.sets]
    lists = {key.lists if isinstance(key, MemberKey) else None for key in keys}
    if len(keys) != len(alternatives) or len(lists) != 1 or None in lists:
        return None
    if any(product.tests for product in alternatives):
        return None
    pieces = [piece for product in alternatives for some in product.sets.values() for piece in some]
    rows = zip(*(piece.low.values.tolist() for piece in pieces), strict=True)
    aside |= [len(set(row)) < len(pieces) for row in rows]
    return ColumnProduct({keys[0]: pieces})


def resolved(products: Sequence[ColumnProduct], aside: Mask) -> tuple[list[Mask], Mask]:
    """The rows where each product counts, being neither empty nor in another; and those where some share points."""
    _set_equal_axes_aside(products, aside)
    kept = exist = [_exists(product, len(aside)) for product in products]
    if len(products) > 1:
        kept = [mask.copy() for mask in exist]
        for (i, one), (j, other) in itertools.combinations(enumerate(products), 2):
            inside, outside = _covers(one, other), _covers(other, one)
            kept[j] &= ~(exist[i] & inside)
            kept[i] &= ~(exist[j] & outside & ~inside)
    overlapping = np.zeros(len(aside), np.bool_)
    for (i, one), (j, other) in itertools.combinations(enumerate(products), 2):
        meet = kept[i] & kept[j] & ~_are_apart(one, other)
        overlapping |= meet
        if one.sets.keys() == other.sets.keys() and max(map(len, one.sets.values()), default=1) > 1:
            aside |= meet  # some of their boxes may be the same
    return kept, overlapping


def _exists(product: ColumnProduct, rows: int) -> Mask:
    mask = np.ones(rows, np.bool_)
    for key, pieces in product.sets.items():
        if not isinstance(key, MemberKey):
            mask &= np.logical_or.reduce([piece.holds() for piece in pieces])
    return mask


def _set_equal_axes_aside(products: Sequence[ColumnProduct], aside: Mask) -> None:
    """Rows in which two axes that are written differently are one."""
    keys = dict.fromkeys(key for product in products for key in product.sets)
    varying = [key for key in keys if isinstance(key, AxisRows)]
    for key in varying:
        for other in keys:
            if isinstance(other, AxisRows) and other is not key:
                aside |= [one == two for one, two in zip(key.axes, other.axes, strict=True)]
            elif isinstance(other, Derived):
                aside |= [one == other for one in key.axes]


def _covers(outer: ColumnProduct, inner: ColumnProduct) -> Mask:
    rows = _rows(outer, inner)
    covered = np.ones(rows, np.bool_)
    for key, pieces in outer.sets.items():
        if key not in inner.sets:
            return np.zeros(rows, np.bool_)
        if not isinstance(key, MemberKey):
            for piece in inner.sets[key]:
                covered &= ~piece.holds() | np.logical_or.reduce([one.contains(piece) for one in pieces])
    for test in outer.tests:
        same = [one.tests for one in inner.tests]
        if not any(test is one for one in inner.tests):
            covered &= np.fromiter(
                (any(own == row[at] for row in same) for at, own in enumerate(test.tests)), np.bool_, rows
            )
    return covered


def _are_apart(one: ColumnProduct, other: ColumnProduct) -> Mask:
    """Whether some axis keeps two products apart."""
    apart = np.zeros(_rows(one, other), np.bool_)
    for key in one.sets.keys() & other.sets.keys():
        if not isinstance(key, MemberKey):
            both = [left.intersection(right).holds() for left in one.sets[key] for right in other.sets[key]]
            apart |= ~np.logical_or.reduce(both)
    return apart


def _rows(*products: ColumnProduct) -> int:
    for product in products:
        for pieces in product.sets.values():
            return len(pieces[0].low.values)
        for test in product.tests:
            return len(test.tests)
    raise UnfitShapeError
