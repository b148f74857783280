"""From matches to subscribers: offering events to takers, and sending what their windows allow.

Whatever takes events (a WebSocket, a stream, a poll, a callback, a webhook) is the same here: it is attached to one
subscription, it may have `window` events unacknowledged, and acknowledging lets more through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fieldfare.messages import (
    CursorsMoved,
    Deliver,
    EventsMissed,
    EventsOutstanding,
    Fetched,
    Nack,
    Notice,
    NoticeKind,
    Position,
    Send,
)
from fieldfare.routing.consuming import Consumption
from fieldfare.routing.lag import LagCounting, counted
from fieldfare.routing.matches import Matches
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.outstanding import Outstanding
from fieldfare.routing.ports import Emit, LogPort
from fieldfare.routing.subscription import Subscription, UnconfirmedGap
from fieldfare.routing.taker import WEBHOOK, Taker, TakerState
from fieldfare.routing.topic import Topic, Topics
from fieldfare.routing.webhooks import WebhookCalls

_MANY = 1 << 62
_LOST = "older events are no longer in the log: its limit of size was reached"
_EXPIRED = "older events expired before they were delivered, and are no longer in the log: some may have matched"
_PASSED_MAX = 2  # events of any size that fit in one frame


@dataclass(slots=True)
class Counts:
    """What has been delivered since the start."""

    matched: int = 0
    delivered: int = 0
    acknowledged: int = 0
    dropped: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class DeliveryPorts:
    """What delivering needs of its broker."""

    topics: Topics
    emit: Emit
    log: LogPort
    webhooks: WebhookCalls
    consumption: Consumption
    tidy_soon: Callable[[float], None]  # has `tidy` called in a while


class Deliveries:
    """The delivery of all subscriptions of an edge."""

    def __init__(self, options: EdgeOptions, ports: DeliveryPorts) -> None:
        self.counts = Counts()
        self._options, self._topics, self._emit, self._log = options, ports.topics, ports.emit, ports.log
        self._webhooks, self._consumption, self._tidy_soon = ports.webhooks, ports.consumption, ports.tidy_soon
        self.counting = LagCounting(ports.emit)
        self._unwritten: list[Taker] = []  # durable ones whose cursor has moved since it was written
        self._slow: dict[int, Taker] = {}  # by handle, those with events waiting

    # New events

    def offer(self, topic: Topic, matches: Matches, last: Position, now: float) -> None:
        """New events of a topic, up to a position, for those who want them."""
        emit, matched, delivered = self._emit, 0, 0
        for taker, entries in matches:
            count = len(entries)
            matched += count
            taker.matched_count += count
            taker.last_matched_at = now
            if count > _PASSED_MAX or (events := taker.pass_through(entries, now)) is None:
                taker.offer(entries)
                self.pump(topic, taker, now)
            elif taker.link is not None:
                delivered += len(events)
                emit(Send(taker.link, Deliver(taker.id, events)))
        self.counts.matched += matched
        self.counts.delivered += delivered
        topic.matched = max(topic.matched, last)
        self._tidy_soon(now)

    def pump(self, topic: Topic, taker: Taker, now: float) -> None:
        """Send what may be sent, and read the log for more if there is room."""
        if taker.is_special:
            self._pump_special(taker, now)
        elif taker.link is not None:
            while deliveries := taker.take(now, _MANY, self._options.frame_bytes_max):
                if taker.dropped_count:
                    self._tell_dropped(taker)
                self.counts.delivered += len(deliveries)
                self._emit(Send(taker.link, Deliver(taker.id, deliveries)))
        if taker.expired_untold:
            self._tell_expired(taker)
        if taker.waiting:
            self.counts.dropped += taker.trim(self._options.waiting_max)
            self._slow[taker.handle] = taker
        elif self._slow:
            self._slow.pop(taker.handle, None)
        if taker.wants_mark and taker.marks_now():
            self._notice(taker, "caught_up", "all that was there has been sent", topic.matched)
        if taker.state is TakerState.BEHIND and len(taker.waiting) <= self._options.waiting_max // 2:
            topic.reader.join(taker)

    def _pump_special(self, taker: Taker, now: float) -> None:
        if taker.subscription.is_paused:
            return  # what waits is trimmed, and read from the log later
        if taker.subscription.webhook is not None:
            self._webhooks.call(taker, now)
        elif taker.outstanding is not None:
            self._send_each(taker, taker.outstanding, now)

    def _send_each(self, taker: Taker, outstanding: Outstanding, now: float) -> None:
        if taker.dropped_count and taker.links:
            self._tell_dropped(taker)
        cursor = taker.cursor
        self.counts.delivered += self._consumption.send(taker, outstanding, now)
        if taker.cursor != cursor:
            self.moved(taker)

    # Who takes them

    def attach(
        self,
        taker: Taker,
        link: str | None,
        window: int,
        after: Position | None,
        now: float,
        *,
        wants_mark: bool = False,
    ) -> None:
        """Deliver on a link, or to the webhook, from now on; whoever had it before is told."""
        topic = self._topics.of(taker)
        if taker.link != link:
            self.tell_detached(taker, "the subscription is delivered on another connection now")
        topic.reader.leave(taker)
        taker.attach(link, window, after, topic.matched, wants_mark=wants_mark)
        if after is not None:
            self.moved(taker)
        self._tell_gaps_again(topic, taker)
        self.pump(topic, taker, now)
        self._tidy_soon(now)

    def join(self, taker: Taker, link: str, window: int, now: float, *, wants_mark: bool) -> None:
        """One more consumer takes events of a shared subscription."""
        topic = self._topics.of(taker)
        taker.leave(link, topic.matched)
        taker.join(link, window, topic.matched, wants_mark=wants_mark)
        self._tell_gaps_again(topic, taker)
        self.pump(topic, taker, now)
        self._tidy_soon(now)

    def leave_in_hand(self, taker: Taker, link: str) -> None:
        """A consumer goes, and will say what became of the events that it has got."""
        if taker.subscription.consuming.is_shared and taker.outstanding is not None:
            taker.outstanding.keep_in_hand(link)
        else:
            taker.track()  # so that they can be told one by one when nobody is attached

    def leave(self, taker: Taker, link: str, now: float) -> None:
        """A consumer takes no more: what it had is sent to others, and without them waits."""
        if len(taker.links) <= 1:
            self.detach(taker)
            return
        topic = self._topics.of(taker)
        taker.leave(link, topic.matched)
        self.moved(taker)
        self.pump(topic, taker, now)
        self._tidy_soon(now)

    def _tell_gaps_again(self, topic: Topic, taker: Taker) -> None:
        """Of events that are missing, its subscriber may not know: it was away, or a notice was lost on the way."""
        missed = [missed.detail for missed in topic.missed if missed.position >= taker.cursor]
        gap = taker.unconfirmed_gap
        if gap is not None and gap.detail not in missed and not (gap.is_in_log and taker.cursor < gap.position):
            missed.append(gap.detail)
        for detail in missed:
            self._notice(taker, "gap", detail)

    def move(self, taker: Taker, position: Position, now: float) -> None:
        """A subscription goes on after another position."""
        topic = self._topics.of(taker)
        topic.reader.leave(taker)
        self._webhooks.abandon(taker)
        for link in taker.links:
            self._emit(Send(link, Notice(taker.id, "seek", "the subscription goes on elsewhere", position)))
        taker.move_to(position, topic.matched)
        self.counting.count(topic, taker)
        self._slow.pop(taker.handle, None)
        self._go_on(topic, taker, now)

    def update(self, taker: Taker, subscription: Subscription, now: float) -> None:
        """A subscription asks for something else from now on, or is paused or resumed."""
        topic = self._topics.of(taker)
        is_matched_anew = subscription.condition != taker.subscription.condition
        if is_matched_anew and taker.waiting and taker.reads_log:
            topic.reader.leave(taker)
            taker.read_again(taker.waiting[0][0] - 1)  # what was not sent is matched anew
        taker.update(subscription, reads_log=topic.can_be_read_by(subscription.qos))
        if is_matched_anew and taker.is_behind:
            taker.not_counted(max(taker.resume_after, taker.taken_upto), topic.matched)
            self.counting.count(topic, taker)
        self._go_on(topic, taker, now)

    def detach(self, taker: Taker) -> None:
        """Nobody takes events of a subscription any more."""
        topic = self._topics.of(taker)
        topic.reader.leave(taker)
        taker.detach(topic.matched)
        self.counting.count(topic, taker)
        self.moved(taker)
        self._slow.pop(taker.handle, None)

    def forget(self, taker: Taker) -> None:
        """A subscription has ended."""
        taker.end()
        self._slow.pop(taker.handle, None)
        self._consumption.forget(taker)

    def acknowledge(
        self, taker: Taker, position: Position, now: float, *, is_final: bool, link: str | None = None
    ) -> None:
        """A subscriber has got all up to a position; `link` says which of several."""
        topic = self._topics.of(taker)
        if taker.outstanding is None:
            self.counts.acknowledged += taker.acknowledge(position, topic.matched, is_final=is_final)
        else:
            position = min(position, max(topic.matched, taker.outstanding.upto))
            self._consumption.acknowledge(taker, link or taker.link or WEBHOOK, position, is_final=is_final)
        self.moved(taker)
        self.pump(topic, taker, now)
        self._tidy_soon(now)

    def acknowledge_each(self, taker: Taker, positions: Sequence[Position], now: float) -> None:
        """Single events are dealt with."""
        self._consumption.acknowledge_each(taker, positions)
        self._go_on(self._topics.of(taker), taker, now)

    def refuse(self, taker: Taker, refusals: Sequence[Nack], now: float, link: str | None = None) -> None:
        """Single events could not be dealt with: they come again, or are given up."""
        topic = self._topics.of(taker)
        for each in refusals:
            if self._consumption.refuse(taker, each, link, now):
                topic.reader.leave(taker)
                taker.read_again(each.position - 1)
        self._go_on(topic, taker, now)

    def wake(self, taker: Taker, now: float) -> None:
        """Events may come again, or were not dealt with in time."""
        self._consumption.due(taker, now)
        self._go_on(self._topics.of(taker), taker, now)

    def give_up(self, taker: Taker, positions: Sequence[Position], now: float) -> None:
        """A webhook did not take events, which are dead letters now: they are settled, and not acknowledged."""
        topic = self._topics.of(taker)
        if taker.outstanding is None:
            taker.acknowledge(positions[-1], topic.matched, is_final=True)
        else:
            taker.outstanding.settle_each(positions)
            taker.follow_outstanding()
        self._go_on(topic, taker, now)

    def go_on(self, taker: Taker, now: float) -> None:
        """Something that held a subscription back is over."""
        self._go_on(self._topics.of(taker), taker, now)

    def _go_on(self, topic: Topic, taker: Taker, now: float) -> None:
        self.moved(taker)
        self.pump(topic, taker, now)
        self._tidy_soon(now)

    def set_window(self, taker: Taker, link: str, window: int, now: float) -> None:
        """A subscriber has room for more events, or for fewer."""
        taker.set_window(link, window)
        self.pump(self._topics.of(taker), taker, now)

    def moved(self, taker: Taker) -> None:
        """The cursor of a subscription, or what is outstanding, is to be written."""
        if taker.subscription.is_durable and not taker.is_cursor_unwritten:
            taker.is_cursor_unwritten = True
            self._unwritten.append(taker)

    # Those that are behind

    def fetched(self, topic: Topic, piece: Fetched, now: float) -> None:
        """A piece of the log came, for those who are behind."""
        for removed_before, why in ((piece.lost_before, _LOST), (piece.expired_before, _EXPIRED)):
            if removed_before >= 0:
                for taker in topic.reader.skip_removed(removed_before):
                    self._tell_of_gap(taker, removed_before, why, removed_before)
        for taker in topic.reader.fetched(piece, topic.stored, self._options.waiting_max):
            self.pump(topic, taker, now)

    # Notices

    def tell_detached(self, taker: Taker, detail: str, but: str | None = None) -> None:
        """Whoever is served by a subscription is no longer; one of them knows it."""
        for link in taker.links:
            if link != but:
                self._emit(Send(link, Notice(taker.id, "detached", detail)))

    def tell_gap(self, taker: Taker, detail: str) -> None:
        """Whoever is served by a subscription misses events."""
        self._tell_of_gap(taker, self._topics.of(taker).matched, detail)

    def tell_late(self, taker: Taker, seconds: float) -> None:
        """No event came for too long."""
        self._notice(taker, "deadline", f"no event came for {seconds:g} s")

    def tell_missed(self, topic: Topic, last: Position, detail: str) -> None:
        """Events of a topic are gone that may have matched: tell all subscribers, the others when they come back."""
        missed = EventsMissed(*topic.key, last, detail)
        self._log.append_lazily(missed)  # what is stored after it says that those events have been dealt with
        topic.missed.append(missed)
        for taker in topic.takers.values():
            self._tell_of_gap(taker, topic.matched, detail)

    def tell_of_budget(self, topic: Topic, detail: str) -> None:
        """Tell the subscribers of a topic that have a latency budget something about it."""
        for taker in topic.takers.values():
            if taker.subscription.qos.latency_budget_seconds is not None:
                self._notice(taker, "latency_budget", detail)

    def _tell_expired(self, taker: Taker) -> None:
        count = taker.told_expired()
        self.counts.expired += count
        detail = f"{count} events expired before they were delivered"
        self._tell_of_gap(taker, self._topics.of(taker).matched, detail)

    def _tell_dropped(self, taker: Taker) -> None:
        """Ahead of the events that it did not lose: who takes nothing is told nothing, and cannot be swamped."""
        dropped = taker.told_dropped()
        if taker.subscription.qos.keep_last is None:
            self._notice(taker, "gap", f"{dropped} events were dropped: the subscriber is too slow")

    def _tell_of_gap(self, taker: Taker, after: Position, detail: str, upto: Position | None = None) -> None:
        """Tell of missing events, and again on the next connection unless an event after a position is acknowledged."""
        self._notice(taker, "gap", detail, upto)
        if taker.links and taker.subscription.is_durable:
            taker.unconfirmed_gap = UnconfirmedGap(after, detail, is_in_log=upto is not None)

    def _notice(self, taker: Taker, kind: NoticeKind, detail: str, position: Position | None = None) -> None:
        for link in taker.links:
            self._emit(Send(link, Notice(taker.subscription.id, kind, detail, position)))

    # Now and then

    def tidy(self) -> None:
        """Write the cursors that moved, and if too little memory is left, free that of the slowest."""
        self._write_cursors()
        sizes = {handle: sum(len(entry[2]) for entry in taker.waiting) for handle, taker in self._slow.items()}
        excess = sum(sizes.values()) - self._options.waiting_bytes_max
        for handle in sorted(sizes, key=lambda handle: -sizes[handle]):
            if excess <= 0:
                break
            excess -= sizes[handle]
            taker = self._slow.pop(handle)
            self._topics.of(taker).reader.leave(taker)
            self.counts.dropped += taker.free_waiting()

    def _write_cursors(self) -> None:
        moved: dict[str, dict[str, Position]] = {}
        behind: dict[Topic, list[Taker]] = {}
        unwritten, self._unwritten = self._unwritten, []
        for taker in unwritten:
            taker.is_cursor_unwritten = False
            if taker.state is not TakerState.ENDED:
                topic = self._topics.of(taker)
                taker.settle(topic.matched)
                if taker.cursor < topic.matched:
                    behind.setdefault(topic, []).append(taker)
                if taker.subscription.consuming.is_shared or taker.outstanding:
                    self._write_outstanding(taker)
                    continue
                moved.setdefault(taker.subscription.tenant, {})[taker.subscription.id] = taker.cursor
        for tenant, positions in moved.items():
            self._log.append_lazily(CursorsMoved(tenant, positions))
        for topic, takers in behind.items():
            self._log.append_lazily(counted(topic, takers))

    def _write_outstanding(self, taker: Taker) -> None:
        """Of a shared one it is flushed: what a consumer has dealt with must not go to another one after a crash."""
        if taker.outstanding is not None:
            record = outstanding_form(taker, taker.outstanding)
            if taker.subscription.consuming.is_shared:
                self._log.append(record, None)
            else:
                self._log.append_lazily(record)


def outstanding_form(taker: Taker, outstanding: Outstanding) -> EventsOutstanding:
    """What is not settled of a durable subscription, as the log holds it."""
    events = [event.as_logged for event in outstanding.events.values()]
    return EventsOutstanding(*taker.subscription.key, taker.cursor, outstanding.upto, events)
