"""Which way to choose, why, and what would change that.

Of the ways that give the application all it needs, the one with the fewest machines is best; then the one with the
fewest processes, which is less to run; then the faster one. If none is enough, the one that comes nearest is named, and
what it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from fieldfare.errors import ApplicationError
from fieldfare.planning.application import Application
from fieldfare.planning.costs import Costs
from fieldfare.planning.nodes import Nodes
from fieldfare.planning.predicting import Prediction, predict
from fieldfare.planning.ways import Way, WayKind

MEMBERS_MAX = 256  # of a way that is looked at
_BISECTIONS = 13  # to a fifth of a percent
_SPAN = 1_000.0  # how far away a threshold is looked for: a thousand times as much, or as little
_GAIN_MIN = 1.05  # less is no reason to take more nodes
_IN_VAIN_MAX = 2  # larger sizes that are no better: then larger ones are not tried
_ROOM = 0.7  # of its throughput that a way is planned to use, so that a number of nodes is not just enough


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """What would change the choice: a number of the application's that grows, or shrinks, beyond a value."""

    setting: str
    value: float
    above: bool  # whether it is beyond the value that the choice changes, or below it
    then: Way | None  # what would be chosen; None: nothing would be enough
    because: str  # what the present choice would lack


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All ways side by side, and the one that is recommended."""

    application: Application
    predictions: tuple[Prediction, ...]  # the best of each kind, in the order of the kinds
    recommended: Prediction
    thresholds: tuple[Threshold, ...]
    is_reference: bool  # whether costs were measured elsewhere
    parts: int = 1  # topics that the events have to be divided into, each run in the recommended way

    @property
    def is_enough(self) -> bool:
        """Whether the recommended way gives all that is needed."""
        return self.recommended.is_enough


def plan(application: Application, costs: Costs, nodes: Nodes, *, with_thresholds: bool = True) -> Plan:
    """Predict every way, choose one, and look for what would change the choice, which takes longest."""
    parts, predictions = _divided(application, costs, nodes)
    recommended = chosen(predictions)
    changes = thresholds(application.part(parts), recommended, costs, nodes) if with_thresholds else ()
    return Plan(
        application=application,
        predictions=predictions,
        recommended=recommended,
        thresholds=tuple(changes),
        is_reference=costs.origin.is_reference,
        parts=parts,
    )


def _divided(application: Application, costs: Costs, nodes: Nodes) -> tuple[int, tuple[Prediction, ...]]:
    """Predictions of all kinds; where none is enough, for one of the parts that take the fewest nodes in all."""
    whole = tuple(best_of_kinds(application, costs, nodes))
    cores = math.inf if nodes.may_grow else sum(size.cores for size in nodes.sizes)
    if chosen(whole).is_enough:
        return 1, whole
    divided = []
    for parts in _PARTS:
        found = tuple(best_of_kinds(application.part(parts), costs, nodes))
        best = chosen(found)
        if best.is_enough and best.processes * parts <= cores:
            divided.append((best.nodes * parts, best.processes * parts, parts, found))
            if best.processes == 1:
                break
    return min(divided, key=lambda each: each[:3])[2:] if divided else (1, whole)


def best_of_kinds(application: Application, costs: Costs, nodes: Nodes) -> Iterator[Prediction]:
    """Of each kind of way the smallest that is enough, or that comes nearest."""
    for kind in WayKind:
        yield best_of_kind(kind, application, costs, nodes)


def best_of_kind(kind: WayKind, application: Application, costs: Costs, nodes: Nodes) -> Prediction:
    """The smallest of a kind that is enough. Sizes grow until one is, or until more of them make it no better."""
    sizes = iter(_sizes(kind, nodes))
    best = _best_of_size(kind, next(sizes), application, costs, nodes)
    in_vain = 0
    for size in sizes:
        if (best.is_enough and best.utilisation <= _ROOM) or in_vain == _IN_VAIN_MAX:
            break
        found = _best_of_size(kind, size, application, costs, nodes)
        in_vain = 0 if _is_much_better(found, best) else in_vain + 1
        best = chosen([best, found])
    return best


def _best_of_size(kind: WayKind, size: int, application: Application, costs: Costs, nodes: Nodes) -> Prediction:
    return chosen([predict(application, way, costs, nodes) for way in ways_of(kind, size)])


def _is_much_better(found: Prediction, before: Prediction) -> bool:
    """Whether it pays to go on: more is carried, or it is faster, or it lacks less."""
    return (
        found.throughput_events > before.throughput_events * _GAIN_MIN
        or found.latency_p99_seconds * _GAIN_MIN < before.latency_p99_seconds
        or len(found.unmet) < len(before.unmet)
    )


def ways_of(kind: WayKind, members: int) -> Iterator[Way]:
    """The ways of one kind with a given number of members: for clusters, every R and H."""
    if kind is not WayKind.CLUSTERS:
        yield Way(kind, members)
        return
    for replicas in (r for r in range(1, members + 1) if members % r == 0):
        clusters = members // replicas
        for hops in sorted({1, 2, clusters} & set(range(1, clusters + 1))):
            yield Way(kind, members, replicas, hops)


def chosen(predictions: Sequence[Prediction]) -> Prediction:
    """The best of several."""
    return min(predictions, key=_rank)


def _rank(found: Prediction) -> tuple[object, ...]:
    if found.is_enough:
        is_tight = found.utilisation > _ROOM
        return (0, is_tight, found.nodes, found.processes, found.latency_p99_seconds)
    shortfall = max(found.utilisation, 0.0 if math.isinf(found.latency_p99_seconds) else found.latency_p99_seconds)
    return (1, not found.delivers, len(found.unmet), found.is_saturated, shortfall, found.processes)


def _sizes(kind: WayKind, nodes: Nodes) -> Iterator[int]:
    """Numbers of members to try: one, where a kind is one; else up to the cores that there are."""
    if kind in {WayKind.PROCESS, WayKind.EDGE}:
        yield 1
        return
    cores = sum(size.cores for size in nodes.sizes)
    most = MEMBERS_MAX if nodes.may_grow else max(2, cores - (kind is not WayKind.PEERS and kind is not WayKind.TREE))
    yield from (size for size in _SIZES if size <= most)


_PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def thresholds(application: Application, now: Prediction, costs: Costs, nodes: Nodes) -> Iterator[Threshold]:
    """For each setting that matters, the nearest value at which the recommended way is not enough any more."""
    if not now.is_enough:
        return
    for setting, above in _SETTINGS:
        value = _bound(application, setting, now.way, costs, nodes, above=above)
        if value is None:
            continue
        beyond = _changed(application, setting, value * (1.001 if above else 0.999))
        if beyond is None:
            continue
        lacking = predict(beyond, now.way, costs, nodes)
        then = chosen(tuple(best_of_kinds(beyond, costs, nodes)))
        yield Threshold(
            setting=setting,
            value=value,
            above=above,
            then=then.way if then.is_enough else None,
            because=", ".join(lacking.unmet),
        )


_SETTINGS = (
    ("events_per_second", True),
    ("subscriptions", True),
    ("matches_per_event", True),
    ("latency_seconds_max", False),
)


def _bound(
    application: Application, setting: str, way: Way, costs: Costs, nodes: Nodes, *, above: bool
) -> float | None:
    """The last value at which a way is enough, by bisection between logarithms; None where there is none near."""

    def is_enough(value: float) -> bool:
        changed = _changed(application, setting, value)
        return changed is not None and predict(changed, way, costs, nodes).is_enough

    good = float(getattr(application, setting))
    bad = good * (_SPAN if above else 1.0 / _SPAN)
    if _changed(application, setting, bad) is None or is_enough(bad):
        return None
    return _bisected(is_enough, good, bad)


def _bisected(is_enough: Callable[[float], bool], good: float, bad: float) -> float:
    for _ in range(_BISECTIONS):
        middle = math.sqrt(good * bad)
        if is_enough(middle):
            good = middle
        else:
            bad = middle
    return good


def _changed(application: Application, setting: str, value: float) -> Application | None:
    """The application with another value, and what grows with it; None where that is no application."""
    values: dict[str, float] = {setting: value}
    if setting == "subscriptions":
        values[setting] = round(value)
    if setting == "events_per_second" and application.peak_events_per_second is not None:
        values["peak_events_per_second"] = application.peak_events_per_second * value / application.events_per_second
    if setting == "matches_per_event" and value > application.subscriptions:
        return None
    try:
        return msgspec.structs.replace(application, **values)
    except ApplicationError:
        return None
