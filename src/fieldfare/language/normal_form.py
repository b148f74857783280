"""Tree -> boxes: NOTs go down to the leaves, products multiply out, and sets of intervals become boxes.

Alternatives on one attribute stay one set of disjoint intervals as long as possible, so that IN and != multiply only
at the end; the number of boxes, and the work on the way to them, are bounded.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fieldfare.errors import ConditionLimitError
from fieldfare.language import tree
from fieldfare.language.intervals import Intervals, contains, intersection, union
from fieldfare.language.leaves import EVERYTHING, Leaves, Product
from fieldfare.language.limits import Limits
from fieldfare.model import Box, Condition, Interval, Literal, Section

_PAIRED_PRODUCTS_MAX = 64  # beyond it, products are not compared in pairs, and their boxes count as overlapping


def normal_form(
    text: str, node: tree.Node, literals: Sequence[Literal], types: Mapping[str, Section], limits: Limits
) -> Condition:
    """The compiled condition of a tree, with its literals filled in."""
    form = _NormalForm(text, Leaves(text, literals, types), limits)
    products = form.products(node, truth=True)
    paired = 1 < len(products) <= _PAIRED_PRODUCTS_MAX
    if paired:
        products = _without_covered(products)
    boxes = form.boxes(products)
    disjoint = len(products) < 2 or (paired and _are_disjoint(products))
    return Condition(text, boxes, disjoint)


@dataclass(slots=True)
class _NormalForm:
    text: str
    leaves: Leaves
    limits: Limits
    steps: int = field(default=0)

    def products(self, node: tree.Node, *, truth: bool) -> list[Product]:
        """Where a node is true; or, if `truth` is not, where it is false."""
        match node:
            case tree.Constant(value):
                return [EVERYTHING] if value is truth else []
            case tree.Not(part):
                return self.products(part, truth=not truth)
            case tree.And(parts) | tree.Or(parts):
                alternatives = [self.products(part, truth=truth) for part in parts]
                return self._all(alternatives) if isinstance(node, tree.And) is truth else self._any(alternatives)
            case _:
                return self.leaves.products(node, truth=truth)

    def boxes(self, products: Sequence[Product]) -> tuple[Box, ...]:
        """The products multiplied out, each box once."""
        self._bound(sum(math.prod(len(intervals) for intervals in product.sets.values()) for product in products))
        boxes: dict[object, Box] = {}
        for product in products:
            names = tuple(product.sets)
            for choice in itertools.product(*product.sets.values()):
                intervals = dict(zip(names, choice, strict=True))
                key = (frozenset(intervals.items()), frozenset(product.tests)) if len(products) > 1 else choice
                boxes.setdefault(key, Box(intervals, product.tests))
        return tuple(boxes.values())

    def _all(self, alternatives: Iterable[list[Product]]) -> list[Product]:
        """The conjunction; the parts without alternatives first, because they only make the others smaller."""
        parts = list(alternatives)
        single = [part for part in parts if len(part) == 1]
        while len(single) > 1:  # in pairs, so that a long chain on one attribute does not cost its square
            pairs = itertools.zip_longest(single[::2], single[1::2], fillvalue=[EVERYTHING])
            single = [self._product(left, right) for left, right in pairs]
        rest = [part for part in parts if len(part) != 1]
        return functools.reduce(self._product, sorted(single + rest, key=len))

    def _product(self, left: list[Product], right: list[Product]) -> list[Product]:
        self._step(len(left) * len(right))
        both = [self._both(one, other) for one in left for other in right]
        result = _distinct([product for product in both if product is not None])
        self._bound(len(result))
        return result

    def _any(self, alternatives: Iterable[list[Product]]) -> list[Product]:
        """The disjunction; what concerns one attribute alone becomes one set."""
        single: dict[str, list[Interval]] = {}
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
        self._bound(len(result))
        return result

    def _both(self, left: Product, right: Product) -> Product | None:
        """What is in both products; None where nothing is."""
        sets: dict[str, Intervals] = dict(left.sets)
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
            raise self._too_many(f"takes more than {self.limits.steps_max} steps to multiply out", "steps_max")

    def _bound(self, boxes: int) -> None:
        if boxes > self.limits.boxes_max:
            raise self._too_many(f"has more alternatives than the limit of {self.limits.boxes_max}", "boxes_max")

    def _too_many(self, what: str, limit: str) -> ConditionLimitError:
        advice = "use fewer ORs inside ANDs and shorter lists, split it into several subscriptions"
        return ConditionLimitError(f"the condition {what}: {advice}, or raise {limit}", self.text)


def _distinct(products: list[Product]) -> list[Product]:
    if len(products) < 2:
        return products
    return list({(frozenset(product.sets.items()), product.tests): product for product in products}.values())


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
