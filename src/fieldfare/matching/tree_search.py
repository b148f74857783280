"""The kernel that matches: each event goes down the tree, and out come the labels of the boxes it lies in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.matching.coarse import COARSE_MAX, COARSE_MIN, COARSE_ORIGIN, DOUBLED
from fieldfare.matching.lanes import (
    COMPRESSES,
    LANES,
    count_bits,
    lowest_bit,
    meeting,
    meeting_and_surely,
    meeting_bytes,
    write_chosen,
)
from fieldfare.matching.narrow import CODES_MAX
from fieldfare.matching.tree import CHECKED, DISTINCT, WIDE

_ALL, _NONE, _ONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0), np.uint64(1)
_PAIR = 2 * LANES  # lows and highs
_UNROLLED = 8
_UNTESTED_WORDS = 4  # the hulls of so few words cost as much memory to test as they save
SPARE = LANES + _UNROLLED  # places that must be free in an output before a word's matches are written to it


class Events(NamedTuple):
    """Where events lie: `attributes` slots for each, their low and their high ends."""

    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    attributes: int


class Found(NamedTuple):
    """Where the kernel writes."""

    values: npt.NDArray[np.int64]  # labels, event by event
    ends: npt.NDArray[np.int64]  # ends[turn + 1]: where the list of the turn's event ends in `values`
    checked_events: npt.NDArray[np.int64]  # matches of boxes whose residual tests are still to be checked
    checked_places: npt.NDArray[np.int32]
    seen: npt.NDArray[np.int64]  # by owner: the last stamp that listed it


@njit(cache=True, nogil=True, inline="always")
def _first_bits(count):  # type: ignore[no-untyped-def]
    return _ALL if count >= LANES else (_ONE << np.uint64(count)) - _ONE


@njit(cache=True, nogil=True, inline="always")
def _coarse(slot, origin, shift):  # type: ignore[no-untyped-def]
    moved = np.int64(slot) - origin
    moved = (moved << 1 if shift == DOUBLED else moved >> shift) - COARSE_ORIGIN
    return np.int16(min(max(moved, COARSE_MIN), COARSE_MAX))


@njit(cache=True, nogil=True, inline="always")
def _write_all(boxes, place, labels, values, written):  # type: ignore[no-untyped-def]
    # Unsigned, because Numba lets a signed index count from the end and pays for it at each access.
    at, start = np.uint64(written), np.uint64(place)
    count = count_bits(boxes)
    if COMPRESSES and count > _UNROLLED:
        return write_chosen(labels, place, boxes, values, written)
    end = at + np.uint64(count)
    while at < end:
        # A loop that ends after each match is mispredicted too often: write eight at a time.
        for k in range(_UNROLLED):
            values[at + np.uint64(k)] = labels[start + np.uint64(lowest_bit(boxes))]
            boxes &= boxes - _ONE
        at += np.uint64(_UNROLLED)
    return np.int64(end)


# One long function on purpose: Numba counts references to every array that a function is handed or takes out of a
# tuple, which would cost more than the work between. So all arrays are taken out once, here.
@njit(cache=True, nogil=True)
def match_events(tree, events, order, first, stamp, labels, owners, distinct, found, checked):  # type: ignore[no-untyped-def]
    """Match the events order[first:]; return the turn it came to, and how many pairs are now to be checked.

    An event that would overflow an output is given up and its turn returned, so that the caller can enlarge the
    output and go on from there with another `stamp`. With `distinct`, a subscription is listed once for an event
    even if several of its boxes match.
    """
    node_uses, node_attributes, node_bounds = tree.node_uses, tree.node_attributes, tree.node_bounds
    tile_uses, tile_attributes, tile_bounds = tree.tile_uses, tree.tile_attributes, tree.tile_bounds
    tile_origins, tile_shifts = tree.tile_origins, tree.tile_shifts
    tile_words, tile_starts, tile_modes = tree.tile_words, tree.tile_starts, tree.tile_modes
    coarse, fine, tile_fine, alive = tree.coarse, tree.fine, tree.tile_fine, tree.alive
    tile_narrow, narrow, narrow_words, narrow_uses = tree.tile_narrow, tree.narrow, tree.narrow_words, tree.narrow_uses
    code_starts, low_codes, high_codes = tree.code_starts, tree.low_codes, tree.high_codes
    low, high, attributes = events
    values, ends, seen = found.values, found.ends, found.seen
    checked_events, checked_places = found.checked_events, found.checked_places
    lows, highs = np.empty(attributes, np.int16), np.empty(attributes, np.int16)
    first_codes, last_codes = np.empty(attributes, np.uint8), np.empty(attributes, np.uint8)
    hit_boxes, hit_sure, hit_words = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64), np.empty(LANES, np.int64)
    room, checked_room = len(values) - SPARE, len(checked_events) - SPARE
    nodes, tile_count = len(node_uses) - 1, len(tile_modes)
    written = ends[first]
    for turn in range(first, len(order)):
        event = order[turn]
        row = event * attributes
        checked_before = checked
        for node in range(nodes):
            tiles = _first_bits(tile_count - node * LANES)
            for use in range(node_uses[node], node_uses[node + 1]):
                at = row + node_attributes[use]
                tiles &= meeting(node_bounds, use * _PAIR, low[at], high[at])
                if tiles == _NONE:
                    break
            while tiles != _NONE:
                tile = node * LANES + lowest_bit(tiles)
                tiles &= tiles - _ONE
                first_use, uses = tile_uses[tile], tile_uses[tile + 1] - tile_uses[tile]
                first_word = tile_words[tile]
                word_count = tile_words[tile + 1] - first_word
                words = _first_bits(word_count)
                hits = 0
                # First all the comparisons of the tile, then all the writing: a branch on the outcome of each would
                # make the processor wait for it before it begins the next.
                narrow_word = tile_narrow[tile]
                if narrow_word != WIDE:
                    for k in range(uses):
                        use = first_use + k
                        at = row + tile_attributes[use]
                        codes = code_starts[tile_attributes[use]]
                        last_low, first_high = low_codes[codes + high[at]], high_codes[codes + low[at]]
                        words &= meeting(tile_bounds, use * _PAIR, first_high, last_low)
                        # Beyond all codes on one side lie only events that no word here takes that uses the attribute.
                        first_codes[k] = np.uint8(min(first_high, CODES_MAX - 1))
                        last_codes[k] = np.uint8(max(last_low, 0))
                    while words != _NONE:
                        word = lowest_bit(words)
                        words &= words - _ONE
                        boxes = alive[first_word + word]
                        for group in range(narrow_words[narrow_word + word], narrow_words[narrow_word + word + 1]):
                            k = narrow_uses[group]
                            boxes &= meeting_bytes(narrow, group * _PAIR, first_codes[k], last_codes[k])
                        hit_boxes[hits], hit_sure[hits], hit_words[hits] = boxes, boxes, first_word + word
                        hits += boxes != _NONE
                else:
                    is_small = word_count <= _UNTESTED_WORDS
                    for k in range(uses):
                        use = first_use + k
                        at = row + tile_attributes[use]
                        lows[k] = highs[k] = _coarse(low[at], tile_origins[use], tile_shifts[use])
                        if low[at] != high[at]:
                            highs[k] = _coarse(high[at], tile_origins[use], tile_shifts[use])
                        if not is_small:
                            words &= meeting(tile_bounds, use * _PAIR, lows[k], highs[k])
                    while words != _NONE:
                        word = lowest_bit(words)
                        words &= words - _ONE
                        offset = tile_starts[tile] + word * uses * _PAIR
                        boxes = sure = alive[first_word + word]
                        for k in range(uses):
                            meets, surely = meeting_and_surely(coarse, offset + k * _PAIR, lows[k], highs[k])
                            boxes &= meets
                            sure &= surely
                        hit_boxes[hits], hit_sure[hits], hit_words[hits] = boxes, sure, first_word + word
                        hits += boxes != _NONE
                mode = tile_modes[tile]
                for hit in range(hits):
                    if written > room or checked > checked_room:
                        return turn, checked_before
                    boxes, place = hit_boxes[hit], hit_words[hit] * LANES
                    doubtful = boxes & ~hit_sure[hit]
                    while doubtful != _NONE:
                        lane = lowest_bit(doubtful)
                        doubtful &= doubtful - _ONE
                        group = (hit_words[hit] - first_word) * uses
                        bound = tile_starts[tile] + group * _PAIR + lane
                        planes = (tile_fine[tile + 1] - tile_fine[tile]) // (word_count * uses * _PAIR)
                        dropped = tile_fine[tile] + group * planes * _PAIR + lane
                        meets_all = True
                        for k in range(uses):
                            use = first_use + k
                            shift = tile_shifts[use]
                            if shift != DOUBLED:  # doubled slots are never in doubt
                                at = row + tile_attributes[use]
                                start = (np.int64(coarse[bound]) + COARSE_ORIGIN) << shift
                                end = (np.int64(coarse[bound + LANES]) + COARSE_ORIGIN) << shift
                                for plane in range(planes):
                                    start += np.int64(fine[dropped + plane * _PAIR]) << (8 * plane)
                                    end += np.int64(fine[dropped + plane * _PAIR + LANES]) << (8 * plane)
                                origin = tile_origins[use]
                                meets_all &= start + origin <= high[at] and low[at] <= end + origin
                            bound += _PAIR
                            dropped += planes * _PAIR
                        boxes ^= np.uint64(not meets_all) << np.uint64(lane)
                    if mode == CHECKED:
                        while boxes != _NONE:
                            checked_events[checked] = event
                            checked_places[checked] = place + lowest_bit(boxes)
                            boxes &= boxes - _ONE
                            checked += 1
                    elif distinct or mode == DISTINCT:
                        while boxes != _NONE:
                            box = place + lowest_bit(boxes)
                            boxes &= boxes - _ONE
                            if seen[owners[box]] != stamp + turn:
                                seen[owners[box]] = stamp + turn
                                values[written] = labels[box]
                                written += 1
                    else:
                        written = _write_all(boxes, place, labels, values, written)
        ends[turn + 1] = written
    return len(order), checked
