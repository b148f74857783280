"""DDS types of every kind, and samples of them with the values that are most likely to be damaged."""

# mypy: ignore-errors
# ruff: noqa: UP045
# The annotations are not types but descriptions of DDS types, which Cyclone DDS reads: they may not be postponed, and
# it knows no other word for what is optional.

import math
from dataclasses import dataclass
from typing import Any, Optional

import cyclonedds.idl.annotations as annotate
from cyclonedds import idl
from cyclonedds.idl import types as t


@dataclass
class Count(idl.IdlStruct, typename="tests.Count"):
    number: t.int32
    text: str


@dataclass
class Reading(idl.IdlStruct, typename="tests.Reading"):
    sensor: str
    annotate.key("sensor")
    value: t.float64


@dataclass
class Integers(idl.IdlStruct, typename="tests.Integers"):
    i8: t.int8
    i16: t.int16
    i32: t.int32
    i64: t.int64
    u8: t.uint8
    u16: t.uint16
    u32: t.uint32
    u64: t.uint64
    octet: t.byte


@dataclass
class Others(idl.IdlStruct, typename="tests.Others"):
    f32: t.float32
    f64: t.float64
    flag: bool
    letter: t.char
    text: str
    short: t.bounded_str[12]


class Color(idl.IdlEnum, typename="tests.Color"):
    red = 0
    green = 1
    blue = 2


@annotate.bit_bound(8)
@dataclass
class Flags(idl.IdlBitmask, typename="tests.Flags"):
    lights: bool = False
    wipers: bool = False


@dataclass
class Place(idl.IdlStruct, typename="tests.Place"):
    city: str
    height: t.float64


@dataclass
class Span(idl.IdlStruct, typename="tests.Span"):
    low: t.float64
    high: t.float64


class Choice(idl.IdlUnion, discriminator=t.int32, typename="tests.Choice"):
    number: t.case[1, t.int32]
    text: t.case[[2, 3], str]
    place: t.default[Place]


class Shade(idl.IdlUnion, discriminator=Color, typename="tests.Shade"):
    strength: t.case[Color.red, t.float32]
    name: t.case[Color.blue, str]


@dataclass
@annotate.appendable
class Nested(idl.IdlStruct, typename="tests.Nested"):
    color: Color
    flags: Flags
    place: Place
    span: Span
    choice: Choice
    shade: Shade
    maybe: Optional[t.int32] = None
    perhaps: Optional[Place] = None


@dataclass
@annotate.mutable
class Lists(idl.IdlStruct, typename="tests.Lists"):
    numbers: t.sequence[t.int32]
    few: t.sequence[t.float64, 3]
    row: t.array[t.int16, 3]
    table: t.array[t.array[t.int32, 2], 2]
    octets: t.sequence[t.uint8]
    block: t.array[t.byte, 4]
    words: t.sequence[str]
    places: t.sequence[Place]
    colors: t.sequence[Color]


@dataclass
class Base(idl.IdlStruct, typename="tests.Base"):
    first: t.int32


@dataclass
class Derived(Base, typename="tests.Derived"):
    second: str


TYPES: dict[str, Any] = {
    kind.__name__: kind for kind in (Count, Reading, Integers, Others, Nested, Lists, Derived, Place, Span)
}

_PLACE = Place("Köln", 53.0)
SAMPLES: dict[str, list[Any]] = {
    "Integers": [
        Integers(-128, -(2**15), -(2**31), -(2**63), 0, 0, 0, 0, 0),
        Integers(127, 2**15 - 1, 2**31 - 1, 2**63 - 1, 255, 2**16 - 1, 2**32 - 1, 2**64 - 1, 255),
        Integers(0, 1, 2, 2**53 + 1, 3, 4, 5, 2**63, 6),
    ],
    "Others": [
        Others(0.5, 0.1, True, "z", "", ""),
        Others(-math.inf, math.inf, False, " ", 'a "quoted"\nline \\ and ☃ 𝄞', "twelve chars"),
        Others(3.4028234663852886e38, 5e-324, False, "~", "x" * 5000, "é"),
        Others(math.nan, math.nan, True, "0", "nan", "inf"),
        Others(-0.0, -0.0, True, "0", "null", "true"),
    ],
    "Nested": [
        Nested(
            Color.blue, Flags(lights=True), _PLACE, Span(1.0, 2.0), Choice(number=-7), Shade(strength=0.5), 5, _PLACE
        ),
        Nested(Color.red, Flags(wipers=True), _PLACE, Span(2.0, 1.0), Choice(text="word"), Shade(name="navy")),
        Nested(
            Color.green, Flags(), _PLACE, Span(math.nan, 1.0), Choice(discriminator=9, value=_PLACE), Shade(name="")
        ),
    ],
    "Lists": [
        Lists([], [], [0, 0, 0], [[0, 0], [0, 0]], [], bytes(4), [], [], []),
        Lists(
            [1, -2, 2**31 - 1],
            [0.1, math.inf, -0.0],
            [1, 2, 3],
            [[1, 2], [3, 4]],
            list(range(256)),
            b"\xff\0\1\2",
            ["", "a", "☃"],
            [_PLACE, Place("", -1.0)],
            [Color.red, Color.blue],
        ),
    ],
    "Derived": [Derived(1, "two")],
    "Span": [Span(1.0, 2.0), Span(2.0, 1.0)],
}
