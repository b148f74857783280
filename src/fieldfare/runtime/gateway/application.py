"""The door of the service for HTTP and server-sent events: an ASGI application over a broker's host.

It proves who asks, keeps bounds, and turns requests into frames and frames into answers. Everything else, rights
included, is the broker's, and the same for every way in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fieldfare.runtime.gateway import openapi
from fieldfare.runtime.gateway.guard import Guard
from fieldfare.runtime.gateway.ports import Gateway
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.requests import Endpoint, answer
from fieldfare.runtime.gateway.routes import ENDPOINTS


def application(gateway: Gateway) -> Starlette:
    """The application that answers HTTP requests. WebSockets do not reach it: `sockets` takes them from the server."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in openapi.described(ENDPOINTS):
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [Route(path, _serve(by_method, gateway), methods=list(by_method)) for path, by_method in paths.items()]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, gateway=gateway)],
        exception_handlers={HTTPException: _unroutable},
    )


def _serve(by_method: Mapping[str, Endpoint], gateway: Gateway) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        is_head = request.method == "HEAD"
        endpoint = by_method["GET" if is_head else request.method]
        if is_head and not endpoint.is_open:  # taking events is a GET, but not one that may be done without a reader
            return _other_methods({"Allow": ", ".join(by_method)})
        return await answer(request, endpoint, gateway)

    return serve


async def _unroutable(_: Request, error: Exception) -> Response:
    """A path that is not there, or not with this method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for nothing else
    if error.status_code == 405:
        return _other_methods(error.headers)
    return ProblemError(404, "unknown", "there is no such path; /openapi.json has those there are").response()


def _other_methods(headers: Mapping[str, str] | None) -> Response:
    return ProblemError(405, "method", "this path has other methods", headers).response()
