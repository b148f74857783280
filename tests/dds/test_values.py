from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dds.dds_types import SAMPLES, TYPES, Count, Integers, Lists, Nested, Others, Place, Reading, Span

from fieldfare import Range
from fieldfare.events import event_attributes
from fieldfare.runtime.dds.values import Translator, UntranslatableError


@pytest.mark.parametrize("type", SAMPLES)
def test_samples_become_events_and_are_themselves_again(type: str) -> None:  # noqa: A002
    translator = Translator(TYPES[type])
    for sample in SAMPLES[type]:
        event = translator.event(sample)
        event_attributes(event)  # an edge takes it
        again, is_disposed = translator.sample(event)
        assert not is_disposed
        assert again.serialize() == sample.serialize()


_FLOATS = st.floats(allow_nan=False) | st.sampled_from([math.inf, -math.inf, math.nan, -0.0])


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1), st.integers(-128, 127))
def test_integers(i64: int, u64: int, i8: int) -> None:
    sample = Integers(i8, 0, 0, i64, 0, 0, 0, u64, 0)
    translator = Translator(Integers)
    event = translator.event(sample)
    assert event_attributes(event)["i64"] == i64
    assert translator.sample(event)[0] == sample


@given(
    st.floats(width=32, allow_nan=False),
    _FLOATS,
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
def test_floats_and_strings(f32: float, f64: float, text: str) -> None:
    sample = Others(f32, f64, True, "a", text, "")
    translator = Translator(Others)
    event = translator.event(sample)
    assert event_attributes(event)["text"] == text
    assert translator.sample(event)[0].serialize() == sample.serialize()


@given(_FLOATS, _FLOATS)
def test_a_struct_of_low_and_high_is_a_range_if_it_can_be_one(low: float, high: float) -> None:
    sample = Nested(*_nested(span=Span(low, high)))
    event = Translator(Nested).event(sample)
    assert isinstance(event_attributes(event).get("span"), Range) == (
        math.isfinite(low) and math.isfinite(high) and low <= high
    )
    assert Translator(Nested).sample(event)[0].serialize() == sample.serialize()


def _nested(*, span: Span) -> list[Any]:
    first = SAMPLES["Nested"][0]
    return [first.color, first.flags, first.place, span, first.choice, first.shade]


def test_attributes_are_named_as_the_members() -> None:
    attributes = event_attributes(Translator(Nested).event(SAMPLES["Nested"][0]))
    assert attributes["place.city"] == "Köln"
    assert attributes["color"] == "blue"
    assert attributes["flags.lights"] is True
    assert attributes["choice.value"] == -7
    lists = event_attributes(Translator(Lists).event(SAMPLES["Lists"][0]))
    assert lists
    assert {type(value) for value in lists.values()} == {list}


@pytest.mark.parametrize(
    ("type", "event", "reason"),
    [
        (Count, b"[]", "not a JSON object"),
        (Count, b"{", "not a JSON object"),
        (Count, b'{"number": 1}', "text: it is missing"),
        (Count, b'{"number": 2147483648, "text": ""}', "number: 2147483648 is not an integer of 32 bits"),
        (Count, b'{"number": true, "text": ""}', "number: True is not an integer"),
        (Count, b'{"number": 1.5, "text": ""}', "number: 1.5 is not an integer"),
        (Count, b'{"number": 1, "text": 7}', "text: 7 is not a string"),
        (Place, b'{"city": "", "height": "1.5"}', "height: '1.5' is not a number"),
        (Place, b'{"city": "", "height": true}', "height: True is not a number"),
    ],
)
def test_an_event_that_is_no_sample_is_refused_with_the_reason(type: Any, event: bytes, reason: str) -> None:  # noqa: A002
    with pytest.raises(UntranslatableError, match=reason):
        Translator(type).sample(event)


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("color", "purple", "color: 'purple' is not one of red, green, blue"),
        ("flags", {"lights": 1, "wipers": False}, "flags: lights: 1 is not a boolean"),
        ("choice", {"discriminator": 1, "value": "x"}, "choice: value: 'x' is not an integer"),
        ("place", 7, "place: 7 is not an object"),
    ],
)
def test_what_is_wrong_inside_is_named_by_its_place(member: str, value: Any, reason: str) -> None:
    import msgspec

    event = msgspec.json.decode(Translator(Nested).event(SAMPLES["Nested"][0]))
    with pytest.raises(UntranslatableError, match=reason):
        Translator(Nested).sample(msgspec.json.encode({**event, member: value}))


def test_numbers_that_others_write_as_floats_are_integers_where_they_are_whole() -> None:
    assert Translator(Count).sample(b'{"number": 5.0, "text": "", "more": 1}')[0] == Count(5, "")


def test_a_disposed_instance_is_an_event_with_its_key() -> None:
    translator = Translator(Reading)
    event = translator.disposed_event(Reading("north", 1.5))
    assert event_attributes(event) == {"sensor": "north", "dds.state": "disposed"}
    key, is_disposed = translator.sample(event)
    assert is_disposed
    assert key.serialize_key() == Reading("north", 0.0).serialize_key()
    assert translator.is_keyed
    assert not Translator(Count).is_keyed
