"""The OpenAPI 3.1 document of a table of endpoints. Schemas are those of the types that decode the requests."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from fieldfare import __version__
from fieldfare.messages import ClientFrame, Delivery, EdgeFrame
from fieldfare.runtime.cloudevents import BATCH, STRUCTURED
from fieldfare.runtime.gateway.forms import CloudEvent, WebhookBody
from fieldfare.runtime.gateway.problems import MEDIA_TYPE, Problem
from fieldfare.runtime.gateway.requests import PATH_TYPES, Endpoint, UnderstoodRequest, json_response
from fieldfare.runtime.gateway.schema_rules import add_rules

PATH = "/openapi.json"
_JSON = "application/json"
_REFUSALS = (400, 401, 429, 500, 503, 504)
_BODY_REFUSALS = (408, 413, 415)
_path_parameter = re.compile(r"{(\w+)}")


def described(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """The endpoints, and one more that describes them all."""

    @functools.cache
    def made() -> dict[str, Any]:
        return document(complete)

    async def describe(_: UnderstoodRequest) -> Response:
        return json_response(made())

    complete = (*endpoints, Endpoint("GET", PATH, "This document", describe, {200: dict[str, Any]}, is_open=True))
    return complete


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document."""
    types = [Problem, Delivery, WebhookBody, CloudEvent, list[CloudEvent], ClientFrame, EdgeFrame]
    types += [kind for one in endpoints for kind in _body_types(one)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    add_rules(components)
    by_type = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    components |= {"ClientFrame": by_type[repr(ClientFrame)], "EdgeFrame": by_type[repr(EdgeFrame)]}
    paths: dict[str, Any] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fieldfare",
            "version": __version__,
            "summary": "Content-based publish/subscribe: subscribe with a SQL condition, publish events as JSON.",
        },
        "paths": paths,
        "webhooks": {"events": {"post": _webhook(by_type)}},
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],  # none is needed in development mode
    }


def _webhook(schemas: dict[str, Any]) -> dict[str, Any]:
    """What the URL of a subscription with a webhook is called with; `webhook_form` says in which of these forms."""
    bodies: dict[str, Any] = {_JSON: WebhookBody, STRUCTURED: CloudEvent, BATCH: list[CloudEvent]}
    content = {media: {"schema": schemas[repr(kind)]} for media, kind in bodies.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    return {
        "operationId": "events",
        "summary": "Events of a subscription with a webhook, signed as Standard Webhooks says",
        "parameters": [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names],
        "requestBody": {
            "required": True,
            "description": "In the binary form the attributes of the one event are headers that begin with ce-.",
            "content": {**content, "*/*": {"schema": {"type": "string", "format": "binary"}}},
        },
        "responses": {
            "2XX": {"description": "They were taken"},
            "4XX": {"description": "They never will be, but for 408, 425 and 429: they become dead letters"},
            "5XX": {"description": "They are sent again later"},
        },
    }


def _body_types(endpoint: Endpoint) -> Iterator[Any]:
    yield from (kind for kind in endpoint.bodies.values() if not isinstance(kind, str))
    for answer in endpoint.answers.values():
        kinds = answer.values() if isinstance(answer, dict) else [answer]
        yield from (kind for kind in kinds if kind is not None and not isinstance(kind, str))


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "parameters": list(_parameters(endpoint)),
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.bodies:
        content = {
            media: {"schema": {"type": "string", "format": "binary"} if isinstance(kind, str) else schemas[repr(kind)]}
            for media, kind in endpoint.bodies.items()
        }
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.is_open:
        operation["security"] = []
    return operation


def _parameters(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    for name in _path_parameter.findall(endpoint.path):
        schema = msgspec.json.schema(PATH_TYPES[name])
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for place, struct in (("query", endpoint.query), ("header", endpoint.headers)):
        for field in msgspec.structs.fields(struct):
            schema = msgspec.json.schema(field.type)
            yield {"name": field.encode_name, "in": place, "required": field.required, "schema": schema}


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in endpoint.answers.items():
        responses[str(status)] = response = {"description": HTTPStatus(status).phrase}
        if isinstance(kind, dict):
            response["content"] = {media: {"schema": schemas[repr(each)]} for media, each in kind.items()}  # type: ignore[assignment]
        elif isinstance(kind, str):
            response["content"] = {kind: {"schema": {"type": "string"}}}  # type: ignore[assignment]
        elif kind is not None:
            response["content"] = {_JSON: {"schema": schemas[repr(kind)]}}  # type: ignore[assignment]
    problem = {"content": {MEDIA_TYPE: {"schema": schemas[repr(Problem)]}}}
    for status in sorted({*_REFUSALS, *endpoint.refusals, *(_BODY_REFUSALS if endpoint.bodies else ())}):
        responses[str(status)] = {"description": HTTPStatus(status).phrase, **problem}
    return responses
