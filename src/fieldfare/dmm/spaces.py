"""Spaces: which attributes boxes and events are looked up by, and the keys under which peers find regions.

DMM-AR has one space for each set of attributes. A box lives in the space of the attributes that an event must have to
satisfy it; a box that needs none lives in the topic's empty space. An event visits the empty space and the space of
each single attribute that it has; a space of several attributes is found through that of its primary attribute. Where
`home_attributes_max` is 1, a box lives in the space of its narrowest attribute alone, where events come anyway, and no
second search is needed. DMM has one space for all, of attributes that are declared, and everything lives there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec

from fieldfare.dmm.axis_codes import ENCODING_VERSION, CodedAxis, DomainAxis, GeneralAxis
from fieldfare.dmm.regions import Grid
from fieldfare.dmm.zcodes import ROOT, ZCode, parent_of
from fieldfare.model import Box, Condition, Section, section_start

Attributes = tuple[str, ...]  # of a space, in the order of their names

_KEY_BYTES = 16
_PRESENT = section_start(Section.NAN)


class Space(msgspec.Struct, frozen=True, array_like=True):
    """The space of some attributes of a topic."""

    topic: str
    attributes: Attributes

    @property
    def root(self) -> RegionName:
        """The region that is the whole space."""
        return RegionName(self, ROOT)


class RegionName(msgspec.Struct, frozen=True, array_like=True):
    """A region: a space, and a z-code there."""

    space: Space
    code: ZCode

    def at(self, code: ZCode) -> RegionName:
        """Another region of the same space."""
        return RegionName(self.space, code)

    @property
    def parent(self) -> RegionName:
        """The region of which this is a half; the whole space has none."""
        return self.at(parent_of(self.code))

    def __str__(self) -> str:
        return f"{self.space.topic}[{','.join(self.space.attributes)}]/{self.code}"


@dataclass(frozen=True)
class TopicScheme:
    """What is declared of a topic. All peers must declare the same: regions of other declarations are other regions."""

    domains: Mapping[str, DomainAxis] = field(default_factory=dict)
    schema: Attributes | None = None  # the attributes of the one space of DMM; None: DMM-AR
    is_reliable: bool = True  # each event is delivered until it is taken; else by multicast, once, as best it can
    home_attributes_max: int | None = None  # a box lives in the space of so many of its attributes; None: of all

    @cached_property
    def digest(self) -> bytes:
        """What tells this declaration from others."""
        domains = [(name, axis.low, axis.high, axis.granularity) for name, axis in sorted(self.domains.items())]
        declared = (ENCODING_VERSION, domains, self.schema, self.is_reliable)
        return msgspec.msgpack.encode(
            declared if self.home_attributes_max is None else (*declared, self.home_attributes_max)
        )


_NOTHING_DECLARED = TopicScheme()


class Spaces:
    """The spaces of some topics, as one peer sees them."""

    def __init__(self, schemes: Mapping[str, TopicScheme] | None = None) -> None:
        self._schemes = dict(schemes or {})
        self._grids: dict[Space, Grid] = {}

    @property
    def has_multicast(self) -> bool:
        """Whether a topic is declared whose events are multicast."""
        return any(not scheme.is_reliable for scheme in self._schemes.values())

    def scheme(self, topic: str) -> TopicScheme:
        """What is declared of a topic."""
        return self._schemes.get(topic, _NOTHING_DECLARED)

    def grid(self, space: Space) -> Grid:
        """The regions of a space."""
        grid = self._grids.get(space)
        if grid is None:
            domains = self.scheme(space.topic).domains
            axes: list[CodedAxis] = [domains.get(name) or GeneralAxis() for name in space.attributes]
            grid = self._grids[space] = Grid(space.attributes, axes)
        return grid

    def key(self, region: RegionName) -> int:
        """Where a region lies on the ring of peers."""
        digest = blake2b(self.scheme(region.space.topic).digest, digest_size=_KEY_BYTES)
        digest.update(msgspec.msgpack.encode((region.space.topic, region.space.attributes, region.code)))
        return int.from_bytes(digest.digest(), "big")

    def homes(self, topic: str, condition: Condition) -> dict[Space, tuple[Box, ...]]:
        """The spaces in which the boxes of a condition live, each with its boxes."""
        schema = self.scheme(topic).schema
        homes: dict[Space, tuple[Box, ...]] = {}
        for box in condition.boxes:
            space = Space(topic, self._narrowest(topic, box) if schema is None else schema)
            homes[space] = (*homes.get(space, ()), box)
        return homes

    def _narrowest(self, topic: str, box: Box) -> Attributes:
        """The attributes whose space a box lives in: all that it needs, or those that few events lie inside of."""
        needed, attributes_max = needed_attributes(box), self.scheme(topic).home_attributes_max
        if attributes_max is None or len(needed) <= attributes_max:
            return needed

        def width(name: str) -> tuple[float, str]:
            axis = self.grid(Space(topic, (name,))).axes[0]
            low, high = axis.codes_of(box.intervals[name])
            return (high - low + 1) / (1 << axis.bits), name

        return tuple(sorted(sorted(needed, key=width)[:attributes_max]))

    def entrances(self, topic: str, event: Mapping[str, Any]) -> list[Space]:
        """The spaces that an event visits first."""
        schema = self.scheme(topic).schema
        if schema is not None:
            return [Space(topic, schema)]
        present = sorted(name for name, value in event.items() if value is not None)
        return [Space(topic, ()), *(Space(topic, (name,)) for name in present)]

    def has_link(self, space: Space) -> bool:
        """Whether events find a space only through that of its primary attribute."""
        return len(space.attributes) > 1 and self.scheme(space.topic).schema is None


def needed_attributes(box: Box) -> Attributes:
    """The attributes that an event must have to be in a box."""
    return tuple(sorted(name for name, interval in box.intervals.items() if interval.low >= _PRESENT))


def codes_by_space(regions: Iterable[RegionName]) -> dict[Space, list[ZCode]]:
    """The z-codes of some regions, by their spaces."""
    found: dict[Space, list[ZCode]] = {}
    for region in regions:
        found.setdefault(region.space, []).append(region.code)
    return found
