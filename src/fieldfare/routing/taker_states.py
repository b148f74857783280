"""The states of a taker, and what leads from one to another; see `taker`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class TakerState(Enum):
    """What a taker gets events from."""

    DETACHED = auto()
    LIVE = auto()
    BEHIND = auto()
    READING = auto()
    ENDED = auto()


class Cause(Enum):
    """Why a taker's state changes."""

    FELL_BEHIND = auto()  # what it needs next is only in the log
    HAS_ROOM = auto()
    CAUGHT_UP = auto()  # it has all of the log that has been matched
    DETACHED = auto()
    ENDED = auto()


NEXT_STATES: Mapping[tuple[TakerState, Cause], TakerState] = {
    (TakerState.DETACHED, Cause.CAUGHT_UP): TakerState.LIVE,
    (TakerState.DETACHED, Cause.FELL_BEHIND): TakerState.BEHIND,
    (TakerState.LIVE, Cause.FELL_BEHIND): TakerState.BEHIND,
    (TakerState.BEHIND, Cause.FELL_BEHIND): TakerState.BEHIND,
    (TakerState.BEHIND, Cause.HAS_ROOM): TakerState.READING,
    (TakerState.READING, Cause.FELL_BEHIND): TakerState.BEHIND,
    (TakerState.READING, Cause.CAUGHT_UP): TakerState.LIVE,
    **{(state, Cause.DETACHED): TakerState.DETACHED for state in TakerState if state is not TakerState.ENDED},
    **{(state, Cause.ENDED): TakerState.ENDED for state in TakerState},
}

ATTACHED_STATES = frozenset({TakerState.LIVE, TakerState.BEHIND, TakerState.READING})
