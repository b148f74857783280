"""A covering as bytes: what is written is read again, and nothing else is."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.matching.strategies import conditions

from fieldfare.errors import CoveringError
from fieldfare.language import compile  # noqa: A004
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.overlay.covering_format import COVERING_BYTES_MAX, DECODED_BOXES_MAX, size_bytes_max

SOME = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=40)


@given(st.lists(conditions(), max_size=8), st.integers(1, 6))
@SOME
def test_what_is_written_is_read(texts: list[str], boxes_max: int) -> None:
    covering = Covering.of(map(compile, texts), boxes_max)
    data = covering.encode()
    assert Covering.decode(data) == covering
    assert Covering.decode(data).encode() == data
    assert len(data) <= 16 + sum(map(size_bytes_max, covering.boxes))


def test_types_of_values_are_kept() -> None:
    texts = ["x > 1", f"x > {2**60 + 1}", "x = 'é'", "x = TRUE", "x > TIMESTAMP '2024-01-01'", "x IS NULL", "x < 5.5"]
    covering = Covering.of(map(compile, texts))
    kinds = [
        [(interval.low, type(interval.low[1]), interval.high, type(interval.high[1])) for interval in intervals]
        for intervals in (box.intervals.values() for box in covering.boxes)
    ]
    decoded = [
        [(interval.low, type(interval.low[1]), interval.high, type(interval.high[1])) for interval in intervals]
        for intervals in (box.intervals.values() for box in Covering.decode(covering.encode()).boxes)
    ]
    assert decoded == kinds


def test_an_everyday_covering_is_small() -> None:
    texts = [f"x >= {n}.5 AND x < {n}.75 AND y >= {n}.5 AND y < {n}.75" for n in range(100)]
    assert len(Covering.of(map(compile, texts)).encode()) < 100 * 50


@given(st.lists(conditions(), min_size=1, max_size=3), st.data())
@SOME
def test_damage_is_found_or_harmless(texts: list[str], data: st.DataObject) -> None:
    whole = Covering.of(map(compile, texts)).encode()
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] = data.draw(st.integers(0, 255))
    with pytest.raises(CoveringError):
        Covering.decode(whole[:place])
    with pytest.raises(CoveringError):
        Covering.decode(whole + b"\x00")
    try:
        covering = Covering.decode(bytes(changed))
    except CoveringError:
        return
    assert Covering.decode(covering.encode()) == covering


NUMBER, STRING, TIME, END = 3, 4, 5, 6


@pytest.mark.parametrize(
    "box",
    [
        [0, NUMBER, 1.0, NUMBER],
        [1, NUMBER, 1.0, NUMBER, 2.0],
        [-1, NUMBER, 1.0, NUMBER, 2.0],
        [0.0, NUMBER, 1.0, NUMBER, 2.0],
        [0, NUMBER, 1.0, NUMBER, 2.0, 0, NUMBER, 1.0, NUMBER, 2.0],
        [0, NUMBER, 2.0, NUMBER, 1.0],
        [0, NUMBER, 1.0, NUMBER, 1.0],
        [0, NUMBER, math.nan, NUMBER, 1.0],
        [0, NUMBER, 1, NUMBER, 2.0],
        [0, NUMBER, 1.0, NUMBER, 2**63],
        [0, NUMBER, 1.0, NUMBER, b"2"],
        [0, STRING, 1.0, STRING, b"a"],
        [0, TIME, 1.0, TIME, 2],
        [0, TIME, 1, TIME, 2**63],
        [0, 2, 0, 2, 2],
        [0, 0, 1, 1, 0],
        [0, NUMBER, 1.0, END, 1],
        [0, NUMBER, 1.0, 7, 0],
        [0, -1, 0, NUMBER, 0.0],
        [0, NUMBER, "1", NUMBER, 2.0],
        [0, NUMBER, None, NUMBER, 2.0],
    ],
)
def test_a_box_that_is_none(box: list[Any]) -> None:
    with pytest.raises(CoveringError):
        Covering.decode(msgspec.msgpack.encode([1, ["x"], [box]]))


@pytest.mark.parametrize("wrong", [None, 5, [], [1], [1, []], [1, ["x"], 3], [2, [], []], [1, [3], []], [1, [], [], 9]])
def test_what_is_no_covering(wrong: object) -> None:
    data = msgspec.msgpack.encode(wrong)
    if wrong == [1, [], [], 9]:  # a field that a later release adds
        assert Covering.decode(data) == Covering()
        return
    with pytest.raises(CoveringError):
        Covering.decode(data)


def test_its_size_and_its_boxes_are_limited() -> None:
    most = msgspec.msgpack.encode([1, [], [[]] * DECODED_BOXES_MAX])
    assert len(Covering.decode(most).boxes) == DECODED_BOXES_MAX
    with pytest.raises(CoveringError, match="boxes"):
        Covering.decode(msgspec.msgpack.encode([1, [], [[]] * (DECODED_BOXES_MAX + 1)]))
    with pytest.raises(CoveringError, match="bytes"):
        Covering.decode(EVERYTHING.encode() + bytes(COVERING_BYTES_MAX))
