"""What the tree of brokers tells placement, and what placement asks of the tree: all that they know of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fieldfare.placement.placement_frames import AnyPlacementFrame, BrokerName, PublisherName, TraceId

# What an event costs: messages that brokers receive; seconds, or hops, from the publisher, summed over all deliveries.
Measure: TypeAlias = Literal["messages", "seconds", "hops"]


@dataclass(frozen=True, slots=True)
class Passage:
    """How a traced publication passed one broker."""

    upstream: BrokerName | None  # the neighbour it came from; None at its first broker
    downstream: tuple[BrokerName, ...]  # the neighbours that it was sent to
    deliveries: int  # to local subscribers


@dataclass(frozen=True, slots=True)
class ToNeighbour:
    """Send a frame over the link to a neighbour. If there is no link, drop it: what waits for it times out."""

    neighbour: BrokerName
    frame: AnyPlacementFrame


@dataclass(frozen=True, slots=True)
class MeasureDelays:
    """Have a publisher ping these brokers, in parallel; then tell GRAPE's machine, in `measured`, what it found."""

    publisher: PublisherName
    session: TraceId
    brokers: tuple[BrokerName, ...]


@dataclass(frozen=True, slots=True)
class Relocation:
    """A publisher would be better off at another broker, by this much. `damping` decides whether it goes there."""

    publisher: PublisherName
    target: BrokerName
    hops: int  # from its broker to the target
    measure: Measure
    cost_now: float  # of an event, on average
    cost_then: float
    deliveries: float  # of an event, on average
    publications_per_second: float
    saving_error: float = 0.0  # the standard error of cost_now - cost_then; 0 if it is not known


@dataclass(frozen=True, slots=True)
class Relocations:
    """What was decided about a publisher: the better brokers, the best first; none if it is best where it is."""

    publisher: PublisherName
    choices: Sequence[Relocation]
    own_costs: Mapping[Measure, float] = field(default_factory=dict)  # of an event, where the publisher is; GRAPE only


Outcome: TypeAlias = ToNeighbour | MeasureDelays | Relocations
