"""What may be published at a broker in one topic: what its publishers advertise, or anything, if one does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fieldfare.messages import ExportedEvent
from fieldfare.overlay.covering import EVERYTHING, Covering
from fieldfare.routing.interest import Interest, compiled_condition
from fieldfare.routing.tree.streams import attributes_of

NOTHING = Covering()


@dataclass(slots=True, eq=False)
class PublishedHere:
    """What may be published at this broker in one topic."""

    covering: Covering = NOTHING
    is_advertised: bool = True  # it is what publishers said; else some said nothing, and anything may come
    waiting: list[int] = field(default_factory=list)  # advertisements that are to be known, by number
    _index: Interest | None = None

    def restrict(self, covering: Covering) -> None:
        """Publishers say that this is all."""
        self.covering, self._index = covering, None

    def widen(self) -> None:
        """Anything may come."""
        self.covering, self.is_advertised, self._index = EVERYTHING, False, None

    def holds(self, events: Sequence[ExportedEvent]) -> bool:
        """Whether all of some events are what was advertised."""
        if self.covering.is_everything:
            return True
        if self._index is None:
            self._index = Interest()
            self._index.add(compiled_condition(1, self.covering.condition))
        inside = {number for _, numbers in self._index.match(list(map(attributes_of, events))) for number in numbers}
        return len(inside) == len(events)
