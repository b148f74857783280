"""Rules between the members of a JSON object that no type says, but that requests are held to, as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NOTHING = {"type": "null"}


def _only(chosen: str, what: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """One member is given, and the others are not, or say nothing."""
    return {"type": "object", "required": [chosen], "properties": {chosen: dict(what), **others}}


def _either(*members: Mapping[str, Any]) -> dict[str, Any]:
    """Of some members at least one is as it says."""
    return {"anyOf": [{"properties": dict(each)} for each in members]}


RULES: Mapping[str, dict[str, Any]] = {
    "Start": {
        "oneOf": [
            _only("position", {"type": "integer"}, {"time": _NOTHING, "beginning": {"const": False}}),
            _only("time", {"type": "number"}, {"position": _NOTHING, "beginning": {"const": False}}),
            _only("beginning", {"const": True}, {"position": _NOTHING, "time": _NOTHING}),
        ],
    },
    "NewStart": {"examples": [{"start": {"beginning": True}}, {"start": {"position": 7}}, {"start": {"time": 1.8e9}}]},
    "Acknowledgement": {
        "oneOf": [
            _only("position", {"type": "integer"}, {"positions": _NOTHING}),
            _only("positions", {"type": "array"}, {"position": _NOTHING}),
        ]
    },
    "NewSubscription": {
        "allOf": [
            _either({"after": _NOTHING}, {"start": _NOTHING}),
            _either({"webhook": _NOTHING}, {"consuming": {"properties": {"is_shared": {"const": False}}}}),
        ]
    },
}


def add_rules(schemas: dict[str, Any]) -> None:
    """Add them to the schemas of the types, by their names."""
    for name in RULES.keys() & schemas.keys():
        schemas[name] |= RULES[name]
