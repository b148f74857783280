"""Queues of bulk service: what has come meanwhile is served together, in T = a + b · n seconds for n events.

So work an edge's rounds, a link's writes and Spark's micro-batches. Two things are added to the textbook's model, for
they were measured: what is written for subscribers in one round is one write for each connection and in it one frame
for each subscription, however many messages are in it; and a round is now and then longer than its work
(`tail_seconds`).

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
_GRID = 4
_MOMENTS = _GRID**2  # of a round, at which an event may come
_SHUFFLED = np.array(
    [_GRID * j + _GRID - 1 - i for i in range(_GRID) for j in range(_GRID)]
)  # pairs fill a square evenly
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
    frame_seconds: float = 0.0  # to begin a frame for a subscription
    subscriptions: float = 1.0
    tail_seconds: float = 0.0  # by which one round in a hundred is longer than its work
    other_share: float = 0.0  # of a core, which something else takes: subscriptions that come and go

    @property
    def event_seconds(self) -> float:
        """b, where rounds are so large that each connection and subscription gets something in every round."""
        return sum(self.costs.values())

    def seconds(self, events: Floats | float) -> Floats:
        """T(n): the seconds of a round of n events."""
        n = np.asarray(events, np.float64)
        return np.asarray(self.round_seconds + self.event_seconds * n + self._written_seconds(n))

    def delivering_seconds(self, events: Floats | float) -> Floats:
        """The last part of a round, in which deliveries go out one after the other."""
        n = np.asarray(events, np.float64)
        return np.asarray(self._written_seconds(n) + self.costs.get("deliveries", 0.0) * n)

    def _written_seconds(self, events: Floats) -> Floats:
        """What is begun once, however much is in it."""
        messages = events * self.writes_per_event
        writes = self.write_seconds * _reached(messages, self.connections)
        return np.asarray(writes + self.frame_seconds * _reached(messages, self.subscriptions))

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
        writes = self.write_seconds * min(self.writes_per_event, self.connections)
        frames = self.frame_seconds * min(self.writes_per_event, self.subscriptions)
        costs = {**self.costs, "writes": writes, "deliveries": self.costs.get("deliveries", 0.0) + frames}
        return max(costs, key=costs.__getitem__)


def _reached(messages: Floats, receivers: float) -> Floats:
    """How many of the receivers get at least one of the messages, where each goes to any of them."""
    return np.asarray(receivers * -np.expm1(-messages / receivers))


def round_events(station: Station, events_per_second: float) -> float:
    """The mean number of events of a round at a server that never idles: λ · T(n) = n."""
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
    """Seconds from an event's arrival at the station until it has left, as `SAMPLES` equally likely values.

    Deliveries leave one after the other at the end of a round; everything else when it is over. Latencies are infinite
    where more comes than the station can serve.
    """
    if events_per_second > station.throughput:
        return np.full(SAMPLES, math.inf)
    sizes, lasts, work, weights = _chain(station, events_per_second * station.share)
    left = (np.arange(_MOMENTS) + 0.5) / _MOMENTS  # an event comes at any moment of the round before its own
    before = left[_SHUFFLED]  # of the time of delivering, what is saved by who is not the last
    ends = work[None, :] - before[:, None] * station.delivering_seconds(sizes)[None, :]
    values = (left[:, None, None] * lasts[None, :, None] + ends[:, None, :]).ravel()
    likely = np.broadcast_to(weights.events / len(left), (len(left), *weights.events.shape)).ravel()
    alone = weights.alone_seconds - before * float(station.delivering_seconds(1.0))
    values = np.concatenate([values, alone])
    likely = np.concatenate([likely, np.full(len(left), weights.alone / len(left))])
    found = _quantiles(values, likely)
    if station.tail_seconds > 0:
        found = total([found, _exponential(station.tail_seconds / _TAIL_MEANS)])
    return found


def in_groups(station: Station, events: float) -> Station:
    """The same station for events that come so many together: what it serves are groups."""
    return msgspec.structs.replace(
        station,
        costs={name: seconds * events for name, seconds in station.costs.items()},
        writes_per_event=station.writes_per_event * events,
        events_max=max(1.0, station.events_max / events),
    )


class _Weights(msgspec.Struct, frozen=True):
    events: (
        Floats  # for each size of a round and of the next: how many events came in the one and are served in the other
    )
    alone: float  # how many events found nobody waiting and the server idle
    alone_seconds: float


def _chain(station: Station, rate: float) -> tuple[Floats, Floats, Floats, _Weights]:
    """Sizes of a round; for each how long it lasts until the next begins, and its own work; events in each."""
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
    return sizes, lasts, work, _Weights(came, alone, float(station.seconds(1.0)))


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
