"""How long events of other logs live yet: what of it can be the same for several."""

from __future__ import annotations

import math

_STEPS = 1000  # events whose time left differs by less than this part of it share a step


def lifespan_step(seconds_left: float) -> int:
    """Events of about the same time left share a step."""
    return round(_STEPS * math.log(seconds_left))
