"""GRAPE, phase 1 (section IV-A): what one broker notes of each session, and how the reports are fetched at its end.

A session is a number of consecutive publications of one publisher. A broker notes which of them it delivered to
subscribers of its own, a bit for each, and how many deliveries that made. When all are traced, a request goes down the
ways that they took, and the reports come back by the same ways, joined at each broker.

A session is only of use as a whole: without a subtree's report, its subscribers would seem not to exist. So a broker
that has restarted, or waits for a report in vain, says so, and the session is given up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fieldfare.placement.options import GrapeOptions
from fieldfare.placement.passages import Passage, ToNeighbour
from fieldfare.placement.placement_frames import (
    BrokerDelays,
    BrokerName,
    BrokerReport,
    ReportRequest,
    SessionReport,
    SessionTag,
    TraceId,
)

_SESSIONS_MAX = 100_000  # at one broker; the oldest is forgotten, and then given up by its first broker


@dataclass(slots=True)
class _Session:
    upstream: BrokerName | None
    deadline: float  # if nothing comes until then, forget it
    passed: int = 0  # bit n: publication n has passed
    sent: dict[BrokerName, int] = field(default_factory=dict)  # by downstream neighbour: how many were sent there
    delivered: int = 0
    deliveries: int = 0
    waiting_for: set[BrokerName] | None = None  # neighbours whose reports are to come; None: not yet asked
    reports: list[BrokerReport] = field(default_factory=list)


class SessionTracer:
    """The sessions that have passed one broker.

    `measure_delays` tells how long an event takes at this broker now. Where the broker is a session's first, `traced`
    gets its joined reports.
    """

    def __init__(
        self,
        broker: BrokerName,
        options: GrapeOptions,
        measure_delays: Callable[[], BrokerDelays],
        traced: Callable[[SessionReport], None],
    ) -> None:
        self._broker, self._options = broker, options
        self._measure_delays, self._traced = measure_delays, traced
        self._sessions: dict[TraceId, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def handled(self, tag: SessionTag, passage: Passage, now: float) -> None:
        """Note how a publication of a session passed this broker."""
        session = self._sessions.get(tag.session)
        if session is None:
            if len(self._sessions) >= _SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]
            session = self._sessions[tag.session] = _Session(passage.upstream, 0.0)
        session.deadline = now + self._options.idle_seconds
        if session.passed >> tag.place & 1:
            return
        session.passed |= 1 << tag.place
        for neighbour in passage.downstream:
            session.sent[neighbour] = session.sent.get(neighbour, 0) + 1
        session.deliveries += passage.deliveries
        if passage.deliveries:
            session.delivered |= 1 << tag.place

    def fetch(self, trace: TraceId, passed: int, now: float) -> list[ToNeighbour]:
        """All publications of a session are traced, or the upstream neighbour asks: ask downstream for the reports.

        `passed`: how many should have come by here. If it is another number, some of the session is not known.
        """
        session = self._sessions.get(trace)
        if session is None or session.waiting_for is not None:
            return []
        session.waiting_for = set(session.sent)
        if session.passed.bit_count() != passed:
            return self._give_up(trace, session)
        session.deadline = now + self._options.timeout_seconds
        session.reports.append(self._report(session))
        asked = [ToNeighbour(neighbour, ReportRequest(trace, sent)) for neighbour, sent in session.sent.items()]
        return asked or self._finish(trace, session)

    def asked(self, neighbour: BrokerName, request: ReportRequest, now: float) -> list[ToNeighbour]:
        """A neighbour wants the reports of a session."""
        session = self._sessions.get(request.session)
        if session is None or session.upstream != neighbour:
            return [ToNeighbour(neighbour, SessionReport(request.session, (), is_complete=False))]
        return self.fetch(request.session, request.sent, now)

    def reported(self, neighbour: BrokerName, report: SessionReport) -> list[ToNeighbour]:
        """A neighbour's reports, with those of all brokers downstream of it."""
        session = self._sessions.get(report.session)
        if session is None or session.waiting_for is None or neighbour not in session.waiting_for:
            return []
        if not report.is_complete:
            return self._give_up(report.session, session)
        session.waiting_for.remove(neighbour)
        session.reports.extend(report.reports)
        return [] if session.waiting_for else self._finish(report.session, session)

    def expire(self, now: float) -> list[ToNeighbour]:
        """Give up what nobody answers, and forget what nobody asks for."""
        late = [(trace, session) for trace, session in self._sessions.items() if session.deadline <= now]
        return [frame for trace, session in late for frame in self._give_up(trace, session)]

    def forget(self, trace: TraceId) -> None:
        """A session of this broker's own is of no use any more."""
        self._sessions.pop(trace, None)

    def _finish(self, trace: TraceId, session: _Session) -> list[ToNeighbour]:
        return self._tell(trace, session, SessionReport(trace, tuple(session.reports)))

    def _give_up(self, trace: TraceId, session: _Session) -> list[ToNeighbour]:
        if session.waiting_for is None and session.upstream is not None:  # it was not asked for: nobody is waiting
            del self._sessions[trace]
            return []
        return self._tell(trace, session, SessionReport(trace, (), is_complete=False))

    def _tell(self, trace: TraceId, session: _Session, report: SessionReport) -> list[ToNeighbour]:
        del self._sessions[trace]
        if session.upstream is not None:
            return [ToNeighbour(session.upstream, report)]
        self._traced(report)
        return []

    def _report(self, session: _Session) -> BrokerReport:
        return BrokerReport(
            self._broker,
            tuple(session.sent) if session.upstream is None else (session.upstream, *session.sent),
            session.delivered.to_bytes((session.delivered.bit_length() + 7) // 8, "little"),
            session.deliveries,
            self._measure_delays(),
        )
