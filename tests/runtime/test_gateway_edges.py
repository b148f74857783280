"""What clients over HTTP and WebSockets are told of logs, of other edges, and of homes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
import websockets
from tests.runtime.serving import AUTHORIZED, Served, asking, connecting, published, serving, subscribed
from tests.runtime.test_gateway_stream import streaming, take

from fieldfare.messages import ClientFrame, EdgeFrame, Identity, Refused
from fieldfare.routing.tree.view import SeenBroker, SeenTopic, TreeView
from fieldfare.runtime.gateway.ports import GatewayOptions

LOG = "0123456789abcdef"
OTHERS = ("http://b.example:7380", "http://c.example:7380")


@asynccontextmanager
async def telling(**options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Served]]:
    """A service that tells its log."""
    served_now: list[Served] = []
    log_id = lambda: served_now[0].edge.log_id if served_now else LOG  # noqa: E731
    async with asking(GatewayOptions(log_id=log_id, **options)) as (client, served):
        served_now.append(served)
        yield client, served


def test_a_handshake_names_the_log_and_the_other_edges() -> None:
    async def story() -> None:
        hostile = ("http://d.example\r\nSet-Cookie: x", "http://e.example,http://f.example", "")
        async with telling(other_edges=lambda: (*OTHERS, *hostile)) as (_, served), connecting(served) as socket:
            assert socket.response is not None
            assert socket.response.headers["Fieldfare-Log"] == served.edge.log_id
            assert socket.response.headers["Fieldfare-Edges"] == ", ".join(OTHERS)
            assert "Set-Cookie" not in socket.response.headers

    asyncio.run(story())


def test_a_handshake_says_nothing_where_there_is_nothing_to_say() -> None:
    async def story() -> None:
        async with serving() as served, connecting(served) as socket:
            assert socket.response is not None
            assert not [name for name in socket.response.headers if name.lower().startswith("fieldfare-")]

    asyncio.run(story())


def test_a_full_service_names_others() -> None:
    async def story() -> None:
        options = GatewayOptions(connections_max=1, other_edges=lambda: OTHERS)
        async with asking(options) as (client, served), connecting(served):
            refused = await client.get("/v1/topics")
            assert (refused.status_code, refused.json()["code"]) == (503, "full")
            assert refused.json()["edges"] == list(OTHERS)
            assert int(refused.headers["Retry-After"]) > 0
            with pytest.raises(websockets.InvalidStatus) as caught:
                async with connecting(served):
                    pass
            assert json.loads(caught.value.response.body or b"")["edges"] == list(OTHERS)

    asyncio.run(story())


def test_edges_are_listed() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            (edge,) = (await client.get("/v1/edges")).json()["items"]
            assert (edge["edge"], edge["url"], edge["is_this"]) == ("edge", "", True)
            assert edge["load"] < 1

    asyncio.run(story())


def test_the_tree_is_shown_to_those_who_manage_all_topics() -> None:
    def view(tenant: str) -> TreeView:
        return TreeView(
            "b1", [SeenBroker("b1", LOG, "", "", 0, "", 0.0, 0, 1)], [], [], [SeenTopic(tenant, (), (), ())]
        )

    async def story() -> None:
        async with asking(GatewayOptions(tree=view)) as (client, _):
            assert msgspec.json.decode((await client.get("/v1/tree")).content, type=TreeView) == view("acme")
        async with asking(GatewayOptions(tree=view), identity="reader") as (client, _):
            assert (await client.get("/v1/tree")).status_code == 403
        async with asking() as (client, _):
            refused = await client.get("/v1/tree")
            assert (refused.status_code, refused.json()["detail"]) == (404, "this broker is not one of a tree")

    asyncio.run(story())


# Positions


def test_a_poll_says_to_which_log_its_positions_belong() -> None:
    async def story() -> None:
        async with telling() as (client, served):
            log = served.edge.log_id
            body = {"topic": "traffic", "condition": "TRUE", "name": "all"}
            assert (await client.post("/v1/subscriptions", json=body)).json()["log"] == log
            await published(client, {"n": 1}, {"n": 2}, {"n": 3})
            polled = (await client.get("/v1/subscriptions/all/events", params={"limit": 1})).json()
            assert polled["log"] == log
            for after in (polled["position"], f"{polled['position']}@{log}"):
                onward = (await client.get("/v1/subscriptions/all/events", params={"after": after})).json()
                assert [each["event"]["n"] for each in onward["events"]] == [2, 3]
                assert "notices" not in onward

    asyncio.run(story())


def test_a_position_of_another_log_is_a_gap() -> None:
    async def story() -> None:
        async with telling() as (client, served):
            await subscribed(client, "all")
            await published(client, {"n": 1}, {"n": 2})
            polled = (await client.get("/v1/subscriptions/all/events", params={"after": f"1@{LOG}"})).json()
            assert [each["event"]["n"] for each in polled["events"]] == [1, 2]  # nothing is acknowledged by it
            assert [notice["kind"] for notice in polled["notices"]] == ["gap"]
            ack = {"position": 1, "log": LOG}
            refused = await client.post("/v1/subscriptions/all/ack", json=ack)
            assert (refused.status_code, refused.json()["code"]) == (409, "log")
            ack = {"position": polled["position"], "log": served.edge.log_id}
            assert (await client.post("/v1/subscriptions/all/ack", json=ack)).status_code == 204

    asyncio.run(story())


def test_a_stream_goes_on_after_the_last_event_id_of_its_log_only() -> None:
    async def story() -> None:
        async with telling() as (client, served):
            await subscribed(client, "all")
            await published(client, {"n": 1}, {"n": 2})
            async with streaming(client, "all") as stream:
                first, second = await take(stream, 2)
            assert first["id"] == f"{first['data']['position']}@{served.edge.log_id}"
            async with streaming(client, "all", headers={"Last-Event-ID": f"1@{LOG}"}) as stream:
                notice, again = await take(stream, 2)
                assert (notice["event"], notice["data"]["kind"]) == ("notice", "gap")
                assert again == first
            async with streaming(client, "all", params={"after": first["id"]}) as stream:
                assert await take(stream, 1) == [second]
            plain = str(first["data"]["position"])  # as they were before they had a log
            async with streaming(client, "all", headers={"Last-Event-ID": plain}) as stream:
                assert await take(stream, 1) == [second]

    asyncio.run(story())


@pytest.mark.parametrize("after", ["x", "1@", "@a", "1@a b", "-2", "1.5", "9" * 19, "1" * 40, "1@" + "a" * 65])
def test_what_is_no_position_is_refused(after: str) -> None:
    async def story() -> None:
        async with telling() as (client, _):
            await subscribed(client, "all")
            response = await client.get("/v1/subscriptions/all/events", params={"after": after})
            assert response.status_code == 400

    asyncio.run(story())


# Homes


class Elsewhere:
    """A broker of which another edge has all that is asked for."""

    def connect(
        self, _: Identity, on_frames: Callable[[list[EdgeFrame]], None], on_close: Callable[[str], None]
    ) -> Elsewhere:
        self._on_frames, self._on_close = on_frames, on_close
        return self

    def send(self, frame: ClientFrame) -> None:
        self._on_frames([Refused(getattr(frame, "ref", 0), "moved", "it is at b", home=OTHERS[0])])

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/subscriptions"),
        ("GET", "/v1/subscriptions/mine"),
        ("DELETE", "/v1/subscriptions/mine"),
        ("GET", "/v1/subscriptions/mine/events"),
        ("GET", "/v1/subscriptions/mine/stream"),
        ("GET", "/v1/subscriptions/mine/dead-letters"),
    ],
)
def test_who_asks_for_what_another_edge_has_is_told_where(method: str, path: str) -> None:
    async def story() -> None:
        async with (
            serving(broker=Elsewhere()) as served,
            httpx.AsyncClient(base_url=served.url, headers=AUTHORIZED) as client,
        ):
            body = {"topic": "traffic", "condition": "TRUE", "name": "mine"} if method == "POST" else None
            response = await client.request(method, path, json=body)
            assert response.status_code == 421
            problem = response.json()
            assert (problem["code"], problem["home"], problem["detail"]) == ("moved", OTHERS[0], "it is at b")

    asyncio.run(story())
