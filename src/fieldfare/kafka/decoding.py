"""Events from messages: a JSON object each, or a record in Avro or Protobuf whose schema a registry has."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, get_args

import msgspec

from fieldfare.errors import InputError
from fieldfare.kafka.schema_registry import URL, BadMessageError, SchemaRegistry

MessageFormat: TypeAlias = Literal["json", "avro", "protobuf"]
MESSAGE_FORMATS: tuple[str, ...] = get_args(MessageFormat)
_as_json = msgspec.json.Encoder(decimal_format="number").encode
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")  # a line break in JSON stands between values


class RowDecoder(Protocol):
    """Makes of a message the values of its fields."""

    def row(self, message: bytes, /) -> dict[str, Any]:
        """The values; a BadMessageError if the message is not as its schema says."""
        ...


def check_format(name: str, registry: SchemaRegistry | None) -> None:
    """Raise if there is no such format, or if it needs a registry that is not there."""
    if name not in MESSAGE_FORMATS:
        known = ", ".join(MESSAGE_FORMATS)
        raise InputError(f"format {name!r} cannot be read from Kafka: messages are in one of {known}")
    if (name != "json") != (registry is not None):
        raise InputError(
            f"messages in Avro or Protobuf need the address of a schema registry, those in JSON none: the setting {URL}"
        )


@lru_cache(maxsize=16)
def row_decoder(name: str, registry: SchemaRegistry) -> RowDecoder:
    """What reads a format that needs a registry, kept for the next messages."""
    if name == "avro":
        from fieldfare.kafka.avro import AvroRows

        return AvroRows(registry)
    from fieldfare.kafka.protobuf import ProtobufRows

    return ProtobufRows(registry)


class JsonOfMessages:
    """Makes of messages the JSON of events, on one line. Whether it is an event is not looked at."""

    def __init__(self, name: MessageFormat, registry: SchemaRegistry | None) -> None:
        check_format(name, registry)
        self._rows = None if registry is None else row_decoder(name, registry)

    def json(self, message: bytes) -> bytes:
        """The JSON of one; a BadMessageError if it has none."""
        if self._rows is None:
            return message.translate(_ONE_LINE)
        try:
            return _as_json(self._rows.row(message))
        except (ValueError, TypeError) as error:
            raise BadMessageError(f"its values have no JSON: {error}") from error
