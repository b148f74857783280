"""Samples as events and back: a translator for each DDS type, made once from the type that was discovered.

Members become JSON values of their names: numbers, strings, booleans and names of enumerators are attributes at the
edge, an inner struct gives attributes with dotted names, and lists are lists. What JSON does not have is
written so that the type tells how to read it: a number that is not finite, or beyond 64 bits with a sign, is a string;
bytes are a list with one string of base64; a union is an object of `discriminator` and `value`.
"""

from __future__ import annotations

import dataclasses
import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

import cyclonedds.idl.types as idl_types
import msgspec
from cyclonedds import idl

from fieldfare.messages import EVENT_BYTES_MAX
from fieldfare.model import INT64_MAX, INT64_MIN
from fieldfare.runtime.dds.names import DISPOSED_KEY

Convert: TypeAlias = Callable[[Any], Any]

_BITS = {  # of integers: how many, and whether with a sign
    "int8": (8, True),
    "int16": (16, True),
    "int32": (32, True),
    "int64": (64, True),
    "uint8": (8, False),
    "byte": (8, False),
    "uint16": (16, False),
    "uint32": (32, False),
    "uint64": (64, False),
    "wchar": (16, False),
}
_FLOAT32_MAX = (2 - 2**-23) * 2.0**127
_DEPTH_MAX = 30  # of types within types: events nest no deeper
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class UntranslatableError(Exception):
    """A type, a sample or an event has no counterpart on the other side; the message is the reason."""


class _Value(NamedTuple):
    """How values of one type are translated."""

    to_json: Convert
    from_json: Convert


class Translator:
    """Translates samples of one DDS type; an UntranslatableError if the type has something that events cannot hold."""

    def __init__(self, data_type: type[Any]) -> None:
        self.data_type = data_type
        data_type.__idl__.populate()
        self._value = _struct(data_type, 0)
        members = _members(data_type, 0)
        annotations = data_type.__idl_field_annotations__
        self._keys = {name: value for name, value in members.items() if annotations.get(name, {}).get("key")}

    @property
    def is_keyed(self) -> bool:
        """Whether samples are of instances, which can be disposed."""
        return bool(self._keys)

    def event(self, sample: Any) -> bytes:
        """The event that a sample is."""
        return _text(self._value.to_json(sample))

    def disposed_event(self, key: Any) -> bytes:
        """The event which says that an instance is disposed: the members of its key, and one that says so."""
        members = {name: value.to_json(getattr(key, name)) for name, value in self._keys.items()}
        return _text(members | {DISPOSED_KEY: "disposed"})

    def sample(self, event: bytes) -> tuple[Any, bool]:
        """The sample that an event is, and whether it says that an instance is disposed: then it has a key only."""
        try:
            members = _decode(event)
        except msgspec.DecodeError as error:
            raise UntranslatableError(f"not a JSON object: {error}") from error
        if members.get(DISPOSED_KEY) != "disposed":
            return self._value.from_json(members), False
        key: Any = object.__new__(self.data_type)
        for name, value in self._keys.items():
            setattr(key, name, _member(members, name, value))
        return key, True


def _text(members: Any) -> bytes:
    text = _encode(members)
    if len(text) > EVENT_BYTES_MAX:
        raise UntranslatableError(f"it is longer than {EVENT_BYTES_MAX:,} bytes as an event")
    return text


def _value(kind: Any, depth: int) -> _Value:
    """How values of a type are translated, as Cyclone DDS describes types in Python."""
    if depth > _DEPTH_MAX:
        raise UntranslatableError(f"its types are nested deeper than {_DEPTH_MAX}, or contain themselves")
    if get_origin(kind) is Annotated:
        return _annotated(*get_args(kind), depth=depth)
    if get_origin(kind) in (Union, UnionType):
        (inner,) = (each for each in get_args(kind) if each is not type(None))
        return _optional(_value(inner, depth))
    if isinstance(kind, (idl_types.typedef, idl_types.array, idl_types.sequence, idl_types.bounded_str)):
        return _annotated(None, kind, depth=depth)
    plain = {bool: _BOOLEAN, str: _STRING, int: _integer(64, is_signed=True), float: _float(math.inf)}
    if kind in plain:
        return plain[kind]
    if isinstance(kind, type):
        for base, made in ((idl.IdlStruct, _struct), (idl.IdlUnion, _union), (idl.IdlEnum, _enum)):
            if issubclass(kind, base):
                return made(kind, depth)
        if issubclass(kind, idl.IdlBitmask):
            return _bitmask(kind)
    raise UntranslatableError(f"it has members of the type {kind!r}")


def _annotated(kind: Any, note: Any, *, depth: int) -> _Value:
    if note in _BITS:
        bits, is_signed = _BITS[note]
        return _integer(bits, is_signed=is_signed)
    if note in ("float32", "float64"):
        return _float(_FLOAT32_MAX if note == "float32" else math.inf)
    if note == "char" or isinstance(note, idl_types.bounded_str):
        return _STRING
    if isinstance(note, (idl_types.array, idl_types.sequence)):
        length = note.length if isinstance(note, idl_types.array) else None
        if get_args(note.subtype)[1:] and get_args(note.subtype)[1] in ("uint8", "byte"):
            return _bytes(length)
        return _list(_value(note.subtype, depth + 1), length)
    return _value(note.subtype if isinstance(note, idl_types.typedef) else kind, depth)


# Plain values


def _need(is_so: object, what: str, value: Any) -> None:
    if not is_so:
        raise UntranslatableError(f"{_shown(value)} is not {what}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 50 else f"{text[:50]}…"


def _boolean(value: Any) -> bool:
    _need(isinstance(value, bool), "a boolean", value)
    return bool(value)


def _string(value: Any) -> str:
    _need(isinstance(value, str), "a string", value)
    return str(value)


_BOOLEAN = _Value(bool, _boolean)
_STRING = _Value(str, _string)


def _integer(bits: int, *, is_signed: bool) -> _Value:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    what = f"an integer of {bits} bits" if is_signed else f"an integer of {bits} bits without a sign"

    def from_json(value: Any) -> int:
        is_text = isinstance(value, str) and value.isdecimal() and len(value) <= 20
        if is_text or (isinstance(value, float) and value.is_integer()):
            value = int(value)
        _need(isinstance(value, int) and not isinstance(value, bool) and low <= value <= high, what, value)
        return int(value)

    return _Value(lambda value: value if INT64_MIN <= value <= INT64_MAX else str(value), from_json)


def _float(most: float) -> _Value:
    what = "a number" if most == math.inf else "a number of 32 bits"

    def from_json(value: Any) -> float:
        if isinstance(value, str) and value in ("nan", "inf", "-inf"):
            return float(value)
        _need(isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= most, what, value)
        return float(value)

    return _Value(lambda value: value if math.isfinite(value) else str(value), from_json)


def _optional(inner: _Value) -> _Value:
    return _Value(
        lambda value: None if value is None else inner.to_json(value),
        lambda value: None if value is None else inner.from_json(value),
    )


def _enum(kind: Any, depth: int) -> _Value:  # noqa: ARG001 - as the others are made
    def from_json(value: Any) -> Any:
        _need(isinstance(value, str) and value in kind.__members__, f"one of {', '.join(kind.__members__)}", value)
        return kind[value]

    return _Value(lambda value: value.name, from_json)


def _bitmask(kind: Any) -> _Value:
    names = [field.name for field in dataclasses.fields(kind)]

    def from_json(value: Any) -> Any:
        _need(isinstance(value, dict), "an object", value)
        return kind(**{name: _member(value, name, _BOOLEAN) for name in names})

    return _Value(lambda value: {name: bool(getattr(value, name)) for name in names}, from_json)


# Lists


def _list(inner: _Value, length: int | None) -> _Value:
    to_json, from_json = inner

    def back(value: Any) -> list[Any]:
        _need(isinstance(value, list), "a list", value)
        _need(length is None or len(value) == length, f"a list of {length}", value)
        return [from_json(each) for each in value]

    return _Value(lambda value: [to_json(each) for each in value], back)


def _bytes(length: int | None) -> _Value:
    """Bytes are in a list, which is no attribute of an event: a string of its own would be one."""

    def back(value: Any) -> bytes:
        _need(isinstance(value, list) and len(value) == 1 and isinstance(value[0], str), "a list of one string", value)
        try:
            found = b64decode(value[0], validate=True)
        except ValueError as error:
            raise UntranslatableError(f"{_shown(value[0])} is not base64") from error
        _need(length is None or len(found) == length, f"a list of {length} bytes", value)
        return found

    return _Value(lambda value: [b64encode(bytes(value)).decode()], back)


# Types with members


def _members(kind: Any, depth: int) -> dict[str, _Value]:
    return {field.name: _value(field.type, depth + 1) for field in dataclasses.fields(kind)}


def _member(members: dict[str, Any], name: str, value: _Value) -> Any:
    try:
        return value.from_json(members.get(name))
    except UntranslatableError as error:
        reason = str(error) if name in members else "it is missing"
        raise UntranslatableError(f"{name}: {reason}") from None


def _struct(kind: Any, depth: int) -> _Value:
    members = _members(kind, depth)
    is_range_like = depth > 0 and members.keys() == {"low", "high"}

    def to_json(sample: Any) -> Any:
        found = {name: value.to_json(getattr(sample, name)) for name, value in members.items()}
        return [found] if is_range_like and not _is_range(**found) else found

    def from_json(found: Any) -> Any:
        if is_range_like and isinstance(found, list) and len(found) == 1:
            (found,) = found
        _need(isinstance(found, dict), "an object", found)
        return kind(**{name: _member(found, name, value) for name, value in members.items()})

    return _Value(to_json, from_json)


def _is_range(low: Any, high: Any) -> bool:
    """Whether the edge takes an object of `low` and `high` for a range, which it must not refuse then."""
    numbers = all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in (low, high))
    return numbers and low <= high


def _union(kind: Any, depth: int) -> _Value:
    discriminator = _value(kind.__idl_discriminator__, depth + 1)
    cases = {label: _value(case[1], depth + 1) for label, case in kind.__idl_cases__.items()}
    default = None if kind.__idl_default__ is None else _value(kind.__idl_default__[1], depth + 1)

    def case_of(label: Any) -> _Value:
        return cases.get(label) or default or _optional(_STRING)  # without a case there is no value

    def to_json(union: Any) -> Any:
        label, value = union.get()
        return {"discriminator": discriminator.to_json(label), "value": case_of(label).to_json(value)}

    def from_json(found: Any) -> Any:
        _need(isinstance(found, dict), "an object", found)
        label = _member(found, "discriminator", discriminator)
        return kind(discriminator=label, value=_member(found, "value", case_of(label)))

    return _Value(to_json, from_json)
