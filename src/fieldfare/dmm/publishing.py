"""Events that a peer publishes: who wants them is asked of all leaves that they touch, and each of those gets them.

An event is accepted when it is in the peer's log, if it keeps one; after a restart the leaves are asked again. The
leaves of the event's own attributes name peers, and regions of spaces with more attributes, which are asked next. An
answer that is not vouched for is used, and asked for again: peers that were missing get the event late, not never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fieldfare.dmm.messages import Answer, MatchWork, MulticastWork, Work
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.outbox import Outboxes, OutgoingEvent, Settled
from fieldfare.dmm.peer_log import PeerLog, Recovered
from fieldfare.dmm.peer_messages import PeerAccepted, PeerPublish, PeerPublished, PeerRefused
from fieldfare.dmm.peer_records import PeerRecord, PublicationOwed, PublicationSettled, PublicationStored
from fieldfare.dmm.spaces import Space, Spaces, codes_by_space
from fieldfare.dmm.walks import Walks
from fieldfare.dmm.zcodes import ZCode
from fieldfare.events import event_attributes
from fieldfare.matching.rows import check_event
from fieldfare.messages import SetTimer
from fieldfare.pastry.ports import Card, Ring

_TIME_SHIFT = 20  # above so many bits of an event's number stands the time, in milliseconds
_MERGED_ROUNDS = 1.5  # of refreshing, after which subscriptions of merged rings are known everywhere


def _time_in(number: int) -> float:
    """When an event was published, nearly, by its number."""
    return (number >> _TIME_SHIFT) / 1000


@dataclass(frozen=True, slots=True)
class MatchWalk:
    """A walk's purpose: ask a space who wants an event."""

    number: int
    space: Space


@dataclass(frozen=True, slots=True)
class RecheckDue:
    """A timer: ask the leaves again that did not vouch for their answers."""

    number: int


@dataclass(frozen=True, slots=True)
class AcceptPublication:
    """What follows a record: an event is stored, and accepted."""

    number: int


@dataclass(slots=True)
class _Publication:
    message: PeerPublish
    at: float  # when it was published: the time of now in conditions, wherever they are matched
    until: float
    attributes: dict[str, object]
    is_stored: bool = False  # in the log
    is_accepted: bool = False  # the program knows that it is published
    asked: set[Space] = field(default_factory=set)  # of these an answer is still to come
    known: set[Space] = field(default_factory=set)  # these have been asked, once at least
    unvouched: set[Space] = field(default_factory=set)
    peers: dict[str, bool | None] = field(default_factory=dict)  # whether each took it; None: not known yet
    owed: dict[str, Card] = field(default_factory=dict)  # those that have not taken it
    is_waiting: bool = False  # to ask again
    is_told: bool = False  # the program knows how it ended; it is kept while it lives, should rings merge

    @property
    def is_busy(self) -> bool:
        """Whether something about it is under way."""
        return bool(self.asked or self.owed or self.is_waiting)


class Publishing:
    """The publications of one peer, by their numbers in its log."""

    outboxes: Outboxes

    def __init__(
        self, ring: Ring, spaces: Spaces, walks: Walks, log: PeerLog, options: DmmOptions, recovered: Recovered
    ) -> None:
        self._ring, self._spaces, self._walks, self._options = ring, spaces, walks, options
        self._log, self._log_id = log, recovered.log
        patience = options.patience
        self.outboxes = Outboxes(ring, recovered.log, self._lowest, patience.first_seconds, patience.seconds_max)
        self._number = recovered.number
        self._publications: dict[int, _Publication] = {}  # in the order of their numbers
        self._recover(recovered)

    def __len__(self) -> int:
        return len(self._publications)

    @property
    def unsettled(self) -> int:
        """How many events have not been taken by all who want them, as far as that is known."""
        return sum(1 for each in self._publications.values() if not each.is_told)

    def _lowest(self) -> int:
        return next(iter(self._publications), self._number + 1)

    def _next_number(self, now: float) -> int:
        """A number that was never used here, not even by a log of this name that is lost: it holds the time."""
        self._number = max(self._number + 1, int(now * 1000) << _TIME_SHIFT)
        return self._number

    # From the program

    def publish(self, message: PeerPublish, now: float) -> None:
        """Publish an event; an UnreadableError or EventError if it is not sound."""
        attributes = event_attributes(message.event)
        check_event(attributes)
        if len(self._publications) >= self._options.unsettled_events_max:
            self.forget_old(now)
            if self.unsettled >= self._options.unsettled_events_max:
                reason = f"{self.unsettled} events wait to be taken by others: publish it again later"
                self._ring.perform(PeerRefused(message.ref, reason))
                return
        number, until = self._next_number(now), now + message.lifespan_seconds
        self._publications[number] = _Publication(message, now, until, attributes)
        if self._spaces.scheme(message.topic).is_reliable:
            stored = PublicationStored(number, message.ref, message.topic, message.event, until, now)
            self._log.store(stored, AcceptPublication(number), now)
        else:
            self._begin(number, now)

    def stored(self, then: AcceptPublication, now: float) -> None:
        """An event is in the log, if there is one."""
        self._publications[then.number].is_stored = self._log.is_kept
        self._begin(then.number, now)

    def not_stored(self, then: AcceptPublication, reason: str) -> None:
        """An event could not be stored: it was not published."""
        publication = self._publications.pop(then.number)
        self._ring.perform(PeerRefused(publication.message.ref, f"the event could not be stored: {reason}"))

    def _begin(self, number: int, now: float) -> None:
        publication = self._publications[number]
        publication.is_accepted = True
        message = publication.message
        self._ring.perform(PeerAccepted(message.ref, self._id(number), publication.is_stored))
        if self._ring.is_joined:
            self._ask(number, publication, self._spaces.entrances(message.topic, publication.attributes), now)

    def _id(self, number: int) -> str:
        return f"{self._log_id}:{number}"

    # After a restart

    def _recover(self, recovered: Recovered) -> None:
        for number, each in sorted(recovered.publications.items()):
            stored = each.stored
            message = PeerPublish(stored.ref, stored.topic, stored.event)
            at = stored.at or _time_in(number)
            publication = _Publication(message, at, stored.expires_at, event_attributes(stored.event))
            publication.is_stored = publication.is_accepted = True
            publication.owed = each.owed
            publication.is_told = each.is_settled
            self._publications[number] = publication

    def joined(self, now: float) -> None:
        """The peer has its place: ask who wants the events that were accepted before, and send what is owed."""
        self.forget_old(now)
        for number, publication in list(self._publications.items()):
            if publication.is_told or not publication.is_accepted:
                continue
            message = publication.message
            if now >= publication.until:
                self._end_if_settled(number, publication, now)
                continue
            for card in publication.owed.values():
                publication.peers[card.name] = None
                self._put(card, number, publication, now)
            self._ask(number, publication, self._spaces.entrances(message.topic, publication.attributes), now)

    def records(self) -> Iterator[PeerRecord]:
        """What stands for all that the log holds of publications."""
        for number, publication in self._publications.items():
            if publication.is_stored:
                message = publication.message
                until, at = publication.until, publication.at
                yield PublicationStored(number, message.ref, message.topic, message.event, until, at)
                if publication.is_told:
                    yield PublicationSettled(number)
                if publication.owed:
                    yield PublicationOwed(number, tuple(publication.owed.values()))

    # Who wants it

    def _ask(
        self,
        number: int,
        publication: _Publication,
        spaces: Iterable[Space],
        now: float,
        linked: Mapping[Space, list[ZCode]] = MappingProxyType({}),
    ) -> None:
        """Ask spaces who wants an event. Of some the leaves are known, by the links that led there."""
        asked = list(spaces)
        publication.asked.update(asked)
        publication.known.update(asked)
        for space in asked:
            target = self._spaces.grid(space).target_of_event(publication.attributes)
            work: Work = MatchWork(publication.message.event, publication.at)
            if not self._spaces.scheme(space.topic).is_reliable:
                work = MulticastWork(self._id(number), publication.message.event, publication.at)
            leaves = linked.get(space, ())
            self._walks.begin(MatchWalk(number, space), space, target, work, publication.until, now, leaves=leaves)

    def answered(self, purpose: MatchWalk, answer: Answer, now: float) -> None:
        """A leaf says who wants an event."""
        publication = self._publications.get(purpose.number)
        if publication is None or not self._spaces.scheme(purpose.space.topic).is_reliable:
            return  # it is over, or the leaf sends it on
        if not answer.is_complete:
            publication.unvouched.add(purpose.space)
        self._deliver(purpose.number, publication, answer.peers, now)
        linked = codes_by_space(answer.regions)
        new = [space for space in linked if space not in publication.known]
        self._ask(purpose.number, publication, new, now, linked)

    def _deliver(self, number: int, publication: _Publication, cards: Iterable[Card], now: float) -> None:
        new = {card.name: card for card in cards if card.name not in publication.peers}
        if new and publication.is_stored:
            self._log.store(PublicationOwed(number, tuple(new.values())), None, now)
        for name, card in new.items():
            publication.peers[name] = None
            publication.owed[name] = card
            self._put(card, number, publication, now)

    def _put(self, card: Card, number: int, publication: _Publication, now: float) -> None:
        message = publication.message
        outgoing = OutgoingEvent(message.topic, message.event, publication.at, publication.until)
        self.outboxes.put(card, number, outgoing, now)

    def walk_over(self, purpose: MatchWalk, is_complete: bool, now: float) -> None:  # noqa: FBT001 - a walk's outcome
        """A space has been asked, or could not be in time."""
        publication = self._publications.get(purpose.number)
        if publication is None:
            return
        publication.asked.discard(purpose.space)
        if not is_complete:
            publication.unvouched.add(purpose.space)
        if publication.unvouched and not publication.is_waiting and now < publication.until:
            publication.is_waiting = True
            self._ring.perform(SetTimer(RecheckDue(purpose.number), now + self._options.recheck_seconds))
        self._end_if_settled(purpose.number, publication, now)

    def recheck(self, number: int, now: float) -> None:
        """Ask again where answers were not vouched for."""
        publication = self._publications.get(number)
        if publication is None:
            return
        publication.is_waiting = False
        if now >= publication.until:
            self._end_if_settled(number, publication, now)
            return
        spaces, publication.unvouched = publication.unvouched - publication.asked, set()
        self._ask(number, publication, sorted(spaces, key=lambda space: space.attributes), now)

    def settled(self, settled: Settled, now: float) -> None:
        """A peer took an event, or did not in time."""
        publication = self._publications.get(settled.number)
        if publication is not None:
            publication.peers[settled.peer] = settled.is_taken
            publication.owed.pop(settled.peer, None)
            self._end_if_settled(settled.number, publication, now)

    # Its end

    def _end_if_settled(self, number: int, publication: _Publication, now: float) -> None:
        is_vouched, is_over = not publication.unvouched, now >= publication.until
        if publication.is_told or publication.asked or publication.owed or not (is_vouched or is_over):
            return
        publication.is_told = True
        if is_over:
            del self._publications[number]
        elif publication.is_stored:
            self._log.note(PublicationSettled(number))
        taken = sum(1 for is_taken in publication.peers.values() if is_taken)
        missed = tuple(name for name, is_taken in publication.peers.items() if not is_taken)
        self._ring.perform(PeerPublished(publication.message.ref, taken, missed, is_vouched))

    def forget_old(self, now: float) -> None:
        """Forget publications whose time is over; and, where there are too many, the oldest that are settled."""
        settled = [key for key, each in self._publications.items() if each.is_told]
        surplus = max(0, len(settled) - self._options.living_events_max)
        for place, number in enumerate(settled):
            publication = self._publications[number]
            if publication.until <= now or (place < surplus and not publication.is_busy):
                del self._publications[number]

    def rings_merged(self, now: float) -> None:
        """Peers have come that were there all along: ask again, for all living events, when subscriptions are one."""
        for number, publication in self._publications.items():
            message = publication.message
            if self._spaces.scheme(message.topic).is_reliable and now < publication.until:
                known = publication.known or self._spaces.entrances(message.topic, publication.attributes)
                publication.unvouched |= set(known)
                publication.is_waiting = True
                again_at = now + _MERGED_ROUNDS * self._options.refresh_seconds
                self._ring.perform(SetTimer(RecheckDue(number), min(again_at, publication.until)))

    def outstanding(self, ref: str | None = None) -> tuple[str, ...]:
        """The peers that have not taken an event, or any event, yet; who was not named by a leaf so far is left out."""
        unsettled = (each for each in self._publications.values() if not each.is_told)
        chosen = (each for each in unsettled if ref in (None, each.message.ref))
        return tuple(dict.fromkeys(name for each in chosen for name, taken in each.peers.items() if not taken))

    def waits(self) -> list[str]:
        """What publications wait for, for people who look at a run that failed."""
        return [
            f"publication {number}: asked {each.asked}, unvouched {each.unvouched}, owed {list(each.owed)}"
            for number, each in self._publications.items()
            if not each.is_told
        ]
