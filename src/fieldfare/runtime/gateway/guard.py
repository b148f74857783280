"""Stands before all routes: counts who is inside, and turns away what no request of a friend looks like.

Browsers send requests for any page that asks them to. Hence a page's Origin must be on the list, and where no token
protects the service (development mode), the Host must be a name of this machine, or a page whose name was made to
point here could use it.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from fieldfare import __version__
from fieldfare.runtime.exposure import is_loopback
from fieldfare.runtime.gateway.ports import GatewayOptions
from fieldfare.runtime.gateway.problems import ProblemError, unavailable

_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Last-Event-ID, Idempotency-Key, Fieldfare-Publisher, Fieldfare-Sequence, "
        "ce-specversion, ce-id, ce-source, ce-type"
    ),
    "Access-Control-Max-Age": "600",
}
_EXPOSED = "Fieldfare-Version, Location, Retry-After"


class Guard:
    """Wraps an application."""

    def __init__(self, app: ASGIApp, options: GatewayOptions) -> None:
        self._app = app
        self._options = options
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - as in ASGI
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_marked(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                self._mark(MutableHeaders(raw=message.setdefault("headers", [])), headers.get("origin"))
            await send(message)

        try:
            self._check(scope, headers)
        except ProblemError as error:
            await _reject(error.response(), scope, receive, send_marked)
            return
        if scope["type"] == "http" and _is_preflight(scope, headers):
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send_marked)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send_marked)
        finally:
            self._inside -= 1

    def _check(self, scope: Scope, headers: Headers) -> None:
        options = self._options
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"]) + len(scope.get("query_string", b""))
        if size + len(scope["path"]) > options.head_bytes_max:
            raise ProblemError(431, "too_large", f"the head of a request has at most {options.head_bytes_max:,} bytes")
        if options.is_development and not is_local_name(headers.get("host", "")):
            raise ProblemError(421, "host", "without tokens this service is reached as localhost only")
        if "origin" in headers and headers["origin"] not in options.origins:
            raise ProblemError(403, "origin", "pages of this origin may not connect: add it to server.origins")
        if self._inside >= options.connections_max:
            raise unavailable("there are too many connections now")

    def _mark(self, headers: MutableHeaders, origin: str | None) -> None:
        headers["Fieldfare-Version"] = __version__
        headers["X-Content-Type-Options"] = "nosniff"
        headers.setdefault("Cache-Control", "no-store")
        if origin in self._options.origins:
            headers["Access-Control-Allow-Origin"] = str(origin)
            headers["Access-Control-Expose-Headers"] = _EXPOSED
        headers.add_vary_header("Origin")


async def _reject(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:
        await response(scope, receive, send)


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def is_local_name(host: str) -> bool:
    """Whether a Host header, perhaps with a port, is a name of this machine for itself."""
    is_bracketed = host.startswith("[")
    return is_loopback(host[1:].partition("]")[0] if is_bracketed else host.partition(":")[0].lower())
