"""Steps of traces: what an edge tells a host that keeps traces of the publications that belong to one.

A step is data, and says how many and how long, never what: traces are read by others than events are. Without a host
that keeps traces there is no such object, and nothing is done for an event.
"""

from __future__ import annotations

from collections.abc import Callable

from fieldfare.messages import RecordStep, Trace, TraceStep
from fieldfare.routing.ports import Emit
from fieldfare.routing.publication import Publication

_TRACES_MAX = 32  # of one publication: its events may belong to as many as there are events


class TraceSteps:
    """Emits steps. `delivered` counts all events that were sent to subscribers."""

    def __init__(self, emit: Emit, delivered: Callable[[], int]) -> None:
        self._emit = emit
        self.delivered = delivered

    def stored(self, publication: Publication) -> None:
        """A publication is in the log."""
        self._tell(publication, "store", publication.record.at, len(publication.rows))

    def matched(self, publications: list[Publication], delivered_before: int, now: float) -> None:
        """Publications were matched together, and what was found was sent, or waits to be."""
        delivered = self.delivered() - delivered_before
        for publication in publications:
            self._tell(publication, "match", now, len(publication.rows))
            if delivered:
                self._tell(publication, "deliver", now, delivered)

    def _tell(self, publication: Publication, step: TraceStep, began_at: float, events: int) -> None:
        for trace in sampled_traces(publication):
            self._emit(RecordStep(trace, step, publication.topic.name, began_at, events))


def sampled_traces(publication: Publication) -> list[Trace]:
    """The traces to which some events of a publication belong, and which somebody keeps."""
    if publication.carried is None:
        return []
    traces = {extra.trace: None for extra in publication.carried if extra is not None and extra.trace is not None}
    return [trace for trace in list(traces)[:_TRACES_MAX] if int(trace[-2:], 16) & 1]
