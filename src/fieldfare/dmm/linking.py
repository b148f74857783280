"""How spaces of several attributes are found: by an entry of each of their leaves in the space of one attribute.

Events visit the spaces of their single attributes only. A leaf of a space of several attributes therefore places an
entry in the space of the primary attribute, which covers all that its own entries want. An entry of the leaf is
confirmed to its subscriber only when that covering is placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fieldfare.dmm.entries import Entry, EntryTable
from fieldfare.dmm.messages import AskPrimary, PlaceWork, Primary
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.region import Region
from fieldfare.dmm.requests import Requests
from fieldfare.dmm.spaces import RegionName, Space, Spaces
from fieldfare.dmm.visiting import AnswerPlaced
from fieldfare.dmm.walks import Walks
from fieldfare.model import Condition
from fieldfare.overlay.covering import Covering, CoveringBuilder
from fieldfare.pastry.ports import Ring

_LINK_BOXES_MAX = 256
_LINK_BYTES_MAX = 64 << 10  # a table holds many
_SHRINK_ROUNDS = 8  # of refreshing, after which a covering is made anew


@dataclass(frozen=True, slots=True)
class LinkWalk:
    """A walk's purpose: the entry of a leaf is placed."""

    region: RegionName
    version: int


@dataclass(frozen=True, slots=True)
class FormerLinkWalk:
    """A walk's purpose: the entry of a leaf is kept where it was, until it is placed by another attribute."""


@dataclass(frozen=True, slots=True)
class PrimaryOf:
    """A purpose: the root of a leaf's space is asked for the primary attribute."""

    region: RegionName


@dataclass(slots=True)
class _Link:
    """The entry of one leaf."""

    attribute: str  # the primary one, by which it is placed
    attribute_version: int
    version: int  # of the covering
    shrinks_at: float  # when it is looked whether less is wanted
    builder: CoveringBuilder = field(default_factory=lambda: CoveringBuilder(_LINK_BOXES_MAX, _LINK_BYTES_MAX))
    placed_version: int = 0  # that which is known to be placed
    former_attribute: str | None = None  # by which it is still placed, because
    former_until: int = 0  # this version is not placed by the new one yet
    is_walking: bool = False
    waiting: list[tuple[int, AnswerPlaced]] = field(default_factory=list)  # for a version to be placed


class Linking:
    """The links of one peer's leaves. `confirmed` is called when entries can be confirmed."""

    def __init__(
        self,
        ring: Ring,
        requests: Requests,
        spaces: Spaces,
        walks: Walks,
        options: DmmOptions,
        confirmed: Callable[[AnswerPlaced, float], None],
    ) -> None:
        self._ring, self._requests, self._spaces = ring, requests, spaces
        self._walks, self._options, self._confirmed = walks, options, confirmed
        self._links: dict[RegionName, _Link] = {}

    def changed(self, region: Region, entry_ids: Iterable[str] | None, now: float) -> None:
        """A leaf has new entries, or has become active, with all that it has."""
        if region.table is None or not self._spaces.has_link(region.name.space):
            return
        link = self._links.get(region.name)
        if link is None:
            # The version is later than any of this peer, should it have had the region before.
            shrinks_at = now + _SHRINK_ROUNDS * self._options.refresh_seconds
            link = self._links[region.name] = _Link(region.name.space.attributes[0], 0, int(now * 1000), shrinks_at)
            entry_ids = None
        if link.builder.add(Condition("", region.table.boxes(entry_ids), disjoint=False)):
            link.version += 1
            self._place(region.name, link, now)

    def confirm(self, then: AnswerPlaced, now: float) -> None:
        """Entries of a leaf are safe: confirm them, when the leaf's own entry is placed too."""
        link = self._links.get(then.region)
        if link is None or link.placed_version >= link.version:
            self._confirmed(then, now)
        else:
            link.waiting.append((link.version, then))

    def links(self, space: Space) -> list[str]:
        """The attributes by which this peer's leaves of a space are linked."""
        return [link.attribute for name, link in self._links.items() if name.space == space]

    def refresh(self, regions: list[Region], now: float) -> None:
        """Place the entries of all leaves again, with what their leaves want now."""
        leaves = {region.name: region for region in regions if region.answers and region.table is not None}
        for name in self._links.keys() - leaves.keys():
            del self._links[name]
        for name, region in leaves.items():
            if region.size and region.table is not None and self._spaces.has_link(name.space):
                self.changed(region, (), now)
                link = self._links[name]
                if link.shrinks_at <= now:
                    self._shrink(region.table, link, now)
                self._place(name, link, now)
                self._refresh_former(name, link, now)
                self._ask_for_primary(name, region.table, link, now)

    def _refresh_former(self, name: RegionName, link: _Link, now: float) -> None:
        if link.former_attribute is not None:
            self._begin_walk(FormerLinkWalk(), name, link, link.former_attribute, now)

    def _ask_for_primary(self, name: RegionName, table: EntryTable, link: _Link, now: float) -> None:
        grid = self._spaces.grid(name.space)
        target = grid.target_of_boxes(table.boxes())
        if target:
            message = AskPrimary(0, name, grid.hull(target), link.attribute, link.attribute_version)
            self._requests.ask(message, PrimaryOf(name), now, key=self._spaces.key(name.space.root))

    def primary_answered(self, purpose: PrimaryOf, primary: Primary | None, now: float) -> None:
        """The root of a space has said which attribute is the primary one: go over to it.

        What is placed by the old one is refreshed until the new one is in force, and then left to expire.
        """
        link = self._links.get(purpose.region)
        if link is None or primary is None or primary.version <= link.attribute_version:
            return
        link.attribute_version = primary.version
        if primary.attribute != link.attribute and primary.attribute in purpose.region.space.attributes:
            if link.former_attribute is None:
                link.former_attribute = link.attribute
            link.attribute = primary.attribute
            link.version += 1
            link.former_until = link.version
            self._place(purpose.region, link, now)

    def _shrink(self, table: EntryTable, link: _Link, now: float) -> None:
        """Cover only what is wanted now: entries that have gone made the covering too large."""
        link.shrinks_at = now + _SHRINK_ROUNDS * self._options.refresh_seconds
        covering = Covering.of([Condition("", table.boxes(), disjoint=False)], _LINK_BOXES_MAX, _LINK_BYTES_MAX)
        if len(covering.boxes) < len(link.builder.covering.boxes):
            link.builder.replace(covering)
            link.version += 1

    def place_again(self, purpose: object, region: Region, now: float) -> int:
        """Place the entry of a leaf again; how many walks do it."""
        self.changed(region, None, now)
        link = self._links.get(region.name)
        if link is None or not region.size:
            return 0
        attributes = [each for each in (link.attribute, link.former_attribute) if each is not None]
        for attribute in attributes:
            self._begin_walk(purpose, region.name, link, attribute, now)
        return len(attributes)

    def _place(self, name: RegionName, link: _Link, now: float) -> None:
        if link.is_walking:
            return  # what is wanted now is placed afterwards
        link.is_walking = True
        self._begin_walk(LinkWalk(name, link.version), name, link, link.attribute, now)

    def _begin_walk(self, purpose: object, name: RegionName, link: _Link, attribute: str, now: float) -> None:
        covering = link.builder.covering
        me = self._ring.me.card  # another peer may have the region too, while the ring changes
        entry_id = f"{name}@{me.name}@{me.life}"
        entry = Entry(entry_id, link.version, self._options.entry_seconds, region=name, covering=covering.encode())
        primary = Space(name.space.topic, (attribute,))
        target = self._spaces.grid(primary).target_of_boxes(covering.boxes)
        until = now + self._options.entry_seconds
        self._walks.begin(purpose, primary, target, PlaceWork((entry,)), until, now)

    def placed(self, purpose: LinkWalk, is_placed: bool, now: float) -> None:  # noqa: FBT001 - it is what a walk found
        """A leaf's entry is placed everywhere, or was not in time."""
        link = self._links.get(purpose.region)
        if link is None:
            return
        link.is_walking = False
        if is_placed:
            link.placed_version = max(link.placed_version, purpose.version)
            if link.placed_version >= link.former_until:
                link.former_attribute = None
            ready = [then for version, then in link.waiting if version <= purpose.version]
            link.waiting = [item for item in link.waiting if item[0] > purpose.version]
            for then in ready:
                self._confirmed(then, now)
        if link.placed_version < link.version:
            self._place(purpose.region, link, now)

    def found_no_room(self, purpose: LinkWalk) -> None:
        """A peer that should have a leaf's entry is full: it is placed again when all are refreshed."""
        if (link := self._links.get(purpose.region)) is not None:
            link.is_walking = False
