"""The client for asyncio with several edges: real sockets, services that misbehave on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.client.fake import QUICK, TOKEN, FakeService, faking, refusing

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.client.websocket import may_follow
from fieldfare.errors import MovedError, RefusedError, UnauthenticatedError, UnknownOutcomeError
from fieldfare.messages import Attach, Notice, Publish, Subscribe, Unsubscribe

HASTY = replace(QUICK, patience_seconds=0.0, doubt_seconds=0.05)


@asynccontextmanager
async def edges(count: int = 2) -> AsyncIterator[list[FakeService]]:
    """Services with logs of their own."""
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        services = [await stack.enter_async_context(faking()) for _ in range(count)]
        for number, service in enumerate(services):
            service.edge.log_id = f"log{number}"
        yield services


def used_and_other(services: list[FakeService]) -> tuple[FakeService, FakeService]:
    """The one that has a connection, and the other one."""
    used = next(service for service in services if service.sockets)
    return used, next(service for service in services if service is not used)


def goes_away(service: FakeService) -> None:
    service.status = 503
    service.drop()


async def disconnected(client: Client) -> None:
    """What is published from now on was not sent to the edge that went away."""
    while client.is_connected:  # noqa: ASYNC110 - a client tells nobody
        await asyncio.sleep(0.001)


def test_it_goes_on_at_another_edge_when_its_own_is_gone() -> None:
    async def main() -> None:
        notices: list[Notice] = []
        async with edges() as services:
            urls = [service.url for service in services]
            async with fieldfare.connect(urls, token=TOKEN, options=HASTY) as client:
                subscription = await client.subscribe("t", "TRUE", on_notice=notices.append)
                used, other = used_and_other(services)
                assert subscription.log == used.edge.log_id
                await client.publish("t", {"n": 1})
                first = await anext(subscription)
                goes_away(used)
                await disconnected(client)
                await client.publish("t", {"n": 2})
                second = await anext(subscription)
                assert (first.attributes, second.attributes) == ({"n": 1}, {"n": 2})
                assert (first.log, second.log) == (used.edge.log_id, other.edge.log_id)
                assert [len(service.edge.log) for service in (used, other)] == [1, 1]
                again = other.frames(Subscribe)[0]
                assert (again.log, again.after) == (used.edge.log_id, -1)
                assert {frame.publisher for frame in other.frames(Publish)} == {
                    f"{used.frames(Publish)[0].publisher}.1"
                }

    asyncio.run(main())


def test_one_address_may_hold_several() -> None:
    async def main() -> None:
        async with edges() as services:
            goes_away(services[0])
            address = ", ".join(service.url for service in services)
            async with fieldfare.connect(address, options=HASTY) as client:
                await client.publish("t", {"n": 1})
            assert len(services[1].edge.log) == 1

    asyncio.run(main())


def test_clients_spread() -> None:
    async def main() -> None:
        async with edges() as services, AsyncExitStack() as stack:
            urls = [service.url for service in services]
            for _ in range(40):
                await stack.enter_async_context(fieldfare.connect(urls, options=HASTY))
            assert all(len(service.sockets) > 5 for service in services)

    asyncio.run(main())


def test_a_publication_without_an_answer_ends_as_unknown_if_its_edge_does_not_come_back() -> None:
    async def main() -> None:
        async with edges() as services:
            urls = [service.url for service in services]
            async with fieldfare.connect(urls, options=HASTY) as client:
                used, other = used_and_other(services)
                used.is_silent = True
                doubtful = await client.publish_soon("t", {"n": 1})
                await used.until(lambda: bool(used.frames(Publish)))
                goes_away(used)
                with pytest.raises(UnknownOutcomeError, match="publish them again with ids"):
                    await doubtful
                await client.publish("t", {"n": 2})
                assert [event for _, event in other.edge.log] == [b'{"n":2}']

    asyncio.run(main())


def test_a_publication_without_an_answer_waits_for_its_edge() -> None:
    async def main() -> None:
        patient = replace(QUICK, patience_seconds=0.0, doubt_seconds=100.0)
        async with edges() as services:
            urls = [service.url for service in services]
            async with fieldfare.connect(urls, options=patient) as client:
                used, other = used_and_other(services)
                used.is_silent = True
                doubtful = await client.publish_soon("t", {"n": 1})
                await used.until(lambda: bool(used.frames(Publish)))
                handshakes = len(used.handshakes)
                goes_away(used)
                while len(used.handshakes) < handshakes + 5:  # noqa: ASYNC110 - a handshake tells nobody
                    await asyncio.sleep(0.01)
                used.status, used.is_silent = None, False
                await doubtful
                assert len(used.edge.log) == 1
                assert other.handshakes == []

    asyncio.run(main())


def test_a_full_edge_sends_the_client_on() -> None:
    async def main() -> None:
        async with edges() as (full, other):
            full.status, full.problem = 503, {"code": "full", "detail": "no room", "edges": [other.url]}
            async with fieldfare.connect(full.url, token=TOKEN, options=QUICK) as client:
                await client.publish("t", {"n": 1})
            assert len(other.edge.log) == 1
            assert other.handshakes[0].headers["Authorization"] == f"Bearer {TOKEN}"
            assert len(full.handshakes) == 1

    asyncio.run(main())


def test_edges_that_an_edge_names_are_used_by_who_knows_several() -> None:
    async def main() -> None:
        async with edges(3) as services:
            for service in services[:2]:
                service.headers["Fieldfare-Edges"] = f"{services[2].url}, nonsense, ftp://elsewhere"
            async with fieldfare.connect([service.url for service in services[:2]], options=HASTY) as client:
                for service in services[:2]:
                    goes_away(service)
                await disconnected(client)
                await client.publish("t", {"n": 1})
            assert len(services[2].edge.log) == 1

    asyncio.run(main())


def test_an_edge_that_denies_the_token_is_left_out() -> None:
    async def main() -> None:
        async with edges() as services:
            services[0].status = 401
            urls = [service.url for service in services]
            for _ in range(10):
                async with fieldfare.connect(urls, options=HASTY) as client:
                    await client.publish("t", {"n": 1})
            assert len(services[1].edge.log) == 10
            services[1].status = 401
            with pytest.raises(UnauthenticatedError):
                async with fieldfare.connect(urls, options=HASTY):
                    pass

    asyncio.run(main())


# The homes of durable subscriptions


def moved_to(home: FakeService, kind: type[Any]) -> Any:
    return refusing(kind, code="moved", reason="it is elsewhere", home=home.url)


@asynccontextmanager
async def with_home() -> AsyncIterator[tuple[Client, FakeService, FakeService]]:
    """A client of one edge, and the home of its durable subscriptions."""
    async with edges() as (used, home):
        used.answer = moved_to(home, Subscribe)
        async with fieldfare.connect(used.url, token=TOKEN, options=QUICK) as client:
            yield client, used, home


def test_a_durable_subscription_is_received_from_its_home() -> None:
    async def main() -> None:
        async with with_home() as (client, used, home):
            subscription = await client.subscribe("t", "TRUE", name="mine")
            assert subscription.log == home.edge.log_id
            await home.publish("t", b'{"n":1}', b'{"n":2}')
            assert [(await anext(subscription)).attributes["n"] for _ in range(2)] == [1, 2]
            await client.publish("t", {"n": 3})  # all else stays where it was
            assert len(used.edge.log) == 1
            home.drop()
            await home.publish("t", b'{"n":4}')
            assert (await anext(subscription)).attributes["n"] == 4
            await subscription.unsubscribe()
            assert home.edge.cursors == {}

    asyncio.run(main())


def test_several_share_one_connection_to_their_home() -> None:
    async def main() -> None:
        async with with_home() as (client, used, home):
            used.answer = lambda frame: moved_to(home, Subscribe)(frame) or moved_to(home, Attach)(frame)
            for name in ("one", "two"):
                await client.subscribe("t", "TRUE", name=name)
            await client.attach("one", topic="t")
            assert len(home.handshakes) == 1
            assert used.frames(Attach)[0].topic == "t"

    asyncio.run(main())


def test_the_end_of_what_another_edge_has_is_asked_for_there() -> None:
    async def main() -> None:
        async with with_home() as (client, used, home):
            await client.subscribe("t", "TRUE", name="mine")
            used.answer = lambda frame: moved_to(home, Unsubscribe)(frame) or moved_to(home, Subscribe)(frame)
            await client.unsubscribe("mine", topic="t")
            assert home.edge.cursors == {}
            assert (used.frames(Unsubscribe)[0].topic, used.frames(Unsubscribe)[0].log) == ("t", "")
            async with client.subscribe("t", "TRUE", name="other"):
                assert set(home.edge.cursors) == {"other"}
            await client.subscribe("t", "TRUE", name="other").unsubscribe()  # before its home is known again
            assert home.edge.cursors == {}

    asyncio.run(main())


def test_it_is_followed_once() -> None:
    async def main() -> None:
        async with with_home() as (client, used, home):
            home.answer = moved_to(used, Subscribe)
            with pytest.raises(MovedError, match="elsewhere") as caught:
                await client.subscribe("t", "TRUE", name="mine")
            assert caught.value.home == used.url

    asyncio.run(main())


def test_a_home_without_a_url_cannot_be_followed() -> None:
    async def main() -> None:
        async with with_home() as (client, used, _):
            used.answer = refusing(Subscribe, code="moved", reason="it is elsewhere")
            with pytest.raises(MovedError):
                await client.subscribe("t", "TRUE", name="mine")

    asyncio.run(main())


def test_the_last_acknowledgement_reaches_the_home() -> None:
    async def main() -> None:
        async with edges() as (used, home):
            used.answer = moved_to(home, Subscribe)
            async with fieldfare.connect(used.url, options=QUICK) as client:
                subscription = await client.subscribe("t", "TRUE", name="mine")
                await home.publish("t", b'{"n":1}')
                subscription.acknowledge(await anext(subscription))
            await home.until(lambda: home.edge.cursors["mine"].acked == 0)

    asyncio.run(main())


def test_a_token_does_not_go_where_nobody_proves_who_it_is() -> None:
    assert may_follow(["http://a:1"], "http://b:1")
    assert may_follow(["http://a:1"], "https://b:1")
    assert may_follow(["https://a:1"], "https://b:1")
    assert not may_follow(["https://a:1"], "http://b:1")
    assert not may_follow(["https://a:1", "https://c:1"], "http://b:1")
    assert not may_follow(["http://a:1"], "nonsense")


@pytest.mark.parametrize("address", [[], "", "http://a:1,", ["http://a:1", "nonsense"]])
def test_every_address_is_looked_at(address: Any) -> None:
    with pytest.raises(RefusedError):
        fieldfare.connect(address)
