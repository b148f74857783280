"""Messages in Avro, each read by the schema that its writer named. fastavro decodes."""

from __future__ import annotations

import io
import struct
from typing import Any

from fieldfare.errors import InputError, MissingDependencyError, UnknownSchemaError
from fieldfare.kafka.schema_registry import BadMessageError, SchemaRegistry, schema_id_of

try:
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as error:
    raise MissingDependencyError("messages in Avro need fastavro: pip install 'fieldfare[kafka]'") from error

DEPTH_MAX = 32
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


class AvroRows:
    """Reads messages, and keeps the schemas that it has seen."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._known: dict[int, Any] = {}  # the schemas of writers
        self._unknown: dict[int, str] = {}  # why some cannot be used

    def row(self, message: bytes) -> dict[str, Any]:
        """The values of a message's fields."""
        schema_id, start = schema_id_of(message)
        writer = self._writer(schema_id)
        body = io.BytesIO(message)
        body.seek(start)
        try:
            row = schemaless_reader(body, writer, None)
        except _BAD as error:
            raise BadMessageError(f"not as its schema {schema_id} says: {type(error).__name__} {error}") from error
        if body.tell() != len(message):
            raise BadMessageError(f"longer than its schema {schema_id} says")
        if not isinstance(row, dict):
            raise BadMessageError(f"its schema {schema_id} is no record")
        return row

    def _writer(self, schema_id: int) -> Any:
        if schema_id not in self._known and schema_id not in self._unknown:
            try:
                self._known[schema_id] = parsed(self._registry.by_id(schema_id).avro())
            except (UnknownSchemaError, InputError) as error:
                self._unknown[schema_id] = f"its schema {schema_id} cannot be used: {error}"
        if schema_id in self._unknown:
            raise BadMessageError(self._unknown[schema_id])
        return self._known[schema_id]


def parsed(schema: Any) -> Any:
    """A schema in which types are named in full; an InputError if it is none, or dangerous."""
    try:
        _check_sizes(schema, 0)
        return parse_schema(schema)
    except (SchemaParseException, UnknownType, *_BAD) as error:
        raise InputError(f"it is no Avro schema: {error}") from error


def _check_sizes(kind: Any, depth: int) -> None:
    """Refuse lists of values that take no bytes: a message of ten bytes could say that it has 2^60 of them."""
    if depth > DEPTH_MAX:
        raise InputError(f"the schema is deeper than {DEPTH_MAX} levels")
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
