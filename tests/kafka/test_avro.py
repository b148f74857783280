from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kafka.registry import RegistryServer, message

from fieldfare.errors import InputError, KafkaTopicError, KafkaUnavailableError, UnknownSchemaError
from fieldfare.kafka.schema_registry import RegisteredSchema, SchemaRegistry
from fieldfare.pipeline.kafka.avro_events import columns_of
from fieldfare.pipeline.kafka.registered_events import RegisteredEvents

QUOTE = {
    "type": "record",
    "name": "Quote",
    "fields": [
        {"name": "symbol", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "volume", "type": "long"},
    ],
}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def rows_of(server: RegistryServer, schema: pa.Schema, messages: list[bytes]) -> tuple[list[Any], list[str | None]]:
    columns, reasons = RegisteredEvents(schema, "avro", server.registry).decoded(messages)
    return pa.record_batch(columns, schema=schema).to_pylist(), reasons


def test_an_event_is_read_by_the_schema_that_its_writer_named(server: RegistryServer) -> None:
    first = server.add(QUOTE, "quotes")
    later = {**QUOTE, "fields": [*QUOTE["fields"][:2], {"name": "venue", "type": "string"}]}
    second = server.add(later, "quotes")
    events = [{"symbol": "A", "price": 1.5, "volume": 3}, {"symbol": "B", "price": None, "venue": "X"}]
    messages = [message(first, QUOTE, events[0]), message(second, later, events[1])]
    rows, reasons = rows_of(server, columns_of(QUOTE), messages * 2)
    assert reasons == [None] * 4
    assert rows == [events[0], {"symbol": "B", "price": None, "volume": None}] * 2
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/2"]  # once each


def test_every_type_has_a_column(server: RegistryServer) -> None:
    kinds: dict[str, tuple[Any, Any, pa.DataType]] = {
        "flag": ("boolean", True, pa.bool_()),
        "small": ("int", -5, pa.int32()),
        "large": ("long", 2**63 - 1, pa.int64()),
        "single": ("float", 0.5, pa.float32()),
        "double": ("double", 0.1, pa.float64()),
        "text": ("string", "ü", pa.string()),
        "raw": ("bytes", b"\0\xff", pa.binary()),
        "four": ({"type": "fixed", "name": "Four", "size": 4}, b"abcd", pa.binary()),
        "color": ({"type": "enum", "name": "Color", "symbols": ["RED"]}, "RED", pa.string()),
        "day": ({"type": "int", "logicalType": "date"}, date(2026, 1, 31), pa.date32()),
        "at": (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2026, 1, 31, 12, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
        ),
        "amount": (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Decimal("12.34"),
            pa.decimal128(9, 2),
        ),
        "tags": ({"type": "array", "items": "string"}, ["a", "b"], pa.list_(pa.string())),
        "place": (
            {
                "type": "record",
                "name": "Place",
                "namespace": "here",
                "fields": [{"name": "city", "type": ["null", "string"]}],
            },
            {"city": "Köln"},
            pa.struct([pa.field("city", pa.string())]),
        ),
        "other": ("here.Place", {"city": None}, pa.struct([pa.field("city", pa.string())])),
    }
    fields = [{"name": name, "type": kind} for name, (kind, _, _) in kinds.items()]
    schema = {"type": "record", "name": "All", "fields": fields}
    event = {name: value for name, (_, value, _) in kinds.items()}
    columns = columns_of(schema)
    assert {field.name: field.type for field in columns} == {name: kind for name, (_, _, kind) in kinds.items()}
    rows, reasons = rows_of(server, columns, [message(server.add(schema), schema, event)])
    assert reasons == [None]
    assert rows == [event]


@given(st.lists(st.tuples(st.text(), st.none() | st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1))))
def test_what_was_written_is_read(events: list[tuple[str, float | None, int]]) -> None:
    with RegistryServer() as server:
        schema_id = server.add(QUOTE)
        expected = [dict(zip(("symbol", "price", "volume"), event, strict=True)) for event in events]
        rows, reasons = rows_of(server, columns_of(QUOTE), [message(schema_id, QUOTE, event) for event in expected])
    assert rows == expected
    assert not any(reasons)


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_read_or_told(junk: bytes, has_head: bool) -> None:
    decoder = RegisteredEvents(columns_of(QUOTE), "avro", _KNOWN)
    columns, (reason,) = decoder.decoded([b"\0\0\0\0\1" + junk if has_head else junk])
    assert [len(column) for column in columns] == [1, 1, 1]
    if reason is not None:
        assert pa.record_batch(columns, names=["a", "b", "c"]).to_pylist() == [{"a": None, "b": None, "c": None}]


class _Known(SchemaRegistry):
    def by_id(self, schema_id: int) -> RegisteredSchema:
        if schema_id != 1:
            raise UnknownSchemaError("there is one schema only")
        return RegisteredSchema("the schema", json.dumps(QUOTE))


_KNOWN = _Known("http://nowhere")


def test_bad_messages_cost_themselves_only(server: RegistryServer) -> None:
    good = message(server.add(QUOTE), QUOTE, {"symbol": "A", "price": 1.0, "volume": 1})
    text = server.add("string")
    bad = [b"", b'{"symbol": "A"}', b"\0\0\0\0\x63" + good[5:], good[:-1], good + b"x", message(text, "string", "x")]
    rows, reasons = rows_of(server, columns_of(QUOTE), [good, *bad, good])
    assert [row["symbol"] for row in rows] == ["A", *[None] * len(bad), "A"]
    assert reasons[0] is reasons[-1] is None
    for reason, words in zip(
        reasons[1:-1],
        ["without the id", "without the id", "no schema 99", "not as its", "longer", "no record"],
        strict=True,
    ):
        assert reason is not None
        assert words in reason


@pytest.mark.parametrize(
    "items",
    ["null", {"type": "record", "name": "Empty", "fields": []}, {"type": "fixed", "name": "Zero", "size": 0}],
)
def test_a_list_of_nothing_is_refused(server: RegistryServer, items: Any) -> None:
    """Ten bytes could say that there are 2^60 of them."""
    bomb = {"type": "record", "name": "B", "fields": [{"name": "xs", "type": {"type": "array", "items": items}}]}
    with pytest.raises(InputError, match="no bytes"):
        columns_of(bomb)
    schema_id = server.add(bomb)
    _, (reason,) = rows_of(server, columns_of(QUOTE), [b"\0\0\0\0" + bytes([schema_id]) + b"\xfe" * 9 + b"\x01\0"])
    assert reason is not None
    assert "no bytes" in reason


def test_what_cannot_be_a_column_is_refused() -> None:
    union = {"type": "record", "name": "U", "fields": [{"name": "x", "type": ["int", "string"]}]}
    with pytest.raises(InputError, match="union of 2 types"):
        columns_of(union)
    recursive = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    nested = {"type": "record", "name": "N", "fields": [{"name": "r", "type": recursive}]}
    with pytest.raises(InputError, match="deeper than"):
        columns_of(nested)
    with pytest.raises(InputError, match="is a record"):
        columns_of("string")


def test_a_registry_that_fails_is_told(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.registry.url, "ann:canary")
    with pytest.raises(UnknownSchemaError, match="has no schema 7"):
        registry.by_id(7)
    assert server.user == "Basic YW5uOmNhbmFyeQ=="
    assert "canary" not in repr(registry)
    for status, error in ((500, KafkaUnavailableError), (429, KafkaUnavailableError), (401, KafkaTopicError)):
        server.answers["/schemas/ids/7"] = status, {}
        with pytest.raises(error):
            registry.by_id(7)
    schema_id = server.add("message Q {}", schemaType="PROTOBUF")
    with pytest.raises(UnknownSchemaError, match="PROTOBUF, and not AVRO"):
        registry.by_id(schema_id).avro()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        with pytest.raises(KafkaUnavailableError):
            SchemaRegistry(f"http://127.0.0.1:{taken.getsockname()[1]}").by_id(1)
    with pytest.raises(InputError, match="http://registry"):
        SchemaRegistry("file:///etc/passwd")


def test_settings_are_divided() -> None:
    settings = {"schema.registry.url": "http://r:8081", "security.protocol": "SSL"}
    assert SchemaRegistry.taken_from(settings) == (SchemaRegistry("http://r:8081"), {"security.protocol": "SSL"})
    assert SchemaRegistry.taken_from({}) == (None, {})
