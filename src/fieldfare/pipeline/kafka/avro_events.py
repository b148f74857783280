"""The columns of events that an Avro schema describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from fieldfare.errors import InputError
from fieldfare.kafka.avro import DEPTH_MAX, parsed

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_LOGICAL: dict[str, Callable[[dict[str, Any]], pa.DataType]] = {
    "date": lambda _: pa.date32(),
    "timestamp-millis": lambda _: pa.timestamp("us", "UTC"),
    "timestamp-micros": lambda _: pa.timestamp("us", "UTC"),
    "local-timestamp-millis": lambda _: pa.timestamp("us"),
    "local-timestamp-micros": lambda _: pa.timestamp("us"),
    "uuid": lambda _: pa.string(),
    "decimal": lambda kind: pa.decimal128(kind["precision"], kind.get("scale", 0)),
}


def columns_of(schema: Any) -> pa.Schema:
    """The columns of events that an Avro schema describes; an error if it has what events cannot."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InputError("the schema of an event is a record")
    return pa.schema(list(_arrow_type(parsed(schema), {}, 0)))


def _arrow_type(kind: Any, named: dict[str, Any], depth: int) -> pa.DataType:
    """The type of a column for a type of Avro. `named` are the types that stood before, by their names."""
    if depth > DEPTH_MAX:
        raise InputError(f"the schema is deeper than {DEPTH_MAX} levels")
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) != 1:
            raise InputError(f"a union of {len(others)} types cannot be a column: give the events' schema without it")
        return _arrow_type(others[0], named, depth + 1)
    if isinstance(kind, str):
        found = _PLAIN.get(kind)
        return found if found is not None else _arrow_type(_named(kind, named), named, depth + 1)
    logical = _LOGICAL.get(kind.get("logicalType", ""))
    if logical is not None:
        return logical(kind)
    if "name" in kind:
        named[kind["name"]] = kind
    match kind["type"]:
        case "record":
            return pa.struct(
                [pa.field(each["name"], _arrow_type(each["type"], named, depth + 1)) for each in kind["fields"]]
            )
        case "array":
            return pa.list_(_arrow_type(kind["items"], named, depth + 1))
        case "map":
            return pa.map_(pa.string(), _arrow_type(kind["values"], named, depth + 1))
        case inner:
            return _arrow_type(inner, named, depth + 1)


def _named(name: str, named: dict[str, Any]) -> Any:
    if name not in named:
        raise InputError(f"the schema names a type {name!r}, which it does not have")
    return named[name]
