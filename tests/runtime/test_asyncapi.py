"""The AsyncAPI document: it has every frame, every reference leads somewhere, and real frames fit its schemas."""

from __future__ import annotations

import asyncio
import json
import typing
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tests.runtime.serving import asking, connecting

from fieldfare.messages import ClientFrame, EdgeFrame
from fieldfare.messages.protocol import ANSWERS
from fieldfare.runtime.gateway.asyncapi import document

DOCUMENT = json.loads(json.dumps(document()))


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def found(reference: str) -> Any:
    place = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        place = place[part]
    return place


def test_it_has_every_frame_and_every_reference_leads_somewhere() -> None:
    frames = {kind.__struct_config__.tag for kind in (*typing.get_args(ClientFrame), *typing.get_args(EdgeFrame))}
    assert set(DOCUMENT["channels"]["edge"]["messages"]) == frames
    assert {found(reference) is not None for reference in references(DOCUMENT)} == {True}
    received = {name for name, operation in DOCUMENT["operations"].items() if operation["action"] == "receive"}
    assert received == {kind.__struct_config__.tag for kind in typing.get_args(ClientFrame)}


def test_what_has_a_ref_is_answered_and_what_has_none_is_not() -> None:
    for kind in typing.get_args(ClientFrame):
        has_ref = any(field.name == "ref" for field in msgspec.structs.fields(kind))
        assert has_ref == (kind in ANSWERS) == ("reply" in DOCUMENT["operations"][kind.__struct_config__.tag]), kind


def test_it_is_served_to_everybody_and_real_frames_fit_it() -> None:
    def fits(frame: dict[str, Any]) -> bool:
        message = DOCUMENT["components"]["messages"][frame["type"]]
        return jsonschema_rs.is_valid({**DOCUMENT, **message["payload"]}, frame)

    asked = {
        '{"type":"subscribe","ref":1,"topic":"traffic","condition":"TRUE","name":"mine"}': {"subscribed"},
        '{"type":"publish","ref":2,"topic":"traffic","events":[{}],"payloads":["AAAA"]}': {
            "accepted",
            "deliver",
        },
        '{"type":"list","ref":3,"what":"subscriptions"}': {"listed"},
        '{"type":"attach","ref":4,"subscription":"nothing"}': {"refused"},
        '{"type":"unsubscribe","ref":5,"subscription":"mine"}': {"unsubscribed"},
        '{"type":"declare_topic","ref":6,"topic":"other"}': {"done"},
    }

    async def story() -> None:
        async with asyncio.timeout(30), asking() as (client, served), connecting(served) as socket:
            client.headers.pop("Authorization")
            assert (await client.get("/asyncapi.json")).json() == DOCUMENT
            for frame, awaited in asked.items():
                assert fits(json.loads(frame))
                assert not fits({**json.loads(frame), "nonsense": 1})
                await socket.send(frame)
                kinds: set[str] = set()
                while not kinds >= awaited:
                    for line in str(await socket.recv()).splitlines():
                        assert fits(json.loads(line)), line
                        kinds.add(json.loads(line)["type"])

    asyncio.run(story())


def test_openapi_has_the_call_of_a_webhook() -> None:
    async def story() -> dict[str, Any]:
        async with asking() as (client, _):
            described: dict[str, Any] = (await client.get("/openapi.json")).json()
            return described

    described = asyncio.run(story())
    content = described["webhooks"]["events"]["post"]["requestBody"]["content"]
    schema = {**described, **content["application/json"]["schema"]}
    delivery = {"position": 1, "id": "a", "at": 1.5, "event": {"speed": 20}}
    call = {"subscription": "s", "topic": "t", "events": [delivery]}
    assert jsonschema_rs.is_valid(schema, call)
    assert not jsonschema_rs.is_valid(schema, {**call, "events": [{**delivery, "position": "1"}]})


@pytest.mark.parametrize("form", ["application/cloudevents+json", "application/cloudevents-batch+json"])
def test_openapi_has_cloudevents(form: str) -> None:
    async def story() -> Any:
        async with asking() as (client, _):
            described = (await client.get("/openapi.json")).json()
            published = described["paths"]["/v1/topics/{topic}/events"]["post"]["requestBody"]["content"]
            return {**described, **published[form]["schema"]}

    schema = asyncio.run(story())
    event: dict[str, Any] = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t"}
    wrap = (lambda one: [one]) if "batch" in form else (lambda one: one)
    assert jsonschema_rs.is_valid(schema, wrap(event))
    assert jsonschema_rs.is_valid(schema, wrap({**event, "data": [1], "lane": 2}))
    assert not jsonschema_rs.is_valid(schema, wrap({**event, "data": 1, "data_base64": "AAAA"}))
    assert not jsonschema_rs.is_valid(schema, wrap({**event, "Lane": 2}))
