"""What the gateway bounds: bodies, heads, time, connections, and where requests may come from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.runtime.serving import asking, connecting, serving, subscribed

from fieldfare.runtime.gateway.guard import is_local_name
from fieldfare.runtime.gateway.ports import GatewayOptions
from fieldfare.runtime.gateway.sockets import ConnectionLimits

EVENTS = "/v1/topics/traffic/events"
PAGE = "https://app.example"


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * 1000


async def is_cut_off(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 60) == b""
    except ConnectionError:
        return True


def test_a_body_is_bounded_however_it_comes() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(body_bytes_max=10_000)) as (client, _):
            for content in (b" " * 10_001, pieces(11)):
                response = await client.post(EVENTS, content=content)
                assert (response.status_code, response.json()["code"]) == (413, "too_large")
            assert (await client.post(EVENTS, content=b" " * 9_998 + b"{}")).status_code == 200

    asyncio.run(story())


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def story() -> None:
        async with serving(GatewayOptions(read_seconds=0.2)) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"POST /v1/topics/t/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer all\r\n")
            writer.write(b"Content-Length: 1000\r\n\r\n{")
            response = await asyncio.wait_for(reader.read(), 60)  # to the end: the connection is closed
            assert response.split()[1] == b"408"
            writer.close()

    asyncio.run(story())


def test_nothing_is_read_from_who_is_not_known() -> None:
    async def story() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"POST /v1/topics/t/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
            assert (await asyncio.wait_for(reader.readline(), 60)).split()[1] == b"401"
            writer.close()

    asyncio.run(story())


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
def test_a_compressed_body_is_not_read(encoding: str) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            response = await client.post(EVENTS, content=b"{}", headers={"Content-Encoding": encoding})
            assert (response.status_code, response.json()["code"]) == (415, "media_type")

    asyncio.run(story())


def test_a_head_that_is_too_long() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(head_bytes_max=8_000)) as (client, _):
            for response in (
                await client.get("/healthz", headers={"X-Long": "x" * 8_000}),
                await client.get("/healthz", params={"x": "x" * 8_000}),
            ):
                assert (response.status_code, response.json()["code"]) == (431, "too_large")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        (ConnectionLimits(head_seconds=0.2), b""),
        (ConnectionLimits(head_seconds=0.2), b"GET /healthz HTTP/1.1\r\nHost: loc"),
        (ConnectionLimits(head_bytes_max=1000), b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 2000),
        (ConnectionLimits(head_bytes_max=1000), b"GET /" + b"x" * 2000),
    ],
)
def test_a_stranger_gets_little_time_and_little_memory(limits: ConnectionLimits, sent: bytes) -> None:
    async def story() -> None:
        async with serving(limits=limits) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(sent)
            assert await is_cut_off(reader)
            writer.close()
            assert limits.waiting == {}

    asyncio.run(story())


def test_the_stranger_who_waits_longest_makes_room() -> None:
    async def story() -> None:
        limits = ConnectionLimits(count_max=2)
        async with asking(limits=limits) as (client, served):
            connections = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(2)]
            while len(limits.waiting) < 2:  # noqa: ASYNC110 - nobody tells when a connection is made
                await asyncio.sleep(0.01)
            assert (await client.get("/healthz")).status_code == 200
            (first, _), (second, writer) = connections
            assert await is_cut_off(first)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in await asyncio.wait_for(second.readline(), 60)
            assert limits.waiting == {}
            for _, each in connections:
                each.close()

    asyncio.run(story())


def test_the_number_of_connections_is_bounded() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(connections_max=2)) as (client, served):
            await subscribed(client, "all")
            async with connecting(served), client.stream("GET", "/v1/subscriptions/all/stream") as stream:
                assert stream.status_code == 200
                refused = await client.get("/v1/topics")
                assert (refused.status_code, refused.json()["code"]) == (503, "busy")
                assert int(refused.headers["Retry-After"]) > 0
            async with asyncio.timeout(60):
                while (await client.get("/v1/topics")).status_code == 503:
                    pass

    asyncio.run(story())


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_page_of_another_origin_may_do_nothing(method: str) -> None:
    async def story() -> None:
        async with asking(GatewayOptions(origins=frozenset({PAGE}))) as (client, _):
            headers = {"Access-Control-Request-Method": "POST"}
            for origin in ("https://evil.example", "null", PAGE + ".evil.example", "http://app.example"):
                response = await client.request(method, "/v1/topics", headers={**headers, "Origin": origin})
                assert (response.status_code, response.json()["code"]) == (403, "origin")
                assert "Access-Control-Allow-Origin" not in response.headers

    asyncio.run(story())


def test_a_page_on_the_list_may_ask() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(origins=frozenset({PAGE}))) as (client, _):
            preflight = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
            allowed = await client.options("/v1/subscriptions", headers={**preflight, "Authorization": ""})
            assert allowed.status_code == 204
            assert "Authorization" in allowed.headers["Access-Control-Allow-Headers"]
            for response in (allowed, await client.get("/v1/topics", headers={"Origin": PAGE})):
                assert response.is_success
                assert response.headers["Access-Control-Allow-Origin"] == PAGE
                assert response.headers["Vary"] == "Origin"

    asyncio.run(story())


def test_in_development_mode_a_foreign_name_does_not_lead_here() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(is_development=True)) as (client, _):
            assert (await client.get("/healthz")).status_code == 200
            for host in ("rebound.example", "127.0.0.1.example", "10.0.0.1", "localhost.example:80", ""):
                response = await client.get("/healthz", headers={"Host": host})
                assert (response.status_code, response.json()["code"]) == (421, "host")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True),
        ("LOCALHOST:7380", True),
        ("127.0.0.1:7380", True),
        ("127.1.2.3", True),
        ("[::1]:7380", True),
        ("[::1]", True),
        ("[::2]", False),
        ("0.0.0.0:7380", False),
        ("localhost@evil.example", False),
        ("2130706433", False),
    ],
)
def test_names_of_this_machine(host: str, is_local: bool) -> None:
    assert is_local_name(host) == is_local
