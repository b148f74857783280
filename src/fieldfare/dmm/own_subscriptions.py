"""The subscriptions of a peer's own program, and which of them lie inside of others: these need no entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from fieldfare.dmm.peer_messages import PeerSubscribe
from fieldfare.dmm.spaces import Space
from fieldfare.model import Condition
from fieldfare.overlay.covering import Covering

_COMPARED_MAX = 256  # conditions of a topic that one is compared with


@dataclass(slots=True)
class OwnSubscription:
    """A subscription of this peer's program."""

    ref: str
    topic: str
    text: str
    condition: Condition
    is_durable: bool  # it is in the log, or will be
    unplaced: set[Space] = field(default_factory=set)  # that it has not been placed in even once
    coverer: int | None = None  # the subscription it lies inside of
    entry: int = 0  # the number of its entry: another one each time that it is placed anew
    is_stored: bool = True  # else its record waits
    is_attached: bool = True  # else the program has not come for it since the restart
    is_taken_by_program: bool = False
    is_told: bool = False  # the program knows that it is active

    def is_same(self, message: PeerSubscribe) -> bool:
        """Whether a program asks for this very subscription."""
        return (self.topic, self.text, self.is_durable) == (message.topic, message.condition, message.is_durable)


def coverer_of(subscription: OwnSubscription, among: Mapping[int, OwnSubscription]) -> int | None:
    """The first of some subscriptions that has entries and wants all that another one wants."""
    placed = (
        (handle, other)
        for handle, other in among.items()
        if other.topic == subscription.topic and other.coverer is None
    )
    for handle, other in islice(placed, _COMPARED_MAX):
        if _is_inside(subscription.condition, _exact_covering(other.condition)):
            return handle
    return None


def inside_of(handle: int, among: Mapping[int, OwnSubscription]) -> list[int]:
    """Those of some subscriptions that have entries, and want nothing that this one does not want."""
    subscription = among[handle]
    covering = _exact_covering(subscription.condition)
    if not covering.boxes:
        return []
    others = (
        (each, other)
        for each, other in among.items()
        if each != handle and other.coverer is None and other.topic == subscription.topic and not other.unplaced
    )
    return [each for each, other in islice(others, _COMPARED_MAX) if _is_inside(other.condition, covering)]


def _exact_covering(condition: Condition) -> Covering:
    """What lies inside of a condition for sure: its boxes that nothing else narrows."""
    return Covering(tuple(box for box in condition.boxes if not (box.tests or box.derived or box.members)))


def _is_inside(condition: Condition, covering: Covering) -> bool:
    return all(covering.covers(box) for box in condition.boxes)
