"""The words that every part of Fieldfare shares: cuts, intervals, conjunctions, residual tests, ranges.

One idea carries all of matching. Every attribute is one ordered axis that holds every value there is, of any
type: first NULL, then NaN and lists, which compare with nothing, then booleans, numbers, strings and points in time,
each in a section of its own.
A *cut* is a place on that axis, written as the smallest value that lies above it, so `x < 5` ends at cut
(NUMBER, 5.0) and `x <= 5` at (NUMBER, 5.000000000000001). An interval is what lies between two cuts. Thus every
operator, on every type, IS NULL included, becomes an interval; a value of another type lies in another section
and simply is not in it, which is what SQL's NULL asks for.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache

import msgspec

SubscriptionId = str | int
Scalar = bool | int | float | str | Decimal | datetime.date | datetime.datetime | None
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EXACT_INTEGER_MAX = 2**53  # integers up to here are floats without loss


class Section(IntEnum):
    """The sections of an attribute's axis, in their order."""

    NULL = 0
    NAN = 1  # and lists: what is a value, and compares with nothing
    BOOLEAN = 2
    NUMBER = 3
    STRING = 4
    TIME = 5
    END = 6


# A cut is (section, the smallest value above the cut). By section the value is
#   NULL, NAN, END  0
#   BOOLEAN         0 (false) or 1 (true)
#   NUMBER          a float; or an int, where its magnitude is beyond 2**53 and floats are not exact
#   STRING          UTF-8 bytes (not always valid UTF-8: the end of a prefix is not)
#   TIME            microseconds since 1970-01-01 UTC
Cut = tuple[Section, float | int | bytes]

_SECTION_STARTS: dict[Section, float | int | bytes] = {
    Section.NULL: 0,
    Section.NAN: 0,
    Section.BOOLEAN: 0,
    Section.NUMBER: -math.inf,
    Section.STRING: b"",
    Section.TIME: INT64_MIN,
    Section.END: 0,
}
_SECTION_LASTS: dict[Section, float | int] = {Section.BOOLEAN: 1, Section.NUMBER: math.inf, Section.TIME: INT64_MAX}


def section_start(section: Section) -> Cut:
    """The cut below every value of a section."""
    return section, _SECTION_STARTS[section]


def section_end(section: Section) -> Cut:
    """The cut above every value of a section, which is the start of the next."""
    return section_start(Section(section + 1))


def cut_below(section: Section, value: float | bytes) -> Cut:
    """The cut just below a value: where `>= value` begins."""
    if section is Section.NUMBER and isinstance(value, int) and (abs(value) <= EXACT_INTEGER_MAX or value > INT64_MAX):
        return section, float(value)
    return section, value


def cut_above(section: Section, value: float | bytes) -> Cut:
    """The cut just above a value: where `> value` begins."""
    if isinstance(value, bytes):
        return section, value + b"\x00"
    if value == _SECTION_LASTS.get(section):
        return section_end(section)
    if section is Section.NUMBER:
        if abs(value) < EXACT_INTEGER_MAX or not INT64_MIN <= value <= INT64_MAX:
            return section, math.nextafter(value, math.inf) + 0.0  # the sum turns -0.0 into 0.0
        # Beyond 2**53 neighbouring integers may share one float; but no float lies between them either.
        return cut_below(section, int(value) + 1)
    return section, value + 1


@dataclass(frozen=True, slots=True)
class Interval:
    """Everything on an attribute's axis from cut `low` up to cut `high`."""

    low: Cut
    high: Cut


MISSING = Interval(section_start(Section.NULL), section_end(Section.NULL))
PRESENT = Interval(section_start(Section.NAN), section_start(Section.END))


class Attribute(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An attribute's value, inside a residual expression."""

    name: str


class Literal(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A constant, inside a residual expression: bool, int, float, str, or microseconds for a time."""

    section: Section
    value: float | int | str


class Variable(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A member of a list inside `exists(list, variable -> condition)`."""

    name: str


class Arithmetic(msgspec.Struct, frozen=True, tag=True, gc=False):
    """`left operator right`, the operator one of + - * / %."""

    operator: str
    left: Attribute | Literal | Variable | Arithmetic | Call
    right: Attribute | Literal | Variable | Arithmetic | Call


class Call(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A function or a predicate of expressions, by the name that language/functions.py or language/forms.py has."""

    function: str
    arguments: tuple[Attribute | Literal | Variable | Arithmetic | Call, ...]


Expression = Attribute | Literal | Variable | Arithmetic | Call

# The time of now is one fact about an event, which whoever takes the event in decides once: an edge, a batch, a call.
# Evaluation finds it among the event's attributes, under a name that no condition can give to one.
NOW = "current_timestamp()"
NOW_CALL = Call("current_timestamp", ())


class Derived(msgspec.Struct, frozen=True, order=True, tag=True, cache_hash=True):
    """The axis of an expression: a key that no attribute's name can be, and that tells 1 from 1.0, as Python does not.

    On this axis an expression without a value (NULL, NaN, x / 0) lies in the section of NULL.
    """

    code: bytes

    @staticmethod
    def of(expression: Expression) -> Derived:
        """The axis of an expression."""
        return Derived(msgspec.msgpack.encode(expression))

    @property
    def expression(self) -> Expression:
        """The expression."""
        return _decoded(self.code)


@lru_cache(maxsize=65_536)
def _decoded(code: bytes) -> Expression:
    expression: Expression = msgspec.msgpack.decode(code, type=Expression)
    return expression


AxisKey = str | Derived


def axis_order(axis: AxisKey) -> tuple[bool, str | bytes]:
    """What to sort axes by: attributes first."""
    return (False, axis) if isinstance(axis, str) else (True, axis.code)


class Comparison(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A residual test between two expressions without calls, the operator one of = != < <= > >=."""

    operator: str
    left: Attribute | Literal | Variable | Arithmetic | Call
    right: Attribute | Literal | Variable | Arithmetic | Call


class Like(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A residual test of a string against a pattern, parsed: None is %, the empty string is _, else a character."""

    attribute: str
    pattern: tuple[str | None, ...]
    negated: bool = False


class Within(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """A residual test whether an attribute's value lies in one of some intervals, which are disjoint and ascend."""

    attribute: str
    intervals: tuple[Interval, ...]


class DerivedWithin(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """A residual test whether an expression's value lies in one of some intervals, which are disjoint and ascend."""

    axis: Derived
    intervals: tuple[Interval, ...]


class InRegion(msgspec.Struct, frozen=True, tag=True, cache_hash=True, gc=False):
    """A residual test whether the point of two attributes lies in a region, a row of floats (geometry/regions.py)."""

    x: str
    y: str
    region: bytes


class AllOf(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """A residual test that holds where all of its tests hold; without any, it always holds."""

    tests: tuple[Comparison | Like | InRegion | Within | DerivedWithin | AllOf | AnyOf, ...]


class AnyOf(msgspec.Struct, frozen=True, tag=True, cache_hash=True):
    """A residual test that holds where some of its tests hold; without any, it never holds."""

    tests: tuple[Comparison | Like | InRegion | Within | DerivedWithin | AllOf | AnyOf, ...]


CombinedTest = Within | DerivedWithin | AllOf | AnyOf
Test = Comparison | Like | InRegion | CombinedTest


@dataclass(frozen=True, slots=True)
class Member:
    """That a list has a member. Two of them never exclude each other, as two intervals can: a list has many points."""

    lists: Derived  # the expression whose value is the list; an attribute's too
    value: Cut  # the cut just below the member


@dataclass(frozen=True, slots=True)
class Box:
    """One conjunction: an interval for each attribute and each expression it constrains, members, residual tests."""

    intervals: Mapping[str, Interval]
    tests: tuple[Test, ...] = ()
    derived: Mapping[Derived, Interval] = field(default_factory=dict)
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition: it holds where any of its boxes holds."""

    text: str
    boxes: tuple[Box, ...]
    disjoint: bool  # no point lies in two of the boxes


@dataclass(frozen=True, slots=True)
class Range:
    """A range-valued attribute of an event, both ends included; None leaves an end open."""

    low: Scalar = None
    high: Scalar = None
