"""How each kind of fault begins: every function here lets one happen, and returns what ends it.

Faults that overlap at one machine are no problem: a machine that is down cannot crash, and whoever ends a fault looks
whether there is still something to end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from fieldfare.errors import JournalError
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.compiling import COMPILE_SECONDS_MAX
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import Machine, World

if TYPE_CHECKING:
    from fieldfare.simulation.faults import Fault, Kind


def _nothing() -> None:
    """What has no duration needs no end."""


def _reset(world: World, fault: Fault) -> Callable[[], None]:
    for stream in world.network.streams(fault.machine):
        stream.reset("reset")
    return _nothing


def _others(world: World, fault: Fault) -> set[str]:
    """Those from whom its machine is cut off: all, where the fault names none."""
    return set(fault.others) or {name for name in world.machines if name != fault.machine}


def _partition(world: World, fault: Fault) -> Callable[[], None]:
    partition = world.partition({fault.machine}, _others(world, fault))
    return lambda: world.heal(partition)


def _deaf(world: World, fault: Fault) -> Callable[[], None]:
    partition = world.partition(_others(world, fault), {fault.machine}, is_one_way=True)
    return lambda: world.heal(partition)


def _mute(world: World, fault: Fault) -> Callable[[], None]:
    partition = world.partition({fault.machine}, _others(world, fault), is_one_way=True)
    return lambda: world.heal(partition)


def _node_pause(world: World, fault: Fault) -> Callable[[], None]:
    host = _host(world, fault)
    world.pause(host)
    return lambda: world.resume(host)


def _drift(world: World, fault: Fault) -> Callable[[], None]:
    clock = _host(world, fault).machine_clock
    clock.rate = fault.clock_rate

    def end() -> None:
        clock.rate = 1.0

    return end


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


def _wipe(world: World, fault: Fault) -> Callable[[], None]:
    host = _host(world, fault)
    if host.is_up:
        world.crash(host)
    world.wipe_disk(host)
    return lambda: _restart(world, host)


def _old_disk(world: World, fault: Fault) -> Callable[[], None]:
    host = _host(world, fault)
    snapshot = host.snapshot_disk()

    def end() -> None:
        if host.is_up:
            world.crash(host)
        world.restore_disk(host, snapshot)
        _restart(world, host)

    return end


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


INJECTIONS: dict[Kind, Callable[[World, Fault], Callable[[], None]]] = {
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
    "deaf": _deaf,
    "mute": _mute,
    "split": _partition,
    "node_pause": _node_pause,
    "drift": _drift,
    "wipe": _wipe,
    "old_disk": _old_disk,
}
