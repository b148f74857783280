"""Random polygons, sound and not, as well-known text."""

from __future__ import annotations

import math
import random

Corner = tuple[float, float]


def text_of(*polygons: list[list[Corner]]) -> str:
    """Well-known text; a ring is closed here."""
    bodies = [
        "(" + ", ".join("(" + ", ".join(f"{x!r} {y!r}" for x, y in [*ring, ring[0]]) + ")" for ring in rings) + ")"
        for rings in polygons
    ]
    return f"POLYGON{bodies[0]}" if len(bodies) == 1 else f"MULTIPOLYGON({', '.join(bodies)})"


def star(rng: random.Random, centre: Corner, radius: float, corners: int) -> list[Corner]:
    """A ring around a centre, whose corners are nearer and farther."""
    turns = sorted(rng.random() for _ in range(corners))
    steps = [after - before for before, after in zip(turns, [*turns[1:], turns[0] + 1], strict=True)]
    if max(steps) > 0.45 or min(steps) < 0.001:  # the centre must lie inside
        turns = [number / corners for number in range(corners)]
    return [
        (centre[0] + reach * math.cos(2 * math.pi * turn), centre[1] + reach * math.sin(2 * math.pi * turn))
        for turn, reach in ((turn, radius * rng.uniform(0.4, 1.0)) for turn in turns)
    ]


def with_hole(rng: random.Random, corners: int, *, lattice: bool = False) -> list[list[Corner]]:
    """A polygon with a hole, sometimes; on a lattice, points fall on its sides often."""
    centre = (rng.uniform(-170, 170), rng.uniform(-80, 80))
    rings = [star(rng, centre, 8.0, corners)]
    if rng.random() < 0.5:
        rings.append(star(rng, centre, 1.0, max(3, corners // 2)))
    return [[(float(round(x)), float(round(y))) for x, y in ring] for ring in rings] if lattice else rings


def thin(rng: random.Random) -> list[list[Corner]]:
    """A long narrow strip, in any direction."""
    x, y, turn = rng.uniform(-100, 100), rng.uniform(-50, 50), rng.uniform(0, math.tau)
    length, width = rng.uniform(5, 30), rng.uniform(0.001, 0.2)
    along, across = (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))
    steps = [(0.0, 0.0), (length, 0.0), (length, width), (length / 2, 3 * width), (0.0, width)]
    return [[(x + a * along[0] + b * across[0], y + a * along[1] + b * across[1]) for a, b in steps]]
