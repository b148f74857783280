"""Links over which nothing comes: the other end is quiet, slow or gone, and one cannot see which."""

from __future__ import annotations

import asyncio
import time

from tests.runtime.link_machines import CODEC, QUICK, Machine, Ping, Pong, RawBroker, Run, machines

from fieldfare.messages import BrokerIdentity, Closed, Dial, Opened, Send
from fieldfare.runtime.link_framing import Kind


def test_a_quiet_link_stays_open_while_the_other_end_answers(run: Run) -> None:
    async def story() -> None:
        one, other = Machine("one", options=QUICK), Machine("other", options=QUICK)
        async with machines(one, other):
            one.do(Dial("a", other.tcp.address))
            await one.node.until_kind(Opened)
            await asyncio.sleep(3 * QUICK.silence_seconds_max)
            assert (len(one.node.links), len(other.node.links)) == (1, 1)

    run(story())


def test_a_silent_link_is_probed_and_closed(run: Run) -> None:
    async def story() -> None:
        other = Machine("other", options=QUICK)
        async with machines(other):
            raw = await RawBroker.dial(other.tcp.address)
            await raw.greet()
            raw.send(Kind.PING)
            assert await raw.receive() == (Kind.PONG, b"")
            assert await raw.receive() == (Kind.PING, b"")
            raw.send(Kind.PONG)
            await other.node.until(Opened("c1", BrokerIdentity("raw")), Closed("c1"))
            assert {kind for kind, _ in await raw.until_closed()} == {Kind.PING}
            await raw.close()

    run(story())


def test_who_reads_slowly_is_not_silent(run: Run) -> None:
    """Its answer to a ping would come only when it has read all that was sent before."""

    async def story() -> None:
        other = Machine("other", options=QUICK)
        async with machines(other):
            raw = await RawBroker.dial(other.tcp.address, receive_buffer_bytes=64 * 1024)
            await raw.greet()
            await other.node.until_kind(Opened)
            for number in range(40):
                other.do(Send("c1", Ping(number, "x" * 100_000)))
                await asyncio.sleep(0)  # a round for each: it is a message of its own
            frames: list[Ping | Pong] = []
            while len(frames) < 40:
                kind, message = await raw.receive()
                if kind is Kind.FRAMES:
                    frames += CODEC.decode(message)
                    await asyncio.sleep(QUICK.silence_seconds_max / 8)
            assert [frame.number for frame in frames] == list(range(40))
            assert len(other.node.links) == 1
            await raw.close()

    run(story())


def test_a_process_that_slept_does_not_blame_the_others(run: Run) -> None:
    async def story() -> None:
        one, other = Machine("one", options=QUICK), Machine("other", options=QUICK)
        async with machines(one, other):
            one.do(Dial("a", other.tcp.address))
            await one.node.until_kind(Opened)
            await asyncio.sleep(QUICK.probe_seconds)
            time.sleep(2 * QUICK.silence_seconds_max)  # noqa: ASYNC251 - the process is stopped, as it were
            await asyncio.sleep(QUICK.silence_seconds_max)
            assert (len(one.node.links), len(other.node.links)) == (1, 1)

    run(story())
