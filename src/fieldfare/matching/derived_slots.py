"""The slots of an expression's values on its axis."""

from __future__ import annotations

import numpy as np

from fieldfare.matching.axis import NULL_SLOT, Axis, Slots
from fieldfare.matching.evaluation import Computed


def slots_of(axis: Axis, values: Computed, rows: int) -> tuple[Slots, Slots]:
    """The slots of the lowest and the highest value of each row; one and the same array where there are no ranges."""
    low = np.full(rows, NULL_SLOT, np.int32)
    ranged = len(values.anything) > 0 or any(piece.high is not None for piece in values.pieces)
    high = low.copy() if ranged else low
    for piece in values.pieces:
        at = slice(None) if piece.rows is None else piece.rows
        low[at] = axis.slots_of_values(piece.section, piece.low)
        if piece.high is not None:
            high[at] = axis.slots_of_values(piece.section, piece.high)
        elif ranged:
            high[at] = low[at]
    high[values.anything] = axis.last_slot
    return low, high
