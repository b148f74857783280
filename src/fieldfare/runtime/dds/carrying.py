"""Which of several bridges in one DDS domain carries: one does all the work, the others stand by.

    LISTENING ──▶ STANDING_BY ──▶ CARRYING
        └──────────────────────────▲  └─▶ STANDING_BY, where two carry: the domain was divided, and is one again

A bridge that carries goes on, whoever comes. Where none does, the one with the smallest name begins. All know this of
each other by the marks of their participants (see `names.Mark`), so that nothing has to be agreed upon.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import NamedTuple


class Duty(Enum):
    """What a bridge does in its domain."""

    LISTENING = auto()  # it is new, and does not know yet who else is there
    STANDING_BY = auto()
    CARRYING = auto()


class BridgeCandidate(NamedTuple):
    """A bridge of one deployment in a domain; the guid decides between two of one name."""

    name: str
    guid: str
    is_carrying: bool

    @property
    def rank(self) -> tuple[str, str]:
        """The smallest begins."""
        return self.name, self.guid


def next_duty(duty: Duty, own: BridgeCandidate, others: Collection[BridgeCandidate], *, has_settled: bool) -> Duty:
    """What a bridge does now, given all others that it sees."""
    carrying = [other.rank for other in others if other.is_carrying]
    if duty is Duty.CARRYING:
        return duty if all(own.rank < rank for rank in carrying) else Duty.STANDING_BY
    if carrying:
        return Duty.STANDING_BY
    if duty is Duty.LISTENING and not has_settled:
        return duty
    return Duty.CARRYING if all(own.rank < other.rank for other in others) else Duty.STANDING_BY
