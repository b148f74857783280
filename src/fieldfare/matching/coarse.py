"""Coarse slots: the bounds in wide tiles in 16 bits, and what these drop of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fieldfare.matching.lanes import LANES

COARSE_ORIGIN = 32_766  # so that coarse slots, and one more on either side, fit 16 bits
COARSE_MIN, COARSE_MAX = -32_768, 32_767  # below and above every coarse slot
DOUBLED = -1  # the shift where a tile is so narrow that there are two coarse slots for every slot

Bounds = npt.NDArray[np.int32]
CoarseBounds = npt.NDArray[np.int16]


def coarse_shifts(extents: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """How many low bits of its slots a tile must drop, on each attribute, for slots from 0 to `extent`."""
    shifts = [
        DOUBLED if extent < COARSE_ORIGIN else max(0, (extent + 5).bit_length() - 16) for extent in extents.tolist()
    ]
    return np.array(shifts, np.int32)


def coarse_bounds(
    lows: Bounds, highs: Bounds, origins: npt.NDArray[np.int32], shifts: npt.NDArray[np.int32]
) -> tuple[CoarseBounds, CoarseBounds]:
    """Bounds as coarse slots; where slots are doubled, moved apart by one, so that an end is never in doubt."""
    doubled, exist = shifts == DOUBLED, lows <= highs

    def coarse(slots: Bounds) -> Bounds:
        moved = slots - origins
        return np.where(doubled, moved << 1, moved >> np.maximum(shifts, 0)) - COARSE_ORIGIN

    return (
        np.where(exist, coarse(lows) - doubled, COARSE_MAX).astype(np.int16),
        np.where(exist, coarse(highs) + doubled, COARSE_MIN).astype(np.int16),
    )


def dropped_bits(slots: Bounds, origins: npt.NDArray[np.int32], shifts: npt.NDArray[np.int32]) -> Bounds:
    """The low bits of slots that coarse slots do not have."""
    return (slots - origins) & ((1 << np.maximum(shifts, 0)) - 1)


def fine_bytes(dropped: npt.NDArray[Any], shifts: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """Dropped bits in groups, in as few bytes as the widest attribute of their tile needs."""
    groups = dropped.reshape(-1, 2 * LANES)
    count = (max(0, int(shifts.max(initial=0))) + 7) // 8
    planes = np.empty((len(groups), count, 2 * LANES), np.uint8)
    for number in range(count):
        planes[:, number] = (groups >> (8 * number)) & 0xFF
    return planes.reshape(-1)


def full_slots(coarse: CoarseBounds, planes: npt.NDArray[np.uint8], origin: int, shift: int) -> Bounds:
    """The slots that coarse ones [word, low or high, box] stand for, with what they drop: [word, plane, …]."""
    if shift == DOUBLED:
        apart = np.array([1, -1], np.int32)[:, None]
        return ((coarse.astype(np.int32) + COARSE_ORIGIN + apart) >> 1) + origin
    slots = ((coarse.astype(np.int32) + COARSE_ORIGIN) << shift) + origin
    for number in range(planes.shape[1]):
        slots += planes[:, number].astype(np.int32) << (8 * number)
    return slots
