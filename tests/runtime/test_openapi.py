"""The OpenAPI document: sound in itself, and true of the service."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime.serving import asking

from fieldfare.runtime.gateway.openapi import described, document
from fieldfare.runtime.gateway.problems import STATUSES
from fieldfare.runtime.gateway.routes import ENDPOINTS

DOCUMENT = document(described(ENDPOINTS))
METHODS = ("get", "post", "put", "delete")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (inner for name, inner in value.items() if name == "$ref")
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert len(found) > 10
    for reference in found:
        place: Any = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]
        assert isinstance(place, dict)


def test_every_operation_is_complete() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    for path, method, operation in operations():
        assert method in METHODS
        assert operation["summary"]
        parameters = operation["parameters"]
        in_path = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
        assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")
        assert len({(parameter["in"], parameter["name"]) for parameter in parameters}) == len(parameters)
        assert all(isinstance(parameter["schema"], dict) for parameter in parameters)
        assert any(status.startswith(("1", "2")) for status in operation["responses"])
        assert all(response["description"] for response in operation["responses"].values())
        is_bare = path.endswith(("/pause", "/resume"))
        assert ("requestBody" in operation) == (method in ("post", "put") and not is_bare)


def test_every_refusal_of_the_broker_is_documented() -> None:
    told = {int(status) for _, _, operation in operations() for status in operation["responses"]}
    assert set(STATUSES.values()) <= told


def test_the_service_serves_what_the_document_says_and_nothing_else() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            assert (await client.get("/openapi.json")).json() == json.loads(json.dumps(DOCUMENT))
            for path, methods in DOCUMENT["paths"].items():
                real = path.replace("{topic}", "traffic").replace("{subscription}", "absent")
                for method in METHODS:
                    response = await client.request(method, real)
                    known = method in methods or (path.endswith("/test") and method in ("get", "delete"))
                    assert (response.status_code != 405) == known, (method, path)
                    if method in methods and response.is_success:
                        assert str(response.status_code) in methods[method]["responses"]
                    elif method in methods:
                        assert str(response.status_code) in methods[method]["responses"], (method, path)
                        assert response.headers["Content-Type"] == "application/problem+json"

    asyncio.run(story())


@pytest.mark.parametrize("name", ["Publish", "Subscribe", "Deliver", "Delivery", "Refused", "Problem", "ClientFrame"])
def test_the_frames_are_described(name: str) -> None:
    assert name in DOCUMENT["components"]["schemas"]
