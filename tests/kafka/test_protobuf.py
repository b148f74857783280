"""Messages in Protobuf: what their writers said, as the library's own JSON has it; bad ones cost only themselves."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory
from hypothesis import given
from hypothesis import strategies as st
from tests.kafka.conftest import Broker
from tests.kafka.edge_runs import all_read, events_of, in_loop, inflow, linked, until
from tests.kafka.registry import RegistryServer

from fieldfare.errors import InputError, UnknownSchemaError
from fieldfare.kafka.protobuf import ProtobufRows, message_types
from fieldfare.kafka.schema_registry import BadMessageError, SchemaRegistry
from fieldfare.pipeline.kafka.protobuf_events import protobuf_columns
from fieldfare.pipeline.kafka.registered_events import RegisteredEvents, registered_columns

QUOTE = """
syntax = "proto3";
package market;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Side { BUY = 0; SELL = 1; }
message Quote {
  string symbol = 1;
  double price = 2;
  int64 volume = 3;
  Side side = 4;
  repeated string tags = 5;
  map<string, int32> counts = 6;
  google.protobuf.Timestamp at = 7;
  optional int32 venue = 8;
  google.protobuf.Int64Value lots = 9;
  Place place = 10;
  message Place { double lon = 1; bytes raw = 2; }
}
message Other { message Inner { int32 x = 1; } }
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        server.add(QUOTE, "quotes", schemaType="PROTOBUF")
        yield server


@pytest.fixture(scope="module")
def quote(server: RegistryServer) -> Any:
    return message_factory.GetMessageClass(message_types(server.registry.by_id(1), server.registry)[0])


@pytest.fixture(scope="module")
def rows(server: RegistryServer) -> ProtobufRows:
    return ProtobufRows(server.registry)


def framed(body: bytes, schema_id: int = 1, indexes: bytes = b"\0") -> bytes:
    return struct.pack(">bI", 0, schema_id) + indexes + body


_SMALL = st.integers(-(2**31), 2**31 - 1)
_QUOTES = st.fixed_dictionaries(
    {},
    optional={
        "symbol": st.text(max_size=5),
        "price": st.floats(allow_nan=False, allow_infinity=False),
        "volume": st.integers(-(2**63), 2**63 - 1),
        "side": st.sampled_from([0, 1]),
        "tags": st.lists(st.text(max_size=3), max_size=3),
        "counts": st.dictionaries(st.text(max_size=3), _SMALL, max_size=3),
        "venue": _SMALL,
    },
)


@given(_QUOTES)
def test_values_are_those_of_the_librarys_own_json(quote: Any, rows: ProtobufRows, values: dict[str, Any]) -> None:
    message = quote(**values)
    options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    told = json_format.MessageToDict(message, **options)
    row = rows.row(framed(message.SerializeToString()))
    assert {**row, "volume": str(row["volume"])} == {
        **dict.fromkeys(("at", "venue", "lots", "place")),
        **told,
        "price": message.price,
    }


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_read_or_told(rows: ProtobufRows, junk: bytes, has_head: bool) -> None:
    with suppress(BadMessageError):
        assert isinstance(rows.row(framed(junk, indexes=b"") if has_head else junk), dict)


def test_columns_and_values_of_every_kind(server: RegistryServer, quote: Any) -> None:
    schema = registered_columns("protobuf", server.registry, "quotes")
    message = quote(symbol="A", price=1.5, volume=3, side=1, tags=["x"], counts={"k": 2}, venue=0)
    message.at.FromJsonString("2026-01-31T12:00:00.5Z")
    message.lots.value = 7
    message.place.lon, message.place.raw = 2.5, b"\xff"
    columns, reasons = RegisteredEvents(schema, "protobuf", server.registry).decoded(
        [framed(message.SerializeToString()), framed(b"\xff"), framed(b"")]
    )
    first, bad, empty = pa.record_batch(columns, schema=schema).to_pylist()
    assert reasons[0] is reasons[2] is None
    assert "not as its schema 1 says" in (reasons[1] or "")
    assert set(bad.values()) == {None}
    assert (first["side"], first["tags"], first["counts"], first["venue"]) == ("SELL", ["x"], [("k", 2)], 0)
    assert (first["lots"], first["place"]) == (7, {"lon": 2.5, "raw": b"\xff"})
    assert first["at"].isoformat() == "2026-01-31T12:00:00.500000+00:00"
    assert (empty["price"], empty["side"], empty["venue"], empty["place"]) == (0.0, "BUY", None, None)


def test_the_type_is_that_of_the_indexes(rows: ProtobufRows) -> None:
    assert rows.row(framed(b"\x08\x05", indexes=b"\x04\x02\x00")) == {"x": 5}  # 2 of them: 1, then 0
    for indexes in (b"\x04\x02\x02", b"\x02\x06", b"\x04", b"\x01", b"\x80" * 12, b"\x02\x01"):
        with pytest.raises(BadMessageError):
            rows.row(framed(b"", indexes=indexes))


def test_a_schema_may_import_others(server: RegistryServer) -> None:
    server.add('syntax = "proto3"; message Part { int32 n = 1; }', "part", schemaType="PROTOBUF")
    text = 'syntax = "proto3"; import "shared/part.proto"; message Whole { Part part = 1; }'
    references = [{"name": "shared/part.proto", "subject": "part-value", "version": 1}]
    whole = server.add(text, schemaType="PROTOBUF", references=references)
    assert ProtobufRows(server.registry).row(framed(b"\x0a\x02\x08\x09", whole)) == {"part": {"n": 9}}
    for name in ("../evil.proto", "/etc/evil.proto", "no-path"):
        bad = server.add(text, schemaType="PROTOBUF", references=[{**references[0], "name": name}])
        with pytest.raises(InputError, match="no path of a schema"):
            message_types(server.registry.by_id(bad), server.registry)


def test_what_cannot_be_used_is_told(server: RegistryServer) -> None:
    broken = server.add('syntax = "proto3"; message {', schemaType="PROTOBUF")
    with pytest.raises(BadMessageError, match=f"its schema {broken} cannot be used: .*no Protobuf schema"):
        ProtobufRows(server.registry).row(framed(b"", broken))
    avro = server.add({"type": "record", "name": "R", "fields": []})
    with pytest.raises(BadMessageError, match="AVRO, and not PROTOBUF"):
        ProtobufRows(server.registry).row(framed(b"", avro))
    with pytest.raises(UnknownSchemaError, match="has no schema 99"):
        SchemaRegistry(server.registry.url).by_id(99)
    endless = server.add('syntax = "proto3"; message R { R next = 1; int32 x = 2; }', schemaType="PROTOBUF")
    (kind,) = message_types(server.registry.by_id(endless), server.registry)
    with pytest.raises(InputError, match="contains itself"):
        protobuf_columns(kind)
    deep = b""
    for _ in range(40):
        deep = b"\x0a" + bytes([len(deep)]) + deep if len(deep) < 127 else deep
    with pytest.raises(BadMessageError, match="nested deeper"):
        ProtobufRows(server.registry).row(framed(deep, endless))


@in_loop
async def test_an_edge_is_fed_with_protobuf(broker: Broker, server: RegistryServer, quote: Any, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, [framed(quote(symbol="A", volume=2**60).SerializeToString()), b"junk"])
    async with linked(tmp_path, inflow(topic, message_format="protobuf", registry=server.registry)) as (edge, bridge):
        await until(lambda: all_read(bridge), bridge)
        (event,) = await events_of(edge, "news")
        assert (event["symbol"], event["volume"], event["side"], event["place"]) == ("A", 2**60, "BUY", None)
        (bad,) = await events_of(edge, "news-quarantine")
        assert "without the id of a schema" in bad["reason"]
