"""The AsyncAPI 3 document of the WebSocket: what may be said in both directions, made of the frames themselves."""

from __future__ import annotations

import functools
import typing
from typing import Any

import msgspec
from starlette.responses import Response

from fieldfare import __version__
from fieldfare.messages import PROTOCOL, ClientFrame, Delivery, EdgeFrame, Refused
from fieldfare.messages.protocol import ANSWERS
from fieldfare.runtime.gateway.requests import Endpoint, UnderstoodRequest, json_response
from fieldfare.runtime.gateway.schema_rules import add_rules

PATH = "/asyncapi.json"
_CHANNEL = "edge"
_FRAME_SCHEMAS = "#/components/schemas/{name}"
_DESCRIPTION = """What a client and an edge say to each other over a WebSocket.

A text message is one frame or more, each a JSON object on a line of its own. A request has a `ref`, a number of the
client's choice, which the answer repeats; an answer is the frame that is named with the request, or `refused`.
"""
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer"},
    "ticket": {"type": "httpApiKey", "name": "ticket", "in": "query"},
}
_SERVER = {
    "host": "localhost:7380",
    "protocol": "ws",
    "description": "With TLS the protocol is wss. A token is sent as `Authorization: Bearer TOKEN`.",
    "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in _SECURITY],
}
_BINDINGS = {"ws": {"method": "GET", "query": {"type": "object", "properties": {"ticket": {"type": "string"}}}}}


async def describe_frames(_: UnderstoodRequest) -> Response:
    """The document."""
    return json_response(document())


ENDPOINT = Endpoint(
    "GET",
    PATH,
    "The frames of the WebSocket, as an AsyncAPI document",
    describe_frames,
    {200: dict[str, Any]},
    is_open=True,
)


@functools.cache
def document() -> dict[str, Any]:
    """The document, as JSON values."""
    sent, received = typing.get_args(EdgeFrame), typing.get_args(ClientFrame)
    types, answers = [*sent, *received, Delivery], {Refused, *ANSWERS.values()}
    _, schemas = msgspec.json.schema_components(types, ref_template=_FRAME_SCHEMAS)
    add_rules(schemas)
    schemas["Deliver"]["properties"]["events"]["items"] = {"$ref": _FRAME_SCHEMAS.format(name="Delivery")}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Fieldfare", "version": __version__, "description": _DESCRIPTION},
        "defaultContentType": "application/json",
        "servers": {"edge": _SERVER},
        "channels": {
            _CHANNEL: {
                "address": "/v1/ws",
                "description": f"A WebSocket with the subprotocol {PROTOCOL}.",
                "messages": {_name(kind): {"$ref": f"#/components/messages/{_name(kind)}"} for kind in types[:-1]},
                "bindings": _BINDINGS,
            }
        },
        "operations": {
            **{_name(kind): _operation(kind, "receive") for kind in received},
            **{_name(kind): _operation(kind, "send") for kind in sent if kind not in answers},
        },
        "components": {
            "messages": {_name(kind): _message(kind) for kind in types[:-1]},
            "schemas": schemas,
            "securitySchemes": _SECURITY,
        },
    }


def _operation(kind: type[msgspec.Struct], action: str) -> dict[str, Any]:
    """What the edge does with a frame: it receives it, and perhaps answers, or it sends it by itself."""
    operation: dict[str, Any] = {
        "action": action,
        "channel": {"$ref": f"#/channels/{_CHANNEL}"},
        "summary": _summary(kind),
        "messages": [_reference(kind)],
    }
    if kind in ANSWERS:
        replies = [_reference(ANSWERS[kind]), _reference(Refused)]
        operation["reply"] = {"channel": {"$ref": f"#/channels/{_CHANNEL}"}, "messages": replies}
    return operation


def _message(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        "name": _name(kind),
        "title": kind.__name__,
        "summary": _summary(kind),
        "payload": {"$ref": _FRAME_SCHEMAS.format(name=kind.__name__)},
    }


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/channels/{_CHANNEL}/messages/{_name(kind)}"}


def _name(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)


def _summary(kind: type[msgspec.Struct]) -> str:
    return (kind.__doc__ or "").partition("\n")[0]
