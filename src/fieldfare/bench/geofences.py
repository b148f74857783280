"""Geofences: circles and polygons with 5 to 50 corners all over the earth, and events that are places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.bench.workload import Bools, Floats, Size, Workload, conditions_table, subscription_ids

LATITUDE_MAX = 60.0
CORNERS_MIN, CORNERS_MAX = 5, 50
RADIUS_KM = 13.0
KM_OF_DEGREE = 111.195
EARTH_RADIUS_METRES = 6_371_008.0

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Regions:
    """Region i is a circle of `metres[i]` around centres[i]; or, if that is 0, the polygon corners[starts[i]:ends[i]].

    A centre is a longitude and a latitude, and so is a corner. An event's value is longitude + latitude * 1j.
    """

    centres: Floats
    metres: Floats
    starts: Places
    ends: Places
    corners: Floats  # of all polygons, of which some may be left
    bounds: Floats  # west, south, east and north of the polygons

    def holds(self, place: complex) -> Bools:
        """Whether a place lies in each region; of the polygons only those are looked at in whose box it lies."""
        held = self.distances(place, np.arange(len(self.metres))) < self.metres
        x, y = place.real, place.imag
        west, south, east, north = self.bounds.T
        near = (self.metres == 0) & (west <= x) & (x <= east) & (south <= y) & (y <= north)
        for number in np.flatnonzero(near).tolist():
            held[number] = _is_inside(self.corners[self.starts[number] : self.ends[number]], x, y)
        return held

    def distances(self, place: complex | npt.NDArray[np.complex128], numbers: Places) -> Floats:
        """The metres from a place to the centres of some regions."""
        return metres_between(np.stack([place.real, place.imag], axis=-1), self.centres[numbers])

    def between(self, start: int, stop: int) -> Regions:
        """The column of some of the subscriptions."""
        part = slice(start, stop)
        starts, ends = self.starts[part], self.ends[part]
        return Regions(self.centres[part], self.metres[part], starts, ends, self.corners, self.bounds[part])


def metres_between(one: Floats, other: Floats) -> Floats:
    """The metres between pairs of a longitude and a latitude, by the haversine formula."""
    x, y, longitude, latitude = one[..., 0], one[..., 1], other[..., 0], other[..., 1]
    across, along = np.sin(np.radians(latitude - y) / 2), np.sin(np.radians(longitude - x) / 2)
    square = across**2 + np.cos(np.radians(y)) * np.cos(np.radians(latitude)) * along**2
    return np.asarray(EARTH_RADIUS_METRES * 2 * np.arctan2(np.sqrt(square), np.sqrt(1 - square)))


def _is_inside(corners: Floats, x: float, y: float) -> bool:
    """Whether a ray to the right crosses the sides of a polygon an odd number of times."""
    (x1, y1), (x2, y2) = corners.T, np.roll(corners, -1, axis=0).T
    crossing = (y1 > y) != (y2 > y)
    at = x1[crossing] + (y - y1[crossing]) / (y2 - y1)[crossing] * (x2 - x1)[crossing]
    return bool(np.count_nonzero(at > x) % 2)


def geofences(name: str, size: Size, rng: np.random.Generator) -> Workload:
    """As many circles as polygons, of a mean radius of `size.width` kilometres; places spread evenly."""
    radius_km = RADIUS_KM if size.width is None else size.width
    count = size.subscriptions
    east = 180.0 - max(2.0, radius_km / 30)  # no region crosses the antimeridian, of which Shapely knows nothing
    centres = [rng.uniform(-most, most, count).round(6) for most in (east, LATITUDE_MAX)]
    return _workload(name, size, np.column_stack(centres), radius_km, rng)


def _workload(name: str, size: Size, centres: Floats, radius_km: float, rng: np.random.Generator) -> Workload:
    count = len(centres)
    radii_km = rng.uniform(0.5, 1.5, count) * radius_km
    is_circle = np.arange(count) % 2 == 0
    metres = np.where(is_circle, np.round(radii_km * 1000), 0.0)
    corner_counts = np.where(is_circle, 0, rng.integers(CORNERS_MIN, CORNERS_MAX + 1, count))
    ends = np.cumsum(corner_counts)
    corners = _corners(centres, radii_km, corner_counts, rng)
    bounds = np.zeros((count, 4))
    polygons, firsts = np.flatnonzero(~is_circle), (ends - corner_counts)[~is_circle]
    if len(polygons):
        bounds[polygons, :2] = np.minimum.reduceat(corners, firsts)
        bounds[polygons, 2:] = np.maximum.reduceat(corners, firsts)
    regions = Regions(centres, metres, ends - corner_counts, ends, corners, bounds)
    east = float(np.abs(centres[:, 0]).max(initial=0.0))
    longitude, latitude = (rng.uniform(-most, most, size.events) for most in (east, LATITUDE_MAX))
    ids = subscription_ids(count)
    return Workload(
        name,
        ids,
        {},
        {"place": longitude + 1j * latitude},
        pa.table({"longitude": longitude, "latitude": latitude}),
        conditions_table(ids, [_condition(regions, number) for number in range(count)]),
        radius_km,
        regions,
    )


def _corners(centres: Floats, radii_km: Floats, counts: Places, rng: np.random.Generator) -> Floats:
    """Corners around their centres, at even steps with some jitter, at 0.6 to 1 of the radius: sides do not cross."""
    total = int(counts.sum())
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    turn = 2 * np.pi * (number + rng.uniform(0.0, 0.7, total)) / counts[owner]
    reach = radii_km[owner] / KM_OF_DEGREE * rng.uniform(0.6, 1.0, total)
    stretch = 1 / np.cos(np.radians(centres[owner, 1]))
    x, y = centres[owner, 0] + reach * stretch * np.cos(turn), centres[owner, 1] + reach * np.sin(turn)
    return np.round(np.column_stack([x, y]), 6)


def _condition(regions: Regions, number: int) -> str:
    if regions.metres[number]:
        longitude, latitude = regions.centres[number].tolist()
        centre = f"ST_Point({longitude}, {latitude})"
        return f"ST_DistanceSphere(ST_Point(longitude, latitude), {centre}) < {regions.metres[number]:.0f}"
    corners = regions.corners[regions.starts[number] : regions.ends[number]].tolist()
    text = ", ".join([f"{x} {y}" for x, y in [*corners, corners[0]]])
    return f"ST_Covers(ST_GeomFromText('POLYGON(({text}))'), ST_Point(longitude, latitude))"
