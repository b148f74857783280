"""Distances on the sphere, and the boxes of longitude and latitude that hold a circle on it.

A place has a longitude from -180 to 180, both the same meridian, and a latitude from -90 to 90. A circle that holds a
pole has every longitude; one across the antimeridian has two intervals of them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types

from fieldfare.geometry.rows import Floats

EARTH_RADIUS_METRES = 6_371_008.0  # Sedona's
_WIDER = 1.0 + 1e-12  # what rounding may take from a box is added to it: relative, and in degrees
_WIDER_DEGREES = 1e-9


@njit(cache=True, nogil=True)
def is_on_sphere(longitude: float, latitude: float) -> bool:
    """Whether these are a longitude and a latitude."""
    return abs(longitude) <= 180.0 and abs(latitude) <= 90.0


@njit(types.float64(types.float64, types.float64, types.float64, types.float64), cache=True, nogil=True)
def distance(longitude: float, latitude: float, other_longitude: float, other_latitude: float) -> float:
    """The metres between two places, by the haversine formula; NaN where one is no place."""
    if not (is_on_sphere(longitude, latitude) and is_on_sphere(other_longitude, other_latitude)):
        return math.nan
    across = math.sin(math.radians(other_latitude - latitude) / 2.0)
    along = math.sin(math.radians(other_longitude - longitude) / 2.0)
    cosines = math.cos(math.radians(latitude)) * math.cos(math.radians(other_latitude))
    square = min(1.0, across * across + cosines * along * along)
    return EARTH_RADIUS_METRES * 2.0 * math.atan2(math.sqrt(square), math.sqrt(1.0 - square))


_FLOATS = types.Array(types.float64, 1, "C", readonly=True)


@njit(types.float64[::1](_FLOATS, _FLOATS, _FLOATS, _FLOATS), cache=True, nogil=True)
def distances(longitudes: Floats, latitudes: Floats, other_longitudes: Floats, other_latitudes: Floats) -> Floats:
    """The metres between many pairs of places."""
    metres = np.empty(len(longitudes))
    for row in range(len(longitudes)):
        metres[row] = distance(longitudes[row], latitudes[row], other_longitudes[row], other_latitudes[row])
    return metres


_TABLE = types.Array(types.float64, 2, "C")


@njit(types.void(_FLOATS, _FLOATS, _FLOATS, _TABLE, _TABLE), cache=True, nogil=True)
def measure_circles(longitudes: Floats, latitudes: Floats, metres: Floats, bounds: Floats, quick: Floats) -> None:
    """For each circle its west, south, east and north end, and what a quick test needs: a cosine and a haversine.

    West is below -180 or east above 180 where it crosses the antimeridian.
    """
    for row in range(len(metres)):
        latitude, angle = latitudes[row], metres[row] / EARTH_RADIUS_METRES
        degrees = math.degrees(angle) * _WIDER + _WIDER_DEGREES
        south, north = latitude - degrees, latitude + degrees
        cosine = math.cos(math.radians(latitude))
        west, east = -180.0, 180.0
        if south > -90.0 and north < 90.0:
            ratio = math.sin(angle) / cosine * _WIDER
            width = (math.degrees(math.asin(ratio)) if ratio < 1.0 else 180.0) * _WIDER + _WIDER_DEGREES
            if width < 180.0:
                west, east = longitudes[row] - width, longitudes[row] + width
        bounds[row, 0], bounds[row, 1] = west, max(south, -90.0)
        bounds[row, 2], bounds[row, 3] = east, min(north, 90.0)
        half = math.sin(min(angle, math.pi) / 2.0)
        quick[row, 0], quick[row, 1] = cosine, half * half


def longitude_spans(west: float, east: float) -> tuple[tuple[float, float], ...]:
    """The intervals of longitudes between two ends, one of which may lie beyond the antimeridian; they ascend."""
    if west < -180.0:
        return ((-180.0, 180.0),) if west + 360.0 <= east else ((-180.0, east), (west + 360.0, 180.0))
    if east > 180.0:
        return ((-180.0, 180.0),) if east - 360.0 >= west else ((-180.0, east - 360.0), (west, 180.0))
    return ((west, east),)
