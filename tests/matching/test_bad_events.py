"""Events and subscriptions at and beyond the edge: each has a defined answer or a typed error."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fieldfare import Index, Range
from fieldfare.errors import DuplicateIdError, EventError, InvalidIdError, SnapshotError, UnknownIdError

X = Index({"any": "x IS NOT NULL", "none": "x IS NULL", "equal": "x = 0", "less": "x < 5", "other": "NOT x = 0"})


# Values


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (math.nan, ["any"]),  # a value, but every comparison with it is unknown
        (Decimal("NaN"), ["any"]),
        (math.inf, ["any", "other"]),
        (-math.inf, ["any", "less", "other"]),
        (Decimal("Infinity"), ["any", "other"]),
        (-0.0, ["any", "equal", "less"]),
        (Decimal("-0.0"), ["any", "equal", "less"]),
        (5e-324, ["any", "less", "other"]),
        (2**63 - 1, ["any", "other"]),
        (-(2**63), ["any", "less", "other"]),
        (Decimal(2**80), ["any", "other"]),
        ("", ["any"]),
        ("0", ["any"]),
        (False, ["any"]),
        (datetime.date.min, ["any"]),
        (datetime.datetime.max.replace(tzinfo=datetime.UTC), ["any"]),
        (None, ["none"]),
    ],
)
def test_edge_values(value: Any, answer: list[str]) -> None:
    assert X.match({"x": value}) == answer
    assert [sorted(ids) for ids in X.match_rows([{"x": value}, {}]).to_pylist()] == [sorted(answer), ["none"]]


def test_integers_are_exact_beyond_floats() -> None:
    index = Index({"odd": f"x = {2**53 + 1}", "above": f"x > {2**53}", "last": f"x >= {2**63 - 1}"})
    assert index.match({"x": 2**53}) == []
    assert index.match({"x": 2**53 + 1}) == ["odd", "above"]
    assert index.match({"x": float(2**53 + 1)}) == []  # the float is 2**53
    assert index.match({"x": 2**63 - 1}) == ["above", "last"]
    assert index.match({"x": 2.0**63}) == ["above", "last"]
    assert index.match({"x": 2**63 - 2}) == ["above"]


def test_an_integer_beyond_64_bits_in_a_condition_is_its_float() -> None:
    index = Index({"huge": f"x >= {2**63}", "tiny": f"x < -{2**70}"})
    assert index.match({"x": 2**63 - 1}) == []
    assert index.match({"x": 2.0**63}) == ["huge"]
    assert index.match({"x": -math.inf}) == ["tiny"]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30])
def test_an_integer_beyond_64_bits_in_an_event_is_an_error(value: int) -> None:
    with pytest.raises(EventError, match=r"64 bits.*(float|string)") as caught:
        X.match({"x": value})
    assert caught.value.attribute == "x"
    with pytest.raises(EventError):
        X.match_rows([{"x": 1}, {"x": value}])


def test_unsigned_integers_beyond_64_bits_in_a_table_are_an_error() -> None:
    assert len(X.match_table(pa.table({"x": pa.array([4], pa.uint64())}))[0]) == 3
    with pytest.raises(EventError) as caught:
        X.match_table(pa.table({"x": pa.array([1, 2**64 - 1], pa.uint64())}))
    assert caught.value.attribute == "x"


def test_empty_strings_are_strings() -> None:
    index = Index({"equal": "x = ''", "like": "x LIKE ''", "all": "x LIKE '%'", "not": "x != ''", "null": "x IS NULL"})
    assert index.match({"x": ""}) == ["equal", "like", "all"]
    assert index.match({"x": "a"}) == ["all", "not"]
    assert index.match({"x": "\x00"}) == ["all", "not"]


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_lone_surrogates_are_an_error(text: str) -> None:
    with pytest.raises(EventError, match="Unicode") as caught:
        X.match({"x": text})
    assert caught.value.attribute == "x"
    assert X.match({"unused": text}) == ["none"]  # what no subscription asks for is not looked at


@pytest.mark.parametrize("value", [b"bytes", 1j, object(), datetime.time(12), datetime.timedelta(1)])
def test_values_of_other_types_are_an_error(value: Any) -> None:
    with pytest.raises(EventError) as caught:
        X.match({"x": value})
    assert caught.value.attribute == "x"
    assert type(value).__name__ in str(caught.value)
    assert X.match({"unused": value}) == ["none"]


@pytest.mark.parametrize("value", [Range(1, "a"), Range(2, 1), Range("b", "a"), Range(math.nan, 1), Range(1, math.nan)])
def test_ranges_without_points_are_an_error(value: Range) -> None:
    with pytest.raises(EventError) as caught:
        X.match({"x": value})
    assert caught.value.attribute == "x"


# Shapes


def test_an_event_without_attributes() -> None:
    assert X.match({}) == ["none"]
    assert X.match_rows([{}, {}]).to_pylist() == [["none"], ["none"]]


def test_no_events() -> None:
    assert X.match_rows([]).to_pylist() == []
    assert X.match_table(pa.table({"x": pa.array([], pa.int64())})).to_pylist() == []
    assert X.match_table(pa.table({"unused": pa.array([], pa.int64())})).to_pylist() == []


def test_a_table_without_the_attribute() -> None:
    assert X.match_table(pa.table({"unused": [1, 2]})).to_pylist() == [["none"], ["none"]]


def test_a_column_of_nulls() -> None:
    assert X.match_table(pa.table({"x": pa.nulls(2)})).to_pylist() == [["none"], ["none"]]


UNSUPPORTED = [
    pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    pa.array([b"a", None]),
    pa.array([{"low": 1, "top": 2}, None]),
    pa.array([1, None], pa.time32("s")),
    pa.array([1, None], pa.duration("s")),
]


@pytest.mark.parametrize("column", UNSUPPORTED, ids=lambda column: str(column.type))
def test_unsupported_columns(column: pa.Array) -> None:
    with pytest.raises(EventError) as caught:
        X.match_table(pa.table({"x": column}))
    assert caught.value.attribute == "x"
    assert X.match_table(pa.table({"unused": column})).to_pylist() == [["none"], ["none"]]


def test_extra_attributes_are_ignored() -> None:
    assert X.match({"x": 7, "y": 1, "": None}) == ["any", "other"]


# Subscriptions


def test_no_subscriptions() -> None:
    empty = Index({})
    assert len(empty) == 0
    assert empty.match({"x": 1}) == []
    assert empty.match_rows([{"x": 1}, {}]).to_pylist() == [[], []]
    assert empty.match_table(pa.table({"x": [1, 2]})).to_pylist() == [[], []]
    assert empty.updated(add={"a": "x = 1"}).match({"x": 1}) == ["a"]


def test_all_removed() -> None:
    assert Index({"a": "x = 1"}).updated(remove=["a"]).match({"x": 1}) == []


@pytest.mark.parametrize("subscription_id", [None, 1.5, b"a", ("a",), 2**63, True])
def test_invalid_ids(subscription_id: Any) -> None:
    with pytest.raises(InvalidIdError):
        Index({subscription_id: "x = 1"})
    with pytest.raises(InvalidIdError):
        Index({}).updated(add={subscription_id: "x = 1"})


def test_integers_and_strings_do_not_mix_as_ids() -> None:
    with pytest.raises(InvalidIdError):
        Index({"a": "x = 1", 2: "x = 2"})


def test_invalid_ids_in_a_table() -> None:
    with pytest.raises(InvalidIdError):
        Index(pa.table({"subscription_id": ["a", None], "condition": ["x = 1", "x = 2"]}))
    with pytest.raises(InvalidIdError):
        Index(pa.table({"subscription_id": [1.5, 2.5], "condition": ["x = 1", "x = 2"]}))


def test_duplicate_ids() -> None:
    with pytest.raises(DuplicateIdError) as caught:
        Index(pa.table({"subscription_id": [7, 8, 7], "condition": ["x = 1", "x = 2", "x = 3"]}))
    assert caught.value.subscription_id == 7
    with pytest.raises(DuplicateIdError):
        Index({"a": "x = 1"}).updated(add={"a": "x = 2"})


def test_removing_an_unknown_id_changes_nothing() -> None:
    index = Index({"a": "x = 1"})
    with pytest.raises(UnknownIdError) as caught:
        index.updated(add={"b": "x = 1"}, remove=["a", "nobody"])
    assert caught.value.subscription_id == "nobody"
    assert index.match({"x": 1}) == ["a"]
    with pytest.raises(UnknownIdError):
        index.updated(remove=["a"]).updated(remove=["a"])


def test_a_folder_without_an_index(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError):
        Index.load(tmp_path / "missing")
    with pytest.raises(SnapshotError):
        Index.load(tmp_path)
