"""What hostile or broken clients send, over HTTP and over WebSockets: a clear refusal, and the next request works."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.runtime.serving import asking, connecting, published, serving, subscribed

import fieldfare
from fieldfare.errors import RefusedError
from fieldfare.messages import CONDITION_CHARACTERS_MAX, EVENTS_MAX
from fieldfare.runtime.embedded import Embedded

BAD_EVENTS = {
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": -Infinity}',
    "1e999": b'{"a": 1e999}',
    "4,000 digits": b'{"a": %b}' % (b"9" * 4000),
    "5,000 digits": b'{"a": %b}' % (b"9" * 5000),
    "half a character": b'{"a": "\\ud800"}',
    "half a character in a key": b'{"\\udc00": 1}',
    "a key that stands twice": b'{"a": 1, "a": 2}',
    "an inner key that stands twice": b'{"o": {"a": 1, "a": 2}}',
    "an attribute that stands twice": b'{"o.a": 1, "o": {"a": 2}}',
    "nested too deep": b'{"a": ' * 5000 + b"1" + b"}" * 5000,
    "objects nested too deep": b'{"a": ' * 40 + b"1" + b"}" * 40,
    "lists nested too deep": b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a number": b"17",
    "a string": b'"text"',
    "null": b"null",
    "a list in a list": b"[[]]",
    "two objects": b"{} {}",
    "half an object": b'{"a": 1',
    "a line break in a string": b'{"a": "\n"}',
    "an event that is too long": b'{"a": "%b"}' % (b"x" * 300_000),
    "an empty range": b'{"a": {"low": 2, "high": 1}}',
}
HTTP_ONLY = {
    "nothing": b"",
    "not UTF-8": b'{"a": "\xff"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a bad event in a batch": b'[{"a": 1}, {"a": 1e999}]',
}
ODD_EVENTS = {  # unusual, and right
    "2**53 + 1": b'{"a": 9007199254740993}',
    "minus zero": b'{"a": -0.0}',
    "the smallest float": b'{"a": 5e-324}',
    "a pair of surrogates": b'{"a": "\\ud83d\\ude00"}',
    "no attributes": b"{}",
    "an empty name": b'{"": null}',
}


@pytest.mark.parametrize("name", BAD_EVENTS | HTTP_ONLY)
def test_a_bad_event_over_http(name: str) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "all")
            body = (BAD_EVENTS | HTTP_ONLY)[name]
            response = await client.post("/v1/topics/traffic/events", content=body)
            assert response.status_code == 400
            assert response.headers["Content-Type"] == "application/problem+json"
            assert response.json()["code"] == "invalid"
            assert len(response.json()["detail"]) > 10
            await published(client, {"a": 1})
            polled = await client.get("/v1/subscriptions/all/events", params={"wait_seconds": 10})
            assert [delivery["event"] for delivery in polled.json()["events"]] == [{"a": 1}]

    asyncio.run(story())


@pytest.mark.parametrize("name", BAD_EVENTS)
def test_a_bad_event_over_a_websocket(name: str) -> None:
    async def story() -> None:
        async with serving() as served, connecting(served) as socket:
            head, tail = '{"type":"publish","ref":7,"topic":"traffic","events":[', "]}"
            await socket.send(head + BAD_EVENTS[name].decode() + tail)
            answer = json.loads(str(await asyncio.wait_for(socket.recv(), 60)).partition("\n")[0])
            assert (answer["type"], answer["code"]) == ("refused", "invalid")
            assert answer["ref"] in (7, None)  # None where the frame as a whole is not JSON
            await socket.send(head.replace("7", "8") + '{"a":1}' + tail)
            async with asyncio.timeout(60):
                while (answer := json.loads(str(await socket.recv())))["ref"] != 8:
                    pass
            assert answer["type"] == "accepted"

    asyncio.run(story())


def test_what_is_unusual_and_right_arrives_as_it_was_sent() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "all")
            for body in ODD_EVENTS.values():
                assert (await client.post("/v1/topics/traffic/events", content=body)).status_code == 200
            polled = await client.get("/v1/subscriptions/all/events", params={"wait_seconds": 10})
            for body in ODD_EVENTS.values():
                assert body.replace(b": ", b":") in polled.content

    asyncio.run(story())


@pytest.mark.parametrize(
    ("line", "ref"),
    [
        ("", None),
        ("{}", None),
        ("not JSON", None),
        ('{"type":"publish"', None),
        ('{"type":"unknown","ref":3}', 3),
        ('{"type":"publish","ref":3}', 3),
        ('{"type":"publish","ref":3,"topic":"../../etc","events":[]}', 3),
        ('{"type":"publish","ref":3,"topic":"a\\u0000b","events":[]}', 3),
        ('{"type":"list","ref":3,"what":"topics","more":1}', 3),
        ('{"type":"list","ref":"three","what":"topics"}', None),
        ('{"type":"list","ref":1e999,"what":"topics"}', None),
        ('{"type":"subscribe","ref":3,"topic":"t","condition":"TRUE","window":0}', 3),
        ('{"type":"subscribe","ref":3,"topic":"t","condition":"%s"}' % ("x" * 70_000), 3),
        ('{"type":"subscribe","ref":3,"topic":"t","condition":"\\ud800"}', None),
        ('{"type":"ack","subscription":"s","position":%s}' % ("9" * 4000), None),
        ('{"type":"deliver","subscription":"s","events":[]}', None),
        ("[" * 100_000, None),
    ],
)
def test_a_bad_frame_is_refused_and_the_next_one_works(line: str, ref: int | None) -> None:
    async def story() -> None:
        async with serving() as served, connecting(served) as socket:
            await socket.send(line + '\n{"type":"list","ref":9,"what":"topics"}')
            answers: list[dict[str, object]] = []
            while len(answers) < 2:
                answers += map(json.loads, str(await asyncio.wait_for(socket.recv(), 60)).split("\n"))
            refused = next(answer for answer in answers if answer["type"] == "refused")
            assert (refused["ref"], refused["code"]) == (ref, "invalid")
            assert {"type": "listed", "ref": 9, "items": []} in answers

    asyncio.run(story())


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/topics/..%5C..%5Cetc/events", "{}"),
        ("POST", "/v1/topics/a%00b/events", "{}"),
        ("POST", "/v1/topics/a%0A/events", "{}"),
        ("POST", "/v1/topics/-a/events", "{}"),
        ("POST", f"/v1/topics/{'a' * 200}/events", "{}"),
        ("PUT", "/v1/topics/%F0%9F%98%80", "{}"),
        ("PUT", "/v1/topics/t", '{"offered": {"reliability": "perfect"}}'),
        ("PUT", "/v1/topics/t", '{"offered": {"lifespan_seconds": 1e300}}'),
        ("PUT", "/v1/topics/t", '{"unknown": 1}'),
        ("POST", "/v1/subscriptions", "[]"),
        ("POST", "/v1/subscriptions", '{"topic": "t"}'),
        ("POST", "/v1/subscriptions", '{"topic": "../t", "condition": "TRUE"}'),
        ("POST", "/v1/subscriptions", '{"topic": "t", "condition": "TRUE", "name": "a/b"}'),
        ("POST", "/v1/subscriptions", '{"topic": "t", "condition": "TRUE", "tenant": "other"}'),
        ("POST", "/v1/subscriptions", '{"topic": "t", "condition": "TRUE", "condition": "FALSE"}'),
        ("POST", "/v1/subscriptions/test", '{"condition": "TRUE", "events": [1]}'),
        ("POST", "/v1/subscriptions/test", '{"condition": "a > 0", "events": [{"a": %s}]}' % ("9" * 4000)),
        ("POST", "/v1/subscriptions/x/ack", '{"position": "high"}'),
        ("POST", "/v1/subscriptions/x/ack", '{"position": 1e999}'),
        ("GET", "/v1/subscriptions/x/events?limit=0", ""),
        ("GET", "/v1/subscriptions/x/events?limit=1000000", ""),
        ("GET", "/v1/subscriptions/x/events?wait_seconds=nan", ""),
        ("GET", "/v1/subscriptions/x/events?after=1&after=2", ""),
        ("GET", "/v1/subscriptions/x/events?position=2", ""),
        ("GET", f"/v1/subscriptions/{'x' * 300}", ""),
    ],
)
def test_a_bad_request(method: str, path: str, body: str) -> None:
    async def story() -> None:
        async with asking() as (client, served):
            response = await client.request(method, path, content=body)
            assert response.status_code == 400, response.text
            assert response.json()["code"] == "invalid"
            assert len(served.edge.parts.topics) == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    "headers",
    [
        {"Fieldfare-Sequence": "1"},
        {"Fieldfare-Sequence": "-1", "Fieldfare-Publisher": "p"},
        {"Fieldfare-Sequence": "many", "Fieldfare-Publisher": "p"},
        {"Fieldfare-Publisher": "p" * 300},
        {"Idempotency-Key": ""},
    ],
)
def test_bad_headers_of_a_publication(headers: dict[str, str]) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            response = await client.post("/v1/topics/traffic/events", json={}, headers=headers)
            assert (response.status_code, response.json()["code"]) == (400, "invalid")

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/v1/topics/..%2F..%2Fetc/events", "/v1/topics//events", "/v1/../../etc/passwd"])
def test_a_path_that_leads_elsewhere_leads_nowhere(path: str) -> None:
    async def story() -> None:
        async with asking() as (client, served):
            response = await client.post(path, json={})
            assert (response.status_code, response.json()["code"]) == (404, "unknown")
            assert len(served.edge.parts.topics) == 0

    asyncio.run(story())


def test_a_batch_with_too_many_events() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            body = b"[" + b",".join([b"{}"] * (EVENTS_MAX + 1)) + b"]"
            response = await client.post("/v1/topics/traffic/events", content=body)
            assert (response.status_code, response.json()["code"]) == (413, "too_large")

    asyncio.run(story())


# The same refusals over every door


def condition_of(characters: int) -> str:
    return f"a = '{'x' * (characters - 6)}'"


async def http_answers(path: str, **body: object) -> tuple[int, str]:
    async with asking() as (client, _):
        response = await client.post(path, json=body)
        return response.status_code, response.json().get("detail", "")


async def websocket_refusal(frame: dict[str, object]) -> str | None:
    async with serving() as served, connecting(served) as socket:
        await socket.send(json.dumps({"ref": 3, **frame}))
        answer = json.loads(await asyncio.wait_for(socket.recv(), 60))
        assert answer["ref"] == 3
        return answer["reason"] if answer["type"] == "refused" else None


async def embedded_refusal(work: Callable[[Embedded], Awaitable[object]], folder: Path) -> str | None:
    async with fieldfare.embedded(folder) as broker:
        try:
            await work(broker)
        except RefusedError as error:
            return error.reason
        return None


async def subscribe_embedded(broker: Embedded, topic: str, condition: str) -> None:
    (await broker.deliver(topic, condition, print)).cancel()


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_limit_of_a_condition_is_the_same_over_every_door(beyond: int, tmp_path: Path) -> None:
    condition = condition_of(CONDITION_CHARACTERS_MAX + beyond)
    assert len(condition) == 16_384 + beyond
    told = [
        asyncio.run(http_answers("/v1/subscriptions", topic="t", condition=condition))[1],
        asyncio.run(http_answers("/v1/subscriptions/test", condition=condition, events=[{"a": 1}]))[1],
        asyncio.run(websocket_refusal({"type": "subscribe", "topic": "t", "condition": condition})) or "",
        asyncio.run(embedded_refusal(lambda broker: subscribe_embedded(broker, "t", condition), tmp_path / "log"))
        or "",
    ]
    reason = "a condition has at most 16,384 characters" if beyond else ""
    assert [text[: len(reason)] if beyond else text for text in told] == [reason] * 4


@pytest.mark.parametrize("name", ["no topic", "", "-a", "a" * 129, "a\n", "é"])
def test_a_bad_name_is_told_in_words_over_every_door(name: str, tmp_path: Path) -> None:
    quoted = quote(name, safe="") or "%20"
    told = [
        asyncio.run(http_answers("/v1/subscriptions", topic=name, condition="TRUE"))[1],
        asyncio.run(http_answers("/v1/subscriptions", topic="t", condition="TRUE", name=name))[1],
        asyncio.run(http_answers("/v1/subscriptions/test", topic=name, condition="TRUE", events=[]))[1],
        asyncio.run(http_answers(f"/v1/topics/{quoted}/events", a=1))[1],
        asyncio.run(websocket_refusal({"type": "subscribe", "topic": name, "condition": "TRUE"})),
        asyncio.run(websocket_refusal({"type": "publish", "topic": name, "events": [{}]})),
        asyncio.run(embedded_refusal(lambda broker: broker.publish(name, {"a": 1}), tmp_path / "one")),
        asyncio.run(embedded_refusal(lambda broker: subscribe_embedded(broker, name, "TRUE"), tmp_path / "two")),
        asyncio.run(embedded_refusal(lambda broker: broker.declare_topic(name), tmp_path / "three")),
    ]
    for reason in told:
        assert reason is not None
        assert reason.startswith("a name has letters, digits and . _ - only, at most 128, and begins with a letter")
        assert "topic" in reason or "`$.name`" in reason
        assert "regex" not in reason
