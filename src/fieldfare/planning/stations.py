"""Queues of bulk service: what has come meanwhile is served together, in T = a + b · n seconds for n events.

So work an edge's rounds, a link's writes and Spark's micro-batches. Two things are added to the textbook's model, for
they were measured: what is written for subscribers in one round is one write for each connection, however many messages
are in it; and a round is now and then longer than its work (`tail_seconds`).

The number of events in a round is a Markov chain: during a round of T seconds a Poisson number of events comes, of mean
λ · T, and is the next round; if nobody came, the next event is served alone, at once. The chain is solved on a grid of
sizes; where rounds are large, a normal law stands for Poisson's. Latency is what is left of the round in which an event
came, plus its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SAMPLES = 2_048  # of a latency: enough for the 99th percentile
_STATES_MAX = 64
_MOMENTS = 8  # of a round, at which an event may come
_SMALL_ROUND = 60.0  # events up to which every size of a round is a state of the chain
_UTILISATION_MAX = 0.995  # above it a queue needs minutes to settle: it is called saturated
_TAIL_MEANS = math.log(100)  # means of an exponential law in its 99th percentile


class Station(msgspec.Struct, frozen=True, kw_only=True):
    """Servers of one kind that events pass: all work alike, and share the events evenly."""

    name: str
    round_seconds: float = 0.0  # a: of a round, whatever it holds
    costs: dict[str, float]  # b, by what it is spent on: seconds for each event that comes here
    share: float = 1.0  # of the application's events, those that come to one of the servers
    interval_seconds: float = 0.0  # from one round's beginning to the next, at least
    events_max: float = math.inf  # of a round
    write_seconds: float = 0.0  # to begin a write to a connection, however much it holds
    writes_per_event: float = 0.0  # messages for an event; those of a round to one connection are one write
    connections: float = 1.0
    tail_seconds: float = 0.0  # by which one round in a hundred is longer than its work

    @property
    def event_seconds(self) -> float:
        """b, where rounds are so large that each connection is written to in every round."""
        return sum(self.costs.values())

    def seconds(self, events: Floats | float) -> Floats:
        """T: how long a round of so many events takes."""
        n = np.asarray(events, np.float64)
        writes = self.connections * -np.expm1(-n * self.writes_per_event / self.connections)
        return np.asarray(self.round_seconds + self.event_seconds * n + self.write_seconds * writes)

    @property
    def throughput(self) -> float:
        """Events of the application per second, of which this station can serve its share."""
        if self.share <= 0 or self.event_seconds <= 0:
            return math.inf
        if math.isinf(self.events_max):
            return _UTILISATION_MAX / (self.event_seconds * self.share)
        most = self.events_max / max(float(self.seconds(self.events_max)), self.interval_seconds)
        return _UTILISATION_MAX * most / self.share

    @property
    def busiest_with(self) -> str:
        """What most of an event's time is spent on."""
        costs = {**self.costs, "writes": self.write_seconds * min(self.writes_per_event, self.connections)}
        return max(costs, key=costs.__getitem__)


def round_events(station: Station, events_per_second: float) -> float:
    """How many events a round has on average, where it is so many that the server never idles: λ · T(n) = n."""
    rate = events_per_second * station.share
    if rate <= 0:
        return 0.0
    size = 0.0
    for _ in range(200):
        period = max(float(station.seconds(size)), station.interval_seconds)
        following = min(rate * period, station.events_max)
        if abs(following - size) <= 1e-9 * max(1.0, size):
            break
        size = following
    return size


def latencies(station: Station, events_per_second: float) -> Floats:
    """Seconds from an event's arrival at the station until its round is over, as `SAMPLES` equally likely values.

    They are infinite where more comes than the station can serve.
    """
    if events_per_second > station.throughput:
        return np.full(SAMPLES, math.inf)
    lasts, work, weights = _chain(station, events_per_second * station.share)
    left = (np.arange(_MOMENTS) + 0.5) / _MOMENTS  # an event comes at any moment of the round before its own
    values = (left[:, None, None] * lasts[None, :, None] + work[None, None, :]).ravel()
    likely = np.broadcast_to(weights.events / len(left), (len(left), *weights.events.shape)).ravel()
    values = np.concatenate([values, [weights.alone_seconds]])
    likely = np.concatenate([likely, [weights.alone]])
    found = _quantiles(values, likely)
    if station.tail_seconds > 0:
        found = total([found, _exponential(station.tail_seconds / _TAIL_MEANS)])
    return found


class _Weights(msgspec.Struct, frozen=True):
    events: (
        Floats  # for each size of a round and of the next: how many events came in the one and are served in the other
    )
    alone: float  # how many events found nobody waiting and the server idle
    alone_seconds: float


def _chain(station: Station, rate: float) -> tuple[Floats, Floats, _Weights]:
    """For each size of a round: how long it lasts until the next begins, its own work; how many events are in which."""
    mean = max(1.0, round_events(station, rate / station.share if station.share else 0.0))
    deviation = math.sqrt(_variance(station, rate, mean))
    is_small = mean <= _SMALL_ROUND and mean + 8.0 * deviation < 2 * _STATES_MAX
    if is_small:
        sizes = np.arange(0.0 if station.interval_seconds else 1.0, mean + 8.0 * deviation + 12.0)
    else:
        spread = 6.0 * deviation
        sizes = np.linspace(max(1.0, mean - spread), mean + spread, _STATES_MAX)
    sizes = np.minimum(sizes, station.events_max)
    work = station.seconds(sizes)
    lasts = np.maximum(work, station.interval_seconds)
    moves = _poisson(rate * lasts, sizes) if is_small else _normal(rate * lasts, sizes)
    nobody = np.zeros(len(sizes))
    if is_small and not station.interval_seconds:
        nobody = np.exp(-rate * lasts)
        moves[:, 0] += nobody
    moves /= moves.sum(axis=1, keepdims=True)
    often = _stationary(moves)
    came = often[:, None] * moves * sizes[None, :]
    alone = float(often @ nobody)
    if alone:
        came[:, 0] -= often * nobody  # they are in rounds of one, but waited for no other round
    came = np.maximum(came, 0.0)
    return lasts, work, _Weights(came, alone, float(station.seconds(1.0)))


def _variance(station: Station, rate: float, mean: float) -> float:
    """Of the number of events in a round: Var n = λT + (λ · dT/dn)² · Var n."""
    period = max(float(station.seconds(mean)), station.interval_seconds)
    step = max(1.0, mean * 0.01)
    slope = float(station.seconds(mean + step) - station.seconds(mean)) / step
    passes_on = min(rate * slope, _UTILISATION_MAX) if period > station.interval_seconds else 0.0
    return rate * period / (1.0 - passes_on**2) + 1.0


def _poisson(means: Floats, sizes: Floats) -> Floats:
    """P(n events come) for each mean, at whole sizes."""
    log_factorials = np.array([math.lgamma(size + 1.0) for size in sizes.tolist()])
    logs = np.log(np.maximum(means, 1e-300))[:, None] * sizes[None, :] - means[:, None] - log_factorials[None, :]
    return np.asarray(np.exp(logs))


def _normal(means: Floats, sizes: Floats) -> Floats:
    deviations = np.sqrt(np.maximum(means, 1.0))[:, None]
    away = (sizes[None, :] - means[:, None]) / np.maximum(deviations, (sizes[-1] - sizes[0]) / len(sizes))
    return np.asarray(np.exp(-0.5 * away**2) + 1e-300)


def _stationary(moves: Floats) -> Floats:
    """How often each state is visited in the long run."""
    equations = moves.T - np.eye(len(moves))
    equations[-1] = 1.0  # in place of an equation that follows from the others: shares add up
    right = np.zeros(len(moves))
    right[-1] = 1.0
    found = np.maximum(np.linalg.solve(equations, right), 0.0)
    return np.asarray(found / found.sum())


def _quantiles(values: Floats, weights: Floats) -> Floats:
    """Equally likely values of a weighted distribution."""
    order = np.argsort(values)
    cumulated = np.cumsum(weights[order])
    wanted = (np.arange(SAMPLES) + 0.5) / SAMPLES * cumulated[-1]
    return np.asarray(values[order][np.minimum(np.searchsorted(cumulated, wanted), len(values) - 1)])


def _exponential(mean: float) -> Floats:
    return np.asarray(-mean * np.log1p(-(np.arange(SAMPLES) + 0.5) / SAMPLES))


def total(parts: Sequence[Floats]) -> Floats:
    """The sum of latencies that do not depend on each other: each is shuffled, always in the same way."""
    rng = np.random.default_rng(7)
    return np.asarray(np.sum([rng.permutation(part) for part in parts], axis=0))


def mixed(parts: Sequence[tuple[float, Floats]]) -> Floats:
    """A distribution that is one of several, each with its share."""
    shares = [share for share, _ in parts]
    return _quantiles(np.concatenate([part for _, part in parts]), np.repeat(np.asarray(shares) / sum(shares), SAMPLES))
