"""The columns of events that a Protobuf message type describes."""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from fieldfare.errors import InputError
from fieldfare.kafka.protobuf import TIMESTAMP, WRAPPERS, is_map

_DEPTH_MAX = 32
_PLAIN: dict[int, pa.DataType] = {
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),  # Spark has no type of this range that is whole
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}


def protobuf_columns(kind: Descriptor) -> pa.Schema:
    """The columns; an InputError if the type contains itself."""
    return pa.schema(list(_struct(kind, 0)))


def _struct(kind: Descriptor, depth: int) -> pa.StructType:
    if depth > _DEPTH_MAX:
        raise InputError(f"the message {kind.full_name} is deeper than {_DEPTH_MAX} levels, or contains itself")
    return pa.struct([pa.field(field.name, _type(field, depth)) for field in kind.fields])


def _type(field: FieldDescriptor, depth: int) -> pa.DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_single(key, depth), _single(value, depth))
    return pa.list_(_single(field, depth)) if field.is_repeated else _single(field, depth)


def _single(field: FieldDescriptor, depth: int) -> pa.DataType:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return pa.timestamp("us", "UTC")
        if field.message_type.full_name in WRAPPERS:
            return _single(field.message_type.fields_by_name["value"], depth)
        return _struct(field.message_type, depth + 1)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
    return _PLAIN[field.cpp_type]
