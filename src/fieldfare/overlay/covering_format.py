"""Boxes as bytes, for what brokers tell each other: MessagePack, with a version first.

The attributes' names stand once. A box is one list: for each interval the number of its attribute, then the section
and the value of its low cut and of its high cut. Later versions may add fields at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from fieldfare.errors import CoveringError
from fieldfare.model import EXACT_INTEGER_MAX, INT64_MAX, INT64_MIN, Box, Cut, Interval, Section

COVERING_BYTES_MAX = 2 * 1024 * 1024  # half of the largest frame
DECODED_BOXES_MAX = 65_536
_VERSION = 1
_INTERVAL_ITEMS = 5  # in the list of a box
_SECTIONS = tuple(Section)
_NUMBER = Section.NUMBER  # looked up once: an enum's member is slow to find

_Item = int | float | bytes


class _Encoded(msgspec.Struct, frozen=True, array_like=True):
    version: int
    attributes: list[str]
    boxes: list[list[_Item]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Encoded)


def encode_boxes(boxes: Sequence[Box]) -> bytes:
    """Boxes, without their residual tests."""
    numbers: dict[str, int] = {}
    items: list[list[_Item]] = []
    for box in boxes:
        row: list[_Item] = []
        for name, interval in box.intervals.items():
            row += (numbers.setdefault(name, len(numbers)), *_plain(interval.low), *_plain(interval.high))
        items.append(row)
    return _encoder.encode(_Encoded(_VERSION, list(numbers), items))


def size_bytes_max(box: Box) -> int:
    """A bound of what a box adds to the encoding, its attributes' names included."""
    size = 5
    for name, interval in box.intervals.items():
        size += 4 * len(name) + 32
        size += sum(len(value) for _, value in (interval.low, interval.high) if isinstance(value, bytes))
    return size


def decode_boxes(
    data: bytes, *, bytes_max: int = COVERING_BYTES_MAX, boxes_max: int = DECODED_BOXES_MAX
) -> tuple[Box, ...]:
    """The boxes of an encoding; a CoveringError if it is none."""
    if len(data) > bytes_max:
        raise CoveringError(f"what is wanted takes {len(data):,} bytes; {bytes_max:,} are the most")
    try:
        encoded = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CoveringError(f"what is wanted is not readable: {error}") from error
    if encoded.version != _VERSION:
        raise CoveringError(f"what is wanted is written in version {encoded.version}; this broker reads {_VERSION}")
    if len(encoded.boxes) > boxes_max:
        raise CoveringError(f"what is wanted has {len(encoded.boxes):,} boxes; {boxes_max:,} are the most")
    return tuple(Box(_intervals(row, encoded.attributes)) for row in encoded.boxes)


def _plain(cut: Cut) -> tuple[int, _Item]:
    section, value = cut
    return int(section), value


def _intervals(row: Sequence[_Item], attributes: Sequence[str]) -> dict[str, Interval]:
    if len(row) % _INTERVAL_ITEMS:
        raise CoveringError(f"a box has {len(row)} items, which are no whole intervals")
    intervals: dict[str, Interval] = {}
    columns = (row[start::_INTERVAL_ITEMS] for start in range(_INTERVAL_ITEMS))
    for number, low_section, low_value, high_section, high_value in zip(*columns, strict=True):
        if type(number) is not int or not 0 <= number < len(attributes) or attributes[number] in intervals:
            raise CoveringError(f"a box names an attribute that is unknown or stands twice: {number!r}")
        low, high = _cut(low_section, low_value), _cut(high_section, high_value)
        if not low < high:
            raise CoveringError("a box has an interval that ends where it begins, or before")
        intervals[attributes[number]] = Interval(low, high)
    return intervals


def _cut(section: _Item, value: _Item) -> Cut:
    if type(value) is float and section == _NUMBER and not math.isnan(value):  # most are
        return _NUMBER, value
    if type(section) is not int or not 0 <= section < len(_SECTIONS) or not _is_sound(_SECTIONS[section], value):
        raise CoveringError(f"a cut is no place on an axis: {section!r}, {value!r:.100}")
    return _SECTIONS[section], value


def _is_sound(section: Section, value: _Item) -> bool:
    """Whether a value can stand in a cut of a section (see fieldfare.model)."""
    match section:
        case Section.NUMBER:  # floats have been looked at
            return type(value) is int and abs(value) > EXACT_INTEGER_MAX and INT64_MIN <= value <= INT64_MAX
        case Section.STRING:
            return type(value) is bytes
        case Section.TIME:
            return type(value) is int and INT64_MIN <= value <= INT64_MAX
        case _:
            return type(value) is int and value in ((0, 1) if section is Section.BOOLEAN else (0,))
