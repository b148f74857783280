"""A subscription that begins with what is alive: the living events of other logs that nobody here wanted before.

Each origin's log is read from its beginning for this one subscription, as if it were one more receiving edge: it joins
the topic under a name of its own, with its condition as its interest, and takes ranges. What matches is stored here for
this subscription only. When an origin has been read beyond the edge's own cursor, that reading ends; when the cursor
has come there too, the subscription goes on with what the edge gets after that place. So it has each event once, and
each publisher's events in order.

A few subscriptions are read for at a time, in the order in which they came: many at once would take each other's time,
and none would come to its end. A client may lose its patience meanwhile, and subscribe again over a new connection: it
goes on with the replay that was begun for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import msgspec

from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.messages import (
    Confirm,
    Earlier,
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
    Subscribe,
    Taken,
    TopicKey,
)
from fieldfare.overlay.covering import Covering
from fieldfare.routing.importing import Imports, stored_again
from fieldfare.routing.interest import Interest, compiled_condition
from fieldfare.routing.lifespans import lifespan_step
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.ports import START, Emit, LogPort, Positions
from fieldfare.routing.publication import ImportedEvents
from fieldfare.routing.publishing import Publishing
from fieldfare.routing.replay import OriginReplay, OwnReplay, Replay, ReplayedEvents
from fieldfare.routing.replaying_own_log import OwnLogReader, OwnReaderPorts, PausedPublishers
from fieldfare.routing.topic import OWN_LOG

_VERSION = 1  # of the interest of a replay, which never changes
_PATIENCE_SECONDS = 10.0  # without progress
_RETURN_SECONDS = 30.0  # how long a replay waits for a client that has gone: longer than clients wait for an answer


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How many subscriptions of one edge may begin with what is alive elsewhere at the same time."""

    reading_max: int = 16  # for which other logs are being read
    waiting_max: int = 1_000  # that wait for their turn; more are refused


@dataclass(frozen=True, slots=True)
class ReplayingPorts:
    """What replays need of the overlay."""

    emit: Emit
    imports: Imports
    log: LogPort
    positions: Positions
    publishing: Publishing
    links_of: Callable[[TopicKey], list[str]]  # over which a topic is joined
    is_connected: Callable[[str], bool]  # whether the client of a link is still there
    put_in_force: Callable[[PendingSubscription, float], None]
    deny: Callable[[PendingSubscription, str], None]


class Replays:
    """All replays of an edge."""

    def __init__(self, options: ReplayOptions, ports: ReplayingPorts) -> None:
        self.log_id: LogId = ""
        self._options, self._ports, self._emit = options, ports, ports.emit
        self._replays: dict[LogId, Replay] = {}  # by receiver, in the order in which they came
        self._reading_count = 0
        self.own_log = OwnLogReader(
            OwnReaderPorts(ports.emit, ports.log, ports.publishing.match_ready, self._replays.get, self._take)
        )

    def __len__(self) -> int:
        return len(self._replays)

    def __contains__(self, receiver: LogId) -> bool:
        return receiver in self._replays

    def begin(self, pending: PendingSubscription, now: float) -> None:
        """Read other logs for a subscription. Those that cannot be reached now are waited for, for a while."""
        topic = pending.topic
        known = self._ports.imports.of_topic(topic.key)
        if (
            not _begins_with_what_is_kept(pending.frame)
            or not topic.offered.is_kept
            or not known
            or topic.matching == "spark"
        ):
            self._ports.put_in_force(pending, now)
            return
        if len(self._replays) - self._reading_count >= self._options.waiting_max:
            reason = f"{len(self._replays):,} subscriptions here wait for what is alive at other edges: try again later"
            self._ports.deny(pending, reason)
            return
        condition, interest = compile(pending.frame.condition), Interest()
        interest.add(compiled_condition(pending.handle, condition))
        receiver = f"{self.log_id}#{pending.handle}.{self._ports.positions.last}"  # no two replays have the same
        self._replays[receiver] = Replay(pending, receiver, condition, interest)
        self._read_more(now)

    def _read_more(self, now: float) -> None:
        """Begin to read for those that came first, as many as may be read for at a time."""
        if self._reading_count < self._options.reading_max:
            waiting = (replay for replay in self._replays.values() if not replay.is_reading)
            for replay in list(islice(waiting, self._options.reading_max - self._reading_count)):
                self._reading_count += 1
                replay.is_reading, replay.until = True, now + _PATIENCE_SECONDS
                known = self._ports.imports.of_topic(replay.topic)
                replay.origins = {origin.log: OriginReplay(replay, origin.log) for origin in known}
                self.own_log.begin(replay)
                self._join(replay)

    def adopt(self, link: str, tenant: str, frame: Subscribe) -> PendingSubscription | None:
        """Go on with the replay of a client that has gone, if it comes back and asks for the same again.

        Only a subscription without a name needs this: of another one the edge knows that it is being made.
        """
        for replay in self._replays.values():
            if self._is_abandoned(replay) and replay.is_for(tenant, frame):
                replay.pending.link, replay.pending.frame, replay.abandoned_at = link, frame, None
                return replay.pending
        return None

    def _is_abandoned(self, replay: Replay) -> bool:
        pending = replay.pending
        return not (pending.subscription.is_durable or self._ports.is_connected(pending.link))

    def _join(self, replay: Replay) -> None:
        wanted = Covering.of([replay.condition]).encode()
        for link in self._ports.links_of(replay.topic):
            self._emit(Send(link, Join(replay.topic, replay.receiver, _VERSION, wanted, is_origin=False)))

    def joined(self, topic: TopicKey) -> None:
        """A topic has been joined over a new link: its replays go on there."""
        for replay in self._of_topic(topic):
            self._join(replay)

    def _of_topic(self, topic: TopicKey) -> Iterator[Replay]:
        return (replay for replay in self._replays.values() if replay.topic == topic and replay.is_reading)

    # What origins say

    def confirmed(self, link: str, frame: Confirm) -> None:
        """An origin is ready: tell it where to go on."""
        if (origin := self._replays[frame.receiver].origins.get(frame.origin)) is not None:
            origin.link = link
            self._ask(origin)

    def _ask(self, origin: OriginReplay) -> None:
        if origin.link is not None:
            replay = origin.replay
            resume = Resume(replay.topic, origin.log, replay.receiver, origin.taking, _VERSION)
            self._emit(Send(origin.link, resume))

    def ranges(self, link: str, frame: Ranges, share: Share, now: float) -> None:
        """A range came."""
        replay = self._replays[share.receiver]
        origin = replay.origins.get(frame.origin)
        if origin is None or origin.is_read or origin.held is not None:
            return
        origin.link = link
        if frame.upto < origin.taking:
            if not replay.unstored:
                self._tell_taken(origin, origin.taking)
            return
        if share.after > origin.taking:
            self._ask(origin)
            return
        replay.until, origin.has_begun = now + _PATIENCE_SECONDS, True
        self._take(origin, frame.events, frame.upto, now)
        self._check(replay, now)

    def _take(self, origin: OriginReplay, came: Sequence[ExportedEvent], upto: Position, now: float) -> None:
        """Store those of some events that the subscription wants, up to the first that comes after another log's."""
        replay = origin.replay
        events = [event for event in came if event.position > origin.taking and event.seconds_left > 0]
        held = next((event for event in events if event.follows and self._is_early(replay, event.follows)), None)
        if held is not None:
            origin.held, upto = held.follows, held.position - 1
            events = [event for event in events if event.position <= upto]
        rows, _ = stored_again(events, 0)
        wanted = sorted({number for _, numbers in replay.interest.match(rows) for number in numbers}) if rows else []
        chosen = [events[number] for number in wanted]
        origin.taking = max(origin.taking, upto)
        parts = [list(part) for _, part in groupby(chosen, lambda event: lifespan_step(event.seconds_left))]
        for number, part in enumerate(parts, 1):
            self._store(origin, part, upto if number == len(parts) else part[-1].position, now)
        if not parts:
            self._tell_taken(origin, origin.taking)

    def is_early(self, topic: TopicKey, follows: Follows) -> bool:
        """Whether an event that comes for all has to wait, since what comes before it is being read for some.

        In this log it would lie before that, and those that begin with what is alive would get it first.
        """
        return any(self._is_early(replay, follows) for replay in self._of_topic(topic))

    def _is_early(self, replay: Replay, follows: Follows) -> bool:
        """Whether an event has to wait until other logs have been read further, and what was read is stored."""
        return bool(replay.unstored) or any(
            not self._has_passed(replay, log, earlier) for log, earlier in follows.items()
        )

    def _has_passed(self, replay: Replay, log: LogId, earlier: Earlier) -> bool:
        if log == self.log_id:
            return replay.own is None or replay.own.taking >= earlier.position
        origin = replay.origins.get(log)
        if origin is None or origin.is_read or self._ports.imports.is_gone(log, earlier.edge):
            return self._ports.imports.has_passed(replay.topic, log, earlier)
        return origin.taking >= earlier.position

    def _release(self, replay: Replay) -> None:
        """Have those logs read on whose next events need no longer wait."""
        for origin in (*replay.origins.values(), *((replay.own,) if replay.own is not None else ())):
            if origin.held is None or self._is_early(replay, origin.held):
                continue
            origin.held = None
            if isinstance(origin, OwnReplay):
                self.own_log.fetch(origin)
            else:
                self._ask(origin)

    def _store(self, origin: OriginReplay, events: Sequence[ExportedEvent], upto: Position, now: float) -> None:
        first = self._ports.positions.take(len(events))
        _, deliveries = stored_again(events, first)
        topic, mark = origin.replay.pending.topic, origin.replay.receiver
        record = EventsStored(
            first,
            *topic.key,
            now,
            now + min(event.seconds_left for event in events),
            deliveries,
            subscriptions=[[mark]] * len(events),
            origin=origin.log,
            origin_positions=[event.position for event in events],
        )
        imported = ImportedEvents(topic, record, [], is_replayed=True)
        origin.replay.unstored += 1
        self._ports.publishing.take_import(imported, ReplayedEvents(origin, imported, upto))

    def stored(self, waiter: ReplayedEvents, now: float) -> None:
        """Events are in this log."""
        waiter.origin.replay.unstored -= 1
        self._ports.publishing.import_stored(waiter.imported, now)
        self._tell_taken(waiter.origin, waiter.upto)

    def not_stored(self, waiter: ReplayedEvents) -> None:
        """They are not: read them again."""
        waiter.origin.replay.unstored -= 1
        self._ports.publishing.import_not_stored(waiter.imported)
        origin = waiter.origin
        origin.taking = min(origin.taking, waiter.imported.record.origin_positions[0] - 1)
        origin.is_read = False  # it was, up to where it was taken
        if isinstance(origin, OwnReplay):
            self.own_log.fetch(origin)
        else:
            self._ask(origin)

    def _tell_taken(self, origin: OriginReplay, upto: Position) -> None:
        if origin.link is not None:
            replay = origin.replay
            self._emit(Send(origin.link, Taken(replay.topic, origin.log, replay.receiver, upto)))

    # This edge's own log

    def fetched(self, message: Fetched, now: float) -> None:
        """A piece of it came."""
        if (replay := self.own_log.fetched(message, now)) is not None:
            replay.until = now + _PATIENCE_SECONDS
            self._check(replay, now)

    def publishers_paused(self, waiter: PausedPublishers, now: float) -> None:
        """Publishers that came from elsewhere wait for a replay to end."""
        if (replay := self.own_log.paused(waiter, now)) is not None:
            self._check(replay, now)

    def publishers_not_paused(self, waiter: PausedPublishers) -> None:
        """It is not known what they sent: the subscription is to be tried again."""
        if (replay := self._replays.get(waiter.receiver)) is not None:
            self._end(replay)
            self._ports.deny(replay.pending, "events that are published here could not be stored: try again")

    # When it is over

    def taken(self, now: float) -> None:
        """The edge's own cursors moved: they may have come to where replays have ended."""
        for replay in [each for each in self._replays.values() if each.is_reading]:
            self._check(replay, now)

    def tidy(self, now: float) -> None:
        """End what nobody waits for, and begin what waits.

        An origin that does not answer is left out, if nothing of it was read; else the subscription is refused. It is
        refused too if the edge's own cursor does not come to where a log was read: that log may be gone.
        """
        for replay in list(self._replays.values()):
            if self._has_nobody(replay, now):
                self._end(replay)
                self._ports.deny(replay.pending, "the client has gone")
            elif replay.is_reading and replay.until <= now:
                self._give_up(replay, now)
            elif replay.is_reading:
                self._check(replay, now)
        self._read_more(now)

    def _give_up(self, replay: Replay, now: float) -> None:
        known = {origin.log: origin for origin in self._ports.imports.of_topic(replay.topic)}
        begun = [origin for origin in replay.origins.values() if origin.taking > START and not origin.is_held]
        if not all(origin.is_read and known[origin.log].has_got(origin.taking) for origin in begun):
            self._end(replay)
            self._ports.deny(replay.pending, "the events of another edge could not be read to the end: try again")
        else:
            self._leave_out(replay, now)

    def _has_nobody(self, replay: Replay, now: float) -> bool:
        """Whether the client that a replay is for has gone, and did not come back in time."""
        if not self._is_abandoned(replay):
            return False
        if replay.abandoned_at is None:
            replay.abandoned_at = now
        return now - replay.abandoned_at >= _RETURN_SECONDS

    def _leave_out(self, replay: Replay, now: float) -> None:
        for log, origin in list(replay.origins.items()):
            if not origin.is_read and not origin.is_held:
                del replay.origins[log]
                replay.left_out.append(log)
        replay.until = now + _PATIENCE_SECONDS
        self._check(replay, now)

    def _check(self, replay: Replay, now: float) -> None:
        self._release(replay)
        known = {origin.log: origin for origin in self._ports.imports.of_topic(replay.topic)}
        for log, origin in replay.origins.items():
            origin.is_read |= origin.link is not None and origin.has_begun and origin.taking >= known[log].taking
        if replay.unstored or not all(
            origin.is_read and known[log].has_got(origin.taking) for log, origin in replay.origins.items()
        ):
            return
        if self._is_abandoned(replay):
            replay.until = now + _PATIENCE_SECONDS  # all is read: it waits only for its client
            return
        if not self.own_log.is_read(replay, now):
            return
        self._end(replay)
        pending, read = replay.pending, {log: origin.taking for log, origin in replay.origins.items()}
        if replay.own is not None:
            read[OWN_LOG] = replay.own.taking
        made = msgspec.structs.replace(pending.subscription, replay=replay.receiver, replayed=read)
        pending.subscription = made
        pending.gaps += [
            f"events of the log {log} may be missing: it could not be reached when the subscription began"
            for log in replay.left_out
        ]
        self._ports.put_in_force(pending, now)

    def _end(self, replay: Replay) -> None:
        del self._replays[replay.receiver]
        self.own_log.end(replay)
        if not replay.is_reading:
            return
        self._reading_count -= 1
        for link in self._ports.links_of(replay.topic):
            self._emit(Send(link, Leave(replay.topic, replay.receiver)))


def _begins_with_what_is_kept(frame: Subscribe) -> bool:
    """Whether events of other logs that were published before are wanted."""
    if frame.start is not None:
        return frame.start.position is None
    return frame.qos.durability == "transient" and frame.after is None
