"""An event's JSON: what is refused and why, and the quick way through it beside the plain one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.errors import EventError
from fieldfare.events import UnreadableError, attributes_of, event_attributes, json_values
from fieldfare.matching.rows import batch_of_rows
from fieldfare.model import INT64_MAX, INT64_MIN, Range


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "malformed"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"a" : 1, "a"\t: 2}', "'a' stands twice"),
        (b'{"a": {"b": 1, "b": 2}}', "'b' stands twice"),
        (b'{"a": [{"b": 1, "b": 2}]}', "'b' stands twice"),
        (b'{"a": 1, "\\u0061": 2}', "'a' stands twice"),
        (b'{"a": NaN}', "malformed"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a": "\\ud800"}', "half of a character"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": "x', "truncated"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
    ],
)
def test_json_that_is_not_an_event(line: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        json_values(line)
    with pytest.raises(UnreadableError, match=reason):
        event_attributes(line)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.dictionaries(st.text(), st.text()))))
def test_no_sound_object_is_rejected(values: dict[str, object]) -> None:
    if all(abs(value) < 2**63 for value in values.values() if isinstance(value, int)):
        assert json_values(json.dumps(values).encode()) == values


names = st.sampled_from(["a", "b", "a.b", "low", "high", "12:30", '":']) | st.text(max_size=3)
numbers = st.sampled_from([INT64_MIN - 1, INT64_MIN, INT64_MAX, INT64_MAX + 1, 2**64]) | st.integers() | st.floats()
plain = st.none() | st.booleans() | numbers | st.text(max_size=4) | st.just("12:30:01")
inner = st.recursive(
    plain, lambda values: st.lists(values, max_size=2) | st.dictionaries(names, values, max_size=3), max_leaves=6
)
ranges = st.fixed_dictionaries({"low": plain, "high": plain})


def step_by_step(text: bytes) -> dict[str, Any]:
    attributes = attributes_of(json_values(text))
    for name, value in attributes.items():  # in their order, so that the first fault is the one that is told
        members = members_of(value) if isinstance(value, list) else [value]
        batch_of_rows([{name: member} for member in members], [name])
    return attributes


def members_of(value: Any) -> Iterator[Any]:
    """What a list holds, at any depth."""
    for member in value.values() if isinstance(value, dict) else value:
        if isinstance(member, dict | list):
            yield from members_of(member)
        else:
            yield member


def read(reader: Callable[[bytes], dict[str, Any]], text: bytes) -> Any:
    """The attributes, or why there are none."""
    try:
        return reader(text)
    except (UnreadableError, EventError) as error:
        return str(error)


@given(st.dictionaries(names, plain) | st.dictionaries(names, inner | ranges, max_size=4), st.sampled_from(["", " "]))
def test_every_event_is_read_as_step_by_step(values: dict[str, Any], space: str) -> None:
    text = json.dumps(values, separators=(f"{space},{space}", f"{space}:{space}")).encode()
    found, expected = read(event_attributes, text), read(step_by_step, text)
    if isinstance(expected, str):
        assert isinstance(found, str)
        assert expected.endswith(found)  # one number alone is refused without its attribute's name
    else:
        assert found == expected
        assert list(map(type, found.values())) == list(map(type, expected.values()))


@given(st.lists(st.tuples(st.sampled_from("abc"), plain | inner), min_size=1, max_size=4))
def test_a_key_that_stands_twice_is_always_found(pairs: list[tuple[str, Any]]) -> None:
    text = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}"
    if len(dict(pairs)) < len(pairs):
        with pytest.raises(UnreadableError):
            event_attributes(text.encode())
        with pytest.raises(UnreadableError):
            json_values(text.encode())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 9223372036854775808}', "beyond 64 bits"),
        (b'{"a": {"b": 9223372036854775808}}', "'a.b'.*beyond 64 bits"),
        (b'{"a": {"low": 2, "high": 1}}', "low must not exceed high"),
        (b'{"a": {"low": 2, "high": "x"}}', "must be of one type"),
        (b'{"a": {"low": null, "high": null}}', "at least one end"),
        (b'{"a": {"low": [], "high": 1}}', "not plain values"),
        (b'{"a.b": 1, "a": {"b": 2}}', "'a.b' stands twice"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "nested deeper than 32"),
    ],
)
def test_values_that_cannot_be_matched(text: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        event_attributes(text)


def test_inner_objects_ranges_and_lists() -> None:
    text = b'{"a": {"b": {"c": 1}, "d": {"low": 1, "high": null}}, "e": [1, {"x": 2}], "f": {"low": 1}}'
    assert event_attributes(text) == {"a.b.c": 1, "a.d": Range(1, None), "e": [1, {"x": 2}], "f.low": 1}
