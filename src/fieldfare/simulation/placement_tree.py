"""A tree of brokers that does nothing but place publishers: the machines of POP or GRAPE, and frames between them.

It is a model, not the brokers: a publication names its deliveries, reaches all of them at once, and is neither stored
nor matched; a relocation takes no time and cannot fail. What is real are the machines, their frames, and damping.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from fieldfare.placement.arrivals import ArrivalGate
from fieldfare.placement.damping import DepartureLog, Refusal, decide
from fieldfare.placement.grape import Grape
from fieldfare.placement.options import DampingOptions
from fieldfare.placement.passages import Measure, MeasureDelays, Outcome, Passage, Relocation, Relocations, ToNeighbour
from fieldfare.placement.placement_frames import AnyPlacementFrame, BrokerName, PublisherName, SessionTag, TraceId
from fieldfare.placement.pop import Pop

Machine: TypeAlias = Pop | Grape
_PASSAGES_MAX = 10_000
_ENCODER = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class Relocated:
    """A publisher that has moved."""

    at_seconds: float
    source: BrokerName
    relocation: Relocation


@dataclass(frozen=True, slots=True)
class PlacementPorts:
    """What the tree's surroundings do for it."""

    machine: Callable[[BrokerName], Machine]
    publisher_seconds: Callable[[PublisherName, BrokerName], float | None] = lambda _publisher, _broker: 0.0
    loses: Callable[[BrokerName, BrokerName, AnyPlacementFrame], bool] = lambda _source, _target, _frame: False
    busy_share: Callable[[BrokerName], float] = lambda _broker: 0.0


@dataclass(slots=True)
class PlacementCounts:
    """What placement has done."""

    frames: Counter[str] = field(default_factory=Counter)  # by the name of their type
    frame_bytes: int = 0  # of all frames, as brokers would encode them
    pings: int = 0
    decisions: int = 0
    own_costs: dict[PublisherName, Mapping[Measure, float]] = field(default_factory=dict)  # at the last decision
    refusals: Counter[Refusal] = field(default_factory=Counter)
    relocated: list[Relocated] = field(default_factory=list)

    def returns(self, within_seconds: float) -> int:
        """How often a publisher came back to a broker that it had left in the time before: ping-pong."""
        left: dict[tuple[PublisherName, BrokerName], float] = {}
        count = 0
        for moved in self.relocated:
            publisher, target = moved.relocation.publisher, moved.relocation.target
            left_at = left.get((publisher, target))
            count += left_at is not None and moved.at_seconds - left_at < within_seconds
            left[publisher, moved.source] = moved.at_seconds
        return count


class TreeShape:
    """Brokers and the links between them, and the ways from any one to any other."""

    def __init__(self, links: Iterable[tuple[BrokerName, BrokerName]]) -> None:
        self.neighbours: dict[BrokerName, list[BrokerName]] = {}
        for one, other in links:
            self.neighbours.setdefault(one, []).append(other)
            self.neighbours.setdefault(other, []).append(one)
        self._upstream: dict[BrokerName, dict[BrokerName, BrokerName]] = {}
        self._ways: dict[tuple[BrokerName, frozenset[BrokerName]], dict[BrokerName, list[BrokerName]]] = {}

    def upstream(self, root: BrokerName) -> Mapping[BrokerName, BrokerName]:
        """For each broker other than the root, its neighbour on the way to the root; nearer ones come first."""
        found = self._upstream.get(root)
        if found is None:
            found, order = {}, [root]
            for broker in order:  # grows as it is walked
                for neighbour in self.neighbours[broker]:
                    if neighbour != found.get(broker):
                        found[neighbour] = broker
                        order.append(neighbour)
            self._upstream[root] = found
        return found

    def path(self, source: BrokerName, target: BrokerName) -> list[BrokerName]:
        """From one broker to another, with both."""
        upstream, path = self.upstream(target), [source]
        while path[-1] != target:
            path.append(upstream[path[-1]])
        return path

    def ways(self, root: BrokerName, receivers: frozenset[BrokerName]) -> Mapping[BrokerName, list[BrokerName]]:
        """The brokers that a publication passes on its way from the root to receivers, and whom each sends it to."""
        found = self._ways.get((root, receivers))
        if found is None:
            upstream = self.upstream(root)
            passed = {root}
            for broker in receivers:
                at = broker
                while at not in passed:
                    passed.add(at)
                    at = upstream[at]
            found = {broker: [] for broker in (root, *upstream) if broker in passed}
            for broker in found:
                if broker != root:
                    found[upstream[broker]].append(broker)
            self._ways[root, receivers] = found
        return found


@dataclass(frozen=True, slots=True)
class _Passages:
    deliveries: Mapping[BrokerName, int]
    passed: Sequence[tuple[BrokerName, Passage]]


class PlacementTree:
    """Publishers at brokers of a tree; their publications are traced, and they move."""

    def __init__(
        self,
        shape: TreeShape,
        publishers: Mapping[PublisherName, BrokerName],
        ports: PlacementPorts,
        damping: DampingOptions,
    ) -> None:
        self.shape, self.places, self.counts = shape, dict(publishers), PlacementCounts()
        self._ports, self._damping = ports, damping
        self.machines = {broker: ports.machine(broker) for broker in shape.neighbours}
        self._gates = {broker: ArrivalGate(damping) for broker in shape.neighbours}
        self._logs = {publisher: DepartureLog(damping) for publisher in publishers}
        self._frames: deque[tuple[BrokerName, BrokerName, AnyPlacementFrame]] = deque()
        self._passages: dict[tuple[BrokerName, int], _Passages] = {}

    def publish(self, publisher: PublisherName, deliveries: Mapping[BrokerName, int], now: float) -> None:
        """A publication with so many deliveries at brokers; then all frames that follow from it."""
        root = self.places[publisher]
        tag = self.machines[root].tag(publisher, now)
        if tag is None:
            return
        for broker, passage in self.passed(root, deliveries):
            outcomes = _handled(self.machines[broker], tag, passage, now)
            if outcomes:
                self._perform(broker, outcomes, now)
        self._carry(now)

    def passed(self, root: BrokerName, deliveries: Mapping[BrokerName, int]) -> Sequence[tuple[BrokerName, Passage]]:
        """How a publication passes each broker. The same mapping is published again and again, so it is kept."""
        found = self._passages.get((root, id(deliveries)))
        if found is None or found.deliveries is not deliveries:
            upstream = self.shape.upstream(root)
            ways = self.shape.ways(root, frozenset(deliveries)).items()
            passed = [
                (broker, Passage(upstream.get(broker), tuple(downstream), deliveries.get(broker, 0)))
                for broker, downstream in ways
            ]
            if len(self._passages) >= _PASSAGES_MAX:
                self._passages.clear()
            found = self._passages[root, id(deliveries)] = _Passages(deliveries, passed)
        return found.passed

    def expire(self, now: float) -> None:
        """Time has passed."""
        for broker, machine in self.machines.items():
            self._perform(broker, machine.expire(now), now)
        self._carry(now)

    def restart(self, broker: BrokerName) -> None:
        """A broker has lost what it knew."""
        self.machines[broker] = self._ports.machine(broker)

    def _carry(self, now: float) -> None:
        while self._frames:
            source, target, frame = self._frames.popleft()
            self.counts.frames[type(frame).__name__] += 1
            self.counts.frame_bytes += len(_ENCODER.encode(frame))
            if not self._ports.loses(source, target, frame):
                self._perform(target, self.machines[target].received(source, frame, now), now)

    def _perform(self, broker: BrokerName, outcomes: Iterable[Outcome], now: float) -> None:
        for outcome in outcomes:
            match outcome:
                case ToNeighbour(neighbour, frame):
                    self._frames.append((broker, neighbour, frame))
                case MeasureDelays(publisher, session, brokers):
                    self._perform(broker, self._measure(broker, publisher, session, brokers), now)
                case Relocations(publisher, choices, own_costs):
                    self.counts.own_costs[publisher] = own_costs
                    self._decide(publisher, choices, now)

    def _measure(
        self, broker: BrokerName, publisher: PublisherName, session: TraceId, brokers: Iterable[BrokerName]
    ) -> list[Outcome]:
        measured = {name: self._ports.publisher_seconds(publisher, name) for name in brokers}
        self.counts.pings += len(measured)
        reachable = {name: seconds for name, seconds in measured.items() if seconds is not None}
        machine = self.machines[broker]
        return machine.measured(session, reachable) if isinstance(machine, Grape) else []

    def _decide(self, publisher: PublisherName, choices: Iterable[Relocation], now: float) -> None:
        self.counts.decisions += 1
        log, source = self._logs[publisher], self.places[publisher]
        verdict = decide(
            list(choices),
            log.departures(now),
            self._damping,
            lambda target: self._gates[target].admits(now, self._ports.busy_share(target)),
        )
        if verdict.refusal is not None:
            self.counts.refusals[verdict.refusal] += 1
        if verdict.relocation is None:
            if verdict.refusal is not Refusal.TOO_MANY:  # else it is to try again soon
                self.machines[source].stayed(publisher)
            return
        self.counts.relocated.append(Relocated(now, source, verdict.relocation))
        self.places[publisher] = verdict.relocation.target
        log.left(source, now)
        for broker in self.shape.path(source, verdict.relocation.target):
            self.machines[broker].forget(publisher)


def _handled(machine: Machine, tag: TraceId | SessionTag, passage: Passage, now: float) -> list[Outcome]:
    if isinstance(machine, Pop) and isinstance(tag, TraceId):
        return machine.handled(tag, passage, now)
    if isinstance(machine, Grape) and isinstance(tag, SessionTag):
        return machine.handled(tag, passage, now)
    return []
