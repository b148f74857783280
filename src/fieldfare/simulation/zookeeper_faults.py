"""What goes wrong with a simulated ZooKeeper, drawn from a seed: data that can be printed and tried again."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fieldfare.simulation.world import World
from fieldfare.simulation.zookeeper import SimulatedZooKeeper

ZooKeeperFaultKind: TypeAlias = Literal[
    "expire",  # the session of a broker ends unseen
    "lag",  # a broker reads only what is old
    "lost_answer",  # a broker does not hear what became of its next write
    "cut",  # between a broker and the service
    "down",  # the service itself
]
_KINDS: tuple[ZooKeeperFaultKind, ...] = ("expire", "lag", "lost_answer", "cut", "down")


@dataclass(frozen=True)
class ZooKeeperFault:
    """Something that goes wrong between a broker and ZooKeeper: when it begins, and how long it lasts."""

    after_seconds: float
    kind: ZooKeeperFaultKind
    broker: str
    seconds: float


def plan_for_zookeeper(rng: random.Random, brokers: Sequence[str], seconds: float, count: int) -> list[ZooKeeperFault]:
    """Random faults, all of which have ended after some seconds."""
    faults = []
    for _ in range(count):
        after, end = sorted(rng.uniform(0, seconds) for _ in range(2))
        faults.append(ZooKeeperFault(after, rng.choice(_KINDS), rng.choice(brokers), end - after))
    return sorted(faults, key=lambda fault: fault.after_seconds)


def inject_into_zookeeper(world: World, zookeeper: SimulatedZooKeeper, faults: Iterable[ZooKeeperFault]) -> None:
    """Let these faults happen from now on."""
    for fault in faults:
        world.clock.after(fault.after_seconds, lambda fault=fault: _begin(world, zookeeper, fault))  # type: ignore[misc]


def _begin(world: World, zookeeper: SimulatedZooKeeper, fault: ZooKeeperFault) -> None:
    match fault.kind:
        case "expire":
            zookeeper.expire(fault.broker)
        case "lag":
            zookeeper.lag(fault.broker, fault.seconds)
        case "lost_answer":
            zookeeper.lose_answer(fault.broker)
        case "cut":
            cut = world.partition({fault.broker}, {zookeeper.name})
            world.clock.after(fault.seconds, lambda: world.heal(cut))
        case "down":
            zookeeper.crash()
            world.clock.after(fault.seconds, zookeeper.restart)
