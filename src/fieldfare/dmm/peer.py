"""A peer of the infrastructure-less mode, as an application on a Pastry ring: which part deals with which message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fieldfare.dmm.entries import Entry, EntryTable
from fieldfare.dmm.keeper import LeafHooks, RegionKeeper
from fieldfare.dmm.linking import Linking, LinkWalk, PrimaryOf
from fieldfare.dmm.messages import (
    Answer,
    AnyPeerMessage,
    AskPrimary,
    EventTaken,
    Fulfilled,
    Given,
    Locate,
    Located,
    MulticastEvent,
    OwedEvent,
    PlaceWork,
    Primary,
    Request,
    SendAgain,
    decode,
    encode,
)
from fieldfare.dmm.multicast import Multicast
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.outbox import OutboxDue
from fieldfare.dmm.peer_load import PeerLoad
from fieldfare.dmm.peer_log import PeerLog, Recovered
from fieldfare.dmm.peer_messages import PeerPublish, PeerRefused, PeerSubscribe, PeerTake, PeerUnsubscribe
from fieldfare.dmm.peer_records import NumbersTaken, PeerLogBegun, PeerRecord
from fieldfare.dmm.primaries import Primaries, RateWalk
from fieldfare.dmm.publishing import AcceptPublication, MatchWalk, Publishing, RecheckDue
from fieldfare.dmm.requests import RequestDue, Requests
from fieldfare.dmm.sending_again import AgainWalk, SendingAgain
from fieldfare.dmm.spaces import Space, Spaces, TopicScheme
from fieldfare.dmm.subscribing import ConfirmSubscription, PlaceWalk, Subscribing
from fieldfare.dmm.taking import Taking
from fieldfare.dmm.visiting import AnswerPlaced
from fieldfare.dmm.walks import VisitFor, WalkDue, Walks
from fieldfare.errors import ConditionError, EventError
from fieldfare.events import UnreadableError
from fieldfare.messages import Effect, Input, NotStored, SetTimer, Stored, TimerDue
from fieldfare.pastry.ports import Contact, NeighboursChanged, Ring, RoutedMessage, Undelivered


@dataclass(frozen=True, slots=True)
class LookAfterDue:
    """A timer: refresh what is to be refreshed."""


@dataclass(frozen=True, slots=True)
class AnewWalk:
    """A walk's purpose: an entry of somebody is placed again."""


_DEFAULT_OPTIONS = DmmOptions()


class DmmPeer:
    """One peer. It is given to a PastryNode; what it does for its program are the effects of peer_messages.

    It keeps everything in memory: what it has published, and not brought to all yet, is lost if it stops. `numbers` are
    those of its requests, each another: see `requests`.
    """

    keeps_log = False
    ring: Ring
    log: PeerLog
    keeper: RegionKeeper
    walks: Walks
    subscribing: Subscribing
    publishing: Publishing

    def __init__(
        self,
        options: DmmOptions = _DEFAULT_OPTIONS,
        schemes: Mapping[str, TopicScheme] | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.options, self._numbers = options, numbers
        self.spaces = Spaces(schemes)
        self.messages = 0  # of other peers, so far
        self.unreadable = 0  # of them
        self._recovered = Recovered()
        self._taken = self._recovered.taken

    @property
    def held(self) -> int:
        """How many events so far the program was not ready for; they come again."""
        return self.taking.held

    @property
    def is_ready(self) -> bool:
        """Whether it has its place on the ring, and what it is to keep there."""
        return self.ring.is_joined and self.keeper.is_ready

    # What Pastry calls

    def started(self, ring: Ring, now: float) -> None:
        """The node begins to join the ring."""
        options, recovered = self.options, self._recovered
        self.ring, self._is_back = ring, bool(recovered.log)
        self.log = PeerLog(ring, self._stored, self._not_stored, is_kept=self.keeps_log)
        if not recovered.log:
            recovered.log = f"{ring.me.card.name}@{ring.me.card.life}"
            self.log.store(PeerLogBegun(recovered.log), None, now)
        self.requests = Requests(ring, options.patience, self._numbers)
        self.walks = Walks(ring, self.requests, self.spaces, options, self._walk_answered, self._walk_over)
        self.subscribing = Subscribing(ring, self.spaces, self.walks, self.log, options, recovered)
        self.taking = Taking(ring, self.log, self.subscribing, self._taken, given_max=options.given_events_max)
        self.multicast = Multicast(ring, self.spaces, self.walks, options, self.subscribing.deliver_multicast)
        self.linking = Linking(ring, self.requests, self.spaces, self.walks, options, self._confirmed)
        self.primaries = Primaries(ring, self.spaces, self.walks, options)
        self.keeper = RegionKeeper(
            ring,
            self.requests,
            self.spaces,
            options,
            LeafHooks(self.linking.changed, self.linking.confirm, self.multicast.from_leaf, self._place_anew),
        )
        self.sending_again = SendingAgain(self.keeper.book, self.subscribing, self.linking)
        self.publishing = Publishing(ring, self.spaces, self.walks, self.log, options, recovered)

    def joined(self, now: float) -> None:
        """The node has its place on the ring."""
        self.keeper.joined(now, is_back=self._is_back)
        share = self.ring.me.id / 2**128  # so that peers do not all refresh at one moment
        self.ring.perform(SetTimer(LookAfterDue(), now + self.options.refresh_seconds * (0.5 + share / 2)))
        self.subscribing.joined(now)
        self.publishing.joined(now)

    def deliver(self, routed: RoutedMessage, now: float) -> None:
        """A message for a key to which this peer is closest."""
        self.receive(routed.source, routed.message, now)

    def forward(self, routed: RoutedMessage, next_hop: Contact, now: float) -> bytes | None:  # noqa: ARG002 - see the port
        """A message passes: note the way back to subscriptions that are reached by multicast."""
        return self.multicast.pass_on(routed, now) if self.multicast.is_used else routed.message

    def receive(self, source: Contact, message: bytes, now: float) -> None:
        """A message from another peer."""
        self.messages += 1
        decoded = decode(message)
        if decoded is None:
            self.unreadable += 1
            return
        match decoded:
            case Answer() | Fulfilled() | Given() | Primary():
                self._answered(self.requests.take(decoded.number, source), source, decoded, now)
            case SendAgain():
                self.sending_again.asked(source, decoded, now)
            case AskPrimary():
                self.primaries.asked(source, decoded, now)
            case OwedEvent():
                self.taking.came(source, decoded, now)
            case MulticastEvent():
                self.multicast.receive(source, decoded, now)
            case EventTaken():
                if (settled := self.publishing.outboxes.taken(source.name, decoded, now)) is not None:
                    self.publishing.settled(settled, now)
            case Locate(name):
                if name == self.ring.me.name:
                    self.ring.send(source, encode(Located()), now)
            case Located():
                self.publishing.outboxes.located(source.card, now)
            case _:
                self.keeper.handle(source, decoded, now)

    def neighbours_changed(self, change: NeighboursChanged, now: float) -> None:
        """The leaf set is another one."""
        if self.keeper.neighbours_changed(change, now):
            self.publishing.rings_merged(now)

    def undelivered(self, notice: Undelivered, now: float) -> None:
        """A request goes by the ring, to whoever is there now. Events are repeated anyway."""
        message = decode(notice.message)
        if isinstance(message, Request):
            self.requests.undelivered(message.number, now)

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """A timer, or something that the program asks for."""
        match message:
            case TimerDue(key):
                self._due(key, now)
            case Stored(number):
                self.log.stored(number, now)
            case NotStored(number, reason):
                self.log.not_stored(number, reason, now)
            case PeerSubscribe() | PeerPublish():
                self._begin(message, now)
            case PeerTake(event_id):
                self.taking.done(event_id, now)
            case PeerUnsubscribe():
                self.subscribing.unsubscribe(message.ref, now)
        return ()

    def _begin(self, message: PeerSubscribe | PeerPublish, now: float) -> None:
        try:
            if isinstance(message, PeerSubscribe):
                self.subscribing.subscribe(message, now)
            else:
                self.publishing.publish(message, now)
        except (ConditionError, EventError, UnreadableError) as error:
            self.ring.perform(PeerRefused(message.ref, str(error)))

    # Timers and answers

    def _due(self, key: Any, now: float) -> None:
        match key:
            case RequestDue():
                if (purpose := self.requests.due(key.number, now)) is not None:
                    self._answered(purpose, None, None, now)
            case WalkDue():
                self.walks.due(key, now)
            case VisitFor():
                self.walks.visit_again(key, now)
            case OutboxDue():
                for settled in self.publishing.outboxes.due(key.name, now):
                    self.publishing.settled(settled, now)
            case RecheckDue():
                self.publishing.recheck(key.number, now)
            case LookAfterDue():
                self.ring.perform(SetTimer(key, now + self.options.refresh_seconds))
                self.keeper.look_after(now)
                self.multicast.remove_expired(now)
                self.publishing.forget_old(now)
                self.linking.refresh(self.keeper.book.primaries(), now)
                self.subscribing.refresh(now)

    def _answered(self, purpose: Any, source: Contact | None, answer: AnyPeerMessage | None, now: float) -> None:
        """A request has been answered; without an answer it was given up."""
        if isinstance(purpose, VisitFor):
            self.walks.visited(purpose, source, answer if isinstance(answer, Answer) else None, now)
        elif isinstance(purpose, PrimaryOf):
            self.linking.primary_answered(purpose, answer if isinstance(answer, Primary) else None, now)
        elif purpose is not None:
            self.keeper.answered(purpose, answer, now)

    def _walk_answered(self, purpose: Any, answer: Answer, now: float) -> None:
        if isinstance(purpose, MatchWalk):
            self.publishing.answered(purpose, answer, now)
        elif isinstance(purpose, RateWalk):
            self.primaries.leaf_answered(purpose, answer)

    def _walk_over(self, purpose: Any, answers: list[Answer] | None, now: float) -> None:
        is_complete = answers is not None
        is_full = any(answer.is_full for answer in answers or ())
        match purpose:
            case MatchWalk():
                self.publishing.walk_over(purpose, is_complete, now)
            case PlaceWalk() if is_full:
                self.subscribing.found_no_room(purpose, now)
            case PlaceWalk():
                self.subscribing.placed(purpose, is_complete, now)
            case RateWalk():
                self.primaries.walk_over(purpose, is_complete)
            case AgainWalk():
                self.sending_again.over(purpose, now)
            case LinkWalk() if is_full:
                self.linking.found_no_room(purpose)
            case LinkWalk():
                self.linking.placed(purpose, is_complete, now)

    def _place_anew(self, space: Space, entries: tuple[Entry, ...], now: float) -> None:
        """Find the leaves of entries that have lost theirs."""
        table = EntryTable(space, self.spaces)
        table.put(entries, now)
        for entry, target in zip(table.entries(now), table.targets(), strict=True):
            self.walks.begin(AnewWalk(), space, target, PlaceWork((entry,)), now + entry.seconds_left, now)

    def _confirmed(self, then: AnswerPlaced, now: float) -> None:
        self.keeper.visiting.follow(then, now)

    # The log

    def _stored(self, then: object, now: float) -> None:
        match then:
            case AcceptPublication():
                self.publishing.stored(then, now)
            case ConfirmSubscription():
                self.subscribing.stored(then)

    def _not_stored(self, then: object, reason: str, now: float) -> None:
        match then:
            case AcceptPublication():
                self.publishing.not_stored(then, reason)
            case ConfirmSubscription():
                self.subscribing.not_stored(then, reason, now)

    def load(self) -> PeerLoad:
        """What this peer keeps and does for others."""
        visiting, regions = self.keeper.visiting, self.keeper.book.regions.values()
        return PeerLoad(
            entries_max=self.options.entries_max,
            entries=self.keeper.load(),
            regions=sum(region.is_primary for region in regions),
            copied_entries=sum(region.size for region in regions if not region.is_primary),
            path_entries=self.multicast.state,
            messages=self.messages,
            visits=visiting.visits,
            matched_events=visiting.matched,
            refused_entries=visiting.refused,
            splits=self.keeper.splitting.splits,
            merges=self.keeper.merging.merges,
        )

    def waits(self) -> list[str]:
        """What this peer waits for, for people who look at a run that failed."""
        return [
            *self.requests.waits(),
            *self.walks.waits(),
            *self.publishing.waits(),
            *self.subscribing.unplaced(),
        ]


class LoggingDmmPeer(DmmPeer):
    """A peer that keeps a log: what it has accepted, and what it wants, survive a restart."""

    keeps_log = True

    def recover(self, record: PeerRecord) -> None:
        """Take up a record of the checkpoint or the log, in order, before the start."""
        self._recovered.take(record)

    def checkpoint(self) -> Sequence[PeerRecord]:
        """Records that stand for all that were stored so far."""
        taken = [
            NumbersTaken(peer, outbox, numbers.lowest, tuple(numbers.numbers))
            for peer, outbox, numbers in self._taken.items()
        ]
        return [
            PeerLogBegun(self._recovered.log),
            *self.subscribing.records(),
            *self.publishing.records(),
            *taken,
        ]
