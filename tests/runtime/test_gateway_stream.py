"""Server-sent events: positions as ids, resumed by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.runtime.serving import asking, attached, connecting, published, subscribed

from fieldfare.runtime.gateway.ports import GatewayOptions

Event = dict[str, Any]


@asynccontextmanager
async def streaming(client: httpx.AsyncClient, name: str, **options: Any) -> AsyncIterator[AsyncIterator[Event]]:
    async with client.stream("GET", f"/v1/subscriptions/{name}/stream", **options) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield events(response.aiter_lines())


async def events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """What an EventSource would see, and comments."""
    event: Event = {}
    async for line in lines:
        name, _, value = line.partition(":")
        if line:
            event[name or "comment"] = value.strip()
        elif event:
            yield event
            event = {}


async def take(stream: AsyncIterator[Event], count: int) -> list[Event]:
    taken: list[Event] = []
    async with asyncio.timeout(60):
        while len(taken) < count:
            event = await anext(stream)
            if "data" in event:
                taken.append({**event, "data": json.loads(event["data"])})
    return taken


def test_a_stream_goes_on_after_the_last_event_id() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "slow", "speed < 25")
            await published(client, {"speed": 1}, {"speed": 99}, {"speed": 2})
            async with streaming(client, "slow") as stream:
                first, second = await take(stream, 2)
                await published(client, {"speed": 3})
                (third,) = await take(stream, 1)
            assert [one["data"]["event"]["speed"] for one in (first, second, third)] == [1, 2, 3]
            assert all(int(one["id"]) == one["data"]["position"] for one in (first, second, third))
            async with streaming(client, "slow") as stream:  # nothing was acknowledged
                assert await take(stream, 3) == [first, second, third]
            async with streaming(client, "slow", headers={"Last-Event-ID": first["id"]}) as stream:
                assert await take(stream, 2) == [second, third]
            async with streaming(client, "slow", params={"after": second["id"]}) as stream:
                assert await take(stream, 1) == [third]

    asyncio.run(story())


def test_more_events_than_the_window_flow_without_acknowledgement() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "all")
            await published(client, *({"n": n} for n in range(2000)))
            async with streaming(client, "all") as stream:
                taken = await take(stream, 2000)
            assert [one["data"]["event"]["n"] for one in taken] == list(range(2000))

    asyncio.run(story())


def test_an_idle_stream_has_heartbeats() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(heartbeat_seconds=0.05)) as (client, _):
            await subscribed(client, "all")
            async with streaming(client, "all") as stream, asyncio.timeout(30):
                assert [await anext(stream) for _ in range(3)] == [{"retry": "1000"}, {"comment": ""}, {"comment": ""}]

    asyncio.run(story())


def test_the_last_to_come_is_served_and_the_other_is_told() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "all")
            async with streaming(client, "all") as first, streaming(client, "all") as second:
                (notice,) = await take(first, 1)
                assert (notice["event"], notice["data"]["kind"]) == ("notice", "detached")
                await published(client, {"n": 1})
                assert len(await take(second, 1)) == 1
                assert [event async for event in first] == []

    asyncio.run(story())


def test_an_acknowledgement_moves_the_cursor_of_an_open_stream() -> None:
    async def story() -> None:
        async with asking() as (client, served):
            await subscribed(client, "all")
            await published(client, {"n": 1}, {"n": 2})
            async with streaming(client, "all") as stream:
                first, _ = await take(stream, 2)
                ack = {"position": int(first["id"])}
                assert (await client.post("/v1/subscriptions/all/ack", json=ack)).status_code == 204
            async with streaming(client, "all") as stream:
                (again,) = await take(stream, 1)
                assert again["data"]["event"] == {"n": 2}
            async with connecting(served) as socket:
                await socket.send('{"type":"attach","ref":1,"subscription":"all"}')
                assert "subscribed" in str(await socket.recv())
                assert (await client.post("/v1/subscriptions/all/ack", json=ack)).status_code == 409

    asyncio.run(story())


def test_a_stream_ends_when_the_service_stops() -> None:
    async def story() -> None:
        async with asking() as (client, served):
            await subscribed(client, "all")
            async with streaming(client, "all") as stream:
                await anext(stream)
                await served.stop()
                (notice,) = await take(stream, 1)
                assert notice["data"]["detail"] == "the service stops"
                assert [event async for event in stream] == []

    asyncio.run(story())


def test_line_breaks_between_tokens_do_not_tear_an_event() -> None:
    async def story() -> None:
        async with asking() as (client, served):
            await subscribed(client, "all")
            pretty = b'{\r\n  "n":\r\n  1,\n  "text": "a\\nb"\n}'
            headers = {"Content-Type": "application/json; charset=UTF-8"}
            await client.post("/v1/topics/traffic/events", content=pretty, headers=headers)
            async with connecting(served) as socket:
                await socket.send('{"type":"publish","ref":1,"topic":"traffic","events":[{"n":\r1,"text":"a\\nb"}]}')
                await socket.recv()
            async with streaming(client, "all") as stream:
                taken = await take(stream, 2)
            assert [one["data"]["event"] for one in taken] == [{"n": 1, "text": "a\nb"}] * 2
            async with connecting(served) as socket:
                await socket.send('{"type":"attach","ref":1,"subscription":"all"}')
                lines = str(await socket.recv()).split("\n")
                while len(lines) < 2:
                    lines += str(await socket.recv()).split("\n")
                assert [json.loads(line)["type"] for line in lines] == ["subscribed", "deliver"]

    asyncio.run(story())


def test_a_stream_that_nobody_reads_is_given_up_and_nothing_is_lost() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(stall_seconds=0.2)) as (client, served):
            await subscribed(client, "all")
            _, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1024)
            writer.write(b"GET /v1/subscriptions/all/stream HTTP/1.1\r\nHost: localhost\r\n")
            writer.write(b"Authorization: Bearer all\r\n\r\n")
            count = 0
            async with asyncio.timeout(60):
                while not attached(served, "all"):  # noqa: ASYNC110 - it is not told
                    await asyncio.sleep(0.01)
                while attached(served, "all"):
                    await published(client, {"n": count, "text": "x" * 200_000})
                    count += 1
            writer.close()
            async with streaming(client, "all") as stream:
                taken = await take(stream, count)
            assert [one["data"]["event"]["n"] for one in taken] == list(range(count))

    asyncio.run(story())
