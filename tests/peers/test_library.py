"""`fieldfare.peer`: peers of one program, on real sockets on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fieldfare
from fieldfare.dmm.options import DmmOptions
from fieldfare.errors import (
    ConditionError,
    ConfigError,
    IncompatibleQosError,
    NotConnectedError,
    PortTakenError,
    RefusedError,
    UnauthenticatedError,
)
from fieldfare.matching import oracle
from fieldfare.messages import Notice
from fieldfare.pastry.options import PastryOptions
from fieldfare.qos import Offered, Published, Requested
from fieldfare.runtime.embedded import Embedded
from fieldfare.runtime.peers.options import PeerOptions
from fieldfare.runtime.peers.peer import Peer

PATIENCE_SECONDS = 60.0  # for a machine on which much else runs
FAST = PeerOptions(
    join_seconds=PATIENCE_SECONDS,
    settle_seconds=PATIENCE_SECONDS,
    pastry=PastryOptions(heartbeat_seconds=0.3, join_seconds=0.5, attempts_max=4, timeout_seconds_max=0.5),
    dmm=DmmOptions(refresh_seconds=2.0, entry_seconds=6.0, recheck_seconds=0.3),
)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            await story()

    asyncio.run(bounded())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - what is looked at has no event
            await asyncio.sleep(0.02)


@asynccontextmanager
async def ring(count: int, options: PeerOptions = FAST) -> AsyncIterator[list[Peer]]:
    async with AsyncExitStack() as stack:
        peers: list[Peer] = []
        for number in range(count):
            joined = peers[0].address if peers else None
            peers.append(await stack.enter_async_context(fieldfare.peer(joined, name=f"p{number}", options=options)))
        yield peers


async def crash(peer: Peer) -> None:
    """It is gone without a word: no goodbye, and what it published and others have not is lost."""
    peer._is_open = False
    await peer._udp.stop()
    await peer._host.stop()
    if peer._folder is not None:
        peer._folder.close()


CONDITIONS = ("speed < 25", "speed BETWEEN 20 AND 60 AND road = 'A10'", "road LIKE 'B%' OR speed > 90", "TRUE")


def test_every_event_comes_once_to_all_who_want_it() -> None:
    async def story() -> None:
        async with ring(5) as peers:
            came: Counter[tuple[str, int]] = Counter()
            for peer, condition in zip(peers, CONDITIONS, strict=False):

                def note(event: Any, condition: str = condition) -> None:
                    came[condition, event.attributes["number"]] += 1

                await peer.subscribe("traffic", condition, note)
            events = [{"number": n, "road": ("A10", "B7")[n % 2], "speed": 7 * n % 120} for n in range(40)]
            for n, event in enumerate(events):
                outcome = await peers[n % 5].publish("traffic", event)
                assert outcome.is_complete
                assert outcome.is_settled
            wanted = Counter(
                (condition, event["number"])
                for condition in CONDITIONS
                for event in events
                if oracle.holds(condition, event)
            )
            await until(lambda: came.total() >= wanted.total())
            assert came == wanted

    run(story)


def test_iterating_types_and_coroutines() -> None:
    @dataclass
    class Speed:
        road: str
        speed: float

    async def story() -> None:
        async with ring(2) as (one, other):
            called: list[str] = []

            async def take(event: Any) -> None:
                await asyncio.sleep(0)
                called.append(event.attributes.road)
                if event.attributes.road == "A1":
                    raise ValueError("a program's own fault")

            await other.subscribe("traffic", "speed < 25", take, type=Speed)
            async with other.subscribe("traffic", "speed < 25", type=Speed) as slow:
                await one.publish("traffic", [{"road": "A1", "speed": 2}, Speed("A2", 20.0)])
                got = [await anext(slow), await anext(slow)]
                assert {(event.attributes.road, event.publisher) for event in got} == {("A1", "p0"), ("A2", "p0")}
                assert len({event.id for event in got}) == 2
            await until(lambda: sorted(called) == ["A1", "A2"])  # one call failed, and both were made
            assert [event async for event in slow] == []  # it has ended

    run(story)


def test_a_subscription_that_ended_gets_nothing() -> None:
    async def story() -> None:
        async with ring(3) as (one, two, three):
            got: list[int] = []
            ended = await two.subscribe("t", "a > 0", lambda event: got.append(event.attributes["a"]))
            kept = await three.subscribe("t", "a > 0")
            await one.publish("t", {"a": 1})
            await until(lambda: got == [1])
            await two.unsubscribe(ended)
            await one.publish("t", {"a": 2})
            assert [(await anext(kept)).attributes["a"] for _ in range(2)] == [1, 2]
            assert got == [1]

    run(story)


def test_who_leaves_and_who_crashes() -> None:
    """One leaves and one crashes: the others get everything, and the publisher is told who did not take an event."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            options = replace(FAST, settle_seconds=0.5)
            peers = await stack.enter_async_context(ring(4, options))
            leaving = fieldfare.peer(peers[0].address, name="leaving", options=options)
            crashing = fieldfare.peer(peers[0].address, name="crashing", options=options)
            await leaving.__aenter__()
            await crashing.__aenter__()
            got: list[int] = []
            await peers[1].subscribe("t", "a > 0", lambda event: got.append(event.attributes["a"]))
            await leaving.subscribe("t", "a > 0")
            await crashing.subscribe("t", "a > 0")
            assert (await peers[0].publish("t", {"a": 1}, qos=Published(lifespan_seconds=30))).taken == 3
            await leaving.leave()
            await crash(crashing)
            final = await peers[0].publish_soon("t", {"a": 2}, qos=Published(lifespan_seconds=4))
            outcome = await peers[0].publish("t", {"a": 3}, qos=Published(lifespan_seconds=30))
            assert not outcome.is_settled
            assert not outcome.is_complete
            assert outcome.outstanding == ("crashing",)
            assert "crashing" in peers[0].outstanding
            assert (await final).missed == ("crashing",)
            await until(lambda: sorted(got) == [1, 2, 3])
            await until(lambda: all(len(peer.status().neighbours) == 3 for peer in peers))
            with pytest.raises(NotConnectedError, match="async with"):
                await leaving.publish("t", {"a": 4})

    run(story)


def test_best_effort_topics() -> None:
    async def story() -> None:
        async with ring(3, replace(FAST, best_effort=("positions",))) as (one, two, three):
            qos = Requested(reliability="best_effort", order="none")
            got = [await peer.subscribe("positions", "x > 0", qos=qos) for peer in (two, three)]
            await one.publish("positions", {"x": 1})
            assert [(await anext(each)).attributes for each in got] == [{"x": 1}, {"x": 1}]
            with pytest.raises(IncompatibleQosError, match="best_effort"):
                one.subscribe("positions", "x > 0")
            with pytest.raises(IncompatibleQosError, match="keeps only 'best_effort'"):
                await one.publish("positions", {"x": 1}, qos=Published(reliability="reliable"))

    run(story)


def test_a_slow_program_is_told_what_it_lost() -> None:
    async def story() -> None:
        async with ring(2, replace(FAST, waiting_max=3)) as (one, other):
            notices: list[Notice] = []
            slow = await other.subscribe("t", "TRUE", on_notice=notices.append)
            last = await other.subscribe("t", "TRUE", qos=Requested(order="none", keep_last=1))
            for a in range(5):
                await one.publish("t", {"a": a})
            assert [(await anext(slow)).attributes["a"] for _ in range(3)] == [2, 3, 4]
            assert (await anext(last)).attributes["a"] == 4
            assert [notice.kind for notice in notices] == ["gap", "gap"]
            assert not last.notices

    run(story)


@pytest.mark.parametrize(
    "qos",
    [
        Requested(),
        Requested(order="none", durability="transient"),
        Requested(order="none", deadline_seconds=1.0),
        Requested(order="none", latency_budget_seconds=1.0),
    ],
)
def test_words_that_peers_cannot_keep_are_refused(qos: Requested) -> None:
    async def story() -> None:
        async with ring(1) as (peer,):
            with pytest.raises(IncompatibleQosError, match=r"peers|between"):
                peer.subscribe("t", "TRUE", qos=qos)

    run(story)


def test_bad_input_is_refused_and_nothing_of_it_happens() -> None:
    async def story() -> None:
        async with ring(1) as (peer,):
            all_events = await peer.subscribe("t", "TRUE")
            with pytest.raises(RefusedError) as refused:
                peer.subscribe("t", "speed < < 3")
            assert (refused.value.code, type(refused.value.__cause__).__mro__[1]) == ("condition", ConditionError)
            with pytest.raises(RefusedError, match="at most 16,384"):
                peer.subscribe("t", "a = 1 OR " * 2000 + "a = 1")
            for topic in ("", "no spaces", "x" * 200):
                with pytest.raises(RefusedError, match="a name has"):
                    peer.subscribe(topic, "TRUE")
                with pytest.raises(RefusedError, match="a name has"):
                    await peer.publish(topic, {"a": 1})
            bad: list[Any] = [b"{", b"[1]", b'{"a": 1, "a": 2}', b'{"a": 1e999}', object(), {"a": "x" * 300_000}, []]
            for event in bad:
                with pytest.raises(RefusedError):
                    await peer.publish("t", [{"a": 1}, event] if event else event)
            for published in (Published(durability="transient"), Published(lifespan_seconds=1e6)):
                with pytest.raises(IncompatibleQosError):
                    await peer.publish("t", {"a": 1}, qos=published)
            with pytest.raises(TypeError, match="callback"):
                aiter(await peer.subscribe("t", "TRUE", print))
            await peer.publish("t", {"a": "the only one"})
            assert (await anext(all_events)).attributes == {"a": "the only one"}

    run(story)


def test_nobody_can_guess_by_which_number_a_request_is_answered() -> None:
    async def story() -> None:
        async with ring(2) as peers:
            drawn = [next(peer._dmm.requests._numbers) for peer in peers for _ in range(100)]
            assert len(set(drawn)) == 200
            assert sum(number > 2**50 for number in drawn) > 190

    run(story)


_REFUSED_EVERYWHERE: list[Callable[[Any], Any]] = [
    lambda at: at.subscribe("t", "speed < < 3"),
    lambda at: at.subscribe("t", "frobnicate(a) = 3"),
    lambda at: at.subscribe("t", "a = 1 OR " * 2_000 + "a = 1"),
    lambda at: at.subscribe("no spaces", "TRUE"),
    lambda at: at.subscribe("t", "TRUE", name="no spaces"),
    lambda at: at.publish("no spaces", {"a": 1}),
    *(
        partial(lambda event, at: at.publish("t", event), event)
        for event in (b"{", b"[1]", b'{"a": 1, "a": 2}', b'{"a": 1e999}', object(), {"a": "x" * 300_000}, [])
    ),
    lambda at: at.publish("t", [{"a": 1}] * 10_001),
    lambda at: at.publish("t", [{"a": 1}, {"a": {"low": 5, "high": 1}}]),
    lambda at: at.publish("t", {"a": 2**70}),
    lambda at: at.publish("loose", {"a": 1}, qos=Published(lifespan_seconds=200_000)),
    lambda at: at.subscribe("loose", "TRUE", qos=Requested(order="none")),
]


async def refusal(call: Callable[[Any], Any], at: Any) -> tuple[type[RefusedError], str]:
    with pytest.raises(RefusedError) as refused:
        await call(at)
    return type(refused.value), refused.value.code


def test_a_peer_refuses_what_a_broker_refuses_with_the_same_errors(tmp_path: Path) -> None:
    async def story() -> None:
        options = replace(FAST, best_effort=("loose",))
        async with Embedded(tmp_path / "edge") as edge, fieldfare.peer(folder=tmp_path / "p", options=options) as peer:
            await edge.declare_topic("loose", Offered(reliability="best_effort", lifespan_seconds=86_400))
            for number, call in enumerate(_REFUSED_EVERYWHERE):
                assert await refusal(call, peer) == await refusal(call, edge), number

    run(story)


def test_who_is_not_let_in_is_told_why() -> None:
    async def story() -> None:
        hasty = replace(FAST, join_seconds=2.0)
        secret = "a secret of many bytes"  # noqa: S105 - of a test
        async with fieldfare.peer(secret=secret, name="first", options=FAST) as first:
            with pytest.raises(UnauthenticatedError, match="another secret") as wrong:
                await fieldfare.peer(first.address, secret=secret[::-1], options=hasty).__aenter__()
            assert secret[::-1] not in str(wrong.value)
            async with fieldfare.peer(first.address, secret=secret, options=FAST) as second:
                assert second.status().neighbours[0].name == "first"
            taken = first.address
            with pytest.raises(PortTakenError, match="in use"):
                await fieldfare.peer(listen=taken).__aenter__()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(NotConnectedError, match="nobody let this peer in"):
                await fieldfare.peer(address, options=hasty).__aenter__()

    run(story)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"listen": "nowhere"}, "host:port"),
        ({"listen": "0.0.0.0:0", "secret": "a secret of many bytes"}, "advertise"),
        ({"join": "127.0.0.1:0"}, "no port"),
        ({"join": "no-such-host.invalid:1"}, "not known"),
        ({"join": "192.0.2.1:7400"}, "need a secret"),
        ({"secret": "short"}, "16 are the least"),
        ({"name": "no@name"}, "a name has"),
        ({"options": PeerOptions(best_effort=("a b",))}, "a name has"),
        ({"options": PeerOptions(advertise="0.0.0.0:7"), "secret": "a secret of many bytes"}, "nobody can send"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, Any], reason: str) -> None:
    async def story() -> None:
        with pytest.raises(ConfigError, match=reason):
            await fieldfare.peer(**arguments).__aenter__()

    run(story)


def test_who_listens_everywhere_is_reached_where_the_way_to_a_member_begins() -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            (first,) = await stack.enter_async_context(ring(1))
            second = await stack.enter_async_context(fieldfare.peer(first.address, listen="0.0.0.0:0", options=FAST))
            assert second.address.startswith("127.0.0.1:")
            got = await second.subscribe("t", "TRUE")
            await first.publish("t", {"a": 1})
            assert (await anext(got)).attributes == {"a": 1}

    run(story)


def test_the_first_peer_comes_back_and_finds_the_others() -> None:
    """It joins nobody, so it begins a ring of its own: the others remember it, and the rings become one."""

    async def story() -> None:
        options = replace(FAST, pastry=replace(FAST.pastry, healing_seconds=0.5))
        first = fieldfare.peer(name="first", options=options)
        await first.__aenter__()
        address = first.address
        async with AsyncExitStack() as stack:
            others = [
                await stack.enter_async_context(fieldfare.peer(address, name=f"other{n}", options=options))
                for n in range(2)
            ]
            await crash(first)
            await until(lambda: all(len(each.status().neighbours) == 1 for each in others))
            again = await stack.enter_async_context(fieldfare.peer(listen=address, name="first", options=options))
            await until(lambda: all(len(each.status().neighbours) == 2 for each in (again, *others)))

    run(story)


def test_a_durable_subscription_keeps_what_its_program_is_not_done_with(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            (first,) = await stack.enter_async_context(ring(1))

            async def mine() -> Peer:
                peer = fieldfare.peer(first.address, folder=tmp_path / "mine", options=FAST)
                return await peer.__aenter__()

            peer = await mine()
            name = peer.name
            with pytest.raises(RefusedError, match="needs a peer that has a folder"):
                first.subscribe("t", "a > 0", name="all")
            events = await peer.subscribe("t", "a > 0", name="all")
            published = [await first.publish_soon("t", {"a": a}) for a in (1, 2, 3, 4)]
            seen = {(await anext(events)).attributes["a"] for _ in range(2)}
            again = await peer.subscribe("t", "a > 0", name="all")  # by the same program: what was not taken goes there
            assert [event async for event in events] == []
            await crash(peer)
            with pytest.raises(ConfigError, match="is the folder of peer"):
                await fieldfare.peer(folder=tmp_path / "mine", name="another", options=FAST).__aenter__()
            peer = await mine()
            assert peer.name == name
            again = await peer.subscribe("t", "a > 0", name="all")
            rest = [await anext(again) for _ in range(3)]
            again.acknowledge(rest[-1])
            came = [event.attributes["a"] for event in rest]
            assert len(set(came)) == 3
            assert seen | set(came) == {1, 2, 3, 4}  # the second was not done with, and came again
            assert all(outcome.is_complete for outcome in await asyncio.gather(*published))
            await peer.leave()
            await first.publish("t", {"a": 5}, until="accepted")
            peer = await mine()
            called: list[int] = []
            await peer.subscribe("t", "a > 0", lambda event: called.append(event.attributes["a"]), name="all")
            await until(lambda: called == [5])
            await peer.leave()

    run(story)


def test_what_was_published_survives_its_peer(tmp_path: Path) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            first, second = await stack.enter_async_context(ring(2))
            wanted = await first.subscribe("t", "a > 0")
            other = fieldfare.peer(second.address, folder=tmp_path, options=FAST)
            await other.__aenter__()
            assert not (await first.publish("t", {"a": -1}, until="accepted")).is_stored
            assert (await other.publish("t", {"a": 1}, until="accepted")).is_stored
            await crash(other)
            other = await stack.enter_async_context(fieldfare.peer(second.address, folder=tmp_path, options=FAST))
            await other.publish("t", {"a": 2})
            assert {(await anext(wanted)).attributes["a"] for _ in range(2)} == {1, 2}

    run(story)
