"""Plans of faults, drawn from a seed: data that can be printed, changed and tried again.

Every fault has an end, at which all is as before; so after the last one a world comes to rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from fieldfare.errors import JournalError
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.compiling import COMPILE_SECONDS_MAX
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import Machine, World

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
KINDS_OF_CLIENT: tuple[Kind, ...] = ("reset", "partition", "crash", "lossy", "answers", "pause")
CLOCK_JUMP_SECONDS_MAX = 30.0  # how far a machine's clock may be off after it crashed


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong with a machine: when it begins, and how long it lasts."""

    after_seconds: float
    kind: Kind
    machine: str
    seconds: float
    clock_ahead_seconds: float = 0.0  # of a machine that comes back after a crash


def plan(rng: random.Random, world: World, seconds: float, count: int) -> list[Fault]:
    """Random faults for the machines of a world, all of which have ended after some seconds."""
    nodes = [name for name, machine in world.machines.items() if isinstance(machine, SimulatedHost)]
    clients = [name for name, machine in world.machines.items() if isinstance(machine, SimulatedClient)]
    faults = []
    for _ in range(count):
        is_edge = not clients or rng.random() < 0.5
        name = rng.choice(nodes if is_edge else clients)
        kind = rng.choice(KINDS_OF_EDGE if is_edge else KINDS_OF_CLIENT)
        after, end = sorted(rng.uniform(0, seconds) for _ in range(2))
        ahead = rng.uniform(-CLOCK_JUMP_SECONDS_MAX, CLOCK_JUMP_SECONDS_MAX) if rng.random() < 0.3 else 0.0
        faults.append(Fault(after, kind, name, min(end - after, rng.expovariate(1.0)), ahead))
    return sorted(faults, key=lambda fault: fault.after_seconds)


def inject(world: World, faults: Iterable[Fault]) -> None:
    """Let these faults happen from now on. Those of one kind at one machine end with the first that ends."""
    for fault in faults:
        world.clock.after(fault.after_seconds, lambda fault=fault: _begin(world, fault))  # type: ignore[misc]


def _begin(world: World, fault: Fault) -> None:
    end = _INJECTIONS[fault.kind](world, fault)
    world.clock.after(fault.seconds, end)


def _nothing() -> None:
    """What has no duration needs no end."""


def _reset(world: World, fault: Fault) -> Callable[[], None]:
    for stream in world.network.streams(fault.machine):
        stream.reset("reset")
    return _nothing


def _partition(world: World, fault: Fault) -> Callable[[], None]:
    others = {name for name in world.machines if name != fault.machine}
    partition = world.partition({fault.machine}, others)
    return lambda: world.heal(partition)


def _crash(world: World, fault: Fault) -> Callable[[], None]:
    machine = world.machines[fault.machine]
    if not machine.is_up:
        return _nothing
    world.crash(machine)
    if isinstance(machine, SimulatedHost):
        machine.clock_ahead_seconds = fault.clock_ahead_seconds
    return lambda: _restart(world, machine)


def _restart(world: World, machine: Machine) -> None:
    """Start a machine; while its disk does not flush it stays down, until the end of that fault starts it."""
    with suppress(JournalError):
        world.restart(machine)


def _full(world: World, fault: Fault) -> Callable[[], None]:
    host = _host(world, fault)
    host.log.failure = "the disk is full"

    def end() -> None:
        host.log.failure = None

    return end


def _flush(world: World, fault: Fault) -> Callable[[], None]:
    """A log whose flush has failed stores nothing until its node has started again: in the end the machine crashes."""
    host = _host(world, fault)
    host.log.flush_failure = "the disk does not flush"

    def end() -> None:
        host.log.flush_failure = None
        if host.is_up:
            world.crash(host)
        world.restart(host)

    return end


def _slow(world: World, fault: Fault) -> Callable[[], None]:
    log = _host(world, fault).log
    log.stall_seconds = 0.3

    def end() -> None:
        log.stall_seconds = 0.0

    return end


def _compiler(world: World, fault: Fault) -> Callable[[], None]:
    compiler = world.compilers[fault.machine]
    compiler.seconds_max = 0.5

    def end() -> None:
        compiler.seconds_max = COMPILE_SECONDS_MAX

    return end


def _checks_slow(world: World, _: Fault) -> Callable[[], None]:
    world.webhooks.check_seconds = 0.5

    def end() -> None:
        world.webhooks.check_seconds = 0.0

    return end


def _checks_busy(world: World, _: Fault) -> Callable[[], None]:
    world.webhooks.is_busy = True

    def end() -> None:
        world.webhooks.is_busy = False

    return end


def _checks_refused(world: World, _: Fault) -> Callable[[], None]:
    urls = world.webhooks.urls
    for url in urls:
        world.webhooks.forbid(url, "its address is private now")

    def end() -> None:
        for url in urls:
            world.webhooks.allow(url)

    return end


def _answers(world: World, fault: Fault) -> Callable[[], None]:
    client = _client(world, fault)
    client.answers_to_lose = 3

    def end() -> None:
        client.answers_to_lose = 0

    return end


def _pause(world: World, fault: Fault) -> Callable[[], None]:
    client = _client(world, fault)
    client.pause()
    return client.go_on


def _lossy(world: World, fault: Fault) -> Callable[[], None]:
    """The way to everyone loses packets, and takes long."""
    network = world.network
    others = [name for name in world.machines if name != fault.machine]
    for name in others:
        quality = network.link_quality(fault.machine, name)
        network.set_link_quality(fault.machine, name, replace(quality, loss=0.3, jitter_seconds=0.2))

    def end() -> None:
        for name in others:
            network.reset_link_quality(fault.machine, name)

    return end


def _pipeline(world: World, fault: Fault) -> Callable[[], None]:
    pipeline = world.pipelines[fault.machine]
    pipeline.failure = "the pipeline's log is full"

    def end() -> None:
        pipeline.failure = None

    return end


def _client(world: World, fault: Fault) -> SimulatedClient:
    client = world.machines[fault.machine]
    if not isinstance(client, SimulatedClient):
        raise TypeError(f"{fault.machine!r} is no client: {fault.kind!r} is a fault of clients")
    return client


def _host(world: World, fault: Fault) -> SimulatedHost:
    host = world.machines[fault.machine]
    if not isinstance(host, SimulatedHost):
        raise TypeError(f"{fault.machine!r} has no disk: {fault.kind!r} is a fault of edges")
    return host


_INJECTIONS: dict[Kind, Callable[[World, Fault], Callable[[], None]]] = {
    "reset": _reset,
    "partition": _partition,
    "crash": _crash,
    "full": _full,
    "flush": _flush,
    "slow": _slow,
    "compiler": _compiler,
    "checks_slow": _checks_slow,
    "checks_busy": _checks_busy,
    "checks_refused": _checks_refused,
    "lossy": _lossy,
    "answers": _answers,
    "pause": _pause,
    "pipeline": _pipeline,
}
