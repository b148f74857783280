"""The place of a value on its attribute's axis as a whole number of some bits, in the same order on every peer.

Peers share no index and no schema, so the encoding is fixed and has a version: the section of the axis (see
fieldfare.model) in the first three bits, then the leading bits of the value. Values that differ only in later bits
share a code; order is never turned around, and that is all that regions need. An attribute whose domain is declared
has fewer bits, spent on that domain alone: what lies outside of it shares the first or the last code.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Protocol

from fieldfare.errors import AxisDomainError
from fieldfare.model import EXACT_INTEGER_MAX, INT64_MAX, Cut, Interval, Section, section_start

ENCODING_VERSION = 1
GENERAL_BITS = 64
DOMAIN_BITS_MAX = 48  # cells are counted in floats, which are exact up to 53 bits

_VALUE_BITS = 61  # of a general code, after the section
_DROPPED_BITS = 64 - _VALUE_BITS  # of a number, a time or the first eight bytes of a string
_STRING_BYTES = 8
_SIGN = 1 << 63
_ONES = (1 << 64) - 1

CodeRange = tuple[int, int]  # the first and the last code, both included


class CodedAxis(Protocol):
    """An attribute's axis in codes of `bits` bits."""

    @property
    def bits(self) -> int:
        """How many bits a code has."""

    def code_of(self, point: Cut) -> int:
        """The code of a value, given as the cut just below it; never greater than that of a greater value."""

    def codes_of(self, interval: Interval) -> CodeRange:
        """The codes of the first and of the last value in an interval."""


@dataclass(frozen=True, slots=True)
class GeneralAxis:
    """An axis of which nothing is declared: every value of every type has its place."""

    bits: int = GENERAL_BITS

    def code_of(self, point: Cut) -> int:
        """The section first, then the leading bits of the value."""
        section, value = point
        return section << _VALUE_BITS | _ordered_bits(section, value) >> _DROPPED_BITS

    def codes_of(self, interval: Interval) -> CodeRange:
        """The codes of the first and of the last value in an interval."""
        section, value = interval.high
        if isinstance(value, bytes) and value:
            return self.code_of(interval.low), self._code_below_string(value)
        return self.code_of(interval.low), self.code_of(_last_point_below((section, value)))

    def _code_below_string(self, text: bytes) -> int:
        """The code of the last string below one. It has the same code, if the two differ only where codes do not."""
        code = self.code_of((Section.STRING, text))
        start = _ordered_bits(Section.STRING, text) >> _DROPPED_BITS << _DROPPED_BITS
        shortest = start.to_bytes(_STRING_BYTES, "big").rstrip(b"\x00")  # the first string that has this code
        return code if shortest < text else code - 1


@dataclass(frozen=True, slots=True)
class DomainAxis:
    """An axis whose values are declared to be numbers from `low` to `high`, told apart in steps of `granularity`.

    Other values may still occur. They are matched as ever, but lie together in the first or the last cell.
    """

    low: float
    high: float
    granularity: float = 1.0

    def __post_init__(self) -> None:
        ends = (self.low, self.high, self.granularity)
        if not all(map(math.isfinite, ends)) or self.low >= self.high or self.granularity <= 0:
            raise AxisDomainError(f"a domain goes from a number to a greater one, in steps above 0, not {ends}")
        if self.bits > DOMAIN_BITS_MAX:
            raise AxisDomainError(
                f"the domain from {self.low} to {self.high} has more than 2**{DOMAIN_BITS_MAX} steps of "
                f"{self.granularity}: declare larger steps, or no domain"
            )

    @property
    def cells(self) -> int:
        """How many steps the domain has."""
        return math.floor((self.high - self.low) / self.granularity) + 1

    @property
    def bits(self) -> int:
        """How many bits number the cells; one at least."""
        return max(1, (self.cells - 1).bit_length())

    def code_of(self, point: Cut) -> int:
        """The number of the cell that the value lies in, or the first or the last cell if it is outside."""
        section, value = point
        if section is not Section.NUMBER or isinstance(value, bytes):
            return 0 if section < Section.NUMBER else self.cells - 1
        steps = (value - self.low) / self.granularity
        return math.floor(min(max(steps, 0.0), float(self.cells - 1)))

    def codes_of(self, interval: Interval) -> CodeRange:
        """The codes of the first and of the last value in an interval."""
        return self.code_of(interval.low), self.code_of(_last_point_below(interval.high))


def _ordered_bits(section: Section, value: float | bytes) -> int:
    """A value as 64 bits whose order is that of the values of its section."""
    match section:
        case Section.NUMBER:
            return _float_bits(_floor_float(value))  # type: ignore[arg-type]  # a number
        case Section.STRING:
            text: bytes = value  # type: ignore[assignment]
            return int.from_bytes(text[:_STRING_BYTES].ljust(_STRING_BYTES, b"\x00"), "big")
        case Section.TIME:
            return int(value) + _SIGN
        case Section.BOOLEAN:
            return int(value) << 63
        case _:
            return 0


def _floor_float(value: float) -> float:
    """The greatest float that is not above a number."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if nearest > value else nearest


def _float_bits(value: float) -> int:
    bits = int(struct.unpack(">Q", struct.pack(">d", value + 0.0))[0])  # the sum turns -0.0 into 0.0
    return bits ^ _ONES if bits & _SIGN else bits | _SIGN


_LAST_POINTS: dict[Section, Cut] = {
    Section.NULL: section_start(Section.NULL),
    Section.NAN: section_start(Section.NAN),
    Section.BOOLEAN: (Section.BOOLEAN, 1),
    Section.NUMBER: (Section.NUMBER, math.inf),
    Section.STRING: (Section.STRING, b"\xff" * _STRING_BYTES),  # above all UTF-8
    Section.TIME: (Section.TIME, INT64_MAX),
}


def _last_point_below(cut: Cut) -> Cut:
    """The greatest value below a cut; of strings, which have none, one that shares the last code below it."""
    section, value = cut
    if cut == section_start(section):
        return _LAST_POINTS[Section(section - 1)]
    if isinstance(value, bytes):
        return cut  # only a declared domain asks for it, where all strings share one cell
    if section is Section.NUMBER and (isinstance(value, float) or abs(value) <= EXACT_INTEGER_MAX):
        return section, math.nextafter(value, -math.inf)
    return section, value - 1
