"""What is wanted of a topic beyond each link, in versions: what one side wants is asked of all others.

Each side (a neighbour, or this broker's own edge) says what it wants. A neighbour is asked for the union of what all
other sides want, as far as it may be published there, by what was advertised; covering keeps it small. It grows before
it is relied on: a side is told that its want is met when all neighbours that it concerns say so. It shrinks later.

A stream from a neighbour names the version with which it was matched there. For each version that a neighbour was asked
for is kept which versions of the other sides it includes: for that much, a stream may be relied on further on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from fieldfare.messages import TopicKey, Version, Want, WantMet
from fieldfare.model import Box, Condition
from fieldfare.overlay.covering import Covering, CoveringBuilder
from fieldfare.routing.interest import Interest, compiled_condition
from fieldfare.routing.tree.advertisements import LOCAL
from fieldfare.routing.tree.presence import SendTo


@dataclass(slots=True, eq=False)
class SideWant:
    """What one side wants."""

    version: Version
    covering: Covering
    handle: int  # in the index of all sides
    met: Version = -1  # the last version that the side was told to be met; -1: none
    needs: dict[str, Version] = field(default_factory=dict)  # by link, the version sent there that covers this one


@dataclass(slots=True, eq=False)
class LinkWant:
    """What is wanted of a neighbour."""

    builder: CoveringBuilder
    version: Version = 0
    met: Version = 0  # the last version that the neighbour said to be met
    includes: dict[Version, dict[str, Version]] = field(default_factory=dict)  # by version: versions of other sides
    shrink_at: float | None = None


@dataclass(frozen=True, slots=True)
class WantPorts:
    """What wants need of their broker."""

    send: SendTo
    links: Callable[[], Iterable[str]]  # to neighbours, those that are open
    advertised: Callable[[str], Sequence[Covering]]  # what may be published beyond a side
    settle: Callable[[str], None]  # passes over, towards a side, what its former want did not take
    met_here: Callable[[Version], None]  # what this broker's own edge wants is met


class TopicWants:
    """The wants of one topic at one broker."""

    def __init__(self, topic: TopicKey, boxes_max: int, shrink_seconds: float, ports: WantPorts) -> None:
        self._topic, self._boxes_max, self._shrink_seconds, self._ports = topic, boxes_max, shrink_seconds, ports
        self._sides: dict[str, SideWant] = {}
        self._asked: dict[str, LinkWant] = {}
        self._index = Interest()
        self._by_handle: dict[int, str] = {}
        self._handles = count(1)

    @property
    def sides(self) -> Iterable[str]:
        """Those that want to hear of the topic, be it nothing of its events."""
        return self._sides

    def version_of(self, side: str) -> Version:
        """The version that events for a side are matched with now."""
        return self._sides[side].version

    def wanted_by(self, side: str) -> Covering:
        """What a side wants."""
        return self._sides[side].covering if side in self._sides else Covering()

    def met_of(self, side: str) -> Version:
        """The version that a side was told to be met; -1: none."""
        return self._sides[side].met if side in self._sides else -1

    def included(self, link: str, version: Version, side: str) -> Version:
        """The version of a side's want that a neighbour's stream of this version may be relied on for."""
        asked = self._asked.get(link)
        return 0 if asked is None else asked.includes.get(version, {}).get(side, 0)

    def match(self, rows: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
        """By side, the numbers of the events that it wants."""
        by_handle = self._by_handle
        return {by_handle[handle]: numbers for handle, numbers in self._index.match(rows) if handle in by_handle}

    # What sides want

    def want(self, side: str, version: Version, covering: Covering, now: float) -> None:
        """A side wants this from now on."""
        known = self._sides.get(side)
        if known is None:
            known = self._sides[side] = SideWant(version, covering, 0)
        elif version < known.version:
            return
        elif version == known.version:  # it asks again: it may have missed the answer
            known.met = -1
            self._check(side)
            return
        else:
            self._forget_handle(known)
        self._ports.settle(side)
        known.version, known.covering, known.handle = version, covering, next(self._handles)
        self._by_handle[known.handle] = side
        self._index.add(compiled_condition(known.handle, covering.condition))
        for link in self._ports.links():
            if link != side:
                self._ask(link, [side])
                self._shrink_later(link, now)
        self._check(side)

    def closed(self, side: str, now: float) -> None:
        """A link is gone: nothing is wanted beyond it, and nothing is asked of it."""
        self._asked.pop(side, None)
        known = self._sides.pop(side, None)
        if known is not None:
            self._forget_handle(known)
        for link, asked in self._asked.items():
            for included in asked.includes.values():
                included.pop(side, None)
            self._shrink_later(link, now)
        for other in list(self._sides):
            self._sides[other].needs.pop(side, None)
            self._check(other)

    def _forget_handle(self, want: SideWant) -> None:
        self._by_handle.pop(want.handle, None)
        self._index.remove(want.handle)

    # What neighbours are asked for

    def advertised(self, link: str) -> None:
        """More may be published beyond a link than before: ask for it."""
        self._ask(link, [side for side in self._sides if side != link])

    def _ask(self, link: str, sides: Sequence[str]) -> None:
        """Have what sides want asked of a neighbour, as far as it may be published there; all of it in one version."""
        advertised = self._ports.advertised(link)
        if not advertised or not sides:
            return
        asked = self._asked.get(link)
        if asked is None:
            asked = self._asked[link] = LinkWant(CoveringBuilder(self._boxes_max))
            sides = [side for side in self._sides if side != link]
        has_grown = False
        for side in sides:
            wanted = _publishable(self._sides[side].covering, advertised)
            if wanted:
                has_grown |= asked.builder.add(Condition("", tuple(wanted), disjoint=len(wanted) < 2))
        if has_grown or not asked.version:
            self._ask_anew(link, asked)
        for side in sides:
            asked.includes[asked.version][side] = self._sides[side].version
            self._sides[side].needs[link] = asked.version

    def _ask_anew(self, link: str, asked: LinkWant) -> None:
        asked.version += 1
        asked.includes[asked.version] = {side: want.version for side, want in self._sides.items() if side != link}
        self._ports.send(link, Want(self._topic, asked.version, asked.builder.covering.encode()))

    def met(self, link: str, frame: WantMet) -> None:
        """A neighbour matches with a version, and so do all beyond it."""
        asked = self._asked.get(link)
        if asked is None or not asked.met < frame.version <= asked.version:
            return
        asked.met = frame.version
        asked.includes = {version: of for version, of in asked.includes.items() if version >= frame.version}
        for side in list(self._sides):
            self._check(side)

    def _check(self, side: str) -> None:
        """Tell a side that its want is met, if it is."""
        want = self._sides[side]
        if want.met >= want.version or any(
            link in self._asked and self._asked[link].met < needed for link, needed in want.needs.items()
        ):
            return
        want.met = want.version
        self._ports.settle(side)  # what was passed over with an older version is told before this
        if side == LOCAL:
            self._ports.met_here(want.version)
        else:
            self._ports.send(side, WantMet(self._topic, want.version))

    # Shrinking

    def shrunk(self, link: str, now: float) -> None:
        """Less may be published beyond a link than before."""
        self._shrink_later(link, now)

    def _shrink_later(self, link: str, now: float) -> None:
        asked = self._asked.get(link)
        if asked is not None and asked.shrink_at is None:
            asked.shrink_at = now + self._shrink_seconds

    def tidy(self, now: float) -> None:
        """Ask for less where that has been enough for a while."""
        for link, asked in list(self._asked.items()):
            if asked.shrink_at is not None and asked.shrink_at <= now:
                asked.shrink_at = None
                self._shrink(link, asked)

    def _shrink(self, link: str, asked: LinkWant) -> None:
        advertised = self._ports.advertised(link)
        sides = [want.covering for side, want in self._sides.items() if side != link]
        boxes = [box for covering in sides for box in _publishable(covering, advertised)]
        least = CoveringBuilder(self._boxes_max)
        if boxes:
            least.add(Condition("", tuple(boxes), disjoint=False))
        if any(not least.covering.covers(box) for box in asked.builder.covering.boxes):
            asked.builder = least
            self._ask_anew(link, asked)


def _publishable(wanted: Covering, advertised: Sequence[Covering]) -> list[Box]:
    """The boxes of a want in which an event may be published."""
    return [box for box in wanted.boxes if any(published.meets(box) for published in advertised)]
