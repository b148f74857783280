"""Tree -> boxes: NOTs go down to the leaves, products multiply out, and sets of intervals become boxes.

Alternatives on one attribute stay one set of disjoint intervals as long as possible, so that IN and != multiply only
at the end. The number of boxes, and the work on the way to them, are bounded: parts of a condition that would multiply
out to too many boxes become one residual test, and the boxes are made wide enough to hold whatever passes it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from fieldfare.language import tree
from fieldfare.language.intervals import Intervals, contains, intersection, runs, union
from fieldfare.language.leaves import EVERYTHING, Leaves, Product
from fieldfare.language.limits import Limits
from fieldfare.language.members import member_of
from fieldfare.language.residue import residue, within
from fieldfare.language.tree import Side
from fieldfare.model import AllOf, AxisKey, Box, Condition, Derived, Interval, Literal, Section, Test, axis_order

_PAIRED_PRODUCTS_MAX = 64  # beyond it, products are not compared in pairs, and their boxes count as overlapping


class _TooManyStepsError(Exception):
    """Multiplying out takes more interval operations than the limit."""


def normal_form(
    text: str, node: tree.Node, literals: Sequence[Literal], types: Mapping[str, Section], limits: Limits
) -> Condition:
    """The compiled condition of a tree, with its literals filled in."""
    form = _NormalForm(Leaves.of(text, literals, types), limits)
    try:
        products = form.products(node, Side.TRUE)
        paired = 1 < len(products) <= _PAIRED_PRODUCTS_MAX
        if paired:
            products = _without_covered(products)
        products = _within_limit(products, limits.boxes_max)
        disjoint = len(products) < 2 or (paired and _are_disjoint(products))
    except _TooManyStepsError:
        products, disjoint = [Product({}, (residue(form.leaves, node, Side.TRUE),))], True
    return Condition(text, _boxes(products), disjoint)


@dataclass(slots=True)
class _NormalForm:
    leaves: Leaves
    limits: Limits
    steps: int = field(default=0)

    def products(self, node: tree.Node, side: Side) -> list[Product]:
        """Where a node is on a side."""
        match node:
            case tree.Constant(value):
                return [EVERYTHING] if side.holds(value=value) else []
            case tree.Not(part):
                return self.products(part, side.under_not)
            case tree.Asked(part):
                return self.products(part, tree.inner_side(node, side))
            case tree.Case():
                return self.products(tree.spelled_out(node, side), Side.TRUE)
            case tree.And(parts) | tree.Or(parts):
                alternatives = [self.products(part, side) for part in parts]
                if isinstance(node, tree.And) is side.needs_all:
                    return self._all(list(zip(parts, alternatives, strict=True)), side)
                return self._any(node, alternatives, side)
            case _:
                return self._limited(node, self.leaves.products(node, side), side)

    def _all(self, parts: Sequence[tuple[tree.Node, list[Product]]], side: Side) -> list[Product]:
        """The conjunction; the parts without alternatives first, because they only make the others smaller.

        The parts with the fewest alternatives are multiplied out; those that no longer fit become one residual test.
        """
        single = [products for _, products in parts if len(products) == 1]
        result = self._all_single(single)
        several = sorted((part for part in parts if len(part[1]) != 1), key=lambda part: len(part[1]))
        unfit: list[Product] = []
        for node, products in several:
            pairs = len(result) * len(products)
            is_hopeful = pairs <= self.limits.boxes_max or (not unfit and self.steps + pairs <= self.limits.steps_max)
            multiplied = self._product(result, products) if is_hopeful else None
            if multiplied is None:
                unfit.append(self._tested(node, products, side))
            else:
                result = multiplied
        if unfit:
            wide = self._all_single([[Product(product.sets)] for product in unfit])
            tests = tuple(itertools.chain.from_iterable(product.tests for product in unfit))
            test = tests[0] if len(tests) == 1 else AllOf(tests)
            result = self._product(result, [Product(product.sets, (test,)) for product in wide]) or []
        return result

    def _all_single(self, parts: list[list[Product]]) -> list[Product]:
        """The conjunction of parts that have one product each: one product, or none."""
        while len(parts) > 1:  # in pairs, so that a long chain on one attribute does not cost its square
            pairs = itertools.zip_longest(parts[::2], parts[1::2], fillvalue=[EVERYTHING])
            parts = [self._product(left, right) or [] for left, right in pairs]
        return parts[0] if parts else [EVERYTHING]

    def _product(self, left: list[Product], right: list[Product]) -> list[Product] | None:
        """What is in both; None where that is more than the limit."""
        result: dict[object, Product] = {}
        several = len(left) * len(right) > 1
        for one in left:
            self._step(len(right) * max(1, len(one.sets) // 2))
            for other in right:
                both = self._both(one, other)
                if both is not None:
                    result[_key(both) if several else None] = both
            if len(result) > self.limits.boxes_max:
                return None
        return list(result.values())

    def _any(self, node: tree.Node, alternatives: Iterable[list[Product]], side: Side) -> list[Product]:
        """The disjunction; what concerns one attribute alone becomes one set."""
        single: dict[AxisKey, list[Interval]] = {}
        others: list[Product] = []
        for product in itertools.chain.from_iterable(alternatives):
            if not product.sets and not product.tests:
                return [EVERYTHING]
            if len(product.sets) == 1 and not product.tests:
                for name, intervals in product.sets.items():
                    single.setdefault(name, []).extend(intervals)
            else:
                others.append(product)
        result = [Product({name: union(intervals)}) for name, intervals in single.items()] + _distinct(others)
        return self._limited(node, result, side)

    def _limited(self, node: tree.Node, products: list[Product], side: Side) -> list[Product]:
        """The products of a node; one product with a residual test where they are more than the limit."""
        return products if len(products) <= self.limits.boxes_max else [self._tested(node, products, side)]

    def _tested(self, node: tree.Node, products: Sequence[Product], side: Side) -> Product:
        """A node as one residual test, and for each attribute that all its products constrain, their union."""
        shared = set.intersection(*(set(product.sets) for product in products)) if products else set()
        sets: dict[AxisKey, Intervals] = {}
        for name in sorted(shared, key=axis_order):
            intervals = [interval for product in products for interval in product.sets[name]]
            self._step(len(intervals))
            sets[name] = union(intervals)
        return Product(sets, (residue(self.leaves, node, side),))

    def _both(self, left: Product, right: Product) -> Product | None:
        """What is in both products; None where nothing is."""
        sets: dict[AxisKey, Intervals] = dict(left.sets)
        for name, intervals in right.sets.items():
            if name in sets:
                self._step(len(intervals) + len(sets[name]))
                intervals = intersection(sets[name], intervals)  # noqa: PLW2901
                if not intervals:
                    return None
            sets[name] = intervals
        return Product(sets, tuple(dict.fromkeys(left.tests + right.tests)))

    def _step(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.limits.steps_max:
            raise _TooManyStepsError


def _boxes(products: Sequence[Product]) -> tuple[Box, ...]:
    """The products multiplied out, each box once."""
    boxes: dict[object, Box] = {}
    for product in products:
        names = tuple(product.sets)
        has_derived = Derived in map(type, names)
        for choice in itertools.product(*product.sets.values()):
            intervals = dict(zip(names, choice, strict=True))
            key = (frozenset(intervals.items()), frozenset(product.tests)) if len(products) > 1 else choice
            if has_derived:
                boxes.setdefault(key, _box(intervals, product.tests))
            else:
                boxes.setdefault(key, Box(cast("dict[str, Interval]", intervals), product.tests))
    return tuple(boxes.values())


def _box(intervals: dict[AxisKey, Interval], tests: tuple[Test, ...]) -> Box:
    plain: dict[str, Interval] = {}
    derived: dict[Derived, Interval] = {}
    members = []
    for axis, interval in intervals.items():
        if isinstance(axis, str):
            plain[axis] = interval
        elif (member := member_of(axis, interval)) is not None:
            members.append(member)
        else:
            derived[axis] = interval
    return Box(plain, tests, derived, tuple(members))


def _box_count(product: Product) -> int:
    return math.prod(len(intervals) for intervals in product.sets.values())


def _within_limit(products: list[Product], boxes_max: int) -> list[Product]:
    """The products, some of them with coarser sets, so that their boxes are not more than the limit."""
    counts = [_box_count(product) for product in products]
    if sum(counts) <= boxes_max:
        return products
    result = list(products)
    left = boxes_max
    for done, number in enumerate(sorted(range(len(products)), key=counts.__getitem__)):
        result[number] = _coarser(products[number], left // (len(products) - done))
        left -= _box_count(result[number])
    return result


def _coarser(product: Product, boxes_max: int) -> Product:
    """A product of fewer boxes: the longest sets become a few wide intervals, and a test says what is in them."""
    sets = dict(product.sets)
    tests = product.tests
    while (count := math.prod(map(len, sets.values()))) > boxes_max:
        name = max(sets, key=lambda name: len(sets[name]))
        if sets[name] is product.sets[name]:
            tests += (within(name, sets[name]),)
        sets[name] = runs(sets[name], max(1, len(sets[name]) * boxes_max // count))
    return Product(sets, tests)


def _key(product: Product) -> object:
    return frozenset(product.sets.items()), product.tests


def _distinct(products: list[Product]) -> list[Product]:
    if len(products) < 2:
        return products
    return list({_key(product): product for product in products}.values())


def _without_covered(products: list[Product]) -> list[Product]:
    """The products that do not lie inside another."""
    kept: list[Product] = []
    for product in products:
        if any(_covers(other, product) for other in kept):
            continue
        kept = [other for other in kept if not _covers(product, other)]
        kept.append(product)
    return kept


def _covers(outer: Product, inner: Product) -> bool:
    return all(
        name in inner.sets and contains(intervals, inner.sets[name]) for name, intervals in outer.sets.items()
    ) and set(outer.tests) <= set(inner.tests)


def _are_disjoint(products: list[Product]) -> bool:
    return all(_are_apart(left, right) for left, right in itertools.combinations(products, 2))


def _are_apart(left: Product, right: Product) -> bool:
    """Whether some attribute keeps two products apart."""
    shared = left.sets.keys() & right.sets.keys()
    return any(not intersection(left.sets[name], right.sets[name]) for name in shared)
