"""Events matched to the boxes that are found by members: runs the kernel, and enlarges what it writes to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.matching.lists import empty_values
from fieldfare.matching.members import EventMembers, Members
from fieldfare.matching.postings import Found, match_members
from fieldfare.matching.tree import CHECKED, DISTINCT
from fieldfare.matching.tree_search import Events


class Labelled(NamedTuple):
    """What the labels of matches are taken from, of what type they are, and how many there may be."""

    labels: npt.NDArray[Any]  # by place, as the owners
    owners: npt.NDArray[np.int32]
    owner_count: int
    value_type: npt.DTypeLike
    expected: int


class FoundInPart(NamedTuple):
    """The labels of each event's boxes, and pairs of event and place whose residual tests are left."""

    ends: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    checked_events: npt.NDArray[np.int64]
    checked_places: npt.NDArray[np.int32]


def search_members(
    members: Members,
    events: Events,
    of_events: EventMembers,
    labelled: Labelled,
    *,
    distinct: bool,
) -> FoundInPart:
    """The boxes that events have the members of."""
    rows = len(of_events.offsets) - 1
    checks = int(CHECKED in members.modes)
    stamps = labelled.owner_count if distinct or DISTINCT in members.modes else 0
    found = Found(
        values=empty_values(labelled.expected + 1, labelled.value_type),
        ends=np.zeros(rows + 1, np.int64),
        checked_events=np.empty((labelled.expected + 1) * checks, np.int64),
        checked_places=np.empty((labelled.expected + 1) * checks, np.int32),
        seen=np.full(stamps, -1, np.int64),
    )
    event, checked = 0, 0
    while event < rows:
        event, checked, room = match_members(
            members.postings,
            events,
            of_events,
            event,
            members.first_place,
            labelled.labels,
            labelled.owners,
            (distinct, members.all_alive),
            found,
            checked,
        )
        if event < rows:
            found = _enlarged(found, int(found.ends[event]), checked, room, checks)
    return FoundInPart(
        found.ends, found.values[: found.ends[-1]], found.checked_events[:checked], found.checked_places[:checked]
    )


def _enlarged(found: Found, written: int, checked: int, room: int, checks: int) -> Found:
    """The same outputs, with room for at least so many more."""
    size = max(2 * len(found.values), written + room)
    values = empty_values(size, found.values.dtype)
    values[:written] = found.values[:written]
    pairs = max(2 * len(found.checked_events), checked + room) * checks
    events, places = np.empty(pairs, np.int64), np.empty(pairs, np.int32)
    events[:checked], places[:checked] = found.checked_events[:checked], found.checked_places[:checked]
    return found._replace(values=values, checked_events=events, checked_places=places)
