"""Matching Arrow columns of a known schema, for files and for Spark.

The attribute `place.city` is the column of that name or else, as in Spark, the field `city` of the struct `place`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fieldfare.matching.index import Index


def match_columns(index: Index, events: pa.Table | pa.RecordBatch) -> pa.ListArray:
    """For each row the ids of the subscriptions it satisfies."""
    names = set(events.schema.names)
    for attribute in index.attributes:
        column, *path = attribute.split(".")
        if path and attribute not in names and attribute_type(events.schema, attribute):
            events = events.append_column(attribute, pc.struct_field(events.column(column), path))
    return index.match_table(events)


def check_schema(index: Index, schema: pa.Schema) -> None:
    """Raise an EventError if a column that conditions ask about has a type that cannot be matched."""
    match_columns(index, pa.table([pa.nulls(1, field.type) for field in schema], names=schema.names))


def attribute_type(schema: pa.Schema, attribute: str) -> pa.DataType | None:
    """The type of an attribute; None where the schema does not have it."""
    if attribute in schema.names:
        return schema.field(attribute).type
    column, *path = attribute.split(".")
    if not path or column not in schema.names:
        return None
    kind = schema.field(column).type
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind
