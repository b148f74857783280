"""Calls of webhooks: events are POSTed to the URL that a subscriber gave, and the answer says whether they were taken.

The body is `{"subscription": …, "topic": …, "events": [{"position", "id", "at", "event", "publisher"}, …]}`: events as
on every other way of delivery. With a secret it is signed as Standard Webhooks (https://www.standardwebhooks.com) says,
for which there are libraries in every language; `webhook-id` is the same when a call is repeated. Whether and when to
call again is the edge's to decide. An endpoint that hangs, drips or redirects costs its own host's places, for a time.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

import httpcore
import msgspec
from msgspec.structs import replace

from fieldfare.errors import WebhookAddressError
from fieldfare.messages import CallWebhook, CheckWebhook, Position, WebhookCalled, WebhookChecked
from fieldfare.runtime.addresses import Addresses, Endpoint, endpoint_of
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.tasks import Tasks
from fieldfare.runtime.webhook_secrets import signing_key

_PASSING = {408, 425, 429}  # of the 4xx, those that may be answered otherwise later


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Limits of calls, and the secret that signs them."""

    secret: str | None = None  # as text, or whsec_ and base64
    secrets: Mapping[str, str] = field(default_factory=dict)  # of tenants that have one of their own
    checks_max: int = 64  # of addresses, at a time
    calls_max: int = 256  # under way at a time
    calls_per_host_max: int = 8
    connect_seconds: float = 5.0
    total_seconds: float = 30.0  # until the status is there
    retry_after_seconds_max: float = 3600.0
    body_bytes_max: int = 16 * 1024  # of an answer that are read, so that the connection can be used again
    body_seconds_max: float = 1.0
    idle_seconds_max: float = 15.0  # that a connection is kept for the next call


class Webhooks(Capability):
    """Checks and calls webhooks. Each subscription has one call at a time, so no more wait than there are webhooks."""

    def __init__(
        self,
        addresses: Addresses,
        options: WebhookOptions | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._addresses = addresses
        self._options = options or WebhookOptions()
        self._key = signing_key(self._options.secret)
        self._keys = {tenant: signing_key(secret) for tenant, secret in self._options.secrets.items()}
        self._tasks = Tasks()
        self._check_count = 0
        self._places = asyncio.Semaphore(self._options.calls_max)
        self._places_of_host: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        # It follows no redirects, asks no environment for proxies, and keeps no cookies.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or ssl.create_default_context(),
            max_connections=None,  # `_places` bounds them
            max_keepalive_connections=self._options.calls_max,
            keepalive_expiry=self._options.idle_seconds_max,
            network_backend=_CheckedNetwork(addresses),
        )

    def install(self, host: Host) -> None:
        """Perform CheckWebhook and CallWebhook."""
        self._host = host
        host.kernel.provide(CheckWebhook, lambda effect: self._tasks.start(self._answer_check(effect)))
        host.kernel.provide(CallWebhook, lambda effect: self._tasks.start(self._answer_call(effect)))

    async def stop(self) -> None:
        """Call no more, and close the connections that are kept."""
        await self._tasks.cancel()
        await self._pool.aclose()

    async def _answer_check(self, effect: CheckWebhook) -> None:
        self._host.tell(await self.check(effect))

    async def _answer_call(self, effect: CallWebhook) -> None:
        self._host.tell(await self.call(effect))

    async def check(self, effect: CheckWebhook) -> WebhookChecked:
        """Whether calls of this URL would be refused, as far as is known now."""
        if self._check_count >= self._options.checks_max:
            return WebhookChecked(
                effect.number, "many webhooks are being looked at: try again in a second", is_busy=True
            )
        self._check_count += 1
        try:
            await self._addresses.check_url(effect.url)
        except WebhookAddressError as error:
            return WebhookChecked(effect.number, str(error))
        finally:
            self._check_count -= 1
        return WebhookChecked(effect.number)

    async def call(self, call: CallWebhook) -> WebhookCalled:
        """Call a webhook, and tell how it went. Never raises for what an endpoint does."""
        try:
            endpoint = endpoint_of(call.url)
            host = self._places_of_host.setdefault(endpoint.host, asyncio.Semaphore(self._options.calls_per_host_max))
            async with host, self._places:
                return await self._post(call, endpoint)
        except WebhookAddressError as error:
            return _called(call, str(error), is_permanent=True)
        except (TimeoutError, httpcore.TimeoutException):
            return _called(call, "the webhook did not answer in time")
        except (OSError, httpcore.NetworkError, httpcore.ProtocolError) as error:
            return _called(call, f"the webhook cannot be reached: {str(error) or type(error).__name__}")

    async def _post(self, call: CallWebhook, endpoint: Endpoint) -> WebhookCalled:
        body = msgspec.json.encode({"subscription": call.subscription, "topic": call.topic, "events": call.events})
        headers = self._headers(call, endpoint, body)
        url = httpcore.URL(scheme=endpoint.scheme, host=endpoint.host, port=endpoint.port, target=endpoint.target)
        extensions = {"timeout": {"connect": self._options.connect_seconds}}
        async with (
            asyncio.timeout(self._options.total_seconds) as limit,
            self._pool.stream("POST", url, headers=headers, content=body, extensions=extensions) as response,
        ):
            limit.reschedule(None)  # the status is there, and counts, however slowly the rest comes
            body_read = await self._drain(response)
            return self._judged(call, response, body_read)

    def _headers(self, call: CallWebhook, endpoint: Endpoint, body: bytes) -> list[tuple[str, str]]:
        message_id, now = f"{call.subscription}:{call.position}", str(int(time.time()))
        if call.attempt > 1:  # or an endpoint that knows the ids of earlier calls would pass over it
            message_id += f":{call.attempt}"
        headers = [
            ("Host", endpoint.authority),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("User-Agent", "fieldfare"),
            ("webhook-id", message_id),
            ("webhook-timestamp", now),
        ]
        key = self._keys.get(call.tenant, self._key)
        if key is not None:
            signed = hmac.digest(key, f"{message_id}.{now}.".encode() + body, sha256)
            headers.append(("webhook-signature", f"v1,{base64.b64encode(signed).decode()}"))
        return headers

    def _judged(self, call: CallWebhook, response: httpcore.Response, body: bytes) -> WebhookCalled:
        """What a status means, and which single events were refused.

        What else the endpoint says is not passed on: it may be somebody's secret.
        """
        status = response.status
        if 200 <= status < 300:
            return replace(_called(call), refused=_refused(body))
        if 300 <= status < 400:
            return _called(
                call, f"the webhook answered {status}; redirects are not followed: subscribe with the final URL"
            )
        retry_after = _retry_after_seconds(response, self._options.retry_after_seconds_max)
        is_permanent = 400 <= status < 500 and status not in _PASSING
        return _called(call, f"the webhook answered {status}", is_permanent=is_permanent, retry_after=retry_after)

    async def _drain(self, response: httpcore.Response) -> bytes:
        """Read a short body to its end, so that the connection can be kept; one with a longer body is closed."""
        chunks: list[bytes] = []
        size = 0
        with suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
            async with asyncio.timeout(self._options.body_seconds_max):
                async for chunk in response.aiter_stream():
                    size += len(chunk)
                    if size > self._options.body_bytes_max:
                        return b""
                    chunks.append(chunk)
            return b"".join(chunks)
        return b""


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were checked; the name remains for the Host header and the certificate."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as httpcore has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        async with asyncio.timeout(timeout):
            failure: Exception = OSError("no address")
            found = await self._addresses.of(host, port)
            for address in found:
                try:
                    return await self._network.connect_tcp(
                        str(address), port, timeout and timeout / len(found), local_address, socket_options
                    )
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    failure = error
            raise failure


def _called(
    call: CallWebhook, failure: str | None = None, *, is_permanent: bool = False, retry_after: float | None = None
) -> WebhookCalled:
    return WebhookCalled(call.handle, call.tenant, call.subscription, call.position, failure, is_permanent, retry_after)


class _RefusedEvent(msgspec.Struct):
    position: Position
    reason: str = ""


class _Answer(msgspec.Struct):
    refused: list[_RefusedEvent] = []


_answer = msgspec.json.Decoder(_Answer)


def _refused(body: bytes) -> tuple[tuple[Position, str], ...]:
    """The events that an endpoint names as refused; an answer of another form refuses none."""
    try:
        return tuple((each.position, each.reason) for each in _answer.decode(body).refused)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()


def _retry_after_seconds(response: httpcore.Response, seconds_max: float) -> float | None:
    """How long the endpoint wants to be left alone: a number of seconds, or a date."""
    text = next((value.decode("latin-1") for name, value in response.headers if name.lower() == b"retry-after"), "")
    if text.isascii() and text.isdecimal():
        return min(float(text), seconds_max)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - time.time()
    return min(max(seconds, 0.0), seconds_max)
