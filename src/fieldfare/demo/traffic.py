"""An invented city's traffic: drivers' subscriptions and sensors' events, the same for the same seed."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KINDS = ("flow", "congestion", "accident", "roadworks", "hazard")
_KIND_SHARES = (0.80, 0.12, 0.03, 0.03, 0.02)
_KIND_SPEEDS_KMH = (48.0, 16.0, 10.0, 24.0, 30.0)
_WANTED_KINDS = (
    ("accident",),
    ("accident", "congestion"),
    ("roadworks", "hazard"),
    ("accident", "roadworks", "hazard"),
)
_SPEEDS_KMH = (15, 20, 25, 30, 40)
_RUSH_HOUR = datetime.datetime(2026, 3, 3, 16, 30, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class District:
    """A part of the city: where it is, and which share of drivers and sensors it has."""

    name: str
    latitude: float
    longitude: float
    share: float


DISTRICTS = (
    District("Harbour Bridge", 52.412, 13.061, 0.28),
    District("Station Square", 52.398, 13.022, 0.20),
    District("Old Town", 52.405, 13.040, 0.16),
    District("Airport Road", 52.371, 13.098, 0.12),
    District("University Hill", 52.433, 13.010, 0.10),
    District("Lakeside", 52.448, 13.075, 0.08),
    District("Mill Lane", 52.382, 12.985, 0.06),
)
_SPREAD_DEGREES = 0.006


def subscriptions(drivers: int, rng: np.random.Generator) -> pa.Table:
    """What each driver wants to hear of: an area, slow traffic, kinds of incidents."""
    _, latitudes, longitudes = _places(drivers, rng)
    halves = rng.uniform(0.0005, 0.002, (2, drivers))
    bounds = np.round((latitudes - halves[0], latitudes + halves[0], longitudes - halves[1], longitudes + halves[1]), 5)
    speeds = rng.choice(_SPEEDS_KMH, drivers)
    kinds = [", ".join(f"'{kind}'" for kind in wanted) for wanted in _WANTED_KINDS]
    wanted = rng.integers(0, len(kinds), drivers)
    conditions = [
        f"latitude BETWEEN {south} AND {north} AND longitude BETWEEN {west} AND {east}"
        f" AND speed < {speed} AND kind IN ({kinds[choice]})"
        for south, north, west, east, speed, choice in zip(*bounds.tolist(), speeds, wanted, strict=True)
    ]
    return pa.table(
        {"subscription_id": [f"driver-{number}" for number in range(1, drivers + 1)], "condition": conditions}
    )


def events(first: int, count: int, rng: np.random.Generator) -> pa.Table:
    """What the sensors report: event number `first` and the `count - 1` after it."""
    districts, latitudes, longitudes = _places(count, rng)
    kinds = rng.choice(len(KINDS), count, p=_KIND_SHARES)
    speeds = np.maximum(0.0, rng.normal(np.array(_KIND_SPEEDS_KMH)[kinds], 8.0))
    numbers = np.arange(first, first + count)
    times = np.datetime64(_RUSH_HOUR.replace(tzinfo=None), "us") + (numbers * 36_000).astype("timedelta64[us]")
    return pa.table(
        {
            "event_id": numbers,
            "measured_at": pa.array(times, pa.timestamp("us", tz="UTC")),
            "district": pa.array([district.name for district in DISTRICTS]).take(pa.array(districts)),
            "latitude": np.round(latitudes, 6),
            "longitude": np.round(longitudes, 6),
            "speed": np.round(speeds, 1),
            "kind": pa.array(KINDS).take(pa.array(kinds)),
        }
    )


def _places(
    count: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Districts by their shares, and points around their centres."""
    districts = rng.choice(len(DISTRICTS), count, p=[district.share for district in DISTRICTS])
    centres = np.array([(district.latitude, district.longitude) for district in DISTRICTS])[districts]
    points = rng.normal(centres, _SPREAD_DEGREES)
    return districts, points[:, 0], points[:, 1]
