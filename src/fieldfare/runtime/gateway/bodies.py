"""The bodies of requests: read within bounds, and decoded without guessing.

JSON leaves open what a repeated key, half a character or a number beyond all range means. Here each is an error.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from fieldfare.events import UnreadableError, json_values
from fieldfare.messages.wording import in_words
from fieldfare.runtime.gateway.ports import GatewayOptions
from fieldfare.runtime.gateway.problems import ProblemError, invalid

_CLOSE = {"Connection": "close"}  # what the client is still sending is not read


def media_type(request: Request) -> str:
    """What the body is said to be, in lower case and without parameters; UTF-8 is the only encoding."""
    kind, _, parameters = request.headers.get("content-type", "application/json").partition(";")
    charset = dict(parameter.strip().lower().partition("=")[::2] for parameter in parameters.split(";")).get("charset")
    if charset and charset.strip('"') != "utf-8":
        raise ProblemError(415, "media_type", "only UTF-8 is understood")
    return kind.strip().lower()


async def content(request: Request, options: GatewayOptions) -> bytes:
    """The whole body, which is neither too long nor too long in coming."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(415, "media_type", "compressed bodies are not read: send it as it is", _CLOSE)
    too_large = ProblemError(
        413, "too_large", f"a body has at most {options.body_bytes_max:,} bytes: send less", _CLOSE
    )
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:20]) > options.body_bytes_max:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(options.read_seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > options.body_bytes_max:
                    raise too_large
    except TimeoutError:
        raise ProblemError(408, "timeout", "the body did not come in time", _CLOSE) from None
    except ClientDisconnect:
        raise invalid("the body broke off") from None
    return bytes(body)


def decode(body: bytes, kind: Any) -> Any:
    """The body, a JSON object, as a value of a type."""
    try:
        values = json_values(body)
        try:
            return convert(values, kind)
        except ProblemError:
            return convert(_with_integers(values), kind)  # to JSON, 7.0 is an integer
    except UnreadableError as error:
        raise invalid(f"the body: {error}") from error


def _with_integers(value: Any) -> Any:
    """The same with integers in place of numbers that are written otherwise, but are some."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _with_integers(inner) for name, inner in value.items()}
        case list():
            return [_with_integers(inner) for inner in value]
    return value


def convert(values: Any, kind: Any, *, is_text: bool = False, place: str = "") -> Any:
    """Values as a type that says what is allowed; all are strings where they came in a URL or in headers.

    `place` says in a refusal what a value is that has no name in the request.
    """
    try:
        return msgspec.convert(values, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        raise invalid(in_words(error, place)) from error
