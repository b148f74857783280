"""Requests over HTTP, each a frame for a real edge and its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.runtime.serving import asking, attached, published, serving, subscribed

from fieldfare import __version__
from fieldfare.messages import ClientFrame, EdgeFrame, Identity
from fieldfare.runtime.gateway.ports import GatewayOptions

CANARY = "canary"


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    return [delivery["event"] for delivery in response.json()["events"]]


def test_what_matches_is_polled_until_it_is_acknowledged() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "slow", "speed < 25")
            await published(client, {"speed": 20}, {"speed": 30}, {"speed": 3})
            first = await client.get("/v1/subscriptions/slow/events", params={"limit": 1, "wait_seconds": 10})
            assert events_of(first) == [{"speed": 20}]
            again = await client.get("/v1/subscriptions/slow/events", params={"wait_seconds": 10})
            assert events_of(again) == [{"speed": 20}, {"speed": 3}]
            last = again.json()["position"]
            assert last == again.json()["events"][-1]["position"]
            onward = await client.get("/v1/subscriptions/slow/events", params={"after": first.json()["position"]})
            assert events_of(onward) == [{"speed": 3}]
            assert (await client.post("/v1/subscriptions/slow/ack", json={"position": last})).status_code == 204
            empty = await client.get("/v1/subscriptions/slow/events")
            assert empty.json() == {"events": [], "position": last}

    asyncio.run(story())


def test_a_poll_that_does_not_wait_has_read_all_that_is_there() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "all")
            empty = await client.get("/v1/subscriptions/all/events")
            assert (events_of(empty), "notices" in empty.json()) == ([], False)
            for number in range(20):
                await published(client, {"n": number})
                polled = await client.get("/v1/subscriptions/all/events")
                assert events_of(polled)[-1] == {"n": number}

    asyncio.run(story())


def test_a_long_poll_ends_when_an_event_comes() -> None:
    async def story() -> None:
        async with asking() as (client, served):
            await subscribed(client, "all")
            polling = asyncio.create_task(client.get("/v1/subscriptions/all/events", params={"wait_seconds": 60}))
            while not attached(served, "all"):  # noqa: ASYNC110 - it is not told
                await asyncio.sleep(0.01)
            await published(client, {"n": 1})
            assert events_of(await polling) == [{"n": 1}]

    asyncio.run(story())


def test_subscriptions_are_made_listed_shown_and_ended() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            made = await client.post("/v1/subscriptions", json={"topic": "traffic", "condition": "speed < 25"})
            assert made.status_code == 201
            place = made.headers["Location"]
            shown = (await client.get(place)).json()
            assert (shown["topic"], shown["condition"]) == ("traffic", "speed < 25")
            await subscribed(client, "zebra")
            body = {"topic": "traffic", "condition": "TRUE", "name": "zebra"}
            assert (await client.post("/v1/subscriptions", json=body)).status_code == 200
            page = (await client.get("/v1/subscriptions", params={"limit": 1})).json()
            assert page["items"] == [shown]
            rest = (await client.get("/v1/subscriptions", params={"after": page["next"]})).json()
            assert [item["subscription"] for item in rest["items"]] == ["zebra"]
            assert (await client.delete(place)).status_code == 204
            assert (await client.get(place)).status_code == 404
            assert (await client.delete(place)).status_code == 404

    asyncio.run(story())


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/events"),
        ("GET", "/stream"),
        ("GET", "/dead-letters"),
        ("POST", "/ack"),
    ],
)
def test_absent_and_foreign_look_the_same(method: str, path: str) -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "mine")
            client.headers["Authorization"] = "Bearer other"
            body = {"position": 0} if method == "POST" else None
            foreign = await client.request(method, f"/v1/subscriptions/mine{path}", json=body)
            absent = await client.request(method, f"/v1/subscriptions/none{path}", json=body)
            assert foreign.status_code == absent.status_code == 404
            assert foreign.content == absent.content

    asyncio.run(story())


def test_the_tenant_comes_from_the_token() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "mine")
            client.headers["Authorization"] = "Bearer other"
            await published(client, {"n": "theirs"})
            client.headers["Authorization"] = "Bearer all"
            await published(client, {"n": "ours"})
            polled = await client.get("/v1/subscriptions/mine/events", params={"wait_seconds": 10})
            assert events_of(polled) == [{"n": "ours"}]

    asyncio.run(story())


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic all"}])
def test_without_a_token_nothing_is_told(headers: dict[str, str]) -> None:
    async def story() -> None:
        async with serving() as served, httpx.AsyncClient(base_url=served.url, headers=headers) as client:
            for path in ("/v1/topics", "/v1/topics?token=all", "/metrics", "/v1/subscriptions/x/stream"):
                response = await client.get(path)
                assert response.status_code == 401
                assert response.headers["WWW-Authenticate"] == "Bearer"
                assert response.json()["code"] == "unauthenticated"
            assert (await client.get("/healthz")).status_code == 200
            assert len(served.edge.parts.links) == 0

    asyncio.run(story())


def test_rights_are_kept() -> None:
    async def story() -> None:
        async with asking(identity="reader") as (client, _):
            assert (await client.post("/v1/topics/traffic/events", json={})).status_code == 403
            assert (await client.put("/v1/topics/traffic", json={})).status_code == 403
            assert (await client.get("/metrics")).status_code == 403
            await subscribed(client, "allowed")
            trial = {"topic": "secret", "condition": "TRUE", "events": []}
            assert (await client.post("/v1/subscriptions/test", json=trial)).status_code == 403

    asyncio.run(story())


def test_a_numbered_publication_may_be_sent_again() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            await subscribed(client, "all")
            headers = {"Fieldfare-Publisher": "sensor", "Fieldfare-Sequence": "0"}
            for duplicates in ({}, {"duplicates": 2}):
                sent = await client.post("/v1/topics/traffic/events", json=[{"n": 0}, {"n": 1}], headers=headers)
                assert sent.json() == {"count": 2, **duplicates}
            headers["Fieldfare-Sequence"] = "7"
            gap = await client.post("/v1/topics/traffic/events", json={"n": 7}, headers=headers)
            assert (gap.status_code, gap.json()["code"], gap.json()["expected"]) == (409, "sequence", 2)
            polled = await client.get("/v1/subscriptions/all/events", params={"wait_seconds": 10})
            assert events_of(polled) == [{"n": 0}, {"n": 1}]
            assert {delivery["publisher"] for delivery in polled.json()["events"]} == {"sensor"}

    asyncio.run(story())


def test_one_event_may_be_sent_again_by_its_key() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            headers = {"Idempotency-Key": "order-17"}
            for duplicates in ({}, {"duplicates": 1}):
                sent = await client.post("/v1/topics/traffic/events", json={"n": 0}, headers=headers)
                assert sent.json() == {"count": 1, **duplicates}
            many = await client.post("/v1/topics/traffic/events", json=[{}, {}], headers=headers)
            assert many.status_code == 400

    asyncio.run(story())


def test_topics_are_declared_and_hold_what_they_promise() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            settings = {"offered": {"reliability": "best_effort", "durability": "volatile"}}
            assert (await client.put("/v1/topics/loose", json=settings)).json() == settings
            body = {"topic": "loose", "condition": "TRUE"}
            refused = await client.post("/v1/subscriptions", json=body)
            assert (refused.status_code, refused.json()["code"]) == (409, "qos")
            promised = await client.post("/v1/topics/loose/events", params={"reliability": "reliable"}, json={})
            assert (promised.status_code, promised.json()["code"]) == (409, "qos")
            listed = (await client.get("/v1/topics")).json()["items"]
            assert [topic["topic"] for topic in listed] == ["loose"]

    asyncio.run(story())


def test_a_wrong_condition_is_unprocessable() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            body = {"topic": "traffic", "condition": "speed <"}
            response = await client.post("/v1/subscriptions", json=body)
            assert (response.status_code, response.json()["code"]) == (422, "condition")

    asyncio.run(story())


def test_what_is_not_there_is_a_problem_too() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            for response in (await client.get("/nothing"), await client.patch("/v1/topics")):
                assert response.headers["Content-Type"] == "application/problem+json"
                assert response.headers["Fieldfare-Version"] == __version__
                assert response.json()["status"] == response.status_code
            assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD"}
            assert (await client.get("/v1/ws")).status_code == 426

    asyncio.run(story())


def test_health_readiness_and_metrics() -> None:
    reasons = ["the log is being read", None]
    options = GatewayOptions(metrics=lambda tenant: f"fieldfare_of {tenant}\n", why_not_ready=lambda: reasons.pop(0))

    async def story() -> None:
        async with asking(options) as (client, _):
            assert (await client.get("/healthz")).status_code == 200
            unready = await client.get("/readyz")
            assert (unready.status_code, unready.json()["detail"]) == (503, "the log is being read")
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.get("/metrics")).text == "fieldfare_of acme\n"

    asyncio.run(story())


class OddBroker:
    """A broker that never answers, ends every connection, or fails."""

    def __init__(self, oddity: str) -> None:
        self.oddity = oddity
        self.on_close: Callable[[str], None] = print

    def connect(
        self, _: Identity, __: Callable[[list[EdgeFrame]], None], on_close: Callable[[str], None], /
    ) -> OddBroker:
        self.on_close = on_close
        return self

    def send(self, frame: ClientFrame) -> None:
        if self.oddity == "ends":
            self.on_close("the service stops")
        if self.oddity == "fails":
            raise RuntimeError(CANARY, frame)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("oddity", "status"), [("silent", 504), ("ends", 503), ("fails", 500)])
def test_a_broker_in_trouble_is_told_as_such(oddity: str, status: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        options = GatewayOptions(answer_seconds=0.1)
        async with asking(options, broker=OddBroker(oddity)) as (client, _):
            response = await client.post("/v1/topics/traffic/events", json={"secret": CANARY})
            assert response.status_code == status
            assert response.json()["status"] == status
            assert CANARY not in response.text

    with caplog.at_level(logging.DEBUG):
        asyncio.run(story())
    assert CANARY not in caplog.text
    assert ("RuntimeError" in caplog.text) == (oddity == "fails")


def test_a_subscription_over_http_without_a_name_gets_one_and_is_durable() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            made = await client.post("/v1/subscriptions", json={"topic": "traffic", "condition": "n > 0"})
            assert made.status_code == 201
            name = made.json()["subscription"]
            assert made.headers["Location"] == f"/v1/subscriptions/{name}"
            await published(client, {"n": 1})
            assert (await client.get(f"/v1/subscriptions/{name}")).json()["is_durable"] is True
            assert events_of(await client.get(f"/v1/subscriptions/{name}/events")) == [{"n": 1}]

    asyncio.run(story())
