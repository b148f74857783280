"""Messages in Protobuf, each read by the schema that its writer named.

After the id of the schema stand the indexes of the message type in its file, outermost first. A schema is source text:
protoc, as grpcio-tools brings it, compiles it once to descriptors, in a process of its own that may not take long.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from fieldfare.errors import InputError, MissingDependencyError, UnknownSchemaError
from fieldfare.kafka.schema_registry import BadMessageError, RegisteredSchema, SchemaRegistry, schema_id_of

try:
    import grpc_tools  # noqa: F401 - it runs in a process of its own
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import DecodeError, Message
except ImportError as error:
    raise MissingDependencyError("messages in Protobuf need grpcio-tools: pip install 'fieldfare[kafka]'") from error

_COMPILE_SECONDS = 30.0
_FILES_MAX = 100  # that one schema imports
_DEPTH_MAX = 32
_INDEXES_MAX = 32
_MAIN = "schema.proto"
_VARINT_BITS = 64
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
}


class ProtobufRows:
    """Reads messages, and keeps the schemas that it has seen."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._known: dict[int, list[Descriptor]] = {}
        self._unknown: dict[int, str] = {}  # why some cannot be used
        self._types: dict[tuple[int, tuple[int, ...]], type[Message]] = {}

    def row(self, message: bytes) -> dict[str, Any]:
        """The values of a message's fields."""
        schema_id, start = schema_id_of(message)
        indexes, start = _indexes(message, start)
        kind = self._types.get((schema_id, indexes))
        if kind is None:
            kind = self._types[schema_id, indexes] = message_factory.GetMessageClass(self._type(schema_id, indexes))
        try:
            read = kind.FromString(message[start:])
        except DecodeError as error:
            raise BadMessageError(f"not as its schema {schema_id} says: {error}") from error
        return _row(read, 0)

    def _type(self, schema_id: int, indexes: Sequence[int]) -> Descriptor:
        found: Sequence[Descriptor] = self._file(schema_id)
        for number in indexes:
            if number >= len(found):
                raise BadMessageError(f"its schema {schema_id} has no message of the index {list(indexes)}")
            kind, found = found[number], found[number].nested_types
        return kind

    def _file(self, schema_id: int) -> list[Descriptor]:
        if schema_id not in self._known and schema_id not in self._unknown:
            try:
                self._known[schema_id] = message_types(self._registry.by_id(schema_id), self._registry)
            except (UnknownSchemaError, InputError) as error:
                self._unknown[schema_id] = f"its schema {schema_id} cannot be used: {error}"
        if schema_id in self._unknown:
            raise BadMessageError(self._unknown[schema_id])
        return self._known[schema_id]


def message_types(schema: RegisteredSchema, registry: SchemaRegistry) -> list[Descriptor]:
    """The types of messages on the first level of a schema's file, in their order."""
    schema.require("PROTOBUF")
    files = {_MAIN: schema.schema}
    _add_imports(schema, registry, files)
    pool = descriptor_pool.DescriptorPool()
    try:
        compiled = descriptor_pb2.FileDescriptorSet.FromString(_compiled(schema.what, files))
        for file in compiled.file:
            pool.Add(file)
        main = pool.FindFileByName(_MAIN)
    except (DecodeError, TypeError, KeyError) as error:
        raise InputError(f"{schema.what} is no Protobuf schema: {error}") from error
    if not main.message_types_by_name:
        raise InputError(f"{schema.what} has no message")
    return list(main.message_types_by_name.values())


def _add_imports(schema: RegisteredSchema, registry: SchemaRegistry, files: dict[str, str]) -> None:
    for reference in schema.references:
        path = PurePosixPath(reference.name)
        if path.is_absolute() or ".." in path.parts or path.suffix != ".proto":
            raise InputError(f"{schema.what} imports {reference.name!r}, which is no path of a schema")
        if reference.name not in files:
            if len(files) > _FILES_MAX:
                raise InputError(f"{schema.what} imports more than {_FILES_MAX} others")
            imported = registry.version(reference.subject, reference.version)
            imported.require("PROTOBUF")
            files[reference.name] = imported.schema
            _add_imports(imported, registry, files)


def _compiled(what: str, files: dict[str, str]) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in files.items():
            file = folder / "in" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        out = folder / "out"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder / 'in'}", f"--descriptor_set_out={out}"]
        try:
            done = subprocess.run(  # noqa: S603 - our own command, with paths that were checked
                [*command, "--include_imports", _MAIN],
                capture_output=True,
                text=True,
                timeout=_COMPILE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{what} took longer than {_COMPILE_SECONDS:.0f} s to compile") from error
        if done.returncode or not out.exists():
            raise InputError(f"{what} is no Protobuf schema: {done.stderr.strip()[-500:]}")
        return out.read_bytes()


def _indexes(message: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The indexes of a message's type, and where the message begins. The first type's are written as a single 0."""
    count, start = _varint(message, start)
    if count == 0:
        return (0,), start
    if not 0 < count <= _INDEXES_MAX:
        raise BadMessageError("the indexes of its type make no sense")
    indexes = []
    for _ in range(count):
        index, start = _varint(message, start)
        indexes.append(index)
    if min(indexes) < 0:
        raise BadMessageError("the indexes of its type make no sense")
    return tuple(indexes), start


def _varint(message: bytes, start: int) -> tuple[int, int]:
    """A number in zigzag code, and the offset behind it."""
    value = shift = 0
    while start < len(message) and shift < _VARINT_BITS:
        byte = message[start]
        value, shift, start = value | (byte & 0x7F) << shift, shift + 7, start + 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), start
    raise BadMessageError("it ends before its type is named")


def _row(message: Message, depth: int) -> dict[str, Any]:
    if depth > _DEPTH_MAX:
        raise BadMessageError(f"nested deeper than {_DEPTH_MAX} levels")
    return {field.name: _value(message, field, depth) for field in message.DESCRIPTOR.fields}


def _value(message: Message, field: FieldDescriptor, depth: int) -> Any:
    """The value of a field; None where it says whether it is there, and is not."""
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        values = getattr(message, field.name)
        return {key: _single(values[key], inner, depth) for key in values}
    if field.is_repeated:
        return [_single(each, field, depth) for each in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(getattr(message, field.name), field, depth)


def _single(value: Any, field: FieldDescriptor, depth: int) -> Any:
    if field.type == FieldDescriptor.TYPE_ENUM:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    if field.message_type is None:
        return value
    if field.message_type.full_name == TIMESTAMP:
        try:
            return datetime.fromtimestamp(value.seconds, UTC).replace(microsecond=value.nanos // 1000)
        except (ValueError, OverflowError, OSError) as error:
            raise BadMessageError(f"the time in {field.name} makes no sense: {error}") from error
    if field.message_type.full_name in WRAPPERS:
        return value.value
    return _row(value, depth + 1)


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    return bool(field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry)
