"""Figure 7 as BlueDove's authors measured it: matchers push, each at its own moment, and five minutes decide.

Once a second a matcher looks at its load, and tells the dispatcher if it has changed by a tenth (section IV-C). The
response-time policy counts on the last push alone, and what it counts makes the difference: all that a matcher has to
do before an event, or, as section III-B writes it, only the queue of the dimension that the event would come by.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from fieldfare.experiments.bluedove_workload import Floats
from fieldfare.experiments.queues import Cluster

_MODELLED_LIMIT = 1.02  # of the rate at which every event takes its quickest candidate


class Estimate(IntEnum):
    """What a dispatcher chooses by."""

    ADAPTIVE = 0  # when the matcher will be free, by its last push and what was sent to it since
    ALL_QUEUES = 1  # how long the matcher's work would have taken, when it pushed last
    OWN_QUEUE = 2  # how long the work in the queue of that dimension alone would have


@dataclass(frozen=True, slots=True)
class Pushing:
    """How matchers report their load, and over how many seconds a rate is measured."""

    seconds: int = 300
    change_share_min: float = 0.1  # by which the work that waits must have changed
    slices: int = 20  # of a second; matcher m looks at its load in slice m % slices
    events_per_second: int = 4_096  # that are modelled; each stands for many
    growth_max: float = 0.02  # seconds by which a second may lengthen responses before it is saturation
    bisections: int = 9


class _Situation(NamedTuple):
    first: npt.NDArray[np.int64]  # for each event and dimension the part
    matchers: npt.NDArray[np.int64]  # of each part
    seconds: Floats  # that a modelled event takes in each part
    estimate: int
    slices: int
    change_share_min: float


def saturation_by_growth(cluster: Cluster, estimate: Estimate, pushing: Pushing) -> float:
    """Bisect for the rate above which response times go on growing."""
    low, high = 0.0, cluster.rate_limit * _MODELLED_LIMIT
    for _ in range(pushing.bisections):
        rate = (low + high) / 2
        responses = mean_responses(cluster, estimate, rate, pushing)
        fifth = max(1, len(responses) // 5)
        growth = responses[-fifth:].mean() - responses[-2 * fifth : -fifth].mean()
        low, high = (low, rate) if growth > pushing.growth_max * fifth else (rate, high)
    return low


def mean_responses(cluster: Cluster, estimate: Estimate, rate: float, pushing: Pushing) -> Floats:
    """For each second the mean time from an event's arrival to its match."""
    situation = _Situation(
        cluster.deployment.candidates.first.astype(np.int64),
        cluster.deployment.matcher_of,
        cluster.service * rate / pushing.events_per_second,
        int(estimate),
        pushing.slices,
        pushing.change_share_min,
    )
    responses: Floats = _simulated(situation, pushing.events_per_second, pushing.seconds)
    return responses


class _Known(NamedTuple):
    """What the dispatcher was told, and what it makes of it."""

    work: Floats  # of each matcher, when it pushed last; below 0: it has not yet
    queue: Floats  # of each part, when its matcher pushed last
    free_at: Floats  # of each matcher, by its last push and what was sent to it since


class _Sent(NamedTuple):
    """What was sent to matchers, of each in its order."""

    ends: Floats
    parts: npt.NDArray[np.int64]
    following: npt.NDArray[np.int64]  # the matcher's next event
    oldest: npt.NDArray[np.int64]  # of each matcher, the first event that may not be done
    newest: npt.NDArray[np.int64]
    queue: Floats  # of each part, as its matcher counted it last


@numba.njit(cache=True)
def _simulated(situation, rate, seconds):  # type: ignore[no-untyped-def]
    matchers, parts = situation.matchers.max() + 1, len(situation.seconds)
    free_at, events = np.zeros(matchers), rate * seconds
    known = _Known(np.full(matchers, -1.0), np.zeros(parts), np.zeros(matchers))
    nobody = np.full(matchers, -1, np.int64)
    links = np.full(events, -1, np.int64)
    sent = _Sent(np.zeros(events), np.zeros(events, np.int64), links, nobody, nobody.copy(), np.zeros(parts))
    responses, last_slice = np.zeros(seconds), -1
    for event in range(events):
        now = event / rate
        slice_number = int(now * situation.slices)
        if slice_number != last_slice:
            last_slice = slice_number
            for matcher in range(slice_number % situation.slices, matchers, situation.slices):
                _push(situation, matcher, now, free_at, sent, known)
        chosen, least = 0, np.inf
        for part in situation.first[event % len(situation.first)]:
            cost = _cost(situation, part, now, known)
            if cost < least:
                chosen, least = part, cost
        matcher, service = situation.matchers[chosen], situation.seconds[chosen]
        known.free_at[matcher] = max(known.free_at[matcher], now) + service
        free_at[matcher] = max(free_at[matcher], now) + service
        _send(event, chosen, matcher, free_at[matcher], sent)
        responses[int(now)] += (free_at[matcher] - now) / rate
    return responses


@numba.njit(cache=True)
def _push(situation, matcher, now, free_at, sent, known):  # type: ignore[no-untyped-def]
    """Let a matcher look at its queues, and tell if they have changed."""
    while sent.oldest[matcher] >= 0 and sent.ends[sent.oldest[matcher]] <= now:
        sent.queue[sent.parts[sent.oldest[matcher]]] -= 1
        sent.oldest[matcher] = sent.following[sent.oldest[matcher]]
    work, told = max(0.0, free_at[matcher] - now), known.work[matcher]
    if told < 0 or abs(work - told) > situation.change_share_min * told:
        known.work[matcher], known.free_at[matcher] = work, max(free_at[matcher], now)
        for part in range(len(situation.seconds)):
            if situation.matchers[part] == matcher:
                known.queue[part] = sent.queue[part]


@numba.njit(cache=True)
def _cost(situation, part, now, known):  # type: ignore[no-untyped-def]
    matcher, service = situation.matchers[part], situation.seconds[part]
    if situation.estimate == 0:
        return max(0.0, known.free_at[matcher] - now) + service
    if situation.estimate == 1:
        return known.work[matcher] + service
    return (known.queue[part] + 1) * service


@numba.njit(cache=True)
def _send(event, part, matcher, end, sent):  # type: ignore[no-untyped-def]
    sent.ends[event], sent.parts[event] = end, part
    sent.queue[part] += 1
    if sent.oldest[matcher] < 0:
        sent.oldest[matcher] = event
    else:
        sent.following[sent.newest[matcher]] = event
    sent.newest[matcher] = event
