"""Dicts inside events are dotted names and ranges, by every way that an event can take to an index."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare import Index, Range
from fieldfare.errors import EventError
from fieldfare.events import attributes_of

INDEX = Index(
    {"city": "place.city = 'Köln'", "deep": "a.b.c > 5", "range": "x BETWEEN 3 AND 4", "none": "place IS NULL"}
)
NO_DOTS = Index({"range": "x BETWEEN 3 AND 4", "none": "place IS NULL", "y": "y = 1"})


def by_every_way(index: Index, event: dict[str, Any]) -> list[Any]:
    found = index.match(event)
    assert sorted(index.match_rows([{}, event]).to_pylist()[1]) == sorted(found)
    assert index.match(attributes_of(event)) == found
    return found


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ({"place": {"city": "Köln"}}, ["city", "none"]),
        ({"place.city": "Köln"}, ["city", "none"]),
        ({"a": {"b": {"c": 6}}}, ["deep", "none"]),
        ({"a": {"b.c": 6}}, ["deep", "none"]),
        ({"a.b": {"c": 6}}, ["deep", "none"]),
        ({"x": {"low": 1, "high": 3}, "place": "here"}, ["range"]),
        ({"x": {"low": 1, "high": 2}, "place": "here"}, []),
        ({"x": {"low": None, "high": 3}, "place": {"a": 1}}, ["range", "none"]),
        ({"x": {"low": 3, "high": 3, "unit": "m"}, "place": 1}, []),
    ],
)
def test_nested_dicts(event: dict[str, Any], answer: list[str]) -> None:
    assert by_every_way(INDEX, event) == answer
    assert by_every_way(NO_DOTS, event) == [name for name in answer if name in ("range", "none")]


def test_a_table_of_structs_answers_the_same() -> None:
    rows: list[dict[str, Any]] = [
        {"place": {"city": "Köln"}, "x": {"low": 1, "high": 3}},
        {"place": {"city": "Bonn"}, "x": None},
    ]
    index = Index({1: "place.city = 'Köln'", 2: "x = 2"})
    assert index.match_table(pa.Table.from_pylist(rows)).to_pylist() == [[1, 2], []]
    assert index.match_rows(rows).to_pylist() == [[1, 2], []]
    assert [index.match(row) for row in rows] == [[1, 2], []]


names = st.sampled_from(["a", "b", "a.b", "low", "high"])
values = st.recursive(st.none() | st.integers(0, 5), lambda inner: st.dictionaries(names, inner, max_size=3))


@given(st.dictionaries(names, values, max_size=4))
def test_the_same_rule_as_for_json(event: dict[str, Any]) -> None:
    index = Index({name: f"{name} >= 2" for name in ("a", "b", "a.b", "b.a", "a.a.b", "a.low")})
    try:
        answer = index.match(attributes_of(event))
    except Exception:  # noqa: BLE001  # a bad range, or a name that stands twice: the same is said of the nested event
        with pytest.raises(EventError):
            index.match(event)
        with pytest.raises(EventError):
            index.match_rows([event])
    else:
        assert by_every_way(index, event) == answer


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"place": {"city": 1}, "place.city": 2}, "stands twice"),
        ({"x": {"low": [], "high": 1}}, "not plain values"),
        ({"x": {1}}, "type set"),
        ({"x": {"low": 3, "high": 1}}, "empty"),
    ],
)
def test_bad_nesting_is_an_event_error(event: dict[str, Any], reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        INDEX.match(event)
    with pytest.raises(EventError, match=reason):
        INDEX.match_rows([{"x": 1}, event])


def test_too_deep_is_an_event_error() -> None:
    event: dict[str, Any] = {"c": 1}
    for _ in range(40):
        event = {"a": event}
    with pytest.raises(EventError, match="deeper than 32"):
        INDEX.match(event)


def test_what_no_condition_asks_about_may_be_anything() -> None:
    assert NO_DOTS.match({"y": 1, "other": {"low": []}, "place": 1}) == ["y"]
    assert INDEX.match({"x": Range(3, 3), "other": {1: object()}, "place": 1}) == ["range"]
