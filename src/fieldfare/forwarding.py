"""Forwarding: which of its candidates each event is sent to, decided for a whole batch in one compiled loop.

BlueDove section III-B. The adaptive policy estimates when each matcher will have done what it was sent, and sends an
event where it is answered first, which is sooner at a faster matcher. Up to the batch the paper's extrapolation stands,
q + (λ - μ)(t - t'), taken over all the queues of a matcher, which it serves one after the other; from there on the
dispatcher counts what it sends itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fieldfare.partitioning.layout import Candidates, Layout

_EVENT_COST = 1_000  # what an event costs beside the search, in subscriptions searched
_SUBSCRIPTION_SECONDS = 1e-9  # while nothing has been measured; only the proportions matter then

Floats = npt.NDArray[np.float64]


class Policy(StrEnum):
    """How a dispatcher chooses between candidates."""

    ADAPTIVE = "adaptive"  # soonest answer, by what is known and what was sent since
    RESPONSE_TIME = "response-time"  # soonest answer, by the last report alone
    SUBSCRIPTIONS = "subscriptions"  # fewest subscriptions to search
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Load:
    """What matchers reported last, for each part; all that serve a part together."""

    queue: Floats  # events that wait
    arrival_rate: Floats  # events that came in a second
    matching_rate: Floats  # events that one matcher answers in a second of work; 0: not measured yet
    subscriptions: npt.NDArray[np.int64]
    speeds: Floats | None = None  # of each matcher, ascending by number, against the usual one; None: all alike

    @staticmethod
    def unmeasured(subscriptions: npt.NDArray[np.int64]) -> Load:
        """Nothing is known but how many subscriptions each part holds."""
        nothing = np.zeros(len(subscriptions))
        return Load(nothing, nothing, nothing, subscriptions)


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """One of `count` dispatchers that share the events evenly and choose alike; `seed` is its own."""

    count: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Visits:
    """What is sent where: event `events[i]`, to be matched in part `parts[i]` by matcher `matchers[i]`."""

    events: npt.NDArray[np.int32]  # ascending: an event's visits stand together
    parts: npt.NDArray[np.int32]
    matchers: npt.NDArray[np.int32]


_ONLY = Dispatcher()


def forward(
    layout: Layout,
    candidates: Candidates,
    load: Load,
    policy: Policy = Policy.ADAPTIVE,
    *,
    seconds_since_report: Floats | float = 0.0,
    dispatcher: Dispatcher = _ONLY,
) -> Visits:
    """Choose one candidate for each event, and for each of its visits one of the matchers that serve the part.

    The seconds say when each event comes, counted from the report and ascending; or when all of them do.
    """
    events = len(candidates.first)
    needed = _ALL_NEEDED if candidates.needed is None else candidates.needed
    choices = _Choices(candidates.first, candidates.count, needed)
    out = _Out.of(events * int(candidates.count.max(initial=1)))
    routes = _routes(layout)
    service = service_seconds(layout, load)
    speeds = _speeds(routes, load)
    if policy is Policy.ADAPTIVE:
        clock = np.full(events, seconds_since_report, np.float64)
        start = float(clock[0]) if events else 0.0
        work = _work_seconds(routes, load.queue + load.arrival_rate * start, service, speeds)
        estimate = _Estimate(service, service * dispatcher.count, speeds, clock, np.maximum(work, start))
        written = _send_adaptively(choices, routes, estimate, out)
    else:
        seed = np.uint64(dispatcher.seed % 2**64)
        if policy is Policy.RANDOM:
            chosen = _draw(events, len(layout.dimensions), seed)
        else:
            by_count = policy is Policy.SUBSCRIPTIONS
            costs = _searched(routes, load) if by_count else _waiting(routes, load, service) + service
            chosen = _cheapest(choices, routes, costs.astype(np.float64))
        shares = np.empty(0) if load.speeds is None else _summed_shares(routes, speeds)
        written = _send(choices, routes, chosen, _Drawing(seed, shares), out)
    matchers = np.array(layout.matchers, np.int32)[out.servers[:written]]
    return Visits(out.events[:written], out.parts[:written], matchers)


def service_seconds(layout: Layout, load: Load) -> Floats:
    """How long a matcher works on an event in each part; where it was not measured, as the others lead to expect."""
    cost = _searched(_routes(layout), load) + _EVENT_COST
    measured = load.matching_rate > 0.0
    known = 1.0 / load.matching_rate[measured]
    seconds = cost * (known.sum() / cost[measured].sum() if len(known) else _SUBSCRIPTION_SECONDS)
    seconds[measured] = known
    return seconds


def busiest(layout: Layout, load: Load) -> int:
    """The matcher with the most work, which is the one to split."""
    return layout.matchers[int(np.lexsort(_pressure(layout, load))[-1])]


def idlest(layout: Layout, load: Load) -> int:
    """The matcher with the least work, which is the one to merge."""
    return layout.matchers[int(np.lexsort(_pressure(layout, load))[0])]


def _pressure(layout: Layout, load: Load) -> tuple[Floats, Floats]:
    """For each matcher the seconds of work that wait or come within a second; before it, what it holds, for ties."""
    routes = _routes(layout)
    speeds = _speeds(routes, load)
    work = _work_seconds(routes, load.queue + load.arrival_rate, service_seconds(layout, load), speeds)
    return _work_seconds(routes, np.ones(len(load.queue)), load.subscriptions.astype(np.float64), speeds), work


class _Routes(NamedTuple):
    """A layout in arrays. Servers are the matchers by their place among `layout.matchers`."""

    ends: npt.NDArray[np.int64]  # for each dimension the part after its last segment
    sizes: npt.NDArray[np.int64]
    shared: npt.NDArray[np.int64]  # for each segment the shared part that is searched with it; itself if there is none
    server_starts: npt.NDArray[np.int64]  # those of part i lie from server_starts[i] up to server_starts[i + 1]
    servers: npt.NDArray[np.int32]


@lru_cache(maxsize=8)
def _routes(layout: Layout) -> _Routes:
    parts = range(layout.starts[-1])
    places = {matcher: place for place, matcher in enumerate(layout.matchers)}
    groups = [[places[matcher] for matcher in layout.matchers_of(part)] for part in parts]
    shared = [layout.shared_part_of(part) for part in parts]
    return _Routes(
        np.array(layout.starts[1:], np.int64),
        np.diff(layout.starts).astype(np.int64),
        np.array([part if other is None else other for part, other in zip(parts, shared, strict=True)], np.int64),
        np.cumsum([0, *map(len, groups)]).astype(np.int64),
        np.concatenate(groups).astype(np.int32),
    )


def _searched(routes: _Routes, load: Load) -> npt.NDArray[np.int64]:
    """The subscriptions that a visit to each part searches."""
    searched = load.subscriptions.copy()
    own = np.arange(len(routes.shared))
    searched[own] += np.where(routes.shared == own, 0, load.subscriptions[routes.shared])
    return searched


def _speeds(routes: _Routes, load: Load) -> Floats:
    return np.ones(int(routes.servers.max()) + 1) if load.speeds is None else load.speeds


def _work_seconds(routes: _Routes, events: Floats, service: Floats, speeds: Floats) -> Floats:
    """How long each matcher works on so many events in each part, which its servers share by their speeds."""
    together = np.add.reduceat(speeds[routes.servers], routes.server_starts[:-1])
    shares = np.repeat((events * service)[: len(together)] / together, np.diff(routes.server_starts))
    return np.bincount(routes.servers, weights=shares).astype(np.float64)


def _summed_shares(routes: _Routes, speeds: Floats) -> Floats:
    """For each server of a part the share of the part's events that go to it and to those before it."""
    shares = np.empty(len(routes.servers))
    for start, end in pairwise(routes.server_starts.tolist()):
        sums = np.cumsum(speeds[routes.servers[start:end]])
        shares[start:end] = sums / sums[-1]
    return shares


def _waiting(routes: _Routes, load: Load, service: Floats) -> Floats:
    """How long an event waits in each part before it is matched, as reported: its matcher has other queues too."""
    waits = _work_seconds(routes, load.queue, service, _speeds(routes, load))[routes.servers]
    waiting = np.zeros(len(service))
    waiting[: len(routes.shared)] = np.add.reduceat(waits, routes.server_starts[:-1]) / np.diff(routes.server_starts)
    return waiting


class _Choices(NamedTuple):
    first: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    needed: npt.NDArray[np.bool_]  # for each event and part; without columns: all are


_ALL_NEEDED = np.empty((0, 0), np.bool_)


class _Estimate(NamedTuple):
    service: Floats  # how long a matcher works on an event in each part
    added: Floats  # the same for what all dispatchers send while this one sends one event
    speeds: Floats  # of each matcher
    clock: Floats  # when each event comes
    free_at: Floats  # when each matcher will have done its work


class _Drawing(NamedTuple):
    seed: np.uint64
    shares: Floats  # summed, for each server of each part; empty: even


class _Out(NamedTuple):
    events: npt.NDArray[np.int32]
    parts: npt.NDArray[np.int32]
    servers: npt.NDArray[np.int32]

    @staticmethod
    def of(room: int) -> _Out:
        return _Out(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32))


@njit(cache=True, nogil=True, inline="always")
def _part(routes, choices, event, dimension, step):  # type: ignore[no-untyped-def]
    part = choices.first[event, dimension] + step
    return part if part < routes.ends[dimension] else part - routes.sizes[dimension]


@njit(cache=True, nogil=True, inline="always")
def _is_skipped(choices, event, part):  # type: ignore[no-untyped-def]
    return choices.needed.shape[1] > 0 and not choices.needed[event, part]


@njit(cache=True, nogil=True, inline="always")
def _soonest(routes, part, estimate, now):  # type: ignore[no-untyped-def]
    """Who has done an event of a part first, and when; of several, who has been free for longest."""
    best, least = routes.servers[routes.server_starts[part]], np.inf
    for place in range(routes.server_starts[part], routes.server_starts[part + 1]):
        server = routes.servers[place]
        free_at = estimate.free_at[server]
        end = max(free_at, now) + estimate.service[part] / estimate.speeds[server]
        if end < least or (end == least and free_at < estimate.free_at[best]):
            best, least = server, end
    return best, least


@njit(cache=True, nogil=True)
def _send_adaptively(choices, routes, estimate, out):  # type: ignore[no-untyped-def]
    free_at = estimate.free_at
    written = 0
    for event in range(len(estimate.clock)):
        now = estimate.clock[event]
        chosen, least = 0, np.inf
        for dimension in range(choices.first.shape[1]):
            seconds = 0.0
            for step in range(choices.counts[event, dimension]):
                part = _part(routes, choices, event, dimension, step)
                if _is_skipped(choices, event, part):
                    continue
                seconds += _soonest(routes, part, estimate, now)[1] - now
            if seconds < least:
                chosen, least = dimension, seconds
        for step in range(choices.counts[event, chosen]):
            part = _part(routes, choices, event, chosen, step)
            if _is_skipped(choices, event, part):
                continue
            server = _soonest(routes, part, estimate, now)[0]
            free_at[server] = max(free_at[server], now) + estimate.added[part] / estimate.speeds[server]
            out.events[written], out.parts[written], out.servers[written] = event, part, server
            written += 1
    return written


@njit(cache=True, nogil=True)
def _cheapest(choices, routes, costs):  # type: ignore[no-untyped-def]
    chosen = np.zeros(len(choices.first), np.int32)
    for event in range(len(chosen)):
        least = np.inf
        for dimension in range(choices.first.shape[1]):
            cost = 0.0
            for step in range(choices.counts[event, dimension]):
                part = _part(routes, choices, event, dimension, step)
                cost += 0.0 if _is_skipped(choices, event, part) else costs[part]
            if cost < least:
                chosen[event], least = dimension, cost
    return chosen


@njit(cache=True, nogil=True)
def _mixed(seed, number):  # type: ignore[no-untyped-def]
    """A number that looks random, from two that do not: the finaliser of SplitMix64."""
    mixed = seed + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit(cache=True, nogil=True)
def _draw(events, choices, seed):  # type: ignore[no-untyped-def]
    chosen = np.empty(events, np.int32)
    for event in range(events):
        chosen[event] = _mixed(seed, event) % np.uint64(choices)
    return chosen


@njit(cache=True, nogil=True)
def _drawn(drawing, number, start, end):  # type: ignore[no-untyped-def]
    """One of the servers from `start` up to `end`."""
    if end - start == 1:
        return start
    mixed = _mixed(~drawing.seed, number)
    if len(drawing.shares) == 0:
        return start + np.int64(mixed % np.uint64(end - start))
    share = np.float64(mixed >> np.uint64(11)) / 2.0**53
    return start + np.searchsorted(drawing.shares[start : end - 1], share, side="right")


@njit(cache=True, nogil=True)
def _send(choices, routes, chosen, drawing, out):  # type: ignore[no-untyped-def]
    written = 0
    for event in range(len(chosen)):
        for step in range(choices.counts[event, chosen[event]]):
            part = _part(routes, choices, event, chosen[event], step)
            if _is_skipped(choices, event, part):
                continue
            out.events[written], out.parts[written] = event, part
            place = _drawn(drawing, written, routes.server_starts[part], routes.server_starts[part + 1])
            out.servers[written] = routes.servers[place]
            written += 1
    return written
