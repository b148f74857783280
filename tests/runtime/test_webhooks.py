"""Calls against real servers on this machine that take events, refuse, hang, redirect, drip and lie."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec import Raw

from fieldfare.messages import CallWebhook, WebhookCalled
from fieldfare.runtime.addresses import Address, Addresses
from fieldfare.runtime.webhooks import WebhookOptions, Webhooks

T = TypeVar("T")
DEADLINE_SECONDS = 60.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EVENTS = [Raw(b'{"position":7,"id":"a","at":1.5,"event":{"speed":  20.50}}')]


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Endpoint:
    """A server that gives one answer, and remembers what it was asked."""

    answer: Callable[[asyncio.StreamWriter], Awaitable[None]]
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while line := await reader.readline():
                headers = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(": ")
                    headers[name.lower()] = value
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append(Request(line.decode().strip(), headers, body))
                await self.answer(writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def answering(content: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(content)

    return answer


async def hang(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + 65536 * b"x" + b"\r\n")
        await writer.drain()


async def endless_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x: " + 65536 * b"x" + b"\r\n")
        await writer.drain()


async def dripping(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(endpoint: Endpoint, context: ssl.SSLContext | None = None) -> AsyncIterator[Endpoint]:
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            await endpoint.serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            handlers.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        server.close()
        for task in list(handlers):
            task.cancel()
        await asyncio.gather(*handlers)


@asynccontextmanager
async def calling(
    *allowed: str, addresses: Addresses | None = None, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[Webhooks]:
    checked = addresses or Addresses(allowed or ("127.0.0.1",))
    webhooks = Webhooks(checked, WebhookOptions(**options), tls)
    try:
        yield webhooks
    finally:
        await webhooks.stop()
        checked.close()


def call_to(url: str, handle: int = 1) -> CallWebhook:
    return CallWebhook(handle, "acme", "alerts", url, "traffic", 7, EVENTS)


def run(coroutine: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(coroutine(), DEADLINE_SECONDS)

    return asyncio.run(bounded())


def called(endpoint: Endpoint, *allowed: str, **options: Any) -> WebhookCalled:
    """The result of one call to a server."""

    async def once() -> WebhookCalled:
        async with serving(endpoint), calling(*allowed, **options) as webhooks:
            return await webhooks.call(call_to(endpoint.url))

    return run(once)


def test_events_are_posted_as_they_are_and_taken() -> None:
    endpoint = Endpoint(answering(OK))
    assert called(endpoint) == WebhookCalled(1, "acme", "alerts", 7)
    [request] = endpoint.requests
    assert request.line == "POST /hook HTTP/1.1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["host"] == f"127.0.0.1:{endpoint.port}"
    assert request.body == b'{"subscription":"alerts","topic":"traffic","events":[' + EVENTS[0] + b"]}"
    assert "webhook-signature" not in request.headers


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"secret": "hush"}, b"hush"),
        ({"secret": "whsec_" + base64.b64encode(b"\0key").decode()}, b"\0key"),
        ({"secret": "hush", "secrets": {"acme": "their own"}}, b"their own"),
        ({"secret": "hush", "secrets": {"other": "not theirs"}}, b"hush"),
    ],
)
def test_a_call_is_signed_with_the_secret(options: dict[str, Any], key: bytes) -> None:
    endpoint = Endpoint(answering(OK))
    called(endpoint, **options)
    [request] = endpoint.requests
    assert request.headers["webhook-id"] == "alerts:7"
    signed = f"alerts:7.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = base64.b64encode(hmac.digest(key, signed, sha256)).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"


@pytest.mark.parametrize(
    ("status", "is_taken", "is_permanent"),
    [
        (200, True, False), (202, True, False), (204, True, False), (302, False, False), (304, False, False),
        (400, False, True), (401, False, True), (404, False, True), (408, False, False), (410, False, True),
        (425, False, False), (429, False, False), (500, False, False), (503, False, False), (599, False, False),
    ],
)  # fmt: skip
def test_what_a_status_means(status: int, is_taken: bool, is_permanent: bool) -> None:
    result = called(Endpoint(answering(f"HTTP/1.1 {status} Word\r\nContent-Length: 0\r\n\r\n".encode())))
    assert (result.failure is None) == is_taken
    assert result.is_permanent == is_permanent
    assert is_taken or str(status) in (result.failure or "")


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("7", 7, 7), ("0", 0, 0), ("999999999999", 60, 60), (400 * "9", 60, 60),
        (formatdate(0, usegmt=True), 0, 0), (formatdate(4e9, usegmt=True), 60, 60),
    ],
)  # fmt: skip
def test_an_endpoint_may_ask_to_be_called_later(value: str, low: float, high: float) -> None:
    answer = f"HTTP/1.1 429 Slow\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n".encode()
    result = called(Endpoint(answering(answer)), retry_after_seconds_max=60.0)
    assert result.retry_after_seconds is not None
    assert low <= result.retry_after_seconds <= high


@pytest.mark.parametrize("value", ["soon", "-5", "", "1e3", "Wed, 99 Foo 2020 00:00:00 GMT"])
def test_a_retry_after_that_says_nothing_is_passed_over(value: str) -> None:
    answer = f"HTTP/1.1 503 Busy\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n".encode()
    assert called(Endpoint(answering(answer))).retry_after_seconds is None


def test_a_redirect_is_not_followed() -> None:
    async def once() -> tuple[WebhookCalled, int]:
        async with serving(Endpoint(answering(OK))) as target, calling() as webhooks:
            moved = f"HTTP/1.1 307 Moved\r\nLocation: {target.url}\r\nContent-Length: 0\r\n\r\n"
            async with serving(Endpoint(answering(moved.encode()))) as endpoint:
                return await webhooks.call(call_to(endpoint.url)), target.connections

    result, connections = run(once)
    assert result.failure is not None
    assert "redirect" in result.failure
    assert connections == 0


@pytest.mark.parametrize("body", [endless, dripping])
def test_events_are_taken_when_the_status_says_so_whatever_comes_after_it(
    body: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> None:
    assert called(Endpoint(body), body_seconds_max=0.2).failure is None


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le"])
def test_an_answer_that_is_none_is_a_failure_that_may_pass(answer: bytes) -> None:
    async def answer_and_close(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    result = called(Endpoint(answer_and_close))
    assert result.failure is not None
    assert not result.is_permanent


def test_headers_without_an_end_are_a_failure() -> None:
    assert called(Endpoint(endless_headers)).failure is not None


def test_nobody_there_is_a_failure_that_may_pass() -> None:
    async def once() -> WebhookCalled:
        async with serving(Endpoint(answering(OK))) as endpoint:
            url = endpoint.url
        async with calling() as webhooks:
            return await webhooks.call(call_to(url))

    result = run(once)
    assert "cannot be reached" in (result.failure or "")
    assert not result.is_permanent


def test_an_endpoint_that_hangs_is_given_up() -> None:
    result = called(Endpoint(hang), total_seconds=0.2)
    assert result.failure == "the webhook did not answer in time"
    assert not result.is_permanent


def test_an_endpoint_that_hangs_holds_nobody_else() -> None:
    async def once() -> list[WebhookCalled]:
        async with (
            serving(Endpoint(hang)) as stuck,
            serving(Endpoint(answering(OK))) as sound,
            calling("localhost", "127.0.0.1", calls_max=3, calls_per_host_max=2) as webhooks,
        ):
            hanging = [asyncio.create_task(webhooks.call(call_to(stuck.url, handle))) for handle in range(4)]
            while len(stuck.requests) < 2:  # noqa: ASYNC110 - a server has no event for it
                await asyncio.sleep(0.01)
            taken = [await webhooks.call(call_to(f"http://localhost:{sound.port}/", handle)) for handle in range(20)]
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            assert len(stuck.requests) == 2, "one host has more calls than it may have"
            return taken

    assert all(result.failure is None for result in run(once))


def test_a_connection_is_used_again() -> None:
    async def once() -> int:
        async with serving(Endpoint(answering(OK))) as endpoint, calling() as webhooks:
            for _ in range(5):
                assert (await webhooks.call(call_to(endpoint.url))).failure is None
            return endpoint.connections

    assert run(once) == 1


def test_an_internal_address_is_not_called() -> None:
    endpoint = Endpoint(answering(OK))
    result = called(endpoint, "10.0.0.0/8")
    assert "not public" in (result.failure or "")
    assert result.is_permanent
    assert endpoint.connections == 0


def test_a_name_that_changes_its_answer_is_looked_at_again_for_every_connection() -> None:
    """DNS rebinding: public when it is checked, internal when it is called."""

    async def once() -> tuple[WebhookCalled, int]:
        addresses = iter(["8.8.8.8", "127.0.0.1"])

        async def resolve(_host: str, _port: int) -> list[Address]:
            return [ip_address(next(addresses))]

        checked = Addresses(resolve=resolve)
        async with serving(Endpoint(answering(OK))) as endpoint, calling(addresses=checked) as webhooks:
            url = f"http://rebinding.example:{endpoint.port}/"
            await checked.check_url(url)
            return await webhooks.call(call_to(url)), endpoint.connections

    result, connections = run(once)
    assert result.is_permanent
    assert connections == 0


def test_the_address_that_was_checked_is_the_one_that_is_called() -> None:
    """The name is asked for once; the system's own resolver does not know it at all."""

    async def once() -> list[str]:
        asked = []

        async def resolve(host: str, _port: int) -> list[Address]:
            asked.append(host)
            return [ip_address("127.0.0.1")]

        checked = Addresses(["hooks.invalid"], resolve)
        async with serving(Endpoint(answering(OK))) as endpoint, calling(addresses=checked) as webhooks:
            result = await webhooks.call(call_to(f"http://hooks.invalid:{endpoint.port}/"))
            assert result.failure is None
            assert endpoint.requests[0].headers["host"] == f"hooks.invalid:{endpoint.port}"
        return asked

    assert run(once) == ["hooks.invalid"]


def test_the_next_address_is_tried_where_the_first_does_not_answer() -> None:
    async def once() -> WebhookCalled:
        async def resolve(_host: str, _port: int) -> list[Address]:
            return [ip_address("::1"), ip_address("127.0.0.1")]

        checked = Addresses(["hooks.invalid"], resolve)
        async with serving(Endpoint(answering(OK))) as endpoint, calling(addresses=checked) as webhooks:
            return await webhooks.call(call_to(f"http://hooks.invalid:{endpoint.port}/"))

    assert run(once).failure is None


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert called(Endpoint(answering(OK))).failure is None


@pytest.mark.parametrize(("host", "is_sound"), [("hooks.invalid", True), ("other.invalid", False)])
def test_a_certificate_is_checked_by_the_name(tmp_path: Path, host: str, is_sound: bool) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test"]
    command += ["-addext", "subjectAltName=DNS:hooks.invalid", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)

    async def resolve(_host: str, _port: int) -> list[Address]:
        return [ip_address("127.0.0.1")]

    async def once() -> WebhookCalled:
        checked = Addresses([host], resolve)
        client = ssl.create_default_context(cafile=certificate)
        async with (
            serving(Endpoint(answering(OK)), server) as endpoint,
            calling(addresses=checked, tls=client) as webhooks,
        ):
            return await webhooks.call(call_to(f"https://{host}:{endpoint.port}/"))

    result = run(once)
    assert (result.failure is None) == is_sound
    assert is_sound or "certificate" in (result.failure or "")


def test_the_body_is_what_a_receiver_can_decode() -> None:
    endpoint = Endpoint(answering(OK))
    called(endpoint)
    decoded = msgspec.json.decode(endpoint.requests[0].body)
    assert decoded["events"][0]["event"] == {"speed": 20.5}
