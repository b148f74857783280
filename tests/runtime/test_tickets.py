"""Tickets in URLs: one subscription, a short time, one tenant, nobody's after a revocation, and never in a log."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from tests.runtime.processes import ServiceProcess
from tests.runtime.serving import ALL, OTHER, READER, Served, asking, published, subscribed

from fieldfare.errors import UnauthenticatedError
from fieldfare.messages import PROTOCOL
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.tickets import Tickets
from fieldfare.runtime.tokens import TokenFile

SECONDS_MAX = 30


async def ticket_for(client: httpx.AsyncClient, subscription: str, **more: Any) -> dict[str, Any]:
    made = await client.post("/v1/tickets", json={"subscription": subscription, **more})
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


async def first_event(url: str, path: str) -> dict[str, Any]:
    """What a page without a token gets from an EventSource; or the problem that it is told."""
    async with httpx.AsyncClient(base_url=url, timeout=SECONDS_MAX) as page, page.stream("GET", path) as response:
        if response.status_code != 200:
            problem: dict[str, Any] = json.loads(await response.aread())
            return problem
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                event: dict[str, Any] = json.loads(line[6:])["event"]
                return event
    raise AssertionError("the stream ended")


@asynccontextmanager
async def socket_of(served: Served, path: str) -> AsyncIterator[websockets.ClientConnection]:
    async with websockets.connect(f"ws://127.0.0.1:{served.port}{path}", subprotocols=[PROTOCOL]) as socket:  # type: ignore[list-item]
        yield socket


async def answered(socket: websockets.ClientConnection, **frame: Any) -> dict[str, Any]:
    await socket.send(json.dumps(frame))
    answer: dict[str, Any] = json.loads(str(await socket.recv()).splitlines()[0])
    return answer


def test_a_ticket_is_used_again_and_again() -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), asking() as (client, served):
            await subscribed(client, "mine")
            await published(client, {"n": 1})
            made = await ticket_for(client, "mine")
            for _ in range(3):
                assert await first_event(served.url, made["stream"]) == {"n": 1}
            async with socket_of(served, made["websocket"]) as socket:
                assert (await answered(socket, type="attach", ref=1, subscription="mine"))["type"] == "subscribed"
                delivered = json.loads(str(await socket.recv()))
                assert [one["event"] for one in delivered["events"]] == [{"n": 1}]

    asyncio.run(story())


def test_a_page_acknowledges_with_its_ticket() -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), asking() as (client, served):
            await subscribed(client, "mine")
            await subscribed(client, "other")
            await published(client, {"n": 1}, {"n": 2})
            made = await ticket_for(client, "mine")
            position = (await client.get("/v1/subscriptions/mine/events")).json()["events"][0]["position"]
            async with httpx.AsyncClient(base_url=served.url, params={"ticket": made["ticket"]}) as page:
                for name, status in (("other", 403), ("mine", 204)):
                    answer = await page.post(f"/v1/subscriptions/{name}/ack", json={"position": position})
                    assert answer.status_code == status
                refused = await page.get("/v1/subscriptions/mine/events")
                assert refused.status_code in (400, 401), "a poll takes no ticket"
            assert await first_event(served.url, made["stream"]) == {"n": 2}

    asyncio.run(story())


def test_a_ticket_is_for_one_subscription() -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), asking() as (client, served):
            await subscribed(client, "mine")
            await subscribed(client, "other")
            await published(client, {"n": 1})
            made = await ticket_for(client, "mine")
            elsewhere = made["stream"].replace("/mine/", "/other/")
            assert (await first_event(served.url, elsewhere))["code"] == "forbidden"
            frames: list[dict[str, Any]] = [
                {"type": "attach", "subscription": "other"},
                {"type": "subscribe", "topic": "traffic", "condition": "TRUE"},
                {"type": "subscribe", "topic": "traffic", "condition": "TRUE", "name": "mine"},
                {"type": "publish", "topic": "traffic", "events": [{"n": 2}]},
                {"type": "unsubscribe", "subscription": "mine"},
                {"type": "declare_topic", "topic": "mine"},
                {"type": "list", "what": "topics"},
                {"type": "list", "what": "subscriptions"},
                {"type": "seek", "subscription": "mine", "start": {"beginning": True}},
            ]
            async with socket_of(served, made["websocket"]) as socket:
                for ref, frame in enumerate(frames):
                    answer = await answered(socket, ref=ref, **frame)
                    assert (answer["type"], answer.get("code"), answer["ref"]) == ("refused", "forbidden", ref), frame
                await socket.send(json.dumps({"type": "ack", "subscription": "other", "position": 99}))
                assert (await answered(socket, type="attach", ref=99, subscription="mine"))["code"] == "forbidden"
            assert (await client.get("/v1/subscriptions/other")).json()["position"] < 99

    asyncio.run(story())


def test_who_may_have_a_ticket() -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), asking() as (client, served):
            await subscribed(client, "mine")
            body = {"topic": "secret", "condition": "TRUE", "name": "hidden"}
            assert (await client.post("/v1/subscriptions", json=body)).status_code == 201
            async with httpx.AsyncClient(base_url=served.url) as anybody:
                wanted = {
                    ("other", "mine"): 404,  # another tenant
                    ("reader", "hidden"): 404,  # no right to its topic, and so not to know of it
                    ("reader", "mine"): 201,
                    ("wrong", "mine"): 401,
                    ("all", "nothing"): 404,
                }
                for (token, name), status in wanted.items():
                    headers = {"Authorization": f"Bearer {token}"}
                    made = await anybody.post("/v1/tickets", json={"subscription": name}, headers=headers)
                    assert made.status_code == status, (token, name)
                for lifetime in (0, 3601, -1):
                    body = {"subscription": "mine", "lifetime_seconds": lifetime}  # type: ignore[dict-item]
                    assert (await client.post("/v1/tickets", json=body)).status_code == 400
                ticket = (await ticket_for(client, "mine"))["ticket"]
                refused = await anybody.post(
                    "/v1/tickets", json={"subscription": "mine"}, headers={"Authorization": f"Bearer {ticket}"}
                )
                assert refused.status_code == 401, "a ticket makes no tickets"
                refused = await anybody.post(f"/v1/tickets?ticket={ticket}", json={"subscription": "mine"})
                assert refused.status_code in (400, 401)

    asyncio.run(story())


def test_a_ticket_means_nothing_at_another_tenants_subscription() -> None:
    """Names are a tenant's own: the same name of another tenant is another subscription."""

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), asking() as (client, served):
            await subscribed(client, "mine")
            async with httpx.AsyncClient(base_url=served.url, headers={"Authorization": "Bearer other"}) as other:
                await subscribed(other, "mine")
                made = await ticket_for(other, "mine")
                await published(client, {"n": "ours"})
                await published(other, {"n": "theirs"})
            assert await first_event(served.url, made["stream"]) == {"n": "theirs"}

    asyncio.run(story())


@pytest.mark.parametrize("wrong", ["fft_unknown", "", "x" * 10_000, "%ff%00"])
def test_wrong_tickets(wrong: str) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), asking() as (client, served):
            await subscribed(client, "mine")
            answer = await first_event(served.url, f"/v1/subscriptions/mine/stream?ticket={wrong}")
            assert answer["code"] in ("unauthenticated", "invalid")
            with pytest.raises(websockets.InvalidStatus) as refused:
                async with socket_of(served, f"/v1/ws?ticket={wrong}"):
                    pass
            assert refused.value.response.status_code == 401

    asyncio.run(story())


def test_tickets_expire_and_are_bounded() -> None:
    now = 0.0
    tickets = Tickets(tickets_max=3, tenant_tickets_max=2, clock=lambda: now)
    first = tickets.issue(READER, "mine", 10)
    now = 9.0
    second = tickets.issue(READER, "mine", 10)
    assert tickets.identify(first) == tickets.identify(second)
    assert tickets.identify(first).subscription == "mine"
    with pytest.raises(ProblemError):
        tickets.issue(READER, "mine", 10)
    other = tickets.issue(OTHER, "mine", 10)
    assert set(tickets.identify(other).rights) == {"subscribe"}, "no right but to take events"
    now = 10.0
    with pytest.raises(UnauthenticatedError, match="expired"):
        tickets.identify(first)
    tickets.issue(READER, "mine", 10)  # there is room again
    with pytest.raises(ProblemError):  # of all together
        tickets.issue(OTHER, "mine", 10)


def test_a_revoked_token_takes_its_tickets_with_it_and_no_log_has_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    token, secret = TokenFile(data).create("acme", ALL.rights, time.time())
    headers = {"Authorization": f"Bearer {secret}"}

    async def story(service: ServiceProcess) -> str:
        async with (
            asyncio.timeout(SECONDS_MAX),
            httpx.AsyncClient(base_url=service.url, headers=headers, timeout=SECONDS_MAX) as client,
        ):
            (await client.put("/v1/topics/traffic", json={})).raise_for_status()
            await subscribed(client, "mine")
            made = await ticket_for(client, "mine", lifetime_seconds=600)
            await published(client, {"n": 1})
            assert await first_event(service.url, made["stream"]) == {"n": 1}
            await first_event(service.url, f"/v1/subscriptions/nothing/stream?ticket={made['ticket']}")
            async with httpx.AsyncClient(base_url=service.url) as page:
                await page.get(f"/v1/nowhere?ticket={made['ticket']}")
                async with page.stream("GET", made["stream"]) as response:
                    TokenFile(data).revoke(token.id)
                    rest = [line async for line in response.aiter_lines()]  # ends: who is inside is parted from
                    assert any("detached" in line for line in rest)
                    refused = await page.get(made["stream"])
                    assert refused.status_code == 401
            return str(made["ticket"])

    with ServiceProcess(data) as service:
        ticket = asyncio.run(story(service))
        service.stop()
    assert ticket not in service.log
    assert ticket.removeprefix("fft_")[:16] not in service.log
