"""A part of a condition as one residual test: for parts that would multiply out to more boxes than the limit.

The test is as long as the part's text, however many boxes the part would have.
"""

from __future__ import annotations

from fieldfare.language import tree
from fieldfare.language.intervals import union
from fieldfare.language.leaves import Leaves, Product
from fieldfare.model import AllOf, AnyOf, Interval, Test, Within


def residue(leaves: Leaves, node: tree.Node, *, truth: bool) -> Test:
    """A test that holds where a node is true; or, if `truth` is not, where it is false."""
    match node:
        case tree.Constant(value):
            return AllOf(()) if value is truth else AnyOf(())
        case tree.Not(part):
            return residue(leaves, part, truth=not truth)
        case tree.And(parts) | tree.Or(parts):
            tests = [residue(leaves, part, truth=truth) for part in parts]
            return _all(tests) if isinstance(node, tree.And) is truth else _any(tests)
        case _:
            return _any([_product(product) for product in leaves.products(node, truth=truth)])


def _product(product: Product) -> Test:
    return _all([*(Within(name, intervals) for name, intervals in product.sets.items()), *product.tests])


def _all(tests: list[Test]) -> Test:
    return tests[0] if len(tests) == 1 else AllOf(tuple(tests))


def _any(tests: list[Test]) -> Test:
    """The disjunction; sets of one attribute become one, so that a long IN is one search."""
    sets: dict[str, list[Interval]] = {}
    others: list[Test] = []
    for test in tests:
        if isinstance(test, Within):
            sets.setdefault(test.attribute, []).extend(test.intervals)
        else:
            others.append(test)
    united = [*(Within(name, union(intervals)) for name, intervals in sets.items()), *others]
    return united[0] if len(united) == 1 else AnyOf(tuple(united))
