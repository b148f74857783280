"""An edge as an origin: its events of a topic go to the other edges that want them.

Each receiving edge is a taker with an interest, a cursor of its own and a window (see `remote_taker`). New events are
matched once with the interests of all, in one index; events that several want travel once over each link. Those that
are behind are read for together, beside the others. Only what was published here is sent: what came from another log
goes out from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from fieldfare.messages import (
    Confirm,
    EventsStored,
    ExportedEvent,
    Fetched,
    Follows,
    Join,
    Leave,
    LogId,
    Position,
    Ranges,
    Resume,
    Send,
    Share,
    Taken,
    TopicKey,
    Version,
    edge_of,
    own_part_of,
    stream_of,
)
from fieldfare.overlay.covering import Covering
from fieldfare.routing.interest import Interest, compiled_condition
from fieldfare.routing.matches import attributes_in, entries_of, follows_of
from fieldfare.routing.outstanding import EventEntry
from fieldfare.routing.ports import START, Emit
from fieldfare.routing.reading import StreamReader
from fieldfare.routing.remote_taker import RemoteTaker
from fieldfare.routing.taker import TakerState
from fieldfare.routing.topic import Topic


@dataclass(frozen=True, slots=True)
class ExportReader:
    """The key by which a topic's log is read for other edges."""

    tenant: str
    topic: str


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How much is on its way to another edge, and how patient this edge is."""

    window_bytes: int = 4 * 1024 * 1024  # of events of one topic on their way to one edge
    piece_events_max: int = 1024  # read from the log for one edge at a time
    pass_over_seconds: float = 5.0  # how soon an edge is told of positions at which there are only imported events
    patience_seconds: float = 5.0  # after that, what was not taken is sent again


class TopicExports:
    """The edges that take a topic's events from here."""

    def __init__(self, topic: Topic, log: LogId, options: ExportOptions, emit: Emit, handles: Iterator[int]) -> None:
        self.topic = topic
        self.takers: dict[LogId, RemoteTaker] = {}
        self._log, self._options, self._emit, self._handles = log, options, emit, handles
        self.event_count = 0
        self.is_active = False  # something was matched, or is in flight: `tidy` has to look after it
        self._own_upto = START  # the last event that was published here
        self._interest = Interest()
        self._subscriptions: dict[Position, list[str]] = {}  # remote ids for events that are just being sent
        self._follows: dict[Position, Follows] = {}  # of events that are just being sent: what comes before them
        self._by_handle: dict[int, RemoteTaker] = {}
        key = ExportReader(*topic.key)
        self._reader: StreamReader[RemoteTaker] = StreamReader(
            key, stream_of(*topic.key), emit, self._read_matches, own_part_of(*topic.key)
        )

    # Who takes events

    def join(self, link: str, frame: Join, now: float, *, is_direct: bool, registered: Version | None = None) -> None:
        """Another edge says what it wants; from now on its events are matched with that.

        Where this edge is the home of a topic, the version that counts is that which the pipeline has, `registered`.
        """
        taker = self.takers.get(frame.edge)
        if taker is None:
            taker = RemoteTaker(frame.edge, next(self._handles), self._options.window_bytes)
            self.takers[frame.edge] = self._by_handle[taker.handle] = taker
        if link not in taker.routes:
            taker.routes.insert(0 if is_direct else len(taker.routes), link)
        if is_direct:
            taker.direct = link
        version = frame.version if registered is None else registered
        if version > taker.version:
            self._want(taker, version, Covering.decode(frame.wanted), now)
        self._confirm(taker, link)

    def registered(self, receiver: LogId, version: Version, now: float) -> None:
        """The pipeline has a version of what another edge's subscriptions want."""
        if taker := self.takers.get(receiver):
            if version > taker.version:
                self._want(taker, version, Covering(), now)
            for link in taker.routes:
                self._confirm(taker, link)

    def _confirm(self, taker: RemoteTaker, link: str) -> None:
        confirm = Confirm(self.topic.key, self._log, taker.receiver, taker.version, self.topic.matched)
        self._emit(Send(link, confirm))

    def _want(self, taker: RemoteTaker, version: Version, covering: Covering, now: float) -> None:
        """Match with a new version from now on. What was passed over until now was matched with the old one: say so.

        Each version has a handle of its own: an index forgets an old one when it is next put in order.
        """
        if taker.state is TakerState.LIVE and taker.sent < self.topic.matched:
            self._pass_over(taker, self.topic.matched, now)
        self._interest.remove(taker.handle)
        self._reader.leave(taker)
        del self._by_handle[taker.handle]
        taker.handle, taker.version = next(self._handles), version
        self._by_handle[taker.handle] = taker
        self._interest.add(compiled_condition(taker.handle, covering.condition))
        if taker.state is TakerState.READING:
            taker.fall_behind()
            self._read_if_room(taker)

    def leave(self, link: str, receiver: LogId, now: float) -> None:
        """An edge is no longer reached over a link: go on over another one, or wait for it to come back."""
        taker = self.takers.get(receiver)
        if taker is None or link not in taker.routes:
            return
        was_used = taker.routes[-1] == link
        taker.routes.remove(link)
        if taker.direct == link:
            taker.direct = None
        if not taker.routes:
            self._forget(taker)
        elif was_used and taker.state is not TakerState.DETACHED:
            self._send_again(taker, now)

    def _forget(self, taker: RemoteTaker) -> None:
        self._reader.leave(taker)
        self._interest.remove(taker.handle)
        del self.takers[taker.receiver], self._by_handle[taker.handle]

    def resume(self, link: str, frame: Resume, now: float) -> None:
        """An edge says where to go on; the way it says it by is the way to send by."""
        taker = self.takers.get(frame.receiver)
        if taker is None or frame.version > taker.version:
            return  # its interest is still under way: it asks again when that is confirmed
        if link in taker.routes and link != taker.direct:
            taker.routes.remove(link)
            taker.routes.append(link)
        self._reader.leave(taker)
        taker.resume(frame.position, self.topic.matched, reads_log=self.topic.offered.is_kept)
        taker.sent_at = now
        self._answer(taker, now)
        self._read_if_room(taker)

    def _answer(self, taker: RemoteTaker, now: float) -> None:
        """Whoever said where to resume hears something, also when there is nothing to send."""
        if taker.owes_answer and taker.state is TakerState.LIVE:
            self._pass_over(taker, max(taker.sent, self.topic.matched), now)

    def taken(self, frame: Taken, now: float) -> None:
        """An edge has stored what it was sent."""
        if taker := self.takers.get(frame.receiver):
            taker.take(frame.position)
            taker.sent_at = now
            self._read_if_room(taker)

    def _send_again(self, taker: RemoteTaker, now: float) -> None:
        self._reader.leave(taker)
        if self.topic.offered.is_kept:
            taker.rewind()
            taker.sent_at = now
            self._read_if_room(taker)

    def _read_if_room(self, taker: RemoteTaker) -> None:
        if taker.state is TakerState.BEHIND and taker.has_room:
            self._reader.join(taker)

    # New events

    def offer(
        self,
        entries: Sequence[EventEntry],
        rows: Sequence[Mapping[str, Any]],
        follows: Mapping[Position, Follows],
        now: float,
    ) -> None:
        """New events that were published here, for the edges that want them."""
        self._own_upto = entries[-1][0]
        self._follows.update(follows)
        self._offer(self._matches(entries, rows), entries[-1][0], now)
        self._follows.clear()

    def offer_matched(self, record: EventsStored, now: float) -> None:
        """The same for events that this edge's pipeline has matched."""
        self._own_upto = record.position + len(record.deliveries) - 1
        self._offer(self._known_matches([record]), self._own_upto, now)
        self._subscriptions.clear()

    def _offer(self, matches: Iterable[tuple[RemoteTaker, list[EventEntry]]], upto: Position, now: float) -> None:
        wanted: dict[str, list[tuple[RemoteTaker, list[EventEntry]]]] = {}  # by link
        for taker, matched in matches:
            if taker.state is not TakerState.LIVE:
                continue
            if not taker.has_room:
                if self.topic.offered.is_kept:
                    taker.fall_behind()
                continue
            new = [entry for entry in matched if entry[0] > taker.sent]
            if new:
                for link in _ways(taker):
                    wanted.setdefault(link, []).append((taker, new))
        for link, shares in wanted.items():
            self._send(link, upto, shares, now)
        for shares in wanted.values():
            for taker, new in shares:
                if taker.sent < upto:
                    self.event_count += len(new)
                    taker.sending(upto, sum(len(entry[2]) for entry in new), len(new), now)

    def _matches(
        self, entries: Sequence[EventEntry], rows: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[RemoteTaker, list[EventEntry]]]:
        by_handle = self._by_handle
        for handle, numbers in self._interest.match(rows):
            if (taker := by_handle.get(handle)) is not None:
                yield taker, [entries[number] for number in numbers]

    def _known_matches(self, records: Iterable[EventsStored]) -> list[tuple[RemoteTaker, list[EventEntry]]]:
        """Who wants which events where the pipeline has found it out: remote ids name the edges."""
        found: dict[LogId, list[EventEntry]] = {}
        for record in records:
            for entry, ids in zip(entries_of(record), record.subscriptions or (), strict=True):
                remote = [each for each in ids if edge_of(each) in self.takers]
                if remote:
                    self._subscriptions[entry[0]] = remote
                for receiver in dict.fromkeys(map(edge_of, remote)):
                    found.setdefault(receiver, []).append(entry)
        return [(self.takers[receiver], entries) for receiver, entries in found.items()]

    def _send(
        self, link: str, upto: Position, wanted: Sequence[tuple[RemoteTaker, list[EventEntry]]], now: float
    ) -> None:
        """One message for all receivers behind a link: each event is in it once."""
        if len(wanted) == 1:
            taker, entries = wanted[0]
            events = [self._exported(entry, now).of(taker.receiver) for entry in entries]
            shares = [Share(taker.receiver, taker.sent, taker.version, None, self._missed_in(taker.sent, upto))]
        else:
            union = {entry[0]: entry for _, entries in wanted for entry in entries}
            places = {position: place for place, position in enumerate(sorted(union))}
            events = [self._exported(union[position], now) for position in places]
            shares = [
                Share(taker.receiver, taker.sent, taker.version, own, self._missed_in(taker.sent, upto))
                for taker, entries in wanted
                if (own := [places[entry[0]] for entry in entries])
            ]
        self._emit(Send(link, Ranges(self.topic.key, self._log, upto, events, shares)))

    def _missed_in(self, after: Position, upto: Position) -> Position:
        """Where in a range events are missing that never came to this edge, the home of the topic; START: nowhere."""
        if not self.topic.missed or not self.topic.is_home:
            return START
        return max((each.position for each in self.topic.missed if after < each.position <= upto), default=START)

    def _exported(self, entry: EventEntry, now: float) -> ExportedEvent:
        position = entry[0]
        follows = self._follows.get(position) if self._follows else None
        return ExportedEvent(position, entry[1] - now, bytes(entry[2]), self._subscriptions.get(position), follows)

    # Those that are behind

    def _read_matches(self, records: Iterable[EventsStored]) -> Iterable[tuple[RemoteTaker, list[EventEntry]]]:
        own = [record for record in records if record.origin is None]
        if self.topic.is_home:
            return self._known_matches(record for record in own if record.subscriptions is not None)
        entries = [entry for record in own if record.subscriptions is None for entry in entries_of(record)]
        self._follows.update(follows_of(own))
        return self._matches(entries, list(map(attributes_in, entries))) if entries else ()

    def fetched(self, message: Fetched, now: float) -> None:
        """A piece of the log came."""
        for removed_before, is_expired in ((message.lost_before, False), (message.expired_before, True)):
            if removed_before >= 0:
                for taker in self._reader.skip_removed(removed_before):
                    taker.lose(removed_before, is_expired=is_expired)
        # A log may have been read beyond the last event of this topic, to where live takers never come.
        upto = min(message.position, max(self.topic.stored, self.topic.matched))
        piece = msgspec.structs.replace(message, position=upto)
        for taker in self._reader.fetched(piece, self.topic.stored, self._options.piece_events_max):
            self._send_piece(taker, now)
            self._answer(taker, now)
            self._read_if_room(taker)
        self._subscriptions.clear()
        self._follows.clear()

    def _send_piece(self, taker: RemoteTaker, now: float) -> None:
        """Send what was read; what has expired meanwhile is left out, and said to be gone."""
        if (piece := taker.next_piece()) is None:
            return
        living = [entry for entry in piece.entries if entry[1] > now]
        expired_upto = max((entry[0] for entry in piece.entries if entry[1] <= now), default=piece.expired_upto)
        lost_upto = max(piece.lost_upto, self._missed_in(piece.after, piece.upto))
        share = Share(taker.receiver, piece.after, taker.version, None, lost_upto, expired_upto)
        events = [self._exported(entry, now).of(taker.receiver) for entry in living]
        for link in _ways(taker):
            self._emit(Send(link, Ranges(self.topic.key, self._log, piece.upto, events, [share])))
        self.is_active = True
        self.event_count += len(events)
        taker.sending(piece.upto, sum(len(entry[2]) for entry in living), len(events), now)

    # Now and then

    def tidy(self, now: float) -> None:
        """Pass over what nobody wanted, and send again what nobody took.

        Every edge of a topic imports the same events. To tell each other of these at once would take more frames than
        the events themselves. But a replay ends only when its edge has come as far as the replay has.
        """
        self.is_active = False
        is_replaying = any("#" in receiver for receiver in self.takers)
        for taker in list(self.takers.values()):
            if taker.is_unanswered and now - taker.sent_at > self._options.patience_seconds:
                taker.routes.insert(0, taker.routes.pop())  # by another way, if there is one
                self._send_again(taker, now)
            elif taker.state is TakerState.LIVE and taker.sent < self.topic.matched:
                is_due = now - taker.sent_at > self._options.pass_over_seconds
                if taker.sent < self._own_upto or is_replaying or is_due:
                    self._pass_over(taker, self.topic.matched, now)
                else:
                    self.is_active = True
            self.is_active |= taker.is_unanswered

    def pass_over_now(self, now: float) -> None:
        """Tell all live takers at once how far the events go: somebody may wait for that."""
        for taker in self.takers.values():
            if taker.state is TakerState.LIVE and taker.sent < self.topic.matched:
                self._pass_over(taker, self.topic.matched, now)

    def _pass_over(self, taker: RemoteTaker, upto: Position, now: float) -> None:
        """Tell a live taker that it wants none of the events since the last that it was sent."""
        share = Share(taker.receiver, taker.sent, taker.version, None, self._missed_in(taker.sent, upto))
        for link in _ways(taker):
            self._emit(Send(link, Ranges(self.topic.key, self._log, upto, [], [share])))
        taker.sending(upto, 0, 0, now)


def _ways(taker: RemoteTaker) -> Sequence[str]:
    """The links to send over: the latest, and the second path if there is one."""
    latest = taker.routes[-1]
    return (latest,) if taker.direct is None or taker.direct == latest else (latest, taker.direct)


class Exports:
    """All topics that other edges take from this one."""

    def __init__(self, options: ExportOptions, emit: Emit) -> None:
        self.log: LogId = ""  # set when it is known
        self._options, self._emit = options, emit
        self._handles = count(1)
        self._topics: dict[TopicKey, TopicExports] = {}

    @property
    def event_count(self) -> int:
        """Events that were sent, each counted for every edge that it was sent to."""
        return sum(exports.event_count for exports in self._topics.values())

    def get(self, topic: TopicKey) -> TopicExports | None:
        """Who takes events of a topic."""
        return self._topics.get(topic)

    def get_or_make(self, topic: Topic) -> TopicExports:
        """The same; from now on somebody does."""
        exports = self._topics.get(topic.key)
        if exports is None:
            exports = TopicExports(topic, self.log, self._options, self._emit, self._handles)
            self._topics[topic.key] = exports
        return exports

    def __iter__(self) -> Iterator[TopicExports]:
        return iter(self._topics.values())

    def leave(self, link: str, frame: Leave, now: float) -> None:
        """An edge is no longer reached over a link."""
        if exports := self._topics.get(frame.topic):
            exports.leave(link, frame.edge, now)

    def closed(self, link: str, now: float) -> None:
        """A link is gone, and with it all that was reached over it."""
        for exports in self._topics.values():
            for receiver in list(exports.takers):
                exports.leave(link, receiver, now)

    def fetched(self, message: Fetched, now: float) -> None:
        """A piece of the log came, for those who are behind."""
        match message.reader:
            case ExportReader(tenant, topic) if exports := self._topics.get((tenant, topic)):
                exports.fetched(message, now)

    def tidy(self, now: float) -> None:
        """Pass over what nobody wanted, and send again what nobody took."""
        for exports in self._topics.values():
            if exports.is_active:
                exports.tidy(now)

    def behind(self) -> dict[LogId, int]:
        """For each edge that takes events from here, how many positions of this log it has not taken, at most."""
        behind: dict[LogId, int] = {}
        for exports in self._topics.values():
            for receiver, taker in exports.takers.items():
                log = receiver.partition("#")[0]  # without the subscription that reads what is alive
                behind[log] = max(behind.get(log, 0), exports.topic.matched - taker.taken if taker.is_unanswered else 0)
        return behind
