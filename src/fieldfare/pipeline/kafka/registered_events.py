"""Events from messages whose schemas a registry has: columns of Arrow, and for each bad message the reason.

A message is read by the schema that its writer named, and gives the columns that have its fields' names: a field that
came later than the pipeline's schema is not seen, one that is missing is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fieldfare.kafka.decoding import row_decoder
from fieldfare.kafka.schema_registry import BadMessageError, SchemaRegistry
from fieldfare.pipeline.json_events import fitting_columns


class RegisteredEvents:
    """Reads messages in Avro or Protobuf whose events have this schema."""

    def __init__(self, schema: pa.Schema, message_format: str, registry: SchemaRegistry) -> None:
        self._schema, self._rows = schema, row_decoder(message_format, registry)

    def decoded(self, messages: Sequence[bytes]) -> tuple[list[pa.Array], list[str | None]]:
        """The columns of messages, and for each message the reason why it is bad, or None."""
        rows: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for message in messages:
            try:
                rows.append(self._rows.row(message))
                reasons.append(None)
            except BadMessageError as error:
                rows.append({})
                reasons.append(str(error))
        return fitting_columns(self._schema, rows, reasons), reasons


def registered_columns(message_format: str, registry: SchemaRegistry, topic: str) -> pa.Schema:
    """The columns that the registry's latest schema of a topic has; an UnknownSchemaError if it has none yet."""
    latest = registry.latest_of(topic)
    if message_format == "avro":
        from fieldfare.pipeline.kafka.avro_events import columns_of

        return columns_of(latest.avro())
    from fieldfare.kafka.protobuf import message_types
    from fieldfare.pipeline.kafka.protobuf_events import protobuf_columns

    return protobuf_columns(message_types(latest, registry)[0])
