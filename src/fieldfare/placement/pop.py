"""POP at one broker: it counts deliveries for all publishers that pass, and decides for those connected here."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from fieldfare.placement.options import PopOptions
from fieldfare.placement.passages import Outcome, Passage, Relocation, Relocations, ToNeighbour
from fieldfare.placement.placement_frames import (
    AnyPlacementFrame,
    BrokerName,
    PublisherName,
    RelocationAnswer,
    RelocationRequest,
    TraceId,
    TraceResults,
)
from fieldfare.placement.pop_selection import begin, proceed
from fieldfare.placement.pop_tracing import DeliveryTracer, TraceSampler


@dataclass(slots=True)
class _Publisher:
    """A publisher of this broker, since its last decision."""

    sampler: TraceSampler
    started_at: float
    published: int = 0
    traced: int = 0  # with all their deliveries counted
    outstanding: dict[TraceId, float] = field(default_factory=dict)  # until when each is waited for
    deciding_until: float | None = None  # the search is under way

    def restart(self, now: float) -> None:
        """After a decision, as many traces again are needed for the next."""
        self.started_at, self.published, self.traced, self.deciding_until = now, 0, 0, None


class Pop:
    """One broker's part in POP. Methods return what the broker is to do.

    `first_number`: traces are numbered from here on; a restarted broker must not use a number again.
    """

    def __init__(self, broker: BrokerName, options: PopOptions, rng: random.Random, first_number: int = 0) -> None:
        self._broker, self._options, self._rng = broker, options, rng
        self._number = first_number
        self._publishers: dict[PublisherName, _Publisher] = {}
        self._tracer = DeliveryTracer(options)

    def tag(self, publisher: PublisherName, now: float) -> TraceId | None:
        """For a publication that this broker, the publisher's first, has accepted: what it carries; None: untraced.

        No more are begun than a decision needs, so that none is outstanding when it is made.
        """
        found = self._publishers.get(publisher)
        if found is None:
            found = self._publishers[publisher] = _Publisher(TraceSampler(self._options, now), now)
        found.published += 1
        if found.traced + len(found.outstanding) >= self._options.traces_min or not found.sampler.draws(self._rng, now):
            return None
        trace = TraceId(publisher, self._broker, self._number)
        self._number += 1
        found.outstanding[trace] = now + self._options.timeout_seconds
        return trace

    def handled(self, trace: TraceId, passage: Passage, now: float) -> list[Outcome]:
        """A traced publication has passed this broker."""
        return self._traced(*self._tracer.handled(trace, passage, now), now)

    def received(self, neighbour: BrokerName, frame: AnyPlacementFrame, now: float) -> list[Outcome]:
        """A neighbour has sent a frame; those of GRAPE are not for this machine."""
        match frame:
            case TraceResults():
                return self._traced(*self._tracer.told(neighbour, frame, now), now)
            case RelocationRequest(publisher=publisher, path=path) if path and self._broker not in path:
                averages = self._tracer.averages.get(publisher)
                return [ToNeighbour(*proceed(frame, self._broker, averages))]
            case RelocationAnswer(path=path) if self._broker in path[1:]:
                return self._answered(frame, now)
        return []

    def expire(self, now: float) -> list[Outcome]:
        """Send what was gathered, and give up what was not answered in time; call it every second or so."""
        outcomes: list[Outcome] = [*self._tracer.expire(now)]
        for found in self._publishers.values():
            found.outstanding = {trace: until for trace, until in found.outstanding.items() if until > now}
            if found.deciding_until is not None and found.deciding_until <= now:
                found.restart(now)
        for publisher in list(self._publishers):
            outcomes += self._decide(publisher, now)
        return outcomes

    def stayed(self, publisher: PublisherName) -> None:
        """A decision was to stay. Fewer publications are traced until the next one."""
        if (found := self._publishers.get(publisher)) is not None:
            found.sampler.calm()

    def forget(self, publisher: PublisherName) -> None:
        """A publisher has moved, and its events reach this broker from another side: begin again."""
        self._publishers.pop(publisher, None)
        self._tracer.forget(publisher)

    def _traced(self, sent: list[ToNeighbour], ended: list[TraceId], now: float) -> list[Outcome]:
        outcomes: list[Outcome] = [*sent]
        for trace in ended:
            found = self._publishers.get(trace.publisher)
            if found is not None and found.outstanding.pop(trace, None) is not None:
                found.traced += 1
                outcomes += self._decide(trace.publisher, now)
        return outcomes

    def _decide(self, publisher: PublisherName, now: float) -> list[Outcome]:
        found = self._publishers[publisher]
        if found.deciding_until is not None or found.traced < self._options.traces_min:
            return []
        step = begin(publisher, self._broker, self._tracer.averages[publisher])
        if step is None:
            found.restart(now)
            return [Relocations(publisher, ())]
        found.deciding_until = now + self._options.timeout_seconds
        return [ToNeighbour(*step)]

    def _answered(self, answer: RelocationAnswer, now: float) -> list[Outcome]:
        place = answer.path.index(self._broker)
        if place < len(answer.path) - 1:
            return [ToNeighbour(answer.path[place + 1], answer)]
        found = self._publishers.get(answer.publisher)
        if found is None or found.deciding_until is None:
            return []
        seconds = now - found.started_at
        rate = found.published / seconds if seconds > 0.0 else 0.0
        found.restart(now)
        averages = self._tracer.averages.get(answer.publisher)
        error = averages.saving_error(answer.path[-2]) if averages is not None else 0.0
        return [Relocations(answer.publisher, _relocations(answer, rate, error))]


def _relocations(answer: RelocationAnswer, rate: float, error_per_hop: float) -> list[Relocation]:
    """To the target, or else to a broker on the way there.

    How far deliveries are from the target is not known, so their hops are counted along the path to it only.
    `error_per_hop`: of what the first hop saves. That of the others is taken to be as large.
    """
    path_hops = len(answer.path) - 1
    hops_now = answer.deliveries * path_hops
    return [
        Relocation(
            answer.publisher,
            broker,
            path_hops - place,
            "hops",
            hops_now,
            max(0.0, hops_now - saved),
            answer.deliveries,
            rate,
            error_per_hop * (path_hops - place),
        )
        for place, (broker, saved) in enumerate(zip(answer.path, (answer.saved, *answer.saved_before), strict=False))
    ]
