"""CloudEvents that came in are matched by their envelopes, and go out as CloudEvents on every way of delivery."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.runtime.serving import Served, asking, connecting, subscribed
from tests.runtime.test_webhooks import OK, Endpoint, Request, answering
from tests.runtime.test_webhooks import serving as serving_endpoint

from fieldfare.messages import Delivery, Envelope
from fieldfare.runtime.addresses import Addresses
from fieldfare.runtime.cloudevents import BATCH, STRUCTURED, binary, structured
from fieldfare.runtime.gateway.cloudevents import read_publications
from fieldfare.runtime.webhooks import Webhooks

SPEED: dict[str, Any] = {
    "specversion": "1.0",
    "id": "a-1",
    "source": "/sensors/7",
    "type": "org.example.speed",
    "subject": "A10 (näher)",
    "time": "2026-01-01T00:00:00+01:00",
    "lane": 2,
    "isexact": True,
    "data": {"speed": 20},
}
BARE = {key: value for key, value in SPEED.items() if key != "data"} | {"id": "a-2"}
IMAGE = BARE | {
    "id": "a-3",
    "datacontenttype": "image/png",
    "data_base64": base64.b64encode(bytes(range(256))).decode(),
}
LIST = BARE | {"id": "a-4", "data": [1, "two"]}
EMPTY = BARE | {"id": "a-5", "data": {}}
TEXT = BARE | {"id": "a-6", "datacontenttype": "text/plain", "data": "grün"}
ALL = [SPEED, BARE, IMAGE, LIST, EMPTY, TEXT]
SECONDS_MAX = 30


def meaning(event: dict[str, Any]) -> dict[str, Any]:
    """What a structured event says, however its data are written; the specification's rules, written down once more."""
    members = {name: value for name, value in event.items() if name != "fieldfareposition"}
    data, encoded = members.pop("data", None), members.pop("data_base64", None)
    kind = members.get("datacontenttype", "application/json")
    if encoded is not None:
        return {**members, "bytes": base64.b64decode(encoded)}
    if data is None:
        return members
    return {**members, "json": data} if kind == "application/json" else {**members, "bytes": data.encode()}


def meaning_of_request(request: Request) -> dict[str, Any]:
    """The same of an event in the binary form, in which every attribute is a string."""
    members: dict[str, Any] = {
        name[3:]: unquote(value)
        for name, value in request.headers.items()
        if name.startswith("ce-") and name != "ce-fieldfareposition"
    }
    kind = request.headers.get("content-type")
    if kind is None:
        assert not request.body
        return members
    if kind != "application/json":
        return {**members, "datacontenttype": kind, "bytes": request.body}
    return {**members, "json": json.loads(request.body)}


def in_text(event: dict[str, Any]) -> dict[str, Any]:
    """What a structured event says, its attributes as the strings that headers hold."""
    said = meaning(event)
    return {
        name: value if name in {"json", "bytes"} else str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in said.items()
    }


async def publish(client: httpx.AsyncClient, *events: dict[str, Any]) -> None:
    for event in events:
        sent = await client.post(
            "/v1/topics/traffic/events", content=json.dumps(event), headers={"Content-Type": STRUCTURED}
        )
        assert sent.json() == {"count": 1}, sent.text


async def polled(client: httpx.AsyncClient, name: str) -> list[str]:
    response = await client.get(f"/v1/subscriptions/{name}/events", params={"wait_seconds": 10})
    return [one["id"] for one in response.json()["events"]]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("ce.type = 'org.example.speed' AND speed < 25", ["a-1"]),
        ("ce.source LIKE '/sensors/%' AND speed IS NULL", ["a-2", "a-3", "a-4", "a-5", "a-6"]),
        ("ce.subject LIKE 'A10%' AND ce.lane > 1 AND ce.isexact", ["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"]),
        ("ce.id IN ('a-3', 'a-6')", ["a-3", "a-6"]),
        ("ce.datacontenttype = 'image/png'", ["a-3"]),
        ("cast(ce.time AS timestamp) < TIMESTAMP '2025-12-31 23:30:00' AND speed = 20", ["a-1"]),
        ("cast(ce.time AS timestamp) >= TIMESTAMP '2025-12-31 23:00:01' OR ce.id = 'a-2'", ["a-2"]),
    ],
)
def test_the_envelope_is_matched(condition: str, found: list[str]) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "mine", condition)
            await publish(client, *ALL)
            assert await polled(client, "mine") == found

    asyncio.run(story())


@pytest.mark.parametrize(
    "event",
    [b'{"ce":{"type":"x"}}', b'{"ce.type":"x"}', b'{"\\u0063e.type":"x"}', b'{"\\u0063e":{"deep":{"er":1}}}'],
)
def test_data_cannot_pass_for_an_envelope(event: bytes) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "mine", "ce.type = 'x' OR ce = TRUE OR cex = 1")
            refused = await client.post("/v1/topics/traffic/events", content=event)
            assert (refused.status_code, "begin with 'ce.'" in refused.json()["detail"]) == (400, True)
            allowed = await client.post(
                "/v1/topics/traffic/events", content=b'[{"ce": true}, {"cex": 1}, {"\\u0063e": true}]'
            )
            assert allowed.json() == {"count": 3}
            assert len(await polled(client, "mine")) == 3

    asyncio.run(story())


def test_polls_streams_and_websockets_give_what_came_in() -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), asking() as (client, served):
            for name in ("poll", "stream", "socket"):
                await subscribed(client, name)
            await publish(client, *ALL)
            await client.post("/v1/topics/traffic/events", json={"speed": 7}, headers={"Idempotency-Key": "plain"})
            expected = [meaning(event) for event in ALL]

            response = await client.get("/v1/subscriptions/poll/events", params={"form": "cloudevents"})
            assert response.headers["content-type"] == BATCH
            *same, plain = response.json()
            assert [meaning(event) for event in same] == expected
            assert (plain["id"], plain["type"], plain["data"]) == ("plain", "fieldfare.event", {"speed": 7})
            assert plain["fieldfareposition"] == response.headers["fieldfare-position"]
            again = await client.get("/v1/subscriptions/poll/events", params={"after": same[3]["fieldfareposition"]})
            assert [one["id"] for one in again.json()["events"]] == ["a-5", "a-6", "plain"]

            assert [meaning(event) for event in await streamed(client, len(ALL))] == expected
            assert [of_delivery(each) for each in await delivered(served, len(ALL))] == expected

    asyncio.run(story())


async def streamed(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    events = []
    async with client.stream("GET", "/v1/subscriptions/stream/stream", params={"form": "cloudevents"}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line[6:]))
                if len(events) == count:
                    break
    return events


async def delivered(served: Served, count: int) -> list[Delivery]:
    events: list[Delivery] = []
    async with connecting(served) as socket:
        await socket.send(json.dumps({"type": "attach", "ref": 1, "subscription": "socket"}))
        while len(events) < count:
            for line in str(await socket.recv(decode=True)).splitlines():
                frame = json.loads(line)
                events += [msgspec.json.decode(json.dumps(each), type=Delivery) for each in frame.get("events", [])]
    return events[:count]


def of_delivery(delivery: Delivery) -> dict[str, Any]:
    """What a client makes of a delivery: its envelope, and as data its payload or its attributes."""
    assert delivery.envelope is not None
    said: dict[str, Any] = dict(delivery.envelope)
    if delivery.payload is None:
        attributes = json.loads(bytes(delivery.event))
        return {**said, "json": attributes} if attributes else said
    if said.get("datacontenttype") is None:
        return {**said, "json": json.loads(delivery.payload)}
    return {**said, "bytes": delivery.payload}


@pytest.mark.parametrize("form", ["structured", "binary", "batch"])
def test_webhooks_are_called_with_what_came_in(form: str) -> None:
    async def story() -> None:
        webhooks = Webhooks(Addresses(("127.0.0.1",)))
        async with (
            asyncio.timeout(SECONDS_MAX),
            serving_endpoint(Endpoint(answering(OK))) as endpoint,
            asking(webhooks=webhooks) as (client, _),
        ):
            body = {
                "topic": "traffic",
                "condition": "TRUE",
                "name": "hook",
                "webhook": endpoint.url,
                "webhook_form": form,
            }
            assert (await client.post("/v1/subscriptions", json=body)).status_code == 201
            other = await client.post("/v1/subscriptions", json={**body, "webhook_form": "fieldfare"})
            assert other.status_code == 400
            await publish(client, *ALL)
            came: list[dict[str, Any]] = []
            while len(came) < len(ALL):
                await asyncio.sleep(0.01)
                came = [said for request in endpoint.requests for said in said_by(request, form)]
            expected = [in_text(event) if form == "binary" else meaning(event) for event in ALL]
            assert came == expected
            shown = (await client.get("/v1/subscriptions/hook")).json()
            assert shown["webhook_form"] == form

    asyncio.run(story())


def said_by(request: Request, form: str) -> list[dict[str, Any]]:
    kind = request.headers.get("content-type")
    if form == "binary":
        return [meaning_of_request(request)]
    assert kind == (BATCH if form == "batch" else STRUCTURED)
    events = json.loads(request.body)
    return [meaning(event) for event in events] if form == "batch" else [meaning(events)]


_texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
_extensions = st.dictionaries(
    st.from_regex("x[a-z0-9]{1,19}", fullmatch=True),
    st.booleans() | st.integers(-(2**31), 2**31 - 1) | _texts,
    max_size=3,
)
_json = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def _cloud_events(draw: st.DrawFn) -> dict[str, Any]:
    event: dict[str, Any] = {"specversion": "1.0", "id": draw(_texts), "source": draw(_texts), "type": draw(_texts)}
    event |= draw(_extensions)
    match draw(st.sampled_from(["none", "json", "bytes", "text"])):
        case "json":
            event["data"] = draw(_json)
        case "bytes":
            event |= {"datacontenttype": "a/b", "data_base64": base64.b64encode(draw(st.binary(max_size=30))).decode()}
        case "text":
            event |= {"datacontenttype": "text/plain", "data": draw(_texts)}
    return event


@given(_cloud_events())
def test_any_cloud_event_goes_out_as_it_came_in(event: dict[str, Any]) -> None:
    [publication] = read_publications(STRUCTURED, json.dumps(event).encode(), {})
    envelopes: list[Envelope | None] = publication.envelopes or [None]
    [payload] = publication.payloads or [None]
    delivery = Delivery(7, "x", 1.0, publication.events[0], "y", payload, envelopes[0])
    raw = Raw(msgspec.json.encode(delivery))
    assert meaning(json.loads(structured(raw, "t"))) == meaning(event)
    made = binary(raw, "t")
    if made is not None:
        headers = {name.lower(): value for name, value in made[0]}
        assert all(value.isascii() and value.isprintable() for value in headers.values())
        assert meaning_of_request(Request("", headers, made[1])) == in_text(event)
        [again] = read_publications(headers.get("content-type", "application/json"), made[1], headers)
        assert (again.events, again.payloads) == (publication.events, publication.payloads)
