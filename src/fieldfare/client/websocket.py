"""The WebSocket transport: a text message is one or more frames, a line each.

The token travels in a header of the handshake, and nowhere else.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from fieldfare.client import wire
from fieldfare.client.transport import Connection
from fieldfare.errors import (
    EdgeFullError,
    FieldfareError,
    MissingDependencyError,
    NotConnectedError,
    RefusedError,
    UnauthenticatedError,
    refusal,
)
from fieldfare.messages import FRAME_BYTES_MAX, PROTOCOL, ClientFrame

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI, WebSocketException
    from websockets.http11 import Response
    from websockets.typing import Subprotocol
except ImportError as error:
    raise MissingDependencyError("websockets is missing: pip install 'fieldfare[service]'") from error

PATH = "/v1/ws"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MESSAGE_BYTES_MAX = 2 * FRAME_BYTES_MAX  # an edge fills a message up to one frame beyond its limit
_OPEN_SECONDS, _PING_SECONDS, _CLOSE_SECONDS = 10.0, 20.0, 2.0
_EDGES_MAX = 64  # that an edge may name

# In its most talkative mode the library logs the headers of the handshake, and the token among them.
_logger = logging.getLogger("fieldfare.client.websocket")
_logger.setLevel(logging.INFO)


class WebSocketTransport:
    """Connects to a service by its URL, `http://host:port` or `https://host:port`."""

    def __init__(self, url: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.url = websocket_url(url)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._options: dict[str, Any] = {}
        if self.url.startswith("wss:") and tls is not None:
            self._options["ssl"] = tls
        if urlsplit(self.url).hostname in _LOOPBACK:
            self._options["proxy"] = None

    async def connect(self) -> Connection:
        """Open a connection."""
        try:
            connection = await connect(
                self.url,
                additional_headers=self._headers,
                subprotocols=[Subprotocol(PROTOCOL)],
                compression=None,  # messages are small, and many
                max_size=_MESSAGE_BYTES_MAX,
                open_timeout=_OPEN_SECONDS,
                ping_interval=_PING_SECONDS,
                ping_timeout=_PING_SECONDS,
                close_timeout=_CLOSE_SECONDS,
                logger=_logger,
                **self._options,
            )
        except InvalidStatus as error:
            raise self._denied(error.response) from error
        except InvalidURI as error:
            raise RefusedError("invalid", f"{self.url} is not an address: {error}") from error
        except ssl.SSLCertVerificationError as error:
            reason = f"{self.url} has not proved who it is: {error.verify_message}: give the file of its CA as ca_file"
            raise RefusedError("invalid", reason) from error
        except (OSError, EOFError, TimeoutError, WebSocketException) as error:
            raise NotConnectedError(f"cannot connect to {self.url}: {str(error) or type(error).__name__}") from error
        if connection.subprotocol != PROTOCOL:
            await connection.close()
            raise RefusedError("invalid", f"{self.url} does not speak {PROTOCOL}: is it another service?")
        return WebSocketConnection(connection)

    def _denied(self, response: Response) -> FieldfareError:
        status, problem = response.status_code, _problem(response)
        reason = f"{self.url} answered {status}" + (f": {problem.detail}" if problem.detail else "")
        if problem.code == "full":
            return EdgeFullError(reason, problem.edges[:_EDGES_MAX])
        if status == 401:
            return UnauthenticatedError(f"{reason}: give a valid token")
        if status == 403:
            return refusal("forbidden", reason)
        if status == 404:
            return refusal("unknown", f"{reason}: is it another service?")
        if 400 <= status < 500 and status not in (408, 425, 429):
            return refusal("invalid", reason)
        return NotConnectedError(reason)


class WebSocketConnection:
    """An open WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        headers = {} if connection.response is None else connection.response.headers
        self.log: str | None = headers.get("Fieldfare-Log")
        named = [url.strip() for url in headers.get("Fieldfare-Edges", "").split(",")[:_EDGES_MAX]]
        self.edges = tuple(url for url in named if url)

    async def receive(self) -> Sequence[wire.DecodedEdgeFrame]:
        """The frames of the next message."""
        try:
            return wire.decode(await self._connection.recv(decode=False))
        except ConnectionClosed as error:
            raise NotConnectedError(f"the connection is closed: {error}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise NotConnectedError(f"the service sent what is no frame: {error}") from error

    async def send(self, frames: Sequence[ClientFrame], /) -> None:
        """Send frames in as few messages as possible."""
        try:
            for message in wire.encode(frames):
                await self._connection.send(message, text=True)
        except ConnectionClosed as error:
            raise NotConnectedError(f"the connection is closed: {error}") from error

    def abort(self) -> None:
        """End at once."""
        self._connection.transport.abort()

    async def close(self) -> None:
        """End in good order."""
        await self._connection.close()


def websocket_url(url: str) -> str:
    """The WebSocket's URL of a service; one that holds a token or a password is refused, as it would be logged."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise RefusedError("invalid", f"{url!r} is no address of a service: give http://host:port or https://host:port")
    if parts.username or parts.password or parts.query:
        raise RefusedError("invalid", "an address holds no user, password or query: give the token as token=")
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, parts.path.rstrip("/").removesuffix(PATH) + PATH, "", ""))


def may_follow(given: Sequence[str], url: str) -> bool:
    """Whether a client may use an edge that another one names: the token does not go where nobody proves who it is."""
    try:
        is_private = websocket_url(url).startswith("wss:")
        return is_private or not all(websocket_url(each).startswith("wss:") for each in given)
    except RefusedError:
        return False


class _Problem(msgspec.Struct, frozen=True):
    """What a problem (RFC 9457) says."""

    detail: str = ""
    code: str = ""
    edges: tuple[str, ...] = ()


_problems = msgspec.json.Decoder(_Problem)


def _problem(response: Response) -> _Problem:
    """The problem in a response, if its body is one."""
    try:
        return _problems.decode(response.body or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Problem()
