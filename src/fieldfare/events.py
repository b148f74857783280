"""What an event is, and how its JSON is read.

An event is a JSON object. Its values are its attributes: an inner object gives attributes with dotted names, an object
of exactly `low` and `high` is a range, and a list is an attribute with many members. Everything that takes events from
outside reads them here, so that all of it accepts the same ones, for the same reasons.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from fieldfare.errors import EventError
from fieldfare.language.values import TOO_LARGE
from fieldfare.matching.nesting import flattened
from fieldfare.matching.rows import check_event
from fieldfare.model import INT64_MAX, INT64_MIN, NOW

_Integer = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
_decode_any = msgspec.json.Decoder().decode
_Scalar = bool | _Integer | float | str | None
_decode_plain = msgspec.json.Decoder(dict[str, _Scalar | list[_Scalar]]).decode
_after_key = re.compile(rb'"\s*:')
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999, which Python knows
_surrogate = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class UnreadableError(Exception):
    """A text from outside is not the event, or other JSON object, that it should be; the message is the reason."""


def event_attributes(text: bytes) -> dict[str, Any]:
    """The attributes of an event, given as JSON; an UnreadableError if it is none, or a value cannot be matched."""
    try:
        values = _decode_plain(text)  # nearly every event: no inner objects, all numbers within their range
    except (ValueError, RecursionError):
        return _attributes_after_all(text)
    _refuse_repeated_keys(text, values)
    return values


def _attributes_after_all(text: bytes) -> dict[str, Any]:
    """The attributes of an event that is not plain, or the reason why it is none."""
    values = json_values(text)
    attributes = attributes_of(values)
    if attributes is values and not any(isinstance(value, list) for value in values.values()):
        raise UnreadableError(TOO_LARGE)  # plain, but for a number
    try:
        check_event(attributes)  # ranges, and integers in inner objects, may be wrong
    except EventError as error:
        raise UnreadableError(str(error)) from error
    return attributes


def accepted_at(attributes: dict[str, Any], at: float) -> dict[str, Any]:
    """Adds the time of now to an event's attributes: when it was accepted, in seconds since 1970 as it is stored.

    Another broker or peer may say anything; a time that is none is 1970.
    """
    attributes[NOW] = datetime.fromtimestamp(at if _FIRST_SECOND <= at <= _LAST_SECOND else 0.0, UTC)
    return attributes


def json_values(text: bytes) -> dict[str, Any]:
    """The object that a text of JSON holds. A number out of range, or a key that stands twice, is an error."""
    try:
        values = _decode_any(text)
    except UnicodeDecodeError as error:
        raise UnreadableError("not valid UTF-8") from error
    except RecursionError as error:
        raise UnreadableError("nested too deep") from error
    except ValueError as error:  # what msgspec raises for bad JSON, and int() for too many digits
        half = _surrogate.search(text)
        raise UnreadableError(f"{half[0].decode()} is half of a character" if half else str(error)) from error
    if not isinstance(values, dict):
        raise UnreadableError("not a JSON object")
    _refuse_repeated_keys(text, values)
    return values


def _refuse_repeated_keys(text: bytes, values: dict[str, Any]) -> None:
    """Find a key that stands twice in one object; of such, msgspec gives the last without a word.

    Every key is followed by a colon, so where there are as many as keys, no key stands twice. There may be more, in
    strings and inner objects: then a closer count decides, and in the end a slow parser.
    """
    if text.count(b":") == len(values) or len(_after_key.findall(text)) == len(values):
        return
    try:
        json.loads(text, object_pairs_hook=_refuse_pairs)
    except RecursionError as error:
        raise UnreadableError("nested too deep") from error


def _refuse_pairs(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise UnreadableError(f"the key {key!r} stands twice")
        seen.add(key)


def attributes_of(values: dict[str, Any]) -> dict[str, Any]:
    """The attributes that the values of a JSON object give; the same dict where all values are plain."""
    if dict not in map(type, values.values()):
        return values
    try:
        return flattened(values)
    except EventError as error:
        raise UnreadableError(f"the attribute {error.attribute!r} {error.reason}") from error
