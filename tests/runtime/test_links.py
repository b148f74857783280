"""Nodes that dial each other and send datagrams, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from fieldfare.errors import UnauthenticatedError
from fieldfare.messages import (
    BrokerIdentity,
    Close,
    Closed,
    DatagramReceived,
    Dial,
    Effect,
    Input,
    Opened,
    Received,
    Send,
    SendDatagram,
    Started,
    Unreachable,
)
from fieldfare.messages.lines import LineCodec
from fieldfare.runtime.datagrams import Datagrams, json_codec
from fieldfare.runtime.host import Host
from fieldfare.runtime.tcp_links import Hello, TcpLinks

PATIENCE_SECONDS = 30.0
LOOPBACK = ("127.0.0.1", 0)


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    number: int


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    number: int


class Do(Input, frozen=True):
    """What a test has a node do."""

    effects: tuple[Effect, ...]


class PingNode:
    """Answers pings, and keeps what it is told. It has no log, and does not pretend to have one."""

    def __init__(self) -> None:
        self.told: list[Input] = []
        self.heard = asyncio.Event()

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - as a node's
        if isinstance(message, Do):
            return message.effects
        self.told.append(message)
        self.heard.set()
        match message:
            case Received(link, Ping(0)):
                return [Send(link, Pong(0)), Close(link, "enough")]
            case Received(link, Ping(number)):
                return [Send(link, Pong(number))]
            case DatagramReceived(address, Ping(number)):
                return [SendDatagram(address, Pong(number))]
        return []

    async def until(self, *messages: Input) -> None:
        """Until it has been told these, in this order."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while [each for each in self.told if each in messages] != list(messages):
                self.heard.clear()
                await self.heard.wait()


CODEC: LineCodec[Ping | Pong, Ping | Pong] = LineCodec(Ping | Pong)


def known(hello: Hello) -> BrokerIdentity:
    if hello.proof != "secret":
        raise UnauthenticatedError("who are you?")
    return BrokerIdentity(hello.name)


class Machine:
    """A node on a host with sockets."""

    def __init__(self, name: str, proof: str = "secret", protocol: str = "test.v1") -> None:
        self.node = PingNode()
        self.tcp = TcpLinks(CODEC, Hello(protocol, name, proof), known, LOOPBACK)
        self.udp = Datagrams(*json_codec(Ping | Pong))
        self.host = Host(self.node, self.tcp, self.udp)

    def do(self, *effects: Effect) -> None:
        """Have the node ask for effects."""
        self.host.tell(Do(effects))


@asynccontextmanager
async def machines(*made: Machine) -> AsyncIterator[None]:
    for machine in made:
        await machine.host.start()
    try:
        yield
    finally:
        for machine in made:
            await machine.host.stop()


def test_a_node_dials_another_and_both_know_who_is_there() -> None:
    async def story() -> None:
        one, other = Machine("one"), Machine("other")
        async with machines(one, other):
            one.do(Dial("to other", other.tcp.address))
            await one.node.until(Started(), Opened("to other", BrokerIdentity("other")))
            await other.node.until(Opened("c1", BrokerIdentity("one")))
            one.do(Send("to other", Ping(7)), Send("to other", Ping(8)))
            await one.node.until(Received("to other", Pong(7)), Received("to other", Pong(8)))
            one.do(Send("to other", Ping(0)))
            await one.node.until(Received("to other", Pong(0)), Closed("to other"))
            await other.node.until(Closed("c1"))

    asyncio.run(story())


def test_a_node_is_told_when_nobody_is_there() -> None:
    async def story() -> None:
        one, gone = Machine("one"), Machine("gone")
        async with machines(gone):
            address = gone.tcp.address
        async with machines(one):
            for link, target in (("a", address), ("b", "127.0.0.1:http"), ("c", "127.0.0.1:99999")):
                one.do(Dial(link, target))
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while not isinstance(one.node.told[-1], Unreachable):  # noqa: ASYNC110 - it is not told
                        await asyncio.sleep(0.01)
                failed = one.node.told.pop()
                assert isinstance(failed, Unreachable)
                assert failed.link == link

    asyncio.run(story())


@pytest.mark.parametrize(("proof", "protocol"), [("wrong", "test.v1"), ("secret", "other.v1")])
def test_strangers_are_not_let_in(proof: str, protocol: str) -> None:
    async def story() -> None:
        one, other = Machine("one", proof, protocol), Machine("other")
        async with machines(one, other):
            one.do(Dial("x", other.tcp.address))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not isinstance(one.node.told[-1], (Unreachable, Closed)):  # noqa: ASYNC110 - it is not told
                    await asyncio.sleep(0.01)
            assert other.node.told == [Started()]

    asyncio.run(story())


@pytest.mark.parametrize("bad", [b"no hello\n", b"x" * 10_000])
def test_what_is_no_hello_ends_a_connection(bad: bytes) -> None:
    async def story() -> None:
        other = Machine("other")
        async with machines(other):
            host, port = other.tcp.address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(bad)
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await reader.read()).startswith(b'{"protocol"')
            writer.close()
            assert other.node.told == [Started()]

    asyncio.run(story())


def test_what_is_no_frame_closes_a_link() -> None:
    async def story() -> None:
        other = Machine("other")
        async with machines(other):
            host, port = other.tcp.address.split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(msgspec.json.encode(Hello("test.v1", "raw", "secret")) + b'\n{"type":"pang"}\n')
            await other.node.until(Opened("c1", BrokerIdentity("raw")), Closed("c1"))
            writer.close()

    asyncio.run(story())


def test_datagrams_arrive_and_what_is_none_is_dropped() -> None:
    async def story() -> None:
        one, other = Machine("one"), Machine("other")
        async with machines(one, other):
            one.do(SendDatagram(other.udp.address, "not a message of this protocol"))
            one.do(SendDatagram(other.udp.address, Ping(1)))
            await other.node.until(DatagramReceived(one.udp.address, Ping(1)))
            await one.node.until(DatagramReceived(other.udp.address, Pong(1)))
            assert other.udp.unreadable_count == 1

    asyncio.run(story())
