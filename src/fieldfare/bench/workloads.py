"""The benchmark's workloads by name, each with its usual sizes.

They are drawn, not stored: a seed makes the same subscriptions and the same events again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fieldfare.bench.feeds import feeds
from fieldfare.bench.geofences import RADIUS_KM, geofences
from fieldfare.bench.member_workloads import alerts, keywords
from fieldfare.bench.quotes import quotes
from fieldfare.bench.sparse import sparse
from fieldfare.bench.spatial import bluedove, geo
from fieldfare.bench.workload import Size, Workload


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload: what it is, how it is generated, and the sizes it is measured at."""

    description: str
    generator: Callable[[str, Size, np.random.Generator], Workload]
    sizes: tuple[Size, ...]
    changing: bool = False  # subscriptions come and go between the events


WORKLOADS: dict[str, Kind] = {
    "bluedove": Kind(
        "ranges of 250 on 4 attributes of length 1000, hot spots, uniform events",
        bluedove,
        (Size(40_000, 250.0), Size(400_000, 250.0)),
    ),
    "large": Kind("bluedove with millions of narrow ranges", bluedove, (Size(1_000_000, 50.0), Size(4_000_000, 25.0))),
    "sparse": Kind("ranges on 1 to 5 of 10 integer attributes", sparse, (Size(100_000),)),
    "quotes": Kind("stock quotes: a symbol, most with a rare range", quotes, (Size(1_000_000),)),
    "feeds": Kind("topic prefixes, languages, negations", feeds, (Size(200_000),)),
    "geo": Kind("clustered rectangles on a map, with a range of speeds", geo, (Size(1_000_000),)),
    "keywords": Kind("1 to 4 words that a list of 20 to 200 must have", keywords, (Size(1_000_000, events=16_384),)),
    "alerts": Kind("1 to 6 of 20,000 indicators that a list must have", alerts, (Size(1_000_000, events=16_384),)),
    "geofences": Kind(
        "circles and polygons of 5 to 50 corners, by their radius in km, and places",
        geofences,
        (Size(1_000_000, RADIUS_KM), Size(1_000_000, 4 * RADIUS_KM)),
    ),
    "churn": Kind(
        "bluedove while 10,000 subscriptions a second come and as many go",
        bluedove,
        (Size(40_000, 250.0),),
        changing=True,
    ),
}


def sizes(kind: Kind, subscriptions: int | None, width: float | None, events: int | None) -> Iterator[Size]:
    """The sizes to measure a kind of workload at: its usual ones, or the one asked for."""
    usual = kind.sizes if subscriptions is None else kind.sizes[:1]
    for size in usual:
        yield Size(
            size.subscriptions if subscriptions is None else subscriptions,
            size.width if width is None or size.width is None else width,
            size.events if events is None else events,
        )


def generate(name: str, size: Size, seed: int) -> Workload:
    """A workload of a size; the same seed gives the same workload."""
    return WORKLOADS[name].generator(name, size, np.random.default_rng(seed))
