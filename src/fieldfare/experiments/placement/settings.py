"""What the paper sets for its experiments (Figure 4b and section V-A), and how much of it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Distribution: TypeAlias = Literal["enterprise", "random"]


@dataclass(frozen=True, slots=True)
class Testbed:
    """One of the paper's two, or a small one. The link's delay is ours: the paper does not state any."""

    name: str
    brokers: int
    publishers: int
    publications_per_minute: tuple[int, int]  # of a publisher: from, to
    subscribers_per_publisher: int
    traced_min: int  # P_threshold and G_threshold
    link_seconds: float  # one way, between neighbours, and between a client and its broker
    runs: int  # workloads, each from a seed of its own, of which averages are taken


PLANETLAB = Testbed("PlanetLab", 63, 20, (10, 40), 80, 50, 0.03, 3)
CLUSTER = Testbed("cluster", 127, 30, (30, 300), 200, 100, 0.0002, 1)
MIDDLE = Testbed("middle", 31, 10, (10, 40), 40, 50, 0.03, 1)
BUSY_MIDDLE = Testbed("busy middle", 31, 10, (30, 60), 40, 50, 0.03, 1)  # so that less time tells as much
LIVE = Testbed("live", 7, 3, (1200, 1200), 20, 50, 0.0003, 1)
SMALL = Testbed("small", 15, 4, (60, 120), 20, 20, 0.03, 1)

BUSIEST_STATIC = 0.9  # utilisation of the busiest broker without placement, to which service times are scaled


@dataclass(frozen=True, slots=True)
class BrokersScale:
    """The real brokers of a tree, in the simulator."""

    testbed: Testbed = MIDDLE
    spread: int = 8
    warm_seconds: float = 60.0
    measured_seconds: float = 180.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class MovingScale:
    """The same, with publishers that move."""

    testbed: Testbed = BUSY_MIDDLE
    spread: int = 8
    minutes: int = 8
    seed: int = 1


@dataclass(frozen=True, slots=True)
class LiveScale:
    """Real processes."""

    testbed: Testbed = LIVE
    spread: int = 4
    seed: int = 2  # with it all three publishers have somewhere else to go
    seconds: float = 30.0
    first_seconds: float = 1.5  # before the first of them has gone


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do."""

    testbeds: tuple[Testbed, Testbed] = (PLANETLAB, CLUSTER)
    minutes: int = 18  # as in the paper
    spreads: tuple[int, ...] = (1, 4, 16, 32, 63)  # brokers that have subscribers of a publisher, on the first testbed
    wide_spreads: tuple[int, ...] = (1, 4, 16, 64, 127)  # on the second one
    tuning_spread: int = 16
    weights_percent: tuple[int, ...] = (1, 25, 50, 75, 100)
    thresholds: tuple[int, ...] = (10, 50, 100, 400, 1600, 12_800)
    selection_brokers: tuple[int, ...] = (63, 127, 1000)
    selection_rounds: int = 20
    brokers: BrokersScale = field(default_factory=BrokersScale)
    moving: MovingScale = field(default_factory=MovingScale)
    live: LiveScale = field(default_factory=LiveScale)


QUICK = Scale(
    (SMALL, SMALL),
    minutes=6,
    spreads=(1, 6),
    wide_spreads=(6,),
    tuning_spread=6,
    weights_percent=(1, 100),
    thresholds=(10, 1600),
    selection_brokers=(15, 63),
    selection_rounds=2,
    brokers=BrokersScale(SMALL, 6, 2.0, 8.0),
    moving=MovingScale(SMALL, 6, 2),
)
