"""Which publications of a topic are repetitions: a publisher that got no answer sends again, and that must be harmless.

A publisher that numbers its events is remembered by its last number, which costs little and holds for as long as the
publisher is among the recent ones. One that reads another log is never forgotten: its number is where it goes on.
Events with ids only are remembered by these, for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from fieldfare.routing.refusal import Refusal

_Id: TypeAlias = tuple[str | None, str]  # an id is its publisher's own


class Publishers:
    """The recent publishers of a topic, by their last numbers."""

    def __init__(self, publishers_max: int) -> None:
        self._publishers_max = publishers_max
        self._last: OrderedDict[str, int] = OrderedDict()  # what is on its way to the log included
        self._stored: dict[str, int] = {}
        self._readers: set[str] = set()  # of other logs

    @property
    def readers(self) -> list[str]:
        """The publishers that read other logs, and have something stored."""
        return sorted(self._readers & self._stored.keys())

    @property
    def stored(self) -> dict[str, int]:
        """The last number of each publisher that survives a crash."""
        return dict(self._stored)

    def __contains__(self, publisher: str) -> bool:
        return publisher in self._last

    def last(self, publisher: str) -> int:
        """Its last number, what is on its way to the log included; -1 if there is none."""
        return self._last.get(publisher, -1)

    def repeated(self, publisher: str, sequence: int, count: int) -> int:
        """How many of the events numbered from `sequence` on came before."""
        last = self._last.get(publisher, -1)  # who is not known begins at 0, or what it sent before would be lost
        if sequence > last + 1:
            reason = (
                f"publisher {publisher!r} sent number {sequence}, but {last + 1} is next: send what is missing first"
            )
            raise Refusal("sequence", reason, last + 1)
        return min(count, last + 1 - sequence)

    def is_repeated_range(self, publisher: str, sequence: int, upto: int) -> bool:
        """Whether the numbers of a publisher that reads another log came before: all of them, or none."""
        following = self._last.get(publisher, -1) + 1
        if upto <= following:
            return True
        if sequence != following:
            reason = f"publisher {publisher!r} goes on at {following}, not at {sequence}: read again from there"
            raise Refusal("sequence", reason, following)
        if publisher not in self._readers and len(self._readers) >= self._publishers_max:
            raise Refusal("limit", f"{len(self._readers):,} publishers read other logs already: no more can be kept")
        return False

    def keep(self, publisher: str) -> None:
        """A publisher reads another log: never forget it."""
        self._readers.add(publisher)

    def remember(self, publisher: str, last: int) -> None:
        """A publisher's numbers are taken up to this one."""
        self._last[publisher] = last
        self._last.move_to_end(publisher)
        if len(self._last) - len(self._readers) > self._publishers_max:
            oldest = next(name for name in self._last if name not in self._readers)
            del self._last[oldest]
            self._stored.pop(oldest, None)

    def confirm(self, publisher: str, last: int) -> None:
        """Its numbers up to this one are stored."""
        if publisher in self._last:
            self._stored[publisher] = last

    def recover(self, publisher: str, last: int) -> None:
        """The log says that its numbers up to this one are stored. A repetition may say it again, of earlier ones."""
        last = max(last, self._last.get(publisher, -1))
        self.remember(publisher, last)
        self.confirm(publisher, last)

    def take_back(self, publisher: str, sequence: int) -> None:
        """What began with this number was not stored after all: it is free again."""
        if self._last.get(publisher, -1) >= sequence:
            self._last[publisher] = sequence - 1  # -1 too: what is sent after it must not be taken for the first


class RecentIds:
    """The ids of recent events, each with its publisher: others may use the same."""

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._ids: OrderedDict[_Id, bool] = OrderedDict()  # whether the event is stored

    @property
    def stored(self) -> list[_Id]:
        """The ids that survive a crash, the oldest first."""
        return [key for key, is_stored in self._ids.items() if is_stored]

    def of(self, publisher: str) -> list[str]:
        """The ids of one publisher, the oldest first."""
        return [identity for source, identity in self._ids if source == publisher]

    def repeated(self, publisher: str | None, ids: Sequence[str]) -> list[bool]:
        """For each id whether it came before from this publisher, here or in the same publication."""
        seen: set[str] = set()
        repeated = []
        for identity in ids:
            repeated.append((publisher, identity) in self._ids or identity in seen)
            seen.add(identity)
        return repeated

    def remember(self, publisher: str | None, ids: Sequence[str]) -> None:
        """These ids are taken."""
        for identity in ids:
            self._ids.setdefault((publisher, identity), False)
        while len(self._ids) > self._ids_max:
            self._ids.popitem(last=False)

    def confirm(self, publisher: str | None, ids: Sequence[str]) -> None:
        """Their events are stored."""
        for identity in ids:
            if (publisher, identity) in self._ids:
                self._ids[publisher, identity] = True

    def take_back(self, publisher: str | None, ids: Sequence[str]) -> None:
        """Their events were not stored after all."""
        for identity in ids:
            self._ids.pop((publisher, identity), None)
