"""The same nodes on asyncio, by UDP on loopback: they join, deliver, and notice who is gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from fieldfare.messages import Withdraw
from fieldfare.pastry.admission import ClosedGroup
from fieldfare.pastry.ids import distance, key_of
from fieldfare.pastry.node import NodeStart, PastryNode
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.ports import Assurance
from fieldfare.runtime.datagrams import Datagrams
from fieldfare.runtime.host import Host
from fieldfare.simulation import World
from fieldfare.simulation.pastry import NotingApplication, RouteMessage, SendMessage, SimulatedRing

PATIENCE_SECONDS = 120.0  # for a machine on which much else runs
FAST = PastryOptions(heartbeat_seconds=0.2, join_seconds=0.5, attempts_max=4)


class Machine:
    """A node on a host with a socket. It does not know its address: others see it."""

    def __init__(self, name: str, notes: SimulatedRing, seeds: tuple[str, ...], secret: bytes = b"a secret") -> None:
        group = ClosedGroup(secret)
        self.application = NotingApplication(name, notes)
        self.node = PastryNode(NodeStart(name, group, seeds=seeds), self.application, random.Random(name), FAST)
        codec = group.codec()
        self.udp = Datagrams(codec.encode_line, codec.decode_packet)
        self.host = Host(self.node, self.udp)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - a node is not told by an event
            await asyncio.sleep(0.02)


def test_nodes_on_real_sockets_form_a_ring() -> None:
    async def story() -> None:
        notes = SimulatedRing(World())  # only for its list of deliveries
        machines: dict[str, Machine] = {}
        for number in range(6):
            seeds = (machines["m0"].udp.address,) if machines else ()
            machine = machines[f"m{number}"] = Machine(f"m{number}", notes, seeds)
            await machine.host.start()
        stranger = Machine("stranger", notes, (machines["m0"].udp.address,), b"another secret")
        await stranger.host.start()
        try:
            await until(lambda: all(len(each.node.place.leaf_set) == 5 for each in machines.values()))
            await _check_delivery(machines, notes)
            await machines.pop("m5").host.stop()
            machines["m4"].host.tell(Withdraw())
            rest = {name: machines[name] for name in ("m0", "m1", "m2", "m3")}
            await until(lambda: all(len(each.node.place.leaf_set) == 3 for each in rest.values()))
            await _check_delivery(rest, notes)
            assert machines["m0"].udp.unreadable_count > 0
            assert not stranger.application.is_joined
        finally:
            for machine in (*machines.values(), stranger):
                await machine.host.stop()

    asyncio.run(story())


async def _check_delivery(machines: dict[str, Machine], notes: SimulatedRing) -> None:
    notes.deliveries.clear()
    keys = {key_of(b"%d" % number): bytes([number]) * 3_000 for number in range(10)}
    first = next(iter(machines.values()))
    for key, message in keys.items():
        first.host.tell(RouteMessage(key, message, Assurance.END_TO_END))
    await until(lambda: len(notes.deliveries) == len(keys))
    for each in notes.deliveries:
        closest = min(machines.values(), key=lambda machine: distance(machine.node.me.id, each.routed.key))
        assert (each.node, each.routed.message) == (closest.node.me.name, keys[each.routed.key])
    for leaf in first.node.leaves.after:
        first.host.tell(SendMessage(leaf, b"hello"))
        await until(lambda: ("m0", b"hello") in machines[leaf.name].application.received)  # noqa: B023 - at once
