"""A request on its way to its handler: who asks, and everything it says, checked against what its endpoint declares.

An endpoint is data. The routes that serve requests and the OpenAPI document are both made of it, so they cannot
differ.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fieldfare.errors import UnauthenticatedError
from fieldfare.messages import Identity, Name, Text
from fieldfare.runtime.gateway import bodies
from fieldfare.runtime.gateway.cloudevents import is_binary
from fieldfare.runtime.gateway.ports import Gateway
from fieldfare.runtime.gateway.problems import ProblemError, invalid

PATH_TYPES: Mapping[str, Any] = {"topic": Name, "subscription": Text}
_log = logging.getLogger(__name__)


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class UnderstoodRequest:
    """A request that was understood."""

    gateway: Gateway
    identity: Identity
    path: Mapping[str, str]
    query: Any
    headers: Any
    media_type: str
    content: bytes
    body_type: Any
    all_headers: Mapping[str, str]

    @property
    def body(self) -> Any:
        """The body, a JSON object, as its endpoint declares it."""
        return bodies.decode(self.content, self.body_type)


Handler: TypeAlias = Callable[[UnderstoodRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What can be asked, and what is answered."""

    method: str
    path: str
    summary: str
    handler: Handler
    answers: Mapping[
        int, Any
    ]  # of each status the type of its body, a media type for what is no JSON, or types by theirs
    bodies: Mapping[str, Any] = field(default_factory=dict)  # the type for each media type; of bytes, its own name
    query: type[msgspec.Struct] = Nothing
    headers: type[msgspec.Struct] = Nothing
    refusals: tuple[int, ...] = ()  # beside those that every endpoint may give
    is_open: bool = False  # needs no token
    takes_tickets: bool = False  # in its query, in place of a token
    takes_cloudevents: bool = False  # whose data may be of any type


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def identify(headers: Mapping[str, str], client_host: str, gateway: Gateway, ticket: str | None = None) -> Identity:
    """Who asks. A token comes in its header only: URLs are written to logs and histories. A ticket comes in those."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    try:
        if ticket is not None:
            return _of_ticket(ticket, client_host, gateway)
        return gateway.authenticator.identify(token.strip() if scheme.lower() == "bearer" else None, client_host)
    except UnauthenticatedError as error:
        raise ProblemError(401, "unauthenticated", str(error), {"WWW-Authenticate": "Bearer"}) from None


def _of_ticket(ticket: str, client_host: str, gateway: Gateway) -> Identity:
    identity = gateway.tickets.identify(ticket)
    gateway.authenticator.check_again(identity, client_host)
    return identity


async def answer(request: Request, endpoint: Endpoint, gateway: Gateway) -> Response:
    """The answer to a request, which may be a problem."""
    try:
        return await endpoint.handler(await _understood(request, endpoint, gateway))
    except ProblemError as error:
        return error.response()
    except Exception as error:  # noqa: BLE001 - an error of ours, which must tell nothing of what was sent
        trace = "".join(traceback.format_tb(error.__traceback__))  # without the message, which may quote the request
        _log.error("%s %s failed: %s\n%s", endpoint.method, endpoint.path, type(error).__name__, trace)
        return ProblemError(500, "internal", "something went wrong here; the log of the service says what").response()


async def _understood(request: Request, endpoint: Endpoint, gateway: Gateway) -> UnderstoodRequest:
    """Everything that a request says. Nothing of its body is read before it is known who asks."""
    client_host = request.client.host if request.client else ""
    ticket = request.query_params.get("ticket") if endpoint.takes_tickets else None
    identity = _NOBODY if endpoint.is_open else identify(request.headers, client_host, gateway, ticket)
    path = {
        name: bodies.convert(value, PATH_TYPES[name], place=f"the path's {name}")
        for name, value in request.path_params.items()
    }
    pairs = request.query_params.multi_items()
    if len(pairs) > len(request.query_params):
        raise invalid("a parameter of the query stands twice")
    query = bodies.convert(dict(pairs), endpoint.query, is_text=True)
    headers = bodies.convert(_declared(request, endpoint.headers), endpoint.headers, is_text=True)
    media_type, content = "", b""
    if endpoint.bodies:
        media_type = bodies.media_type(request)
        if media_type not in endpoint.bodies and not (endpoint.takes_cloudevents and is_binary(request.headers)):
            raise ProblemError(415, "media_type", f"the body must be {' or '.join(endpoint.bodies)}")
        content = await bodies.content(request, gateway.options)
    body_type = endpoint.bodies.get(media_type)
    return UnderstoodRequest(gateway, identity, path, query, headers, media_type, content, body_type, request.headers)


_NOBODY = Identity("", {})


def _declared(request: Request, headers: type[msgspec.Struct]) -> dict[str, str]:
    names = (field.encode_name for field in msgspec.structs.fields(headers))
    return {name: request.headers[name] for name in names if name in request.headers}
