"""Events of other logs on their way to this edge's pipeline, where this edge is the home of their topic.

They are not in this log until the pipeline has matched them. A range is taken when the pipeline has all of its events.
Each publisher's events are handed over one after the other, and ranges of one log too: if something fails, nothing may
overtake it. What is handed over again after a crash is recognised when it comes back (see `pipeline_batches`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from fieldfare.messages import Delivery, ExportedEvent, HandEvents, beside
from fieldfare.routing.lifespans import lifespan_step
from fieldfare.routing.origin import Arrival, Origin
from fieldfare.routing.ports import Asking
from fieldfare.routing.topic import Topic

_delivery = msgspec.json.Decoder(Delivery)


@dataclass(frozen=True, slots=True)
class HandedPart:
    """Events of one publisher that are handed over together. The pipeline's answer is for this."""

    range: HandedRange
    publisher: str | None
    at: float  # when they were accepted, by the clock of this edge
    events: list[Delivery]


@dataclass(slots=True, eq=False)
class HandedRange:
    """A range of another log on its way to the pipeline."""

    arrival: Arrival
    waiting: dict[str | None, deque[HandedPart]] = field(default_factory=dict)  # the first of each publisher is asked
    has_failed: bool = False


class Handing:
    """All such ranges. `taken` is called for each that the pipeline has, `failed` for one that it could not take."""

    def __init__(self, pipeline: Asking, taken: Callable[[Arrival], None], failed: Callable[[Arrival], None]) -> None:
        self._pipeline, self._taken, self._failed = pipeline, taken, failed
        self._ranges: dict[Origin, deque[HandedRange]] = {}  # the first of each is with the pipeline

    def add(self, arrival: Arrival, events: Sequence[ExportedEvent], now: float) -> None:
        """A range came. It has at least one event."""
        new = HandedRange(arrival)
        for part in _parts(new, events, now):
            new.waiting.setdefault(part.publisher, deque()).append(part)
        ranges = self._ranges.setdefault(arrival.origin, deque())
        ranges.append(new)
        if len(ranges) == 1:
            self._begin(new)

    def _begin(self, handed: HandedRange) -> None:
        for parts in handed.waiting.values():
            self._hand(parts[0])

    def _hand(self, part: HandedPart) -> None:
        key = part.range.arrival.origin.topic.key
        ids, events = [event.id for event in part.events], [event.event for event in part.events]
        carried = [beside(event.payload, event.envelope, event.trace) for event in part.events]
        extra = carried if any(carried) else None
        self._pipeline.ask(lambda number: HandEvents(number, *key, part.at, part.publisher, ids, events, extra), part)

    def handed(self, part: HandedPart, failure: str | None) -> None:
        """The pipeline has a part, or could not take it."""
        handed, origin = part.range, part.range.arrival.origin
        if handed.has_failed:
            return
        if failure is not None:
            for each in self._ranges.pop(origin):
                each.has_failed = True
            self._failed(handed.arrival)
            return
        origin.topic.event_count += len(part.events)
        parts = handed.waiting[part.publisher]
        parts.popleft()
        if parts:
            self._hand(parts[0])
            return
        del handed.waiting[part.publisher]
        if not handed.waiting:
            self._end(handed)

    def _end(self, handed: HandedRange) -> None:
        origin = handed.arrival.origin
        ranges = self._ranges[origin]
        ranges.popleft()
        self._taken(handed.arrival)
        if ranges:
            self._begin(ranges[0])
        else:
            del self._ranges[origin]


def _parts(handed: HandedRange, events: Sequence[ExportedEvent], now: float) -> Iterator[HandedPart]:
    """Each publisher's events that were accepted at about the same time, in order."""
    topic = handed.arrival.origin.topic
    made = [(_delivery.decode(event.delivery), event.seconds_left) for event in events]
    key = lambda pair: (pair[0].publisher, lifespan_step(pair[1]))  # noqa: E731
    for (publisher, _), group in groupby(made, key):
        alike = list(group)
        yield HandedPart(handed, publisher, _accepted_at(topic, *alike[0], now), [event for event, _ in alike])


def _accepted_at(topic: Topic, event: Delivery, seconds_left: float, now: float) -> float:
    """When an event was accepted. The clock of the edge that did may be wrong, but how long it lives yet is known."""
    return min(now, max(event.at, now + seconds_left - topic.offered.lifespan_seconds))
