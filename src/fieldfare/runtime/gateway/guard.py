"""Stands before all requests: counts who is inside, and turns away what no request of a friend looks like.

Browsers send requests for any page that asks them to. Hence a page's Origin must be on the list, and where no token
protects the service (development mode), the Host must be a name of this machine, or a page whose name was made to
point here could use it.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fieldfare import __version__
from fieldfare.runtime.exposure import is_loopback
from fieldfare.runtime.gateway.ports import Gateway
from fieldfare.runtime.gateway.problems import ProblemError, full

_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Last-Event-ID, Idempotency-Key, Fieldfare-Publisher, Fieldfare-Sequence, "
        "Fieldfare-Event, traceparent, ce-specversion, ce-id, ce-source, ce-type, ce-subject, ce-time"
    ),
    "Access-Control-Max-Age": "600",
}
_EXPOSED = "Fieldfare-Version, Fieldfare-Position, Fieldfare-Log, Location, Retry-After"


def check(headers: Headers, target_bytes: int, gateway: Gateway) -> None:
    """Raise a ProblemError for a request that is not let in; its target is its path and query."""
    options = gateway.options
    if _size_bytes(headers) + target_bytes > options.head_bytes_max:
        raise ProblemError(431, "too_large", f"the head of a request has at most {options.head_bytes_max:,} bytes")
    if options.is_development and not is_local_name(headers.get("host", "")):
        raise ProblemError(421, "host", "without tokens this service is reached as localhost only")
    if not options.origins.issuperset(headers.getlist("origin")):
        raise ProblemError(403, "origin", "pages of this origin may not connect: add it to server.origins")
    if gateway.inside.count >= options.connections_max:
        raise full(options.other_edges())


def mark(answer: MutableHeaders, headers: Headers, gateway: Gateway) -> None:
    """Add what every answer to a request with these headers has."""
    answer["Fieldfare-Version"] = __version__
    answer["X-Content-Type-Options"] = "nosniff"
    answer.setdefault("Cache-Control", "no-store")
    if (origin := headers.get("origin")) in gateway.options.origins:
        answer["Access-Control-Allow-Origin"] = str(origin)
        answer["Access-Control-Expose-Headers"] = _EXPOSED
    answer.add_vary_header("Origin")


class Guard:
    """Wraps an application. WebSockets do not come by here: see `handshake`."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - as in ASGI
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                mark(MutableHeaders(raw=message.setdefault("headers", [])), headers, self._gateway)
            await send(message)

        try:
            check(headers, len(scope["path"]) + len(scope.get("query_string", b"")), self._gateway)
        except ProblemError as error:
            await error.response()(scope, receive, send_marked)
            return
        if _is_preflight(scope, headers):
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send_marked)
            return
        self._gateway.inside.count += 1
        try:
            await self._app(scope, receive, send_marked)
        finally:
            self._gateway.inside.count -= 1


def _size_bytes(headers: Headers) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers.raw)


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def is_local_name(host: str) -> bool:
    """Whether a Host header, perhaps with a port, is a name of this machine for itself."""
    is_bracketed = host.startswith("[")
    return is_loopback(host[1:].partition("]")[0] if is_bracketed else host.partition(":")[0].lower())
