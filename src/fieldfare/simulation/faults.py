"""Plans of faults, drawn from a seed: data that can be printed, changed and tried again.

Nearly every fault has an end, at which all is as before; so after the last one a world comes to rest. Those of
`plan_lasting` have none: then `unharmed` names the machines to which all promises are kept nevertheless.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.injections import INJECTIONS
from fieldfare.simulation.world import World

Kind: TypeAlias = Literal[
    "reset",
    "partition",
    "crash",
    "full",  # the disk
    "flush",  # the disk does not flush, and what was written is lost in the crash that ends it
    "slow",  # the disk
    "compiler",  # it takes long to compile conditions
    "checks_slow",  # it takes long to look at the URLs of webhooks,
    "checks_busy",  # or too many are being looked at,
    "checks_refused",  # or they may not be called
    "lossy",
    "answers",  # those to a publisher get lost
    "pause",  # the application takes no events
    "pipeline",
    # Only for those who ask for them: see ALSO.
    "deaf",  # nothing that others send arrives,
    "mute",  # or nothing that it sends,
    "split",  # or nothing passes between it and some of the others
    "node_pause",  # it handles nothing, as after SIGSTOP
    "drift",  # its clock runs faster or slower
    "wipe",  # it crashes, and comes back with an empty disk
    "old_disk",  # at its end the machine crashes, and comes back with the disk that it had at the beginning
]
KINDS_OF_EDGE: tuple[Kind, ...] = (
    "partition",
    "crash",
    "full",
    "flush",
    "slow",
    "compiler",
    "checks_slow",
    "checks_busy",
    "checks_refused",
    "pipeline",
)
KINDS_OF_BROKER: tuple[Kind, ...] = ("reset", "partition", "crash", "lossy")  # of one that serves no clients
KINDS_OF_CLIENT: tuple[Kind, ...] = ("reset", "partition", "crash", "lossy", "answers", "pause")

# Kinds that are drawn only if a plan is to have them also, and whom they can befall.
_ALSO_OF_ANY: tuple[Kind, ...] = ("deaf", "mute", "split")
_ALSO_OF_BROKERS: tuple[Kind, ...] = (*_ALSO_OF_ANY, "node_pause", "drift")
_ALSO_OF_EDGES: tuple[Kind, ...] = (*_ALSO_OF_BROKERS, "wipe", "old_disk")
ALSO = _ALSO_OF_EDGES
KINDS_LASTING: tuple[Kind, ...] = ("partition", "crash", "deaf", "mute", "node_pause")

CLOCK_JUMP_SECONDS_MAX = 30.0  # how far a machine's clock may be off after it crashed
CLOCK_DRIFT_MAX = 0.1  # by what share of a second a clock may count too much or too little in it


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong with a machine: when it begins, and how long it lasts."""

    after_seconds: float
    kind: Kind
    machine: str
    seconds: float  # infinite: it never ends
    clock_ahead_seconds: float = 0.0  # of a machine that comes back after a crash
    clock_rate: float = 1.0  # of a clock that drifts
    others: tuple[str, ...] = ()  # from whom it is cut off; empty: from all


def plan(
    rng: random.Random,
    world: World,
    seconds: float,
    count: int,
    *,
    also: Collection[Kind] = (),
    sparing: Collection[str] = (),
) -> list[Fault]:
    """Random faults for the machines of a world, all of which have ended after some seconds.

    `also` are kinds out of ALSO that may be drawn beside the usual ones; `sparing` names machines that get none.
    """
    names = {name: machine for name, machine in world.machines.items() if name not in sparing}
    nodes = [name for name, machine in names.items() if isinstance(machine, SimulatedHost)]
    clients = [name for name, machine in names.items() if isinstance(machine, SimulatedClient)]
    faults = []
    for _ in range(count):
        is_node = not clients or (bool(nodes) and rng.random() < 0.5)
        name = rng.choice(nodes if is_node else clients)
        kind = rng.choice(_kinds(world, name, also))
        after, end = sorted(rng.uniform(0, seconds) for _ in range(2))
        ahead = rng.uniform(-CLOCK_JUMP_SECONDS_MAX, CLOCK_JUMP_SECONDS_MAX) if rng.random() < 0.3 else 0.0
        rate = 1.0 + rng.uniform(-CLOCK_DRIFT_MAX, CLOCK_DRIFT_MAX) if kind == "drift" else 1.0
        others = _some_others(rng, world, name) if kind == "split" else ()
        faults.append(Fault(after, kind, name, min(end - after, rng.expovariate(1.0)), ahead, rate, others))
    return sorted(faults, key=lambda fault: fault.after_seconds)


def _kinds(world: World, name: str, also: Collection[Kind]) -> Sequence[Kind]:
    """The kinds of faults that a machine may suffer."""
    if isinstance(world.machines[name], SimulatedClient):
        usual, others = KINDS_OF_CLIENT, _ALSO_OF_ANY
    elif name in world.compilers:
        usual, others = KINDS_OF_EDGE, _ALSO_OF_EDGES
    else:
        usual, others = KINDS_OF_BROKER, _ALSO_OF_BROKERS
    return (*usual, *(kind for kind in others if kind in also))


def _some_others(rng: random.Random, world: World, name: str) -> tuple[str, ...]:
    others = [other for other in world.machines if other != name]
    return tuple(rng.sample(others, rng.randint(1, len(others)))) if others else ()


def plan_lasting(rng: random.Random, machines: Iterable[str], seconds: float) -> list[Fault]:
    """For each of these machines a fault that begins within some seconds and never ends. Spare them in `plan`."""
    faults = [Fault(rng.uniform(0, seconds), rng.choice(KINDS_LASTING), name, math.inf) for name in machines]
    return sorted(faults, key=lambda fault: fault.after_seconds)


def unharmed(world: World, faults: Iterable[Fault]) -> frozenset[str]:
    """The machines, for `World.check`, that suffer from no lasting fault, neither their own nor that of their edge."""
    harmed = {fault.machine for fault in faults if fault.seconds == math.inf}
    return frozenset(
        name
        for name, machine in world.machines.items()
        if name not in harmed and not (isinstance(machine, SimulatedClient) and machine.edge in harmed)
    )


def inject(world: World, faults: Iterable[Fault]) -> None:
    """Let these faults happen from now on. Those of one kind at one machine end with the first that ends."""
    for fault in faults:
        world.clock.after(fault.after_seconds, lambda fault=fault: _begin(world, fault))  # type: ignore[misc]


def _begin(world: World, fault: Fault) -> None:
    end = INJECTIONS[fault.kind](world, fault)
    if fault.seconds < math.inf:
        world.clock.after(fault.seconds, end)
