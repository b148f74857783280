"""A replay at an edge that publishers have come to: their events here lie before what is read from the logs they left.

A subscription that begins with what is alive would get those first. So such events are read from this edge's own log
as if it were one more origin (see `replaying`), and stored for the subscription once more, after what comes before
them. At the end such publishers wait for a moment: none of their events may be stored between reading and the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fieldfare.messages import EventsStored, ExportedEvent, Fetch, Fetched, LogId, Position, stream_of
from fieldfare.routing.ports import Emit, LogPort
from fieldfare.routing.replay import OriginReplay, OwnReplay, Replay
from fieldfare.routing.topic import OWN_LOG


@dataclass(frozen=True, slots=True)
class OwnLogPiece:
    """The key by which this edge's log is read for a replay."""

    receiver: LogId


@dataclass(frozen=True, slots=True)
class PausedPublishers:
    """Waits until all that publishers sent before they were paused is in the log."""

    receiver: LogId


@dataclass(frozen=True, slots=True)
class OwnReaderPorts:
    """What reading this edge's own log needs."""

    emit: Emit
    log: LogPort
    match_ready: Callable[[float], None]  # has all matched that is stored
    find: Callable[[LogId], Replay | None]  # a replay, by its receiver
    take: Callable[[OriginReplay, Sequence[ExportedEvent], Position, float], None]


class OwnLogReader:
    """Reads this edge's log for all replays that need it."""

    def __init__(self, ports: OwnReaderPorts) -> None:
        self._ports = ports

    def begin(self, replay: Replay) -> None:
        """Read this log for a replay, if publishers that came from elsewhere have published here."""
        if replay.own is None and replay.pending.topic.has_followers:
            replay.own = OwnReplay(replay, OWN_LOG)
            self.fetch(replay.own)

    def fetch(self, own: OwnReplay) -> None:
        """Read the next piece."""
        if not own.is_fetching:
            own.is_fetching = True
            replay = own.replay
            self._ports.emit(Fetch(OwnLogPiece(replay.receiver), stream_of(*replay.topic), own.taking))

    def fetched(self, message: Fetched, now: float) -> Replay | None:
        """A piece of the log came. Returns the replay that it is for."""
        piece = message.reader
        replay = self._ports.find(piece.receiver) if isinstance(piece, OwnLogPiece) else None
        if replay is None or (own := replay.own) is None:
            return None
        own.is_fetching = False
        if not own.is_held:
            events = [event for record in message.records for event in _events_of(record, now)]
            self._ports.take(own, events, min(message.position, replay.pending.topic.stored), now)
            self._go_on(own)
        return replay

    def _go_on(self, own: OwnReplay) -> None:
        if not own.is_held and own.taking < own.replay.pending.topic.stored:
            self.fetch(own)

    def is_read(self, replay: Replay, now: float) -> bool:
        """All other logs have been read for a replay: whether this one has, too. If not, it is read to its end now."""
        self.begin(replay)
        if (own := replay.own) is None:
            return True
        if not replay.is_pausing:
            replay.is_pausing = True
            replay.pending.topic.ending_replays += 1
            if not self._ports.log.wait_for_all(PausedPublishers(replay.receiver)):
                self.paused(PausedPublishers(replay.receiver), now)
        return own.upto is not None and own.taking >= own.upto and not replay.unstored

    def paused(self, waiter: PausedPublishers, now: float) -> Replay | None:
        """What publishers sent before they were paused is in the log, or will never be. Returns the replay."""
        replay = self._ports.find(waiter.receiver)
        if replay is not None and replay.own is not None:
            self._ports.match_ready(now)
            replay.own.upto = replay.pending.topic.stored
            self._go_on(replay.own)
        return replay

    def end(self, replay: Replay) -> None:
        """A replay has ended: publishers that were paused go on."""
        if replay.is_pausing:
            replay.is_pausing = False
            replay.pending.topic.ending_replays -= 1


def _events_of(record: EventsStored, now: float) -> list[ExportedEvent]:
    """The events of a record that a publisher from elsewhere published here."""
    if record.origin is not None or not record.follows:
        return []
    return [
        ExportedEvent(position, record.expires_at - now, delivery, None, record.follows)
        for position, delivery in enumerate(record.deliveries, record.position)
    ]
