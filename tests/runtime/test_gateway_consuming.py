"""Consuming over HTTP: shared streams and polls, refusals, dead letters, seek and pause."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from tests.runtime.serving import asking, published, subscribed
from tests.runtime.test_gateway_stream import streaming, take

SHARED = {"consuming": {"is_shared": True, "take_seconds": 0.5, "attempts_max": 3}}


async def shared(client: httpx.AsyncClient, name: str = "jobs", **consuming: Any) -> None:
    body: dict[str, Any] = {"topic": "traffic", "condition": "TRUE", "name": name}
    body |= {"consuming": {**SHARED["consuming"], **consuming}}
    assert (await client.post("/v1/subscriptions", json=body)).status_code == 201


async def said(client: httpx.AsyncClient, what: str, body: Any = None, name: str = "jobs", status: int = 204) -> Any:
    response = await client.post(f"/v1/subscriptions/{name}/{what}", json=body)
    assert response.status_code == status, response.text
    return response.json() if response.content else None


async def polled(client: httpx.AsyncClient, name: str = "jobs", **query: Any) -> list[dict[str, Any]]:
    response = await client.get(f"/v1/subscriptions/{name}/events", params=query)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["events"]
    return found


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["event"]["n"] for event in events]


def test_two_readers_of_a_shared_subscription_get_each_event_once() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await shared(client, take_seconds=60)
            async with streaming(client, "jobs") as one, streaming(client, "jobs") as two:
                await published(client, *({"n": n} for n in range(10)))
                first, second = await asyncio.gather(take(one, 5), take(two, 5))
                got = sorted(each["data"]["event"]["n"] for each in (*first, *second))
                assert got == list(range(10))
                await said(client, "ack", {"positions": [each["data"]["position"] for each in (*first, *second)]})
                await said(client, "ack", {"position": 3}, status=409)
            (item,) = (await client.get("/v1/subscriptions")).json()["items"]
            assert item["outstanding"] == 0

    asyncio.run(story())


def test_a_reader_that_was_taken_over_from_is_told_not_to_come_again() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "mine")
            async with streaming(client, "mine") as one, streaming(client, "mine") as two:
                (notice,) = await take(one, 1)
                assert notice["data"]["kind"] == "detached"
                again = await client.get("/v1/subscriptions/mine/stream", headers={"Last-Event-ID": notice["id"]})
                assert again.status_code == 204
                await published(client, {"n": 1})
                assert (await take(two, 1))[0]["data"]["event"] == {"n": 1}

    asyncio.run(story())


def test_who_polls_a_shared_subscription_has_its_time_for_what_it_got() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await shared(client)
            await published(client, {"n": 1}, {"n": 2})
            (first,) = await polled(client, limit=1)
            (second,) = await polled(client, limit=5)  # the first is another's
            assert (first["event"], second["event"]) == ({"n": 1}, {"n": 2})
            await said(client, "ack", {"positions": [second["position"]]})
            (again,) = await polled(client, wait_seconds=30)
            assert (again["event"], again["attempt"]) == ({"n": 1}, 2)
            await said(client, "ack", {"positions": [first["position"]]})
            await asyncio.sleep(0.7)
            assert await polled(client) == []

    asyncio.run(story())


def test_what_was_polled_is_refused_and_becomes_a_dead_letter_that_is_sent_again() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            body = {"topic": "traffic", "condition": "TRUE", "name": "jobs", "consuming": {"attempts_max": 2}}
            await client.post("/v1/subscriptions", json=body)
            await published(client, {"n": 1}, {"n": 2})
            first, second = await polled(client)
            await said(client, "nack", {"position": first["position"], "reason": "no", "delay_seconds": 0})
            await said(client, "ack", {"positions": [second["position"]]})
            (again,) = await polled(client, wait_seconds=30)
            assert (again["event"], again["attempt"]) == ({"n": 1}, 2)
            await said(client, "nack", {"position": first["position"], "reason": "still no"})
            (letter,) = (await client.get("/v1/subscriptions/jobs/dead-letters")).json()["items"]
            assert (letter["reason"], letter["event"]["event"]) == ("still no", {"n": 1})
            assert await polled(client) == []
            assert await said(client, "dead-letters/redrive", {"ids": [letter["id"]]}, status=200) == {"count": 1}
            (redriven,) = await polled(client)
            await said(client, "nack", {"position": redriven["position"], "reason": "no", "delay_seconds": 0})
            await polled(client)
            await said(client, "nack", {"position": redriven["position"], "reason": "no"})
            assert await said(client, "dead-letters/drop", {}, status=200) == {"count": 1}

    asyncio.run(story())


def test_seek_and_pause() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "jobs")
            await published(client, {"n": 1}, {"n": 2})
            (*_, last) = await polled(client)
            await said(client, "ack", {"position": last["position"]})
            assert await polled(client) == []
            await said(client, "seek", {"start": {"beginning": True}})
            assert numbers(await polled(client)) == [1, 2]
            await said(client, "seek", {"start": {"time": 4e9}})
            assert await polled(client) == []
            await said(client, "seek", {"start": {"position": 1, "time": 2}}, status=400)
            await said(client, "pause")
            await said(client, "seek", {"start": {"beginning": True}})
            assert await polled(client) == []
            await said(client, "resume")
            async with streaming(client, "jobs") as stream:
                first, *_ = await take(stream, 2)
                await said(client, "seek", {"start": {"position": first["data"]["position"]}})
                (notice,) = await take(stream, 1)
            assert (notice["data"]["kind"], notice["id"]) == ("seek", first["id"])

    asyncio.run(story())


def test_what_is_not_there_is_a_404() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            for what, body in (
                ("pause", None),
                ("resume", None),
                ("seek", {"start": {"beginning": True}}),
                ("change", {"condition": "TRUE"}),
                ("nack", {"position": 1}),
                ("ack", {"positions": [1]}),
                ("dead-letters/redrive", {}),
                ("dead-letters/drop", {}),
            ):
                response = await client.post(f"/v1/subscriptions/none/{what}", json=body)
                assert response.status_code == 404, (what, response.text)
                assert json.loads(response.content)["code"] == "unknown"

    asyncio.run(story())
