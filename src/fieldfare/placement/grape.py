"""GRAPE at one broker: it traces for all publishers that pass, and decides for those that are connected here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fieldfare.placement.grape_selection import rank, relocations
from fieldfare.placement.grape_tracing import SessionTracer
from fieldfare.placement.options import GrapeOptions
from fieldfare.placement.passages import Measure, MeasureDelays, Outcome, Passage, Relocations, ToNeighbour
from fieldfare.placement.placement_frames import (
    PUBLICATIONS_MAX,
    AnyPlacementFrame,
    BrokerDelays,
    BrokerName,
    PublisherName,
    ReportRequest,
    SessionReport,
    SessionTag,
    TraceId,
)
from fieldfare.placement.trace_tree import TraceTree, trace_tree


@dataclass(slots=True)
class _Publisher:
    """A publisher of this broker. It has at most one session at a time."""

    session: TraceId
    started_at: float
    ended_at: float
    length: int  # publications of the session
    tagged: int = 0
    tree: TraceTree | None = None  # while the publisher measures delays
    deadline: float = 0.0  # of the reports, then of the measured delays; from the last publication on

    @property
    def publications_per_second(self) -> float:
        """In this session."""
        seconds = self.ended_at - self.started_at
        return (self.tagged - 1) / seconds if seconds > 0.0 else 0.0


class Grape:
    """One broker's part in GRAPE. Methods return what the broker is to do.

    `first_number`: sessions are numbered from here on; a restarted broker must not use a number again.
    """

    def __init__(
        self,
        broker: BrokerName,
        options: GrapeOptions,
        measure_delays: Callable[[], BrokerDelays],
        first_number: int = 0,
    ) -> None:
        self._broker, self._options = broker, options
        self._number = first_number
        self._publishers: dict[PublisherName, _Publisher] = {}
        self._calm: dict[PublisherName, int] = {}  # how many times as long as the first its sessions are
        self._finished: list[SessionReport] = []
        self._tracer = SessionTracer(broker, options, measure_delays, self._finished.append)

    def tag(self, publisher: PublisherName, now: float) -> SessionTag | None:
        """For a publication that this broker, the publisher's first, has accepted: what it carries; None: untraced.

        A session's publications are consecutive, so that its bits are few. While one is fetched none is traced.
        """
        found = self._publishers.get(publisher)
        if found is None:
            session = TraceId(publisher, self._broker, self._number)
            found = self._publishers[publisher] = _Publisher(session, now, now, self._length(publisher))
            self._number += 1
        if found.tagged == found.length:
            return None
        found.tagged += 1
        found.ended_at = now
        found.deadline = now + 2 * self._options.timeout_seconds  # brokers give up reports after one
        return SessionTag(found.session, found.tagged - 1)

    def handled(self, tag: SessionTag, passage: Passage, now: float) -> list[Outcome]:
        """A traced publication has passed this broker. The session's last one, at its first broker, ends it."""
        self._tracer.handled(tag, passage, now)
        if passage.upstream is not None:
            return []
        found = self._publishers.get(tag.session.publisher)
        if found is None or found.session != tag.session or tag.place < found.length - 1:
            return []
        return self._decided(self._tracer.fetch(tag.session, found.length, now), now)

    def received(self, neighbour: BrokerName, frame: AnyPlacementFrame, now: float) -> list[Outcome]:
        """A neighbour has sent a frame; those of POP are not for this machine."""
        if isinstance(frame, ReportRequest):
            return self._decided(self._tracer.asked(neighbour, frame, now), now)
        if isinstance(frame, SessionReport):
            return self._decided(self._tracer.reported(neighbour, frame), now)
        return []

    def measured(self, session: TraceId, publisher_seconds: Mapping[BrokerName, float]) -> list[Outcome]:
        """The publisher's one-way delays to the brokers that answered it, after `MeasureDelays`."""
        found = self._publishers.get(session.publisher)
        if found is None or found.session != session or found.tree is None:
            return []
        return [self._select(session.publisher, found, found.tree, publisher_seconds)]

    def expire(self, now: float) -> list[Outcome]:
        """Give up what was not answered in time; call it every second or so."""
        for publisher, found in list(self._publishers.items()):
            if found.tagged == found.length and found.deadline <= now:
                self._tracer.forget(found.session)
                del self._publishers[publisher]
        return self._decided(self._tracer.expire(now), now)

    def stayed(self, publisher: PublisherName) -> None:
        """A decision was to stay. The next session is longer: it costs less for each publication, and is surer."""
        self._calm[publisher] = min(2 * self._calm.get(publisher, 1), self._options.calm_factor_max)

    def forget(self, publisher: PublisherName) -> None:
        """A publisher has left this broker, or its subscribers are routed anew: begin again."""
        self._calm.pop(publisher, None)
        found = self._publishers.pop(publisher, None)
        if found is not None:
            self._tracer.forget(found.session)

    def _length(self, publisher: PublisherName) -> int:
        return min(self._options.session_publications * self._calm.get(publisher, 1), PUBLICATIONS_MAX)

    def _decided(self, sent: list[ToNeighbour], now: float) -> list[Outcome]:
        outcomes: list[Outcome] = [*sent]
        while self._finished:
            outcomes += self._decide(self._finished.pop(), now)
        return outcomes

    def _decide(self, report: SessionReport, now: float) -> list[Outcome]:
        publisher = report.session.publisher
        found = self._publishers.get(publisher)
        if found is None or found.session != report.session:
            return []
        tree = trace_tree(self._broker, report.reports, found.tagged) if report.is_complete else None
        if tree is None or not tree.total_deliveries:
            del self._publishers[publisher]
            return []
        if not self._options.needs_delays:
            return [self._select(publisher, found, tree, None)]
        found.tree, found.deadline = tree, now + self._options.timeout_seconds
        return [MeasureDelays(publisher, report.session, tuple(tree.brokers))]

    def _select(
        self,
        publisher: PublisherName,
        found: _Publisher,
        tree: TraceTree,
        publisher_seconds: Mapping[BrokerName, float] | None,
    ) -> Relocations:
        del self._publishers[publisher]  # the next publication begins a new session
        ranked = rank(tree, self._options, publisher_seconds)
        own = next((each for each in ranked if each.hops == 0), None)
        costs: dict[Measure, float] = {} if own is None else {"messages": own.messages, "seconds": own.delay_seconds}
        choices = relocations(publisher, tree, ranked, self._options, found.publications_per_second)
        return Relocations(publisher, choices, costs)
