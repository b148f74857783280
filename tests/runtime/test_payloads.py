"""Opaque payloads: bytes beside an event's attributes, on every way of delivery, through the log and a real service."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.client.fake import QUICK
from tests.runtime.processes import ServiceProcess
from tests.runtime.serving import asking, subscribed
from tests.runtime.test_webhooks import OK, Endpoint, answering
from tests.runtime.test_webhooks import serving as serving_endpoint

import fieldfare
from fieldfare.errors import RefusedError
from fieldfare.messages import EVENT_BYTES_MAX
from fieldfare.qos import Requested
from fieldfare.runtime.addresses import Addresses
from fieldfare.runtime.webhooks import Webhooks

SECONDS_MAX = 60
EVENT = {"speed": 12}
EVERY_BYTE = bytes(range(256))
LARGEST = bytes(EVENT_BYTES_MAX - len('{"speed":12}'))


def decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


@pytest.mark.parametrize("payload", [EVERY_BYTE, b"", LARGEST], ids=["every byte", "empty", "largest"])
def test_every_way_of_delivery_gives_the_payload(payload: bytes) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            serving_endpoint(Endpoint(answering(OK))) as endpoint,
            asking(webhooks=Webhooks(Addresses(("127.0.0.1",)))) as (client, served),
            fieldfare.connect(served.url, token="all", options=QUICK) as library,  # noqa: S106
        ):
            for name in ("poll", "stream"):
                await subscribed(client, name, "speed < 25")
            body = {"topic": "traffic", "condition": "speed < 25", "name": "hook", "webhook": endpoint.url}
            assert (await client.post("/v1/subscriptions", json=body)).status_code == 201
            socket = await library.subscribe("traffic", "speed < 25")
            await library.publish("traffic", EVENT, payload=payload)
            headers = {"Content-Type": "application/octet-stream", "Fieldfare-Event": json.dumps(EVENT)}
            sent = await client.post("/v1/topics/traffic/events", content=payload, headers=headers)
            assert sent.json() == {"count": 1}, sent.text
            await library.publish("traffic", EVENT)

            came = [await anext(socket) for _ in range(3)]
            assert [event.payload for event in came] == [payload, payload, None]
            assert [event.attributes for event in came] == [EVENT] * 3
            polled = (await client.get("/v1/subscriptions/poll/events")).json()["events"]
            assert [of(event) for event in polled] == [payload, payload, None]
            assert [of(event) for event in await streamed(client, 3)] == [payload, payload, None]
            called: list[dict[str, Any]] = []
            while len(called) < 3:
                await asyncio.sleep(0.01)
                called = [event for request in endpoint.requests for event in json.loads(request.body)["events"]]
            assert [of(event) for event in called] == [payload, payload, None]

    asyncio.run(story())


def of(delivery: dict[str, Any]) -> bytes | None:
    assert delivery["event"] == EVENT
    return decoded(delivery["payload"]) if "payload" in delivery else None


async def streamed(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    events = []
    async with client.stream("GET", "/v1/subscriptions/stream/stream") as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
                if len(events) == count:
                    break
    return events


def test_what_is_too_much_or_wrong_is_refused() -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            asking() as (client, served),
            fieldfare.connect(served.url, token="all", options=QUICK) as library,  # noqa: S106
        ):
            with pytest.raises(RefusedError, match="bytes"):
                await library.publish("traffic", EVENT, payload=LARGEST + b"x")
            with pytest.raises(RefusedError, match="too much"):
                await library.publish("traffic", [EVENT] * 14, payloads=[LARGEST] * 14)
            with pytest.raises(RefusedError, match="give payloads"):
                await library.publish("traffic", [EVENT, EVENT], payload=b"x")
            with pytest.raises(RefusedError, match="1 payloads for 2 events"):
                await library.publish("traffic", [EVENT, EVENT], payloads=[b"x"])
            headers = {"Content-Type": "application/octet-stream", "Fieldfare-Event": '{"speed":12}'}
            refused = await client.post("/v1/topics/traffic/events", content=LARGEST + b"x", headers=headers)
            assert (refused.status_code, "payload" in refused.json()["detail"]) == (400, True)
            headers["Fieldfare-Event"] = "[]"
            refused = await client.post("/v1/topics/traffic/events", content=b"x", headers=headers)
            assert refused.status_code == 400
            await library.publish("traffic", [EVENT, EVENT], payloads=[b"x", None])

    asyncio.run(story())


def test_a_payload_survives_a_kill(tmp_path: Path) -> None:
    async def publish(url: str) -> None:
        async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(url) as client:
            await client.publish("traffic", EVENT, payload=EVERY_BYTE)

    async def received(url: str) -> fieldfare.Event[dict[str, Any]]:
        async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(url) as client:
            return await anext(client.subscribe("traffic", "speed < 25", qos=Requested(durability="transient")))

    with ServiceProcess(tmp_path / "data") as service:
        asyncio.run(publish(service.url))
        service.process.kill()
    with ServiceProcess(tmp_path / "data") as service:
        event = asyncio.run(received(service.url))
    assert (event.attributes, event.payload) == (EVENT, EVERY_BYTE)
