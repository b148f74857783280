"""Frames over WebSockets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets
from tests.runtime.serving import AUTHORIZED, asking, attached, connecting, published, serving
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fieldfare.messages import FRAME_BYTES_MAX
from fieldfare.runtime.gateway.ports import GatewayOptions

Frame = dict[str, Any]


async def send(socket: websockets.ClientConnection, *frames: Frame) -> None:
    await socket.send("\n".join(json.dumps(frame) for frame in frames))


async def frames(socket: websockets.ClientConnection, count: int) -> list[Frame]:
    came: list[Frame] = []
    async with asyncio.timeout(60):
        while len(came) < count:
            came += [json.loads(line) for line in str(await socket.recv()).split("\n")]
    return came


def test_published_events_are_delivered() -> None:
    async def story() -> None:
        async with serving() as served, connecting(served) as subscriber, connecting(served) as publisher:
            assert subscriber.subprotocol == "fieldfare.v1"
            await send(subscriber, {"type": "subscribe", "ref": 1, "topic": "traffic", "condition": "speed < 25"})
            (made,) = await frames(subscriber, 1)
            assert (made["type"], made["ref"]) == ("subscribed", 1)
            publication = {"type": "publish", "topic": "traffic", "events": [{"speed": 20}, {"speed": 30}]}
            await send(publisher, {**publication, "ref": 1}, {**publication, "ref": 2})
            accepted = await frames(publisher, 2)
            assert [(frame["type"], frame["ref"], frame["count"]) for frame in accepted] == [
                ("accepted", 1, 2),
                ("accepted", 2, 2),
            ]
            delivered: list[Frame] = []
            while len(delivered) < 2:
                for frame in await frames(subscriber, 1):
                    assert (frame["type"], frame["subscription"]) == ("deliver", made["subscription"])
                    delivered += frame["events"]
            assert [delivery["event"] for delivery in delivered] == [{"speed": 20}] * 2

    asyncio.run(story())


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"additional_headers": {}}, 401),
        ({"additional_headers": {"Authorization": "Bearer wrong"}}, 401),
        ({"subprotocols": None}, 400),
        ({"subprotocols": ["fieldfare.v2"]}, 400),
        ({"additional_headers": AUTHORIZED, "origin": "https://evil.example"}, 403),
    ],
)
def test_a_handshake_that_is_refused(options: dict[str, Any], status: int) -> None:
    async def story() -> None:
        async with serving() as served:
            with pytest.raises(InvalidStatus) as caught:
                async with connecting(served, **options):
                    raise AssertionError("it was let in")
            response = caught.value.response
            assert response.status_code == status
            assert json.loads(response.body or b"")["status"] == status
            assert len(served.edge.parts.links) == 0

    asyncio.run(story())


def test_an_origin_on_the_list_is_let_in() -> None:
    async def story() -> None:
        options = GatewayOptions(origins=frozenset({"https://app.example"}))
        async with serving(options) as served, connecting(served, origin="https://app.example") as socket:
            await send(socket, {"type": "list", "ref": 1, "what": "topics"})
            assert (await frames(socket, 1))[0]["type"] == "listed"

    asyncio.run(story())


@pytest.mark.parametrize(("message", "code"), [(b"bytes", 1003), ("x" * (FRAME_BYTES_MAX + 1), 1009)])
def test_a_message_that_ends_the_connection(message: str | bytes, code: int) -> None:
    async def story() -> None:
        async with serving() as served, connecting(served) as socket:
            with pytest.raises(ConnectionClosed) as caught:
                await asyncio.gather(socket.send(message), asyncio.wait_for(socket.recv(), 60))
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == code

    asyncio.run(story())


def test_a_client_that_does_not_read_is_cut_off_and_can_resume() -> None:
    async def story() -> None:
        async with asking(GatewayOptions(waiting_bytes_max=256 * 1024)) as (client, served):
            async with connecting(served, max_queue=1) as stalled:
                await send(
                    stalled,
                    {"type": "subscribe", "ref": 1, "topic": "traffic", "condition": "TRUE", "name": "stalled"},
                )
                assert (await frames(stalled, 1))[0]["type"] == "subscribed"
                count = 0
                while attached(served, "stalled"):
                    await published(client, *({"number": count + n, "text": "x" * 200_000} for n in range(10)))
                    count += 10
                with pytest.raises(ConnectionClosed) as caught:
                    await frames(stalled, 1000)
                assert caught.value.rcvd is not None
                assert caught.value.rcvd.code == 1013
            after, seen = -1, list[int]()
            while len(seen) < count:
                params = {"after": after, "limit": 1, "wait_seconds": 10}
                polled = (await client.get("/v1/subscriptions/stalled/events", params=params)).json()
                seen += [delivery["event"]["number"] for delivery in polled["events"]]
                after = polled["position"]
            assert seen == list(range(count))

    asyncio.run(story())


def test_a_connection_that_the_broker_ends_is_told_why() -> None:
    async def story() -> None:
        async with serving() as served, connecting(served) as socket:
            await served.stop()
            with pytest.raises(ConnectionClosed) as caught:
                await asyncio.wait_for(socket.recv(), 60)
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1001, "the service stops")

    asyncio.run(story())
