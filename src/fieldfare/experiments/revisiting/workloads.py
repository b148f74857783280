"""Subscriptions and events of the five applications, in the shapes that Table 1 names, with what matches what.

Games and places are drawn around hot spots, and their ranges are as wide as it takes for an event to match as many
subscriptions as the application says; feeds, quotes and alerts are those of `fieldfare bench engine`, whose words,
symbols and indicators follow a power law, and match what they match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fieldfare.bench.broker.load import Asked, Load
from fieldfare.bench.workload import Size
from fieldfare.bench.workloads import WORKLOADS
from fieldfare.errors import InputError
from fieldfare.experiments.revisiting.settings import SEED, Scale
from fieldfare.matching.index import Index
from fieldfare.planning.application import Application

Floats = npt.NDArray[np.float64]

HOT_SPOTS = 6
CROWDED_SHARE = 0.8  # of subscribers and events, those around a hot spot; the others are anywhere
_SIDE, _SPREAD = 1_000.0, 60.0
_EAST, _NORTH, _SPREAD_DEGREES = 170.0, 60.0, 1.5
_METRES_OF_DEGREE = 111_195.0
_TUNING_EVENTS = 512
_TUNING_STEPS = 30


@dataclass(frozen=True)
class Workload:
    """An application as it is run here: scaled, with the matches that were counted."""

    application: Application
    conditions: list[str]
    events: pa.Table  # without payload
    padding: str  # an attribute nobody asks for, so that an event has its size

    @cached_property
    def index(self) -> Index:
        """All subscriptions; ids are their places."""
        return Index(dict(enumerate(self.conditions)))

    @cached_property
    def load(self) -> Load:
        """What brokers are measured with."""
        found = self.index.match_table(self.events)
        lengths = np.diff(found.offsets.to_numpy())
        pairs = np.repeat(np.arange(len(lengths)), lengths), found.flatten().to_numpy().astype(np.int64)
        wanted = [Asked(condition) for condition in self.conditions]
        return Load.of_pairs(wanted, self.application.open_connections, self.tails, pairs)

    @cached_property
    def tails(self) -> list[bytes]:
        """The events' attributes in JSON, without the opening brace."""
        return [msgspec.json.encode(row | {"padding": self.padding})[1:] for row in self.events.to_pylist()]

    @cached_property
    def table(self) -> pa.Table:
        """The events, with a text that fills each up to the application's event size."""
        return self.events.append_column("padding", pa.array([self.padding] * len(self.events)))


def workload_of(application: Application, scale: Scale) -> Workload:
    """Draw an application, as large as it can be here."""
    rng = np.random.default_rng(SEED)
    subscriptions = min(application.subscriptions, scale.subscriptions_max)
    conditions, events = _GENERATORS[application.name](application, subscriptions, scale.pool_events, rng)
    counted = Index(dict(enumerate(conditions))).match_table(events)
    row_bytes = sum(len(msgspec.json.encode(row)) for row in events.slice(0, 256).to_pylist()) // min(256, len(events))
    padding = "x" * max(0, application.event_bytes - row_bytes - 60)  # 60: the number, the time, and its own name
    rate = min(application.carried_events_per_second, scale.events_per_second_max)
    connections = min(application.open_connections, scale.connections_max)
    scaled = msgspec.structs.replace(
        application,
        subscriptions=subscriptions,
        subscribers=connections,
        connections=connections,
        publishers=1,
        events_per_second=rate,
        peak_events_per_second=None,
        matches_per_event=len(counted.values) / len(events),
        event_bytes=max(application.event_bytes, row_bytes + 60),
        changes_per_second=0.0,
        networks=1,
        locality=1.0,
        assumptions=(),
    )
    return Workload(scaled, conditions, events, padding)


def _games(
    application: Application, subscriptions: int, events: int, rng: np.random.Generator
) -> tuple[list[str], pa.Table]:
    spots = rng.uniform(0.0, _SIDE, (HOT_SPOTS, 2))
    players = np.clip(_around(spots, _SPREAD, (0.0, _SIDE), (0.0, _SIDE), subscriptions, rng), 0.0, _SIDE)
    points = np.clip(_around(spots, _SPREAD, (0.0, _SIDE), (0.0, _SIDE), events, rng), 0.0, _SIDE)
    sample = points[:_TUNING_EVENTS]

    def matches(width: float) -> float:
        return float((np.abs(sample[:, None, :] - players[None]) < width / 2).all(axis=2).sum(axis=1).mean())

    width = _tuned(matches, application.matches_per_event, _SIDE * 2)
    low, high = (players - width / 2).round(3).tolist(), (players + width / 2).round(3).tolist()
    conditions = [
        f"x >= {x_low} AND x < {x_high} AND y >= {y_low} AND y < {y_high}"
        for (x_low, y_low), (x_high, y_high) in zip(low, high, strict=True)
    ]
    return conditions, pa.table({"x": points[:, 0].round(3), "y": points[:, 1].round(3)})


def _places(
    application: Application, subscriptions: int, events: int, rng: np.random.Generator
) -> tuple[list[str], pa.Table]:
    spots = np.column_stack([rng.uniform(-_EAST, _EAST, HOT_SPOTS), rng.uniform(-_NORTH, _NORTH, HOT_SPOTS)])
    inside = (-_EAST, _EAST), (-_NORTH, _NORTH)
    centres = _around(spots, _SPREAD_DEGREES, *inside, subscriptions, rng).round(6)
    points = _around(spots, _SPREAD_DEGREES, *inside, events, rng).round(6)
    sample = points[:_TUNING_EVENTS]
    across = np.cos(np.radians(sample[:, None, 1])) * (sample[:, None, 0] - centres[None, :, 0])
    metres = np.hypot(across, sample[:, None, 1] - centres[None, :, 1]) * _METRES_OF_DEGREE

    def matches(radius: float) -> float:
        return float((metres < radius).sum(axis=1).mean())

    radius = _tuned(matches, application.matches_per_event, 2e6)
    conditions = [
        f"ST_DistanceSphere(ST_Point(longitude, latitude), ST_Point({x}, {y})) < {radius:.0f}"
        for x, y in centres.tolist()
    ]
    return conditions, pa.table({"longitude": points[:, 0], "latitude": points[:, 1]})


def _around(
    spots: Floats,
    spread: float,
    first: tuple[float, float],
    second: tuple[float, float],
    count: int,
    rng: np.random.Generator,
) -> Floats:
    """Points of which most lie around a hot spot."""
    anywhere = np.column_stack([rng.uniform(*first, count), rng.uniform(*second, count)])
    crowded = spots[rng.integers(0, len(spots), count)] + rng.normal(0.0, spread, (count, 2))
    points: Floats = np.where(rng.random((count, 1)) < CROWDED_SHARE, crowded, anywhere)
    return points


def _tuned(matches: Callable[[float], float], wanted: float, most: float) -> float:
    """The width of ranges at which an event matches a wanted number of subscriptions."""
    low, high = 0.0, most
    for _ in range(_TUNING_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if matches(middle) < wanted else (low, middle)
    return high


def _benched(name: str) -> Callable[[Application, int, int, np.random.Generator], tuple[list[str], pa.Table]]:
    def generate(
        application: Application,  # noqa: ARG001 - these match what they match
        subscriptions: int,
        events: int,
        rng: np.random.Generator,
    ) -> tuple[list[str], pa.Table]:
        workload = WORKLOADS[name].generator(name, Size(subscriptions, None, events), rng)
        if workload.conditions is None:
            raise InputError(f"the workload {name} has no conditions in SQL")
        return workload.conditions.column("condition").to_pylist(), workload.events

    return generate


_GENERATORS = {
    "games": _games,
    "feeds": _benched("keywords"),
    "quotes": _benched("quotes"),
    "alerts": _benched("alerts"),
    "places": _places,
}
