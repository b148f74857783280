"""Events from messages in Avro, typed by a schema: columns of Arrow, and for each bad message the reason.

A message is read by the schema that its writer named, and gives the columns that have its fields' names: a field that
came later than the pipeline's schema is not seen, one that is missing is NULL. fastavro decodes.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from fieldfare.errors import InputError, MissingDependencyError, UnknownSchemaError
from fieldfare.kafka.schema_registry import SchemaRegistry
from fieldfare.pipeline.json_events import fitting_columns

try:
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as error:
    raise MissingDependencyError("messages in Avro need fastavro: pip install 'fieldfare[kafka]'") from error

_HEAD = struct.Struct(">bI")  # a zero, and the id of the schema
_DEPTH_MAX = 32
# What fastavro raises for bytes that do not follow their schema.
_BAD = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    AssertionError,
    RecursionError,
    struct.error,
)
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


class AvroEvents:
    """Reads messages whose events have this schema."""

    def __init__(self, schema: pa.Schema, registry: SchemaRegistry) -> None:
        self._schema, self._registry = schema, registry
        self._known: dict[int, Any] = {}  # the schemas of writers
        self._unknown: dict[int, str] = {}  # why some cannot be used

    @staticmethod
    @lru_cache(maxsize=16)
    def of(schema: pa.Schema, registry: SchemaRegistry) -> AvroEvents:
        """The reader for a schema, kept for the next messages."""
        return AvroEvents(schema, registry)

    def decoded(self, messages: Sequence[bytes]) -> tuple[list[pa.Array], list[str | None]]:
        """The columns of messages, and for each message the reason why it is bad, or None."""
        rows: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for message in messages:
            row, reason = self._row(message)
            rows.append(row)
            reasons.append(reason)
        return fitting_columns(self._schema, rows, reasons), reasons

    def _row(self, message: bytes) -> tuple[dict[str, Any], str | None]:
        if len(message) < _HEAD.size or message[0]:
            return {}, "not in Avro with the id of a schema: it does not begin with a zero and four bytes"
        schema_id = _HEAD.unpack_from(message)[1]
        writer = self._writer(schema_id)
        if writer is None:
            return {}, self._unknown[schema_id]
        body = io.BytesIO(message)
        body.seek(_HEAD.size)
        try:
            row = schemaless_reader(body, writer, None)
        except _BAD as error:
            return {}, f"not as its schema {schema_id} says: {type(error).__name__} {error}"
        if body.tell() != len(message):
            return {}, f"longer than its schema {schema_id} says"
        return (row, None) if isinstance(row, dict) else ({}, f"its schema {schema_id} is no record")

    def _writer(self, schema_id: int) -> Any | None:
        if schema_id not in self._known and schema_id not in self._unknown:
            try:
                schema = self._registry.by_id(schema_id)
                _check_sizes(schema, 0)
                self._known[schema_id] = parse_schema(schema)
            except (UnknownSchemaError, InputError, SchemaParseException, UnknownType, *_BAD) as error:
                self._unknown[schema_id] = f"its schema {schema_id} cannot be used: {error}"
        return self._known.get(schema_id)


def columns_of(schema: Any) -> pa.Schema:
    """The columns of events that an Avro schema describes; an error if it has what events cannot."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InputError("the schema of an event is a record")
    _check_sizes(schema, 0)
    try:
        whole = parse_schema(schema)  # in which types are named in full
    except (SchemaParseException, UnknownType, *_BAD) as error:
        raise InputError(f"it is no Avro schema: {error}") from error
    return pa.schema(list(_arrow_type(whole, {}, 0)))


def _arrow_type(kind: Any, named: dict[str, Any], depth: int) -> pa.DataType:
    """The type of a column for a type of Avro. `named` are the types that stood before, by their names."""
    if depth > _DEPTH_MAX:
        raise InputError(f"the schema is deeper than {_DEPTH_MAX} levels")
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


def _check_sizes(kind: Any, depth: int) -> None:
    """Refuse lists of values that take no bytes: a message of ten bytes could say that it has 2^60 of them."""
    if depth > _DEPTH_MAX:
        raise InputError(f"the schema is deeper than {_DEPTH_MAX} levels")
    if isinstance(kind, list):
        for each in kind:
            _check_sizes(each, depth + 1)
    elif isinstance(kind, dict):
        inner = kind.get("items", kind.get("values"))
        if inner is not None and kind.get("type") == "array" and not _takes_bytes(inner):
            raise InputError("the schema has a list of values that take no bytes")
        for each in [inner, kind.get("type"), *(entry.get("type") for entry in kind.get("fields", ()))]:
            if isinstance(each, dict | list):
                _check_sizes(each, depth + 1)


def _takes_bytes(kind: Any) -> bool:
    if isinstance(kind, dict):
        if kind.get("type") == "record":
            return any(_takes_bytes(each.get("type")) for each in kind.get("fields", ()))
        if kind.get("type") == "fixed":
            return bool(kind.get("size"))
        return _takes_bytes(kind.get("type"))
    return bool(kind != "null")
