"""Nodes that dial each other and send datagrams, on real sockets and on both event loops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.runtime.link_machines import (
    PROTOCOL,
    QUICK,
    SECRET,
    Machine,
    Ping,
    Pong,
    RawBroker,
    Run,
    machines,
)

from fieldfare.errors import LinkSecurityError, ServiceError
from fieldfare.experiments.certificates import Authority
from fieldfare.messages import (
    BrokerIdentity,
    Closed,
    DatagramReceived,
    Dial,
    Opened,
    Received,
    Send,
    SendDatagram,
    Started,
    Unreachable,
)
from fieldfare.messages.lines import LineCodec
from fieldfare.runtime.host import Host
from fieldfare.runtime.link_framing import Kind
from fieldfare.runtime.link_greeting import GREETING_BYTES_MAX
from fieldfare.runtime.link_protocol import TcpLinkOptions
from fieldfare.runtime.link_security import LinkSecurity
from fieldfare.runtime.socket_addresses import SocketAddress
from fieldfare.runtime.tcp_links import TcpLinks


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=["secret", "tls", "both"])
def securities(request: pytest.FixtureRequest, authority: Authority) -> tuple[LinkSecurity, LinkSecurity]:
    """Of two brokers, `one` and `other`."""
    secret = None if request.param == "tls" else SECRET
    if request.param == "secret":
        return LinkSecurity(secret), LinkSecurity(secret)
    return LinkSecurity(secret, authority.files_for("one")), LinkSecurity(secret, authority.files_for("other"))


def test_a_node_dials_another_and_both_know_who_is_there(
    run: Run, securities: tuple[LinkSecurity, LinkSecurity]
) -> None:
    async def story() -> None:
        one, other = Machine("one", securities[0]), Machine("other", securities[1])
        async with machines(one, other):
            one.do(Dial("to other", other.tcp.address))
            await one.node.until(Started(), Opened("to other", BrokerIdentity("other")))
            await other.node.until(Opened("c1", BrokerIdentity("one")))
            one.do(Send("to other", Ping(7)), Send("to other", Ping(8)))
            await one.node.until(Received("to other", Pong(7)), Received("to other", Pong(8)))
            one.do(Send("to other", Ping(0)))
            await one.node.until(Received("to other", Pong(0)), Closed("to other"))
            await other.node.until(Closed("c1"))

    run(story())


def test_messages_of_any_length_arrive_in_order(run: Run, securities: tuple[LinkSecurity, LinkSecurity]) -> None:
    async def story() -> None:
        one, other = Machine("one", securities[0]), Machine("other", securities[1])
        sent = [Ping(number + 1, "x" * (7**number)) for number in range(8)]
        async with machines(one, other):
            one.do(Dial("a", other.tcp.address))
            await one.node.until_kind(Opened)
            for ping in sent:
                one.do(Send("a", ping))
                await asyncio.sleep(0)
            one.do(*(Send("a", ping) for ping in sent))
            await one.node.until(*(Received("a", Pong(ping.number)) for ping in sent + sent))
            assert [each.frame for each in other.node.told if isinstance(each, Received)] == sent + sent

    run(story())


def test_a_node_is_told_when_nobody_is_there(run: Run) -> None:
    async def story() -> None:
        one, gone = Machine("one"), Machine("gone")
        async with machines(gone):
            address = gone.tcp.address
        async with machines(one):
            for link, target in (("a", address), ("b", "127.0.0.1:http"), ("c", "127.0.0.1:99999")):
                one.do(Dial(link, target))
                failed = await one.node.until_kind(Unreachable)
                assert isinstance(failed, Unreachable)
                assert failed.link == link
                one.node.told.remove(failed)

    run(story())


@pytest.mark.parametrize(
    ("secret", "name", "protocol", "reason"),
    [
        (b"another secret of brokers", "one", PROTOCOL, "different secrets"),
        (SECRET, "one", "other.v1", "speak different protocols"),
        (SECRET, "other", PROTOCOL, "both ends are called 'other'"),
    ],
)
def test_strangers_are_not_let_in_and_told_why(run: Run, secret: bytes, name: str, protocol: str, reason: str) -> None:
    async def story() -> None:
        one, other = Machine(name, LinkSecurity(secret), protocol), Machine("other")
        async with machines(one, other):
            one.do(Dial("x", other.tcp.address))
            failed = await one.node.until_kind(Unreachable)
            assert isinstance(failed, Unreachable)
            assert reason in failed.reason
            assert other.node.told == [Started()]
            assert one.node.links == [failed]

    run(story())


def test_certificates_of_others_are_not_let_in(run: Run, authority: Authority, tmp_path: Path) -> None:
    foreign = Authority(tmp_path)

    async def reason(dialling: LinkSecurity, name: str) -> str:
        one, other = Machine(name, dialling), Machine("other", LinkSecurity(tls=authority.files_for("other")))
        async with machines(one, other):
            one.do(Dial("x", other.tcp.address))
            failed = await one.node.until_kind(Unreachable)
            assert isinstance(failed, Unreachable)
            assert (one.node.links, other.node.links) == ([failed], [])
            return failed.reason

    async def story() -> None:
        assert "verify failed" in await reason(LinkSecurity(tls=foreign.files_for("one")), "one")
        assert await reason(LinkSecurity(SECRET), "one")  # no TLS at all
        assert "different secrets" in await reason(LinkSecurity(SECRET, authority.files_for("one")), "one")

    run(story())


def test_a_certificate_that_names_another_broker_is_no_proof(run: Run, authority: Authority) -> None:
    class Liar(TcpLinks):
        """Says it is somebody else, and does not look at its own certificate."""

        async def start(self) -> None:
            await super().start()
            self._name = "else"

    async def story() -> None:
        liar, other = Machine("one"), Machine("other", LinkSecurity(tls=authority.files_for("other")))
        liar.tcp = Liar(LineCodec(Ping | Pong), "one", LinkSecurity(tls=authority.files_for("one")), protocol=PROTOCOL)
        liar.host = Host(liar.node, liar.tcp)
        async with machines(liar, other):
            liar.do(Dial("x", other.tcp.address))
            failed = await liar.node.until_kind(Unreachable)
            assert isinstance(failed, Unreachable)
            assert "the certificate is that of 'one', not of 'else'" in failed.reason
            assert other.node.links == []

    run(story())


BAD_BEGINNINGS = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "too long": bytes([Kind.GREETING]) + (GREETING_BYTES_MAX + 1).to_bytes(3, "big"),
    "no hello": bytes([Kind.GREETING, 0, 0, 2]) + b"{}",
    "frames first": bytes([Kind.FRAMES, 0, 0, 2]) + b"{}",
    "ping first": bytes([Kind.PING, 0, 0, 0]),
    "pong first": bytes([Kind.PONG, 0, 0, 0]),
}


@pytest.mark.parametrize("bad", BAD_BEGINNINGS.values(), ids=BAD_BEGINNINGS)
def test_what_is_no_greeting_ends_a_connection_with_a_reason(run: Run, bad: bytes) -> None:
    async def story() -> None:
        other = Machine("other")
        async with machines(other):
            raw = await RawBroker.dial(other.tcp.address)
            raw.writer.write(bad)
            *greetings, (kind, reason) = await raw.until_closed()
            assert [kind for kind, _ in greetings] == [Kind.GREETING]
            assert kind is Kind.GOODBYE
            assert reason
            await raw.close()
            assert other.node.told == [Started()]

    run(story())


def test_a_proof_of_another_connection_is_worth_nothing(run: Run) -> None:
    """A stranger has heard all that a broker said, and says it again."""

    async def story() -> None:
        other = Machine("other")
        async with machines(other):
            honest = await RawBroker.dial(other.tcp.address)
            await honest.greet()
            replaying = await RawBroker.dial(other.tcp.address)
            for kind, message in honest.sent:
                replaying.send(kind, message)
            *_, (kind, reason) = await replaying.until_closed()
            assert (kind, b"different secrets" in reason) == (Kind.GOODBYE, True)
            await honest.close()
            await replaying.close()
            await other.node.until(Opened("c1", BrokerIdentity("raw")), Closed("c1"))

    run(story())


@pytest.mark.parametrize(
    "bad", [(Kind.FRAMES, b'{"type":"pang"}'), (Kind.FRAMES, b"\xff"), (Kind.GREETING, b"{}")], ids=str
)
def test_what_is_no_frame_closes_a_link(run: Run, bad: tuple[Kind, bytes]) -> None:
    async def story() -> None:
        other = Machine("other")
        async with machines(other):
            raw = await RawBroker.dial(other.tcp.address)
            await raw.greet()
            raw.send(*bad)
            await other.node.until(Opened("c1", BrokerIdentity("raw")), Closed("c1"))
            assert (await raw.until_closed())[-1][0] is Kind.GOODBYE
            await raw.close()

    run(story())


def test_a_message_is_not_longer_than_allowed_in_either_direction(run: Run) -> None:
    async def story() -> None:
        one = Machine("one", options=TcpLinkOptions(message_bytes_max=1000))
        other = Machine("other", options=TcpLinkOptions(message_bytes_max=2000))
        async with machines(one, other):
            other.do(Dial("b", one.tcp.address))
            await other.node.until_kind(Opened)
            other.do(Send("b", Ping(1, "x" * 1500)))
            await other.node.until(Opened("b", BrokerIdentity("one")), Closed("b"))
            one.do(Dial("a", other.tcp.address))
            await one.node.until(Opened("a", BrokerIdentity("other")))
            one.do(Send("a", Ping(1, "x" * 1500)))
            await one.node.until(Opened("a", BrokerIdentity("other")), Closed("a"))
            assert not any(isinstance(each, Received) for each in one.node.told + other.node.told)

    run(story())


def test_who_does_not_read_is_cut_off(run: Run) -> None:
    async def story() -> None:
        other = Machine("other", options=TcpLinkOptions(unread_bytes_max=100_000))
        async with machines(other):
            raw = await RawBroker.dial(other.tcp.address)
            await raw.greet()
            await other.node.until_kind(Opened)
            raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(1000):
                if other.node.links[1:]:
                    break
                other.do(Send("c1", Ping(1, "x" * 100_000)))
                await asyncio.sleep(0)
            await other.node.until(Opened("c1", BrokerIdentity("raw")), Closed("c1"))
            await raw.close()

    run(story())


# Before a greeting is complete


def test_a_greeting_has_a_time_limit(run: Run, securities: tuple[LinkSecurity, LinkSecurity]) -> None:
    async def story() -> None:
        other = Machine("other", securities[1], options=QUICK)
        async with machines(other):
            raw = await RawBroker.dial(other.tcp.address)
            assert {kind for kind, _ in await raw.until_closed()} <= {Kind.GREETING}
            await raw.close()
            assert other.node.told == [Started()]

    run(story())


def test_who_dials_does_not_wait_for_ever(run: Run, securities: tuple[LinkSecurity, LinkSecurity]) -> None:
    async def story() -> None:
        silent = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        writers: list[asyncio.StreamWriter] = []
        one = Machine("one", securities[0], options=QUICK)
        async with machines(one):
            one.do(Dial("a", str(SocketAddress(*silent.sockets[0].getsockname()))))
            failed = await one.node.until_kind(Unreachable)
            assert isinstance(failed, Unreachable)
            assert "did not answer in time" in failed.reason
        for writer in writers:
            writer.close()
        silent.close()

    run(story())


def test_strangers_cannot_take_all_places(run: Run, securities: tuple[LinkSecurity, LinkSecurity]) -> None:
    async def story() -> None:
        one = Machine("one", securities[0])
        other = Machine("other", securities[1], options=TcpLinkOptions(greeting_seconds=60.0, greetings_max=5))
        async with machines(one, other):
            strangers = [await RawBroker.dial(other.tcp.address) for _ in range(12)]
            one.do(Dial("a", other.tcp.address))
            await one.node.until(Opened("a", BrokerIdentity("other")))
            for early in strangers[:7]:
                await early.until_closed()
            assert not any(late.reader.at_eof() for late in strangers[-4:])
            for stranger in strangers:
                await stranger.close()

    run(story())


# Where one may listen and dial


def test_a_secret_alone_is_for_loopback() -> None:
    async def story() -> None:
        links = TcpLinks(LineCodec(Ping), "one", LinkSecurity(SECRET), SocketAddress("0.0.0.0", 0))  # noqa: S104
        with pytest.raises(LinkSecurityError, match=r"broker.listen: 0.0.0.0 is not on this machine"):
            await Host(Machine("one").node, links).start()
        one = Machine("one")
        async with machines(one):
            assert LinkSecurity(SECRET).why_not("127.0.0.1") is None
            assert "need certificates" in str(LinkSecurity(SECRET).why_not("192.0.2.1"))

    asyncio.run(story())


def test_a_port_that_is_taken(run: Run) -> None:
    async def story() -> None:
        one = Machine("one")
        async with machines(one):
            links = TcpLinks(LineCodec(Ping), "two", LinkSecurity(SECRET), SocketAddress.parse(one.tcp.address))
            with pytest.raises(ServiceError, match="cannot be used"):
                await Host(Machine("two").node, links).start()

    run(story())


def test_datagrams_arrive_and_what_is_none_is_dropped(run: Run) -> None:
    async def story() -> None:
        one, other = Machine("one"), Machine("other")
        async with machines(one, other):
            one.do(SendDatagram(other.udp.address, "not a message of this protocol"))
            one.do(SendDatagram(other.udp.address, Ping(1)))
            await other.node.until(DatagramReceived(one.udp.address, Ping(1)))
            await one.node.until(DatagramReceived(other.udp.address, Pong(1)))
            assert other.udp.unreadable_count == 1

    run(story())
