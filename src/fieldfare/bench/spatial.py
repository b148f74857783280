"""Workloads whose subscriptions are boxes: BlueDove's ranges with hot spots, and clustered rectangles on a map."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fieldfare.bench.workload import Floats, Size, WantedRanges, Workload, subscription_ids, zipf

DOMAIN_LENGTH = 1000.0
DEVIATION = 250.0
HOT_SPOTS = (125.0, 375.0, 625.0, 875.0)  # one per attribute, spread evenly over the domain
WIDTH = 250.0


def bluedove(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """BlueDove section IV-B: ranges around a hot spot in each of four attributes, uniform events.

    Centres follow a normal distribution cropped to the domain. A range keeps its full width: one that would stick out
    of the domain is moved inside, so a uniform event meets the same share of subscriptions wherever the hot spots are.
    """
    width = WIDTH if size.width is None else size.width
    columns: dict[str, WantedRanges] = {}
    values: dict[str, Floats] = {}
    for number, hot_spot in enumerate(HOT_SPOTS):
        low = np.clip(_cropped_normal(hot_spot, size.subscriptions, rng) - width / 2, 0.0, DOMAIN_LENGTH - width)
        columns[f"a{number}"] = WantedRanges(low, low + width)
        values[f"a{number}"] = rng.uniform(0.0, DOMAIN_LENGTH, size.events)
    return Workload(name, subscription_ids(size.subscriptions), columns, values, pa.table(values), width=width)


def _cropped_normal(mean: float, count: int, rng: np.random.Generator) -> Floats:
    """Normal draws inside the domain; those outside are drawn again."""
    draws = rng.normal(mean, DEVIATION, count)
    while len(outside := np.flatnonzero((draws < 0.0) | (draws >= DOMAIN_LENGTH))):
        draws[outside] = rng.normal(mean, DEVIATION, len(outside))
    return draws


CITIES = 2_000
CITY_DEVIATION_DEGREES = 0.2
RECTANGLE_DEGREES_MIN, RECTANGLE_DEGREES_MAX = 0.02, 2.0
RECTANGLE_TAIL = 1.1  # exponent of the power law of sizes: many streets, some towns, few regions
SPEED_MAX = 160.0


def geo(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """Rectangles of latitude and longitude around cities of power-law sizes, with a range of speeds; events alike."""
    shares = zipf(CITIES)
    cities = {"latitude": rng.uniform(-55.0, 65.0, CITIES), "longitude": rng.uniform(-179.0, 179.0, CITIES)}
    homes = rng.choice(CITIES, size.subscriptions, p=shares)
    places = rng.choice(CITIES, size.events, p=shares)
    columns: dict[str, WantedRanges] = {}
    values: dict[str, Floats] = {}
    for attribute, centres in cities.items():
        middle = centres[homes] + rng.normal(0.0, CITY_DEVIATION_DEGREES, size.subscriptions)
        half = _power_law(size.subscriptions, rng) / 2
        columns[attribute] = WantedRanges(middle - half, middle + half)
        values[attribute] = centres[places] + rng.normal(0.0, CITY_DEVIATION_DEGREES, size.events)
    slowest = rng.uniform(0.0, 120.0, size.subscriptions)
    columns["speed"] = WantedRanges(slowest, slowest + rng.uniform(10.0, 40.0, size.subscriptions))
    values["speed"] = np.minimum(rng.gamma(4.0, 15.0, size.events), SPEED_MAX)
    return Workload(name, subscription_ids(size.subscriptions), columns, values, pa.table(values))


def _power_law(count: int, rng: np.random.Generator) -> Floats:
    draws = RECTANGLE_DEGREES_MIN * (1.0 + rng.pareto(RECTANGLE_TAIL, count))
    return np.minimum(draws, RECTANGLE_DEGREES_MAX)
