"""CloudEvents 1.0 over HTTP: structured, in batches, and with the attributes in headers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from tests.runtime.serving import asking, subscribed

CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "a-1",
    "source": "/sensors/7",
    "type": "org.example.speed",
    "time": "2026-01-01T00:00:00Z",
    "anextension": 5,
    "data": {"speed": 20},
}
HEADERS = {"ce-specversion": "1.0", "ce-id": "a%201", "ce-source": "/sensors/7", "ce-type": "org.example.speed"}
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


async def publish(client: httpx.AsyncClient, body: Any, media_type: str, **headers: str) -> httpx.Response:
    headers = {"Content-Type": media_type, **headers}
    return await client.post("/v1/topics/traffic/events", content=json.dumps(body), headers=headers)


async def polled(client: httpx.AsyncClient) -> list[tuple[str, str, Any]]:
    response = await client.get("/v1/subscriptions/slow/events", params={"wait_seconds": 10})
    return [(one["id"], one["publisher"], one["event"]) for one in response.json()["events"]]


def test_a_structured_event_is_delivered_once() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "slow", "speed < 25")
            assert (await publish(client, CLOUD_EVENT, f"{STRUCTURED}; charset=utf-8")).json() == {"count": 1}
            assert (await publish(client, CLOUD_EVENT, STRUCTURED)).json() == {"count": 1, "duplicates": 1}
            assert await polled(client) == [("a-1", "/sensors/7", {"speed": 20})]

    asyncio.run(story())


def test_a_batch() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "slow", "speed < 25")
            events = [{**CLOUD_EVENT, "id": f"a-{n}", "data": {"speed": n}} for n in (24, 25, 23)]
            assert (await publish(client, events, BATCH)).json() == {"count": 3}
            assert [name for name, _, _ in await polled(client)] == ["a-24", "a-23"]
            assert (await publish(client, [], BATCH)).json() == {"count": 0}
            mixed = [CLOUD_EVENT, {**CLOUD_EVENT, "source": "/sensors/8"}]
            assert (await publish(client, mixed, BATCH)).json() == {"count": 2}
            assert (await publish(client, mixed, BATCH)).json() == {"count": 2, "duplicates": 2}

    asyncio.run(story())


def test_attributes_in_headers() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "slow", "speed < 25")
            for duplicates in ({}, {"duplicates": 1}):
                sent = await publish(client, {"speed": 20}, "application/json", **HEADERS)
                assert sent.json() == {"count": 1, **duplicates}
            assert await polled(client) == [("a 1", "/sensors/7", {"speed": 20})]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"specversion": "0.3"}, 400),
        ({"id": ""}, 400),
        ({"id": 7}, 400),
        ({"id": None}, 400),
        ({"source": "x" * 300}, 400),
        ({"type": ""}, 400),
        ({"time": "yesterday"}, 400),
        ({"subject": 7}, 400),
        ({"subject": ["x"]}, 400),
        ({"anextension": 1.5}, 400),
        ({"anExtension": "x"}, 400),
        ({"an_extension": "x"}, 400),
        ({"long": "x" * 20_000}, 400),
        ({"data_base64": "AAAA"}, 400),
        ({"data": None, "data_base64": "A"}, 400),
        ({"data": {"speed": 20, "ce": {"type": "forged"}}}, 400),
        ({"datacontenttype": "text/xml"}, 415),
    ],
)
def test_a_bad_structured_event(change: dict[str, Any], status: int) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            assert (await publish(client, {**CLOUD_EVENT, **change}, STRUCTURED)).status_code == status
            assert (await publish(client, [{**CLOUD_EVENT, **change}], BATCH)).status_code == status
            assert (await publish(client, CLOUD_EVENT, STRUCTURED)).status_code == 200

    asyncio.run(story())


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
def test_what_a_structured_event_needs(missing: str) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            event = {name: value for name, value in CLOUD_EVENT.items() if name != missing}
            refused = await publish(client, event, STRUCTURED)
            assert (refused.status_code, missing in refused.json()["detail"]) == (400, True)

    asyncio.run(story())


@pytest.mark.parametrize("name", HEADERS)
def test_what_attributes_in_headers_need(name: str) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            refused = await publish(client, {}, "application/json", **{**HEADERS, name: ""})
            assert (refused.status_code, name in refused.json()["detail"]) == (400, True)
            doubled = await publish(client, {}, "application/json", **HEADERS, **{"Idempotency-Key": "x"})
            assert doubled.status_code == 400

    asyncio.run(story())


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/cloudevents+avro", "application/json; charset=latin-1"]
)
def test_other_media_types(media_type: str) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            refused = await publish(client, CLOUD_EVENT, media_type)
            assert (refused.status_code, refused.json()["code"]) == (415, "media_type")

    asyncio.run(story())
