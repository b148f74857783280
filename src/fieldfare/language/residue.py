"""A part of a condition as one residual test: for parts that would multiply out to more boxes than the limit.

The test is as long as the part's text, however many boxes the part would have.
"""

from __future__ import annotations

from fieldfare.language import tree
from fieldfare.language.intervals import Intervals, union
from fieldfare.language.leaves import Leaves, Product
from fieldfare.language.tree import Side
from fieldfare.model import AllOf, AnyOf, AxisKey, DerivedWithin, Interval, Test, Within


def residue(leaves: Leaves, node: tree.Node, side: Side) -> Test:
    """A test that holds where a node is on a side."""
    match node:
        case tree.Constant(value):
            return AllOf(()) if side.holds(value=value) else AnyOf(())
        case tree.Not(part):
            return residue(leaves, part, side.under_not)
        case tree.Asked(part):
            return residue(leaves, part, tree.inner_side(node, side))
        case tree.Case():
            return residue(leaves, tree.spelled_out(node, side), Side.TRUE)
        case tree.And(parts) | tree.Or(parts):
            tests = [residue(leaves, part, side) for part in parts]
            return _all(tests) if isinstance(node, tree.And) is side.needs_all else _any(tests)
        case _:
            return _any([_product(product) for product in leaves.products(node, side)])


def within(axis: AxisKey, intervals: Intervals) -> Within | DerivedWithin:
    """A test that the value on an axis is in a set."""
    return Within(axis, intervals) if isinstance(axis, str) else DerivedWithin(axis, intervals)


def _product(product: Product) -> Test:
    return _all([*(within(axis, intervals) for axis, intervals in product.sets.items()), *product.tests])


def _all(tests: list[Test]) -> Test:
    return tests[0] if len(tests) == 1 else AllOf(tuple(tests))


def _any(tests: list[Test]) -> Test:
    """The disjunction; sets on one axis become one, so that a long IN is one search."""
    sets: dict[AxisKey, list[Interval]] = {}
    others: list[Test] = []
    for test in tests:
        if isinstance(test, Within | DerivedWithin):
            axis = test.attribute if isinstance(test, Within) else test.axis
            sets.setdefault(axis, []).extend(test.intervals)
        else:
            others.append(test)
    united = [*(within(axis, union(intervals)) for axis, intervals in sets.items()), *others]
    return united[0] if len(united) == 1 else AnyOf(tuple(united))
