"""POP or GRAPE at a broker of the tree: what passes is traced, and publishers are sent where they belong.

The algorithms (`fieldfare.placement`) decide where a publisher would be better off. Damping decides whether that is
worth a move; then the target is asked, because it alone knows how many others are coming, and who has just left it. The
publisher's client moves by itself (see `routing.publisher_moves`): nothing here can lose an event.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from fieldfare.messages import Delivery, TopicKey
from fieldfare.placement.arrivals import ArrivalGate
from fieldfare.placement.damping import Refusal, refuses
from fieldfare.placement.grape import Grape
from fieldfare.placement.options import DampingOptions, GrapeOptions, PopOptions
from fieldfare.placement.passages import MeasureDelays, Outcome, Passage, Relocation, Relocations, ToNeighbour
from fieldfare.placement.placement_frames import (
    AnyArrivalFrame,
    AnyPlacementFrame,
    ArrivalAnswer,
    ArrivalRequest,
    BrokerDelays,
    BrokerName,
    PublisherName,
    SessionTag,
    TraceId,
)
from fieldfare.placement.pop import Pop
from fieldfare.routing.tree.advertisements import LOCAL
from fieldfare.routing.tree.streams import PassingEvents, Traces

Algorithm: TypeAlias = Literal["pop", "grape"]
_ASK_SECONDS = 10.0  # how long a target's answer is waited for
_CANNOT_MOVE = "stays: its client cannot move it"
_KNOWN_MAX = 10_000  # publishers of which something is remembered
_delivery = msgspec.json.Decoder(Delivery)


class PlacementOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether publishers are placed, by which algorithm, and how."""

    algorithm: Algorithm | None = None  # None: publishers stay where they are
    pop: PopOptions = PopOptions()
    grape: GrapeOptions = GrapeOptions()
    damping: DampingOptions = DampingOptions()


NO_PLACEMENT = PlacementOptions()


@dataclass(slots=True)
class PlacedPublisher:
    """What is known of a publisher of this broker, for those who watch."""

    publisher: PublisherName
    traced: int = 0  # publications
    decisions: int = 0
    verdict: str = ""  # the last
    source: BrokerName | None = None  # where it came from by placement
    measure: str = ""  # of the costs
    cost_before: float | None = None  # of an event, at the source
    cost_predicted: float | None = None  # of an event here, before it came
    cost_here: float | None = None  # as it was found here
    asked: Relocation | None = None  # the target is asked whether it may come
    others: deque[Relocation] = field(default_factory=deque)  # who are asked next, if that one refuses
    asked_at: float = 0.0


@dataclass(frozen=True, slots=True)
class PlacementPorts:
    """What placement needs of its broker."""

    send: Callable[[BrokerName, AnyPlacementFrame], None]  # to a neighbour
    pass_on: Callable[[BrokerName, AnyArrivalFrame], None]  # to any broker
    name_at: Callable[[str], BrokerName]  # the neighbour at a link
    hop_seconds: Callable[[], Mapping[BrokerName, float]]
    busy_share: Callable[[], float]  # the share of its time in which this broker is busy
    deliveries: Callable[[TopicKey, Sequence[Mapping[str, Any]]], Sequence[int]]  # of events, to subscribers here
    measure: Callable[[MeasureDelays], None]  # has a publisher's client find out how far brokers are
    can_move: Callable[[PublisherName], bool]  # whether a publisher's client is there, and able to move it
    move: Callable[[PublisherName, BrokerName], bool]  # asks a publisher's client to move; False: it cannot


class PublisherPlacement:
    """One broker's part in placement."""

    def __init__(self, name: BrokerName, options: PlacementOptions, rng: random.Random, ports: PlacementPorts) -> None:
        self._name, self._options, self._ports = name, options, ports
        first = rng.getrandbits(40) << 20  # a broker that restarts must not use a number again
        self._pop = Pop(name, options.pop, rng, first) if options.algorithm == "pop" else None
        self._grape = Grape(name, options.grape, self._delays, first) if options.algorithm == "grape" else None
        self._gate = ArrivalGate(options.damping)
        self._left_at: dict[PublisherName, float] = {}
        self._expected: dict[PublisherName, ArrivalRequest] = {}  # that may come, and have not published here yet
        self._first_brokers: dict[PublisherName, BrokerName] = {}  # of publishers whose traces pass
        self._passages: list[tuple[TraceId | SessionTag, Passage]] = []  # of events that are being passed on
        self.publishers: dict[PublisherName, PlacedPublisher] = {}
        self.frame_count = 0  # that were sent for placement
        self.moved_count = 0  # publishers that left by it

    @property
    def is_on(self) -> bool:
        """Whether publishers are placed at all."""
        return self._options.algorithm is not None

    @property
    def needs_delays(self) -> bool:
        """Whether delays to neighbours have to be measured."""
        return self._grape is not None and self._options.grape.needs_delays

    def _delays(self) -> BrokerDelays:
        """What is measured is a whole hop: waiting to be sent, the link, and waiting to be matched at its end."""
        return BrokerDelays(output_seconds=self._ports.hop_seconds())

    # Events

    def traced(self, passing: PassingEvents, now: float) -> Traces:
        """Events pass this broker; which of them carry a trace from here on."""
        if not self.is_on:
            return {}
        is_first = passing.side == LOCAL
        tags = self._tags(passing, now) if is_first else passing.traces
        numbers = [number for number, event in enumerate(passing.events) if event.position in tags]
        if not numbers:
            return {}
        goes_to = {side: set(wanted) for side, wanted in passing.wanted.items() if side != LOCAL}
        counts = self._ports.deliveries(passing.topic, [passing.rows[number] for number in numbers])
        for number, count in zip(numbers, counts, strict=True):
            upstream = None if is_first else self._ports.name_at(passing.side)
            downstream = tuple(self._ports.name_at(side) for side, wanted in goes_to.items() if number in wanted)
            tag = tags[passing.events[number].position]
            self._passages.append((tag, Passage(upstream, downstream, count)))
        return tags

    def passed(self, now: float) -> None:
        """The events have been passed on. What is sent because of them must not overtake them."""
        passages, self._passages = self._passages, []
        for tag, passage in passages:
            self._perform(self._handled(tag, passage, now), now)

    def _tags(self, passing: PassingEvents, now: float) -> Traces:
        """New publications of publishers that are connected here."""
        tags: dict[int, TraceId | SessionTag] = {}
        for event in passing.events:
            publisher = _delivery.decode(event.delivery).publisher
            if publisher is None:
                continue
            name = publisher_name(passing.topic[0], publisher)
            machine = self._pop or self._grape
            tag = None if machine is None else machine.tag(name, now)
            if tag is not None:
                tags[event.position] = tag
                self._known(name).traced += 1
        return tags

    def _handled(self, tag: TraceId | SessionTag, passage: Passage, now: float) -> list[Outcome]:
        trace = tag if isinstance(tag, TraceId) else tag.session
        if self._first_brokers.get(trace.publisher, trace.first_broker) != trace.first_broker:
            self._forget(trace.publisher)  # it has moved: what was found before came from another side
        self._first_brokers[trace.publisher] = trace.first_broker
        while len(self._first_brokers) > _KNOWN_MAX:
            del self._first_brokers[next(iter(self._first_brokers))]
        if self._pop is not None and isinstance(tag, TraceId):
            return self._pop.handled(tag, passage, now)
        if self._grape is not None and isinstance(tag, SessionTag):
            return self._grape.handled(tag, passage, now)
        return []

    # What neighbours and clients say

    def received(self, neighbour: BrokerName, frame: AnyPlacementFrame, now: float) -> None:
        """A neighbour has sent a frame."""
        machine = self._pop or self._grape
        if machine is not None:
            self._perform(machine.received(neighbour, frame, now), now)

    def measured(self, session: TraceId, publisher_seconds: Mapping[BrokerName, float], now: float) -> None:
        """A publisher's client has measured; brokers that did not answer it are not among them."""
        if self._grape is not None:
            self._perform(self._grape.measured(session, publisher_seconds), now)

    def tidy(self, now: float) -> None:
        """Give up what was not answered in time."""
        machine = self._pop or self._grape
        if machine is not None:
            self._perform(machine.expire(now), now)
        for known in self.publishers.values():
            if known.asked is not None and now - known.asked_at > _ASK_SECONDS:
                known.asked, known.verdict = None, "the target did not answer"

    def _perform(self, outcomes: Sequence[Outcome], now: float) -> None:
        for outcome in outcomes:
            match outcome:
                case ToNeighbour(neighbour, frame):
                    self.frame_count += 1
                    self._ports.send(neighbour, frame)
                case MeasureDelays():
                    self._ports.measure(outcome)
                case Relocations():
                    self._decide(outcome, now)

    # Moving

    def _decide(self, found: Relocations, now: float) -> None:
        """Somewhere else may be better: if it is worth a move, ask the target."""
        known = self._known(found.publisher)
        known.decisions += 1
        if found.choices:
            known.measure = found.choices[0].measure
        if known.measure in found.own_costs:
            known.cost_here = found.own_costs[known.measure]  # type: ignore[index]  # it is one of them
        refusals = [refuses(choice, (), self._options.damping) for choice in found.choices]
        worth = [choice for choice, refusal in zip(found.choices, refusals, strict=True) if refusal is None]
        if not worth:
            first = next(iter(refusals), None)
            known.verdict = "it is best here" if first is None else f"stays: {first.value}"
            self._stayed(found.publisher)
            return
        if not self._ports.can_move(found.publisher):
            known.verdict = _CANNOT_MOVE
            return
        known.others = deque(worth)
        self._ask_next(known, now)

    def _ask_next(self, known: PlacedPublisher, now: float) -> None:
        """Ask the best of the targets that were not asked yet."""
        choice = known.asked = known.others.popleft()
        known.asked_at, known.verdict = now, f"{choice.target} is asked"
        request = ArrivalRequest(known.publisher, self._name, choice.measure, choice.cost_now, choice.cost_then)
        self.frame_count += 1
        self._ports.pass_on(choice.target, request)

    def _stayed(self, publisher: PublisherName) -> None:
        machine = self._pop or self._grape
        if machine is not None:
            machine.stayed(publisher)

    def asked(self, frame: ArrivalRequest, now: float) -> None:
        """A publisher would come here."""
        left_at, damping = self._left_at.get(frame.publisher), self._options.damping
        if left_at is not None and now - left_at < damping.return_seconds:
            refusal = Refusal.LEFT_LATELY.value
        elif not self._gate.admits(now, self._ports.busy_share()):
            refusal = Refusal.TOO_MANY.value
        else:
            refusal = ""
            self._expected[frame.publisher] = frame
            while len(self._expected) > _KNOWN_MAX:
                del self._expected[next(iter(self._expected))]
        self.frame_count += 1
        self._ports.pass_on(frame.source, ArrivalAnswer(frame.publisher, self._name, refusal))

    def answered(self, frame: ArrivalAnswer, now: float) -> None:
        """The target has answered: have the publisher move, if it may come."""
        known = self.publishers.get(frame.publisher)
        if known is None or known.asked is None or known.asked.target != frame.target:
            return
        known.asked = None
        if frame.refusal:
            known.verdict = f"stays: {frame.refusal}"
            if known.others:
                self._ask_next(known, now)
        elif self._ports.move(frame.publisher, frame.target):
            known.verdict = f"moves to {frame.target}"
        else:
            known.verdict = _CANNOT_MOVE

    def left(self, publisher: PublisherName, now: float) -> None:
        """A publisher has left this broker."""
        self._left_at[publisher] = now
        while len(self._left_at) > _KNOWN_MAX:
            del self._left_at[next(iter(self._left_at))]
        self.publishers.pop(publisher, None)
        self.moved_count += 1
        self._forget(publisher)

    def _forget(self, publisher: PublisherName) -> None:
        machine = self._pop or self._grape
        if machine is not None:
            machine.forget(publisher)

    def listed(self, tenant: str) -> list[dict[str, Any]]:
        """What is known of a tenant's publishers, for people."""
        return [
            {
                "publisher": publisher_key(known.publisher)[1],
                "broker": self._name,
                "source": known.source,
                "traced": known.traced,
                "decisions": known.decisions,
                "verdict": known.verdict,
                "measure": known.measure,
                "cost_before": known.cost_before,
                "cost_predicted": known.cost_predicted,
                "cost_here": known.cost_here,
            }
            for known in self.publishers.values()
            if publisher_key(known.publisher)[0] == tenant
        ]

    def _known(self, publisher: PublisherName) -> PlacedPublisher:
        known = self.publishers.get(publisher)
        if known is None:
            known = self.publishers[publisher] = PlacedPublisher(publisher)
            if (came := self._expected.pop(publisher, None)) is not None:
                known.source, known.measure = came.source, came.measure
                known.cost_before, known.cost_predicted = came.cost_now, came.cost_then
            while len(self.publishers) > _KNOWN_MAX:
                del self.publishers[next(iter(self.publishers))]
        return known


def publisher_name(tenant: str, publisher: str) -> PublisherName:
    """How brokers name a publisher to each other."""
    return f"{tenant}/{publisher}"


def publisher_key(name: PublisherName) -> tuple[str, str]:
    """The tenant and the publisher of a name."""
    tenant, _, publisher = name.partition("/")
    return tenant, publisher
