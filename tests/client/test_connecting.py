"""How the client for asyncio connects, comes back, is denied, and closes."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake import QUICK, TOKEN, faking
from tests.client.model import ModelEdge
from tests.runtime.certificates import make_certificate

import fieldfare
from fieldfare.client.options import ClientOptions, SessionOptions
from fieldfare.client.websocket import websocket_url
from fieldfare.errors import (
    FieldfareError,
    ForbiddenError,
    MissingDependencyError,
    NotConnectedError,
    NotFoundError,
    RefusedError,
    UnauthenticatedError,
)
from fieldfare.messages import Ack, EdgeFrame

IMPATIENT = ClientOptions(connect_timeout_seconds=0.2, reconnect_delay_seconds=0.01, close_timeout_seconds=0.05)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, UnauthenticatedError), (403, ForbiddenError), (404, NotFoundError), (400, RefusedError)],
)
def test_a_denied_client_does_not_try_again(status: int, kind: type[FieldfareError]) -> None:
    async def main() -> None:
        async with faking() as service:
            service.status = status
            with pytest.raises(kind, match="so it is"):
                async with fieldfare.connect(service.url, token=TOKEN, options=QUICK):
                    pass
            assert len(service.handshakes) == 1

    asyncio.run(main())


def test_a_client_that_is_denied_when_it_comes_back_fails_what_is_open() -> None:
    async def main() -> None:
        async with faking() as service, fieldfare.connect(service.url, options=QUICK) as client:
            subscription = await client.subscribe("t", "TRUE")
            service.status = 401
            service.drop()
            with pytest.raises(UnauthenticatedError):
                await client.publish("t", {"n": 1})
            with pytest.raises(UnauthenticatedError):
                await anext(subscription)
            assert not client.is_connected

    asyncio.run(main())


def test_an_overloaded_service_is_tried_again() -> None:
    async def main() -> None:
        async with faking() as service:
            service.status = 503
            opening = asyncio.create_task(fieldfare.connect(service.url, options=QUICK).__aenter__())
            async with asyncio.timeout(60):
                while len(service.handshakes) < 3:  # noqa: ASYNC110 - a denied handshake notifies nobody
                    await asyncio.sleep(0.01)
            service.status = None
            client = await opening
            await client.publish("t", {"n": 1})
            await client.__aexit__(None, None, None)

    asyncio.run(main())


def test_a_service_that_is_not_there() -> None:
    async def main() -> None:
        async with faking() as service:
            url = service.url
        with pytest.raises(NotConnectedError, match="cannot connect to ws://"):
            async with fieldfare.connect(url, options=IMPATIENT):
                pass

    asyncio.run(main())


def test_another_service() -> None:
    async def main() -> None:
        async with faking(subprotocol=None) as service:
            with pytest.raises(RefusedError, match="does not speak"):
                async with fieldfare.connect(service.url, options=QUICK):
                    pass

    asyncio.run(main())


def test_the_token_is_in_a_header_only_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        caplog.set_level(logging.DEBUG)
        async with faking(logger=logging.getLogger("server")) as service:
            logging.getLogger("server").setLevel(logging.ERROR)
            async with fieldfare.connect(service.url, token=TOKEN, options=QUICK) as client:
                await client.publish("t", {"n": 1})
                service.drop()
                await client.publish("t", {"n": 2})
        assert service.handshakes[0].headers["Authorization"] == f"Bearer {TOKEN}"
        assert service.handshakes[0].path == "/v1/ws"

    asyncio.run(main())
    assert caplog.records
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    "url", ["localhost:8600", "ftp://host", "http://", "http://user:secret@host:1", "http://host:1/?token=secret"]
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(RefusedError) as caught:
        fieldfare.connect(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:1", "ws://h:1/v1/ws"),
        ("https://h", "wss://h/v1/ws"),
        ("wss://h/v1/ws", "wss://h/v1/ws"),
        ("http://[::1]:1/base/", "ws://[::1]:1/base/v1/ws"),
    ],
)
def test_addresses(url: str, expected: str) -> None:
    assert websocket_url(url) == expected


def test_without_websockets_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fieldfare.client.websocket")
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'fieldfare\[service\]'"):
        fieldfare.connect("http://localhost:1")


def test_the_certificate_is_checked(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)

    async def main() -> None:
        async with faking(ssl=server) as service:
            url = service.url.replace("http:", "https:")
            with pytest.raises(RefusedError, match="ca_file"):
                async with fieldfare.connect(url, options=QUICK):
                    pass
            async with fieldfare.connect(url, ca_file=certificate, options=QUICK) as client:
                await client.publish("t", {"n": 1})
            assert len(service.edge.log) == 1

    asyncio.run(main())


# Closing


def test_closing_waits_for_what_was_published_and_acknowledges_what_was_taken() -> None:
    async def main() -> None:
        async with faking() as service:
            async with fieldfare.connect(service.url) as client:
                subscription = await client.subscribe("t", "TRUE", name="mine")
                await client.publish("t", [{"n": 0}, {"n": 1}])
                await anext(subscription)
                await anext(subscription)
                await client.publish_soon("t", {"n": 2})
            await service.until(lambda: service.frames(Ack) == [Ack("mine", 0)])
            assert len(service.edge.log) == 3
            with pytest.raises(NotConnectedError, match="closed"):
                await client.publish("t", {"n": 3})
            assert [event.attributes async for event in subscription] == [{"n": 2}]
            with pytest.raises(NotConnectedError):
                await client.__aenter__()

    asyncio.run(main())


def test_closing_a_client_ends_loops_and_fails_what_has_no_answer() -> None:
    async def main() -> None:
        async with faking() as service:
            async with fieldfare.connect(service.url, options=IMPATIENT) as client:
                subscription = await client.subscribe("t", "TRUE")

                async def loop() -> list[Any]:
                    return [event async for event in subscription]

                looping = asyncio.create_task(loop())
                await asyncio.sleep(0)
                service.is_silent = True
                future = await client.publish_soon("t", {"n": 1})
            assert await looping == []
            with pytest.raises(NotConnectedError):
                await future

    asyncio.run(main())


def test_a_client_that_was_not_entered() -> None:
    async def main() -> None:
        with pytest.raises(NotConnectedError, match="async with"):
            await fieldfare.connect("http://localhost:1").publish("t", {"n": 1})

    asyncio.run(main())


def test_another_event_loop_will_do() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        at_once = SessionOptions(ack_delay_seconds=0.0)
        async with (
            faking() as service,
            fieldfare.connect(service.url, options=ClientOptions(session=at_once)) as client,
        ):
            subscription = await client.subscribe("t", "TRUE")
            await client.publish("t", [{"n": n} for n in range(10)])
            assert [(await anext(subscription)).attributes["n"] for _ in range(10)] == list(range(10))

    uvloop.run(main())


def test_any_transport_will_do() -> None:
    class Direct:
        """An edge in the same process."""

        def __init__(self) -> None:
            self.edge = ModelEdge()
            self.answers: asyncio.Queue[list[EdgeFrame]] = asyncio.Queue()

        async def connect(self) -> Direct:
            return self

        async def receive(self) -> list[EdgeFrame]:
            return await self.answers.get()

        async def send(self, frames: Any) -> None:
            for frame in frames:
                self.answers.put_nowait(self.edge.handle(frame))

        def abort(self) -> None:
            raise AssertionError

        async def close(self) -> None:
            self.edge.disconnect()

    async def main() -> None:
        async with fieldfare.connect(Direct()) as client:
            subscription = await client.subscribe("t", "TRUE")
            await client.publish("t", {"n": 1})
            assert (await anext(subscription)).attributes == {"n": 1}

    asyncio.run(main())
