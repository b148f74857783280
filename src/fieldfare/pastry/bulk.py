"""Tables for many nodes at once, as they would have them after joining one by one: for experiments.

Ids are sorted, so the leaves of a node are the entries around it, and the nodes for a slot of its prefix table lie next
to each other. Of those some are drawn, and the nearest is taken, as a node does that has compared for a while.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from fieldfare.pastry.ids import DIGIT_BITS, DIGIT_VALUES, DIGITS, ID_BITS, digit
from fieldfare.pastry.node import Acquainted
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.ports import Contact

DRAWN = 4  # candidates for a slot; more make tables nearer, and take longer
_DRAWN_NEAR = 64  # candidates for the neighbourhood


def acquaint(
    contacts: Sequence[Contact],
    round_trip_seconds: Callable[[Contact, Contact], float],
    options: PastryOptions,
    rng: random.Random,
    drawn: int = DRAWN,
) -> Iterator[tuple[Contact, Acquainted]]:
    """For each node the tables to begin with. `round_trip_seconds` says how near two nodes are."""
    ring = sorted(contacts, key=lambda contact: contact.id)
    ids = [contact.id for contact in ring]
    each_side = min(options.leaves_each_side, len(ring) - 1)
    for index, me in enumerate(ring):
        after = [ring[(index + step) % len(ring)] for step in range(1, each_side + 1)]
        before = [ring[(index - step) % len(ring)] for step in range(1, each_side + 1)]
        table = [
            _nearest(me, [ring[at] for at in _drawn(range(low, high), drawn, rng)], round_trip_seconds)
            for low, high in _slots(me, ids)
        ]
        near = [ring[at] for at in _drawn(range(len(ring)), _DRAWN_NEAR, rng) if at != index]
        timed = sorted((round_trip_seconds(me, each), each.id, each) for each in near)[: options.neighbourhood_size]
        yield me, Acquainted(before, after, table, [(each, seconds) for seconds, _, each in timed])


def _slots(me: Contact, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where in the sorted ids the nodes for each slot of a prefix table lie, if there are any."""
    low, high = 0, len(ids)
    for row in range(DIGITS):
        if high - low <= 1:
            return
        shift = ID_BITS - DIGIT_BITS * (row + 1)
        prefix, mine = me.id >> (shift + DIGIT_BITS) << DIGIT_BITS, digit(me.id, row)
        bounds = [bisect_left(ids, (prefix | value) << shift, low, high) for value in range(DIGIT_VALUES)] + [high]
        for value in range(DIGIT_VALUES):
            if value != mine and bounds[value] < bounds[value + 1]:
                yield bounds[value], bounds[value + 1]
        low, high = bounds[mine], bounds[mine + 1]


def _drawn(places: range, count: int, rng: random.Random) -> Sequence[int]:
    return places if len(places) <= count else rng.sample(places, count)


def _nearest(
    me: Contact, candidates: Sequence[Contact], round_trip_seconds: Callable[[Contact, Contact], float]
) -> tuple[Contact, float]:
    timed = [(round_trip_seconds(me, each), each.id, each) for each in candidates]
    seconds, _, nearest = min(timed)
    return nearest, seconds
