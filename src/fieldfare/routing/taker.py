"""Who takes events: one subscription's events on their way, a state machine.

    ... cursor | in flight ... | waiting ... | resume_after: the rest is read from the log when there is room

All positions up to the cursor are dealt with. A subscriber that is slow, away or new holds no memory: what it has not
got is found again by reading the log after a position. A taker that cannot do that, because its topic is not kept or
it asked for best effort only, loses its oldest events instead, and is told.

    DETACHED   nobody takes events
    LIVE       every new match is offered to it
    BEHIND     it is behind, and has no room for what the log holds
    READING    it is behind, and gets the next pieces of the log
    ENDED      the subscription is no more

Once an event is refused, or from the beginning where several consumers share a subscription or it has a key, events are
known one by one: see `outstanding`, which then takes the place of `in_flight`.

Only the methods here write its fields, but for counts and the webhook's call, which belong to who makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from fieldfare.messages import EventsOutstanding, Position
from fieldfare.routing.left_events import LeftEvents
from fieldfare.routing.outstanding import EventEntry, KeyOf, Outstanding
from fieldfare.routing.ports import START
from fieldfare.routing.subscription import Subscription, UnconfirmedGap
from fieldfare.routing.taker_states import ATTACHED_STATES, NEXT_STATES, Cause, TakerState
from fieldfare.routing.unread import Unread

if TYPE_CHECKING:
    from fieldfare.routing.webhooks import PendingCall

__all__ = ["Taker", "TakerState"]

WEBHOOK = ""  # in place of a link: the webhook is the consumer


class Taker:
    """The delivery of one subscription. One link, its webhook, or all consumers that share it take events from it."""

    __slots__ = (
        "_buried",
        "_left",
        "call",
        "counted_upto",
        "cursor",
        "deaf_to",
        "dropped_count",
        "dropped_total",
        "expired_count",
        "expired_untold",
        "first_count",
        "free",
        "handle",
        "id",
        "in_flight",
        "index_handle",
        "is_changing",
        "is_cursor_unwritten",
        "is_ending",
        "is_special",
        "last_error",
        "last_matched_at",
        "link",
        "matched_count",
        "outstanding",
        "reads_log",
        "resume_after",
        "seen",
        "state",
        "subscription",
        "unconfirmed_gap",
        "unread",
        "waiting",
        "wants_mark",
        "window",
    )

    def __init__(self, subscription: Subscription, handle: int, cursor: Position, *, reads_log: bool) -> None:
        self.subscription = subscription
        self.id = subscription.id  # also here, since every delivery names it
        self.handle = handle
        self.index_handle = handle  # by which its condition is in the topic's index: another one when it is changed
        self.reads_log = reads_log
        self.state = TakerState.DETACHED
        self.cursor = cursor
        self.resume_after = cursor  # where reading the log goes on, while it is behind
        self.seen = cursor  # what is offered again up to here has been read from the log already
        self.link: str | None = None
        self.deaf_to: frozenset[str] = frozenset()  # links whose acknowledgements mean events of before
        self.window = 0
        self.wants_mark = False  # its subscriber is to be told when it has caught up
        self.free = 0  # how many new events can be sent at once: there is room, and nothing stands before them
        self.waiting: list[EventEntry] = []
        self.in_flight: list[Position] = []
        self.is_ending = False  # the log is being told that the subscription ends
        self.is_changing = False  # the log is being told that it asks for something else
        self.is_cursor_unwritten = False
        self.call: PendingCall | None = None
        self.matched_count = 0
        self.dropped_count = 0  # of which the subscriber has not been told yet
        self.dropped_total = 0
        self.first_count = 0  # the topic's events when this subscription began
        self.expired_count = 0  # events that expired before they could be sent
        self.expired_untold = 0  # of which the subscriber has not been told yet
        self.last_matched_at = 0.0
        self.last_error: tuple[float, str] | None = None  # of its webhook: when, and what
        self.unconfirmed_gap: UnconfirmedGap | None = None
        self.unread: Unread | None = None  # what it has to read from the log: nothing
        self.counted_upto = cursor  # by those who counted before the last start
        self._left: LeftEvents | None = None  # sent over a connection that acknowledges nothing
        self._buried: frozenset[Position] = frozenset()  # dead letters after the cursor: they are settled
        self.outstanding: Outstanding | None = None  # events are not known one by one
        if subscription.consuming.is_tracked:
            self.outstanding = Outstanding(cursor)
        self._judge()

    def _judge(self) -> None:
        """Note whether new events can simply be sent to a link: that is asked for every event."""
        made = self.subscription
        self.is_special = self.outstanding is not None or made.is_paused or made.webhook is not None
        self._count_free()

    def _change(self, cause: Cause) -> None:
        self.state = NEXT_STATES[self.state, cause]
        self._count_free()

    def _count_free(self) -> None:
        is_free = self.state is TakerState.LIVE and self.link is not None and not self.is_special
        is_first = not self.waiting and not self.dropped_count
        self.free = max(0, self.window - len(self.in_flight)) if is_free and is_first else 0

    @property
    def is_attached(self) -> bool:
        """Whether somebody takes events."""
        return self.state in ATTACHED_STATES

    @property
    def is_ended(self) -> bool:
        """Whether the subscription is no more."""
        return self.state is TakerState.ENDED

    @property
    def is_behind(self) -> bool:
        """Whether what it needs next is only in the log."""
        return self.reads_log and self.state is not TakerState.LIVE

    @property
    def links(self) -> Sequence[str]:
        """The clients that take events."""
        if self.subscription.consuming.is_shared and self.outstanding is not None:
            return [consumer.link for consumer in self.outstanding.consumers]
        return () if self.link is None else (self.link,)

    # Who takes its events

    def attach(
        self,
        link: str | None,
        window: int,
        after: Position | None,
        matched: Position,
        *,
        wants_mark: bool = False,
    ) -> None:
        """Begin to deliver, after a position or else after what was acknowledged; `matched` is the topic's last."""
        self.detach(matched)
        self.deaf_to -= {link}
        if after is not None:
            self._go_to(after)
        self.link, self.window, self.wants_mark = link, window, wants_mark
        if self.outstanding is not None:
            self.outstanding.consumers.add(WEBHOOK if link is None else link, window)
        self._begin(matched)

    def _begin(self, matched: Position) -> None:
        if self.cursor >= matched or not self.reads_log:
            self.seen = self.cursor
            self.unread = None
            self._change(Cause.CAUGHT_UP)
        else:
            self._change(Cause.FELL_BEHIND)

    def join(self, link: str, window: int, matched: Position, *, wants_mark: bool) -> None:
        """One more consumer takes events of a shared subscription."""
        if self.outstanding is not None:
            self.deaf_to -= {link}
            self.outstanding.consumers.add(link, window)
            self.wants_mark |= wants_mark
            if not self.is_attached:
                self._begin(matched)

    def leave(self, link: str, matched: Position) -> None:
        """A consumer of a shared subscription is gone; others get what it had."""
        if self.outstanding is not None:
            for event in self.outstanding.leave(link):
                event.attempts += 1
            if not self.outstanding.consumers:
                self.detach(matched)

    def detach(self, matched: Position) -> None:
        """Nobody takes events any more; what was not confirmed is read again by the next."""
        self.settle(matched)
        self.link = None
        if self.reads_log:
            self._count_again()
        self._left = None
        self.waiting.clear()
        self.in_flight.clear()
        if self.outstanding is not None:
            self.outstanding.leave_all(counts=self.subscription.consuming.is_shared)
            if self.reads_log:
                self.outstanding.forget_bytes(self.subscription.consuming.attempts_max)
            self.follow_outstanding()
        self.resume_after = self.cursor
        self._change(Cause.DETACHED)

    def move_to(self, position: Position, matched: Position) -> None:
        """Go on after a position; all that is on its way is forgotten, but for dead letters that are sent again.

        Clients are detached: what they say of events until they attach again is about those of before.
        """
        webhook_window = self.window if self.subscription.webhook is not None and self.is_attached else 0
        self.deaf_to = frozenset(self.links)
        self.detach(matched)
        self._count_from(position)
        self.cursor = self.resume_after = self.seen = position
        self._buried = frozenset()
        if self.outstanding is not None:
            self.outstanding.restart(position)
            self.follow_outstanding()
        if webhook_window:
            self.attach(None, webhook_window, None, matched)

    def _go_to(self, after: Position) -> None:
        """A client acknowledges all up to a position, or goes back to an earlier one."""
        self._count_from(after)
        if self.outstanding is None:
            self.cursor = self.resume_after = after
        elif after < self.cursor:
            self.outstanding.restart(after)
            self.cursor = self.resume_after = after
        else:
            self.outstanding.pass_over(after)
            self.follow_outstanding()
            self.resume_after = self.cursor

    def end(self) -> None:
        """The subscription is no more."""
        self.link = None
        self._change(Cause.ENDED)

    def set_window(self, link: str, window: int) -> None:
        """Have another number of events in flight; those that are beyond it already stay."""
        self.window = window
        if self.outstanding is not None and (consumer := self.outstanding.consumers.get(link)) is not None:
            consumer.window = window
        self._count_free()

    def recover_cursor(self, position: Position) -> None:
        """The log says where its subscriber was: all up to there is settled, and nothing after it."""
        self._count_from(position)
        self.cursor = self.resume_after = position
        if self.outstanding is not None:
            self.outstanding = Outstanding(position) if self.subscription.consuming.is_tracked else None
            self._judge()

    def recover_buried(self, positions: Iterable[Position]) -> None:
        """The log says which events are dead letters: it may not say yet that they are settled."""
        self._buried = frozenset(position for position in positions if position > self.cursor)
        if self.outstanding is not None:
            self.outstanding.settle_each(self._buried)

    def recover_outstanding(self, record: EventsOutstanding) -> None:
        """The log says which events were not settled."""
        self._count_from(record.upto)
        self.outstanding = Outstanding(record.cursor)
        self.outstanding.recover(record.events, record.upto)
        self._judge()
        self.cursor = self.resume_after = record.cursor

    def settle(self, matched: Position) -> None:
        """Where nothing is outstanding, all that was matched is dealt with: the cursor need not stay behind."""
        is_idle = not self.waiting and not self.in_flight and (self._left is None or self._left.upto <= self.cursor)
        if is_idle and not self.is_behind and matched > self.cursor:
            if self.outstanding is None:
                self.cursor = matched
            else:
                self.outstanding.upto = max(self.outstanding.upto, matched)
                self.cursor = self.outstanding.settled_before

    # How much there is to be read

    @property
    def taken_upto(self) -> Position:
        """Of all up to here is known whether it is settled; what lies after it, and is not in memory, is unread."""
        return self.cursor if self.outstanding is None else max(self.cursor, self.outstanding.upto)

    @property
    def unconfirmed(self) -> Unread | None:
        """Events that have left their connection, and that nobody has acknowledged."""
        return None if self._left is None else self._left.counted

    @property
    def has_buried(self) -> bool:
        """Whether there are dead letters among what it has not acknowledged."""
        return bool(self._buried)

    def not_counted(self, after: Position, upto: Position) -> None:
        """There may be events for it between two positions."""
        if self.reads_log and after < upto:
            self._unread().leave_uncounted(after, upto)

    def _count_from(self, position: Position) -> None:
        """Go on after a position. Nobody has counted what matches between it and where the taker was before it."""
        self.not_counted(position, self.taken_upto)
        if self.unread is not None:
            self.unread.drop_upto(position)

    def _unread(self) -> Unread:
        if self.unread is None:
            self.unread = Unread()
        return self.unread

    def _count_again(self) -> None:
        """All that is in memory has to be read once more."""
        if self.waiting:
            self._unread().put_back([entry[0] for entry in self.waiting])
        if self.in_flight:
            self._unread().put_back([position for position in self.in_flight if position > self.cursor])
        if self._left is not None:
            self._unread().put_back_groups(self._left.counted)

    # Events that are known one by one

    def update(self, subscription: Subscription, *, reads_log: bool) -> None:
        """It asks for something else from now on."""
        self.subscription, self.reads_log = subscription, reads_log
        if subscription.consuming.is_tracked:
            self.track()
        self.follow_outstanding()
        self._judge()

    def track(self) -> Outstanding:
        """Know its events one by one from now on: one of them is refused, or acknowledged by itself."""
        if self.outstanding is None:
            outstanding = self.outstanding = Outstanding(self.cursor)
            link = WEBHOOK if self.link is None else self.link
            if self.is_attached:
                outstanding.consumers.add(link, self.window)
            if self._left is not None and self._left.upto > self.cursor and not self._left.are_known:
                self._count_again()
                self.waiting.clear()
                self.read_again(self.cursor)  # too many have left to know them all: they come once more
            elif self._left is not None:
                outstanding.note_sent(link, [*self._left.positions, *self.in_flight], left_upto=self._left.upto)
            else:
                outstanding.note_sent(link, self.in_flight, left_upto=START)
            self.in_flight.clear()
            self._left = None
            self._judge()
        return self.outstanding

    def follow_outstanding(self) -> None:
        """Events were settled: the cursor follows. When none is outstanding, one cursor is enough again."""
        if self.outstanding is None:
            return
        if self.unread is not None:
            self.unread.drop_upto(self.outstanding.upto)
        self.cursor = max(self.cursor, self.outstanding.settled_before)
        self.resume_after = max(self.resume_after, self.cursor)
        if not self.outstanding and not self.subscription.consuming.is_tracked:
            self.outstanding = None
            self._judge()

    def read_again(self, after: Position) -> None:
        """What lies after a position is needed once more, and only in the log."""
        if self.waiting and self.reads_log:
            self._unread().put_back([entry[0] for entry in self.waiting])
        self.waiting.clear()
        self.resume_after = min(self.resume_after, after) if self.is_behind else after
        if self.state is not TakerState.DETACHED:
            self._change(Cause.FELL_BEHIND)

    def expire(self, count: int) -> None:
        """Events expired before they could be sent."""
        self.expired_count += count
        self.expired_untold += count

    # Reading the log

    def read_on(self) -> None:
        """There is room: be given the next pieces of the log."""
        self._change(Cause.HAS_ROOM)

    def give(self, entries: Sequence[EventEntry], waiting_max: int) -> None:
        """Matches of a piece of the log. Where there is no room for all of them, the rest is read later."""
        entries = self._wanted(entry for entry in entries if entry[0] > self.resume_after)
        is_last_only = self.subscription.qos.keep_last is not None
        room = len(entries) if is_last_only else max(0, waiting_max - len(self.waiting))
        if self.unread is not None:
            self.unread.take([entry[0] for entry in entries[:room]])
        self.waiting += entries[:room]
        if is_last_only:
            self.trim(waiting_max)
        if len(entries) > room:
            self.resume_after = entries[room][0] - 1
            self._change(Cause.FELL_BEHIND)

    def _wanted(self, entries: Iterable[EventEntry]) -> list[EventEntry]:
        """Of what was read, the events that are to wait."""
        wanted = self.new_in(entries)
        if self.outstanding is None:
            return wanted
        return self.outstanding.fill(wanted, KeyOf(self.subscription.consuming.key))

    def new_in(self, entries: Iterable[EventEntry]) -> list[EventEntry]:
        """Of matches in the log, those that are for it: not from before its time, and not dead letters already."""
        since, buried = self.subscription.since, self._buried
        return [entry for entry in entries if entry[0] not in buried and (not since or accepted_at(entry) >= since)]

    def read_to(self, position: Position, *, is_end: bool) -> None:
        """The log has been read up to a position; at its end, be offered what is matched from then on."""
        self.resume_after = max(self.resume_after, position)
        if self.unread is not None:
            self.unread.read_upto(position)
        if self.outstanding is not None and (gone := self.outstanding.drop_unread(position)):
            self.expire(gone)
            self.follow_outstanding()
        if is_end:
            self.unread = None
            self.seen = self.resume_after
            self._change(Cause.CAUGHT_UP)

    def skip_removed(self, removed_before: Position) -> bool:
        """The log no longer has events up to a position: go on after it. Whether the subscriber misses any by that."""
        after, self.resume_after = self.resume_after, max(self.resume_after, removed_before)
        if self.unread is not None:
            self.unread.drop_upto(removed_before)
        begins = after == -1 and self.subscription.qos.durability == "transient"
        return after < removed_before and not begins  # who begins with all that is alive has not missed what is not

    # Events

    def pass_through(self, entries: Sequence[EventEntry], now: float) -> list[Raw] | None:
        """New matches, to be sent at once; None if they have to be offered, and wait for their turn."""
        if len(entries) > self.free or entries[0][0] <= self.seen:
            return None
        if len(entries) == 1:  # nearly always
            position, expires_at, delivery = entries[0]
            if expires_at <= now:
                return None
            self.in_flight.append(position)
            self.free -= 1
            return [delivery]
        if any(expires_at <= now for _, expires_at, _ in entries):
            return None
        self.in_flight += [position for position, _, _ in entries]
        self.free -= len(entries)
        return [delivery for _, _, delivery in entries]

    def offer(self, entries: Sequence[EventEntry]) -> None:
        """Take up new matches, which lie after all before, if it is live."""
        if self.state is TakerState.LIVE:
            if entries[0][0] <= self.seen:
                entries = [entry for entry in entries if entry[0] > self.seen]
            self.waiting += entries
            self._count_free()
        elif self.reads_log and entries[-1][0] > self.resume_after:
            if entries[0][0] <= self.resume_after:
                entries = [entry for entry in entries if entry[0] > self.resume_after]
            self._unread().add(entries[0][0], entries[-1][0], len(entries))

    def take(self, now: float, count_max: int, bytes_max: int) -> list[Raw]:
        """What may be sent now; it is in flight until it is acknowledged."""
        if self.subscription.qos.keep_last is not None and self.is_behind:
            return []  # only when all of it has been read is it known which are the last
        room = min(count_max, self.window - len(self.in_flight))
        taken: list[Raw] = []
        size = used = expired = 0
        for position, expires_at, delivery in self.waiting:
            if len(taken) >= room or size >= bytes_max:
                break
            used += 1
            if expires_at > now:
                taken.append(delivery)
                self.in_flight.append(position)
                size += len(delivery)
            else:
                expired += 1
        del self.waiting[:used]
        self.expire(expired)
        self._count_free()
        return taken

    def told_expired(self) -> int:
        """The subscriber is being told of expired events. Returns how many."""
        count, self.expired_untold = self.expired_untold, 0
        return count

    def marks_now(self) -> bool:
        """Whether its subscriber is to be told now, once, that it has caught up."""
        if not self.wants_mark or self.state is not TakerState.LIVE or self.waiting:
            return False
        self.wants_mark = False
        return True

    def told_dropped(self) -> int:
        """The subscriber is being told of dropped events. Returns how many."""
        count, self.dropped_count = self.dropped_count, 0
        self._count_free()
        return count

    def trim(self, waiting_max: int) -> int:
        """Of what could not be sent, keep no more than allowed. Returns how many events are lost for good."""
        depth = self.subscription.qos.keep_last
        excess = len(self.waiting) - (depth or waiting_max)
        if excess <= 0:
            return 0
        if self.reads_log and depth is None:
            left = self.waiting[waiting_max:]
            self.resume_after = left[0][0] - 1
            self._unread().add(left[0][0], left[-1][0], len(left))
            del self.waiting[waiting_max:]
            self._change(Cause.FELL_BEHIND)
            return 0
        del self.waiting[:excess]
        self.drop(excess)
        return excess

    def free_waiting(self) -> int:
        """Free the memory of waiting events. Returns how many are lost for good: the others are read again."""
        lost = 0 if self.reads_log else len(self.waiting)
        if self.reads_log and self.waiting:
            self.resume_after = self.waiting[0][0] - 1
            self._unread().put_back([entry[0] for entry in self.waiting])
            self._change(Cause.FELL_BEHIND)
        self.waiting.clear()
        self.drop(lost)
        return lost

    def drop(self, count: int) -> None:
        """Events are lost for good; the subscriber is to be told."""
        self.dropped_count += count
        self.dropped_total += count
        self._count_free()

    def acknowledge(self, position: Position, matched: Position, *, is_final: bool) -> int:
        """All up to a position, of what was sent or matched, has arrived. Returns how many were in flight.

        If that is final, they are never sent again.
        """
        position = min(position, max(matched, self.in_flight[-1] if self.in_flight else matched))
        arrived = 0
        for sent in self.in_flight:
            if sent > position:
                break
            arrived += 1
        if not is_final:
            self._leave_unconfirmed(position, arrived)
            return arrived
        del self.in_flight[:arrived]
        self._count_free()
        if self._left is not None:
            self._left.acknowledge(position)
        if self.unconfirmed_gap is not None and position > self.unconfirmed_gap.position:
            self.unconfirmed_gap = None
        if position > self.cursor:
            self.cursor = position
            self.resume_after = max(self.resume_after, position)
            if self.unread is not None:
                self.unread.drop_upto(position)
        return arrived

    def _leave_unconfirmed(self, position: Position, count: int) -> None:
        """Events have left their connection, which does not mean that somebody has dealt with them."""
        if self._left is None:
            self._left = LeftEvents()
        self._left.add(self.in_flight[:count], position)
        del self.in_flight[:count]
        self._count_free()


def accepted_at(entry: EventEntry) -> float:
    """When an event was accepted."""
    return _accepted.decode(entry[2]).at


class _Accepted(msgspec.Struct):
    at: float


_accepted = msgspec.json.Decoder(_Accepted)
