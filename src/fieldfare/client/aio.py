"""The client for asyncio: it runs a session over connections that it opens, again and again, until it is closed.

    async with fieldfare.connect("http://localhost:8600", token=token) as client:
        await client.publish("traffic", {"road": "A10", "speed": 12})
        async for event in client.subscribe("traffic", "speed < 25"):
            print(event.attributes)

What is sent within one turn of the event loop travels in one message, so publishing many things at once is cheap.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import secrets
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack, overload

import msgspec

from fieldfare.client import wire
from fieldfare.client.outputs import (
    Completed,
    Delivered,
    Failed,
    Noticed,
    Output,
    Reconnect,
    SessionOptions,
    Transmit,
)
from fieldfare.client.session import ClientSession
from fieldfare.client.subscription import Subscription, SubscriptionOptions
from fieldfare.client.transport import Connection, Transport
from fieldfare.errors import FieldfareError, NotConnectedError, RefusedError
from fieldfare.messages import (
    Attach,
    ClientFrame,
    DeclareTopic,
    EdgeFrame,
    List,
    Listed,
    Notice,
    Position,
    Publish,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from fieldfare.qos import Offered, Published, Requested

T = TypeVar("T")
Attributes = dict[str, Any]

_log = logging.getLogger("fieldfare.client")
_attributes = msgspec.json.Decoder(Attributes)


@dataclasses.dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a client connects, and how long it tries."""

    connect_timeout_seconds: float = 10.0  # for the first connection; later ones are tried until it is closed
    reconnect_delay_seconds: float = 0.1  # doubled with each failure, and varied, so that not all come back at once
    reconnect_delay_seconds_max: float = 5.0
    close_timeout_seconds: float = 5.0  # for the publications that wait for an answer
    publisher: str = ""  # the beginning of the name under which it publishes
    session: SessionOptions = SessionOptions()


def connect(
    address: str | Transport,
    *,
    token: str | None = None,
    ca_file: str | Path | None = None,
    tls: ssl.SSLContext | None = None,
    options: ClientOptions = ClientOptions(),  # noqa: B008 - it is frozen
) -> Client:
    """A client of the service at a URL, or behind a transport; to be entered with `async with`.

    With https the service's certificate is checked against the system's authorities, those of `ca_file`, or as `tls`
    says.
    """
    if not isinstance(address, str):
        return Client(address, options)
    from fieldfare.client.websocket import WebSocketTransport

    if ca_file is not None and tls is None:
        tls = ssl.create_default_context(cafile=ca_file)
    return Client(WebSocketTransport(address, token, tls), options)
