"""Gossip between real processes and hosts, by UDP on loopback."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.runtime.processes import environment

from fieldfare.coordination.gossip import Gossip
from fieldfare.coordination.gossip_messages import Depart
from fieldfare.coordination.gossip_options import GossipOptions
from fieldfare.coordination.gossiping_node import with_gossip
from fieldfare.errors import ConfigError
from fieldfare.messages import CountEndpoints, Member, Role, SendDatagram
from fieldfare.runtime.gossip import gossip_datagrams, resolve_seeds
from fieldfare.runtime.host import Host
from fieldfare.simulation.gossip import Do, IdleBroker

PATIENCE_SECONDS = 120.0  # for a machine on which much else runs
LOOPBACK = ("127.0.0.1", 0)
SECRET = b"the secret of this deployment"
FAST = GossipOptions(round_seconds=0.1, pong_seconds=0.05)
TOPIC = ("tenant", "topic")


class Machine:
    """A broker that does nothing but gossip, on a host with a socket. It does not know its address: others tell it."""

    def __init__(self, name: str, role: Role = "edge", seeds: tuple[str, ...] = (), secret: bytes | None = SECRET):
        self.broker = IdleBroker(Member(name, role, address=name))
        self.gossip = Gossip(name, random.Random(), seeds, options=FAST)
        self.udp = gossip_datagrams(LOOPBACK, secret)
        self.host = Host(with_gossip(self.broker, self.gossip), self.udp)

    async def until(self, holds: Callable[[IdleBroker], bool]) -> None:
        """Until something is true of what its broker was told."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds(self.broker):  # noqa: ASYNC110 - a broker is not told by an event
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running(*machines: Machine) -> AsyncIterator[None]:
    for machine in machines:
        await machine.host.start()
    try:
        yield
    finally:
        for machine in machines:
            await machine.host.stop()


def test_three_hosts_find_each_other_and_notice_who_is_gone() -> None:
    async def story() -> None:
        first = Machine("first", "routing")
        async with running(first):
            second, third = (Machine(name, seeds=(first.udp.address,)) for name in ("second", "third"))
            async with running(second):
                async with running(third):
                    for machine in (first, second, third):
                        await machine.until(lambda broker: len(broker.members) == 2)
                    third.host.tell(Do((CountEndpoints(TOPIC, 1, 0, is_owed=True),)))
                    await first.until(lambda broker: TOPIC in broker.topics)
                    assert third.broker.topics[TOPIC].owner == "first"
                    assert first.gossip.myself.address == first.udp.address
                await first.until(lambda broker: broker.members.keys() == {"second"})
                assert first.broker.topics[TOPIC].owed == ("third",)
                second.host.tell(Depart())
                await first.until(lambda broker: not broker.members)

    asyncio.run(story())


def test_who_has_not_the_secret_is_not_heard() -> None:
    async def story() -> None:
        first = Machine("first")
        async with running(first):
            seeds = (first.udp.address,)
            other, none = (
                Machine("other", seeds=seeds, secret=b"of another deployment"),
                Machine("none", "edge", seeds, None),
            )
            friend = Machine("friend", seeds=seeds)
            async with running(other, none, friend):
                await first.until(lambda broker: "friend" in broker.members)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while first.udp.unreadable_count < 4:  # noqa: ASYNC110 - both try again and again
                        await asyncio.sleep(0.02)
                assert first.broker.members.keys() <= {"friend"}
                assert not other.broker.members
                assert not none.broker.members

    asyncio.run(story())


def test_what_goes_to_no_address_is_dropped() -> None:
    async def story() -> None:
        machine = Machine("alone", seeds=("nowhere", "a.name.example:7000", "127.0.0.1:0", "127.0.0.1:http", ""))
        async with running(machine):
            machine.host.tell(Do((SendDatagram("127.0.0.1:99999", None),)))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while machine.udp.unsent_count < 6:  # noqa: ASYNC110 - a counter tells nobody
                    await asyncio.sleep(0.02)
            assert machine.host.failure is None

    asyncio.run(story())


def test_without_a_secret_it_is_for_this_machine_only() -> None:
    with pytest.raises(ConfigError, match="secret"):
        gossip_datagrams(("0.0.0.0", 0), None)  # noqa: S104 - it is refused
    with pytest.raises(ConfigError, match="at least 16 bytes"):
        gossip_datagrams(LOOPBACK, b"short")
    gossip_datagrams(LOOPBACK, None)


def test_seeds_are_found_by_their_names() -> None:
    assert asyncio.run(resolve_seeds(["127.0.0.1:7000", "127.0.0.1:7000"])) == ["127.0.0.1:7000"]
    assert "127.0.0.1:7001" in asyncio.run(resolve_seeds(["localhost:7001"]))
    for bad in ("127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999999999999999999"):
        with pytest.raises(ConfigError, match="seed"):
            asyncio.run(resolve_seeds([bad]))


PROGRAM = """
import asyncio, sys
from tests.runtime.test_gossip import Machine

async def story():
    machine = Machine(sys.argv[1], seeds=(sys.argv[2],))
    await machine.host.start()
    await machine.until(lambda broker: len(broker.members) == 2)
    print("sees", *sorted(machine.broker.members), flush=True)
    await asyncio.sleep(600)

asyncio.run(story())
"""


def test_three_processes_of_which_one_is_killed() -> None:
    async def story() -> None:
        here = Machine("here")
        async with running(here):
            processes = [
                subprocess.Popen(  # noqa: ASYNC220 - it only starts
                    [sys.executable, "-c", PROGRAM, name, here.udp.address],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment(PYTHONPATH=":".join(path for path in sys.path if path)),
                )
                for name in ("one", "two")
            ]
            try:
                await here.until(lambda broker: len(broker.members) == 2)
                for process, seen in zip(processes, ("sees here two\n", "sees here one\n"), strict=True):
                    assert process.stdout is not None
                    assert await asyncio.to_thread(process.stdout.readline) == seen
                processes[0].kill()
                await here.until(lambda broker: broker.members.keys() == {"two"})
            finally:
                for process in processes:
                    process.kill()
                    process.communicate()

    asyncio.run(story())
