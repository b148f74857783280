"""Events that a peer publishes: who wants them is asked of all leaves that they touch, and each of those gets them.

The leaves of the event's own attributes name peers, and regions of spaces with more attributes, which are asked next.
An answer that is not vouched for is used, and asked for again: peers that were missing get the event late, not never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

from fieldfare.dmm.messages import Answer, MatchWork, MulticastWork, Work
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.outbox import Outboxes, Settled
from fieldfare.dmm.peer_messages import PeerPublish, PeerPublished
from fieldfare.dmm.spaces import Space, Spaces, codes_by_space
from fieldfare.dmm.walks import Walks
from fieldfare.dmm.zcodes import ZCode
from fieldfare.events import event_attributes
from fieldfare.matching.rows import check_event
from fieldfare.messages import SetTimer
from fieldfare.pastry.ports import Card, Ring

_MERGED_ROUNDS = 1.5  # of refreshing, after which subscriptions of merged rings are known everywhere


@dataclass(frozen=True, slots=True)
class MatchWalk:
    """A walk's purpose: ask a space who wants an event."""

    event: str
    space: Space


@dataclass(frozen=True, slots=True)
class RecheckDue:
    """A timer: ask the leaves again that did not vouch for their answers."""

    event: str


@dataclass(slots=True)
class _Publication:
    message: PeerPublish
    until: float
    attributes: dict[str, object]
    asked: set[Space] = field(default_factory=set)  # of these an answer is still to come
    known: set[Space] = field(default_factory=set)  # these have been asked, once at least
    unvouched: set[Space] = field(default_factory=set)
    peers: dict[str, bool | None] = field(default_factory=dict)  # whether each took it; None: not known yet
    is_waiting: bool = False  # to ask again
    is_told: bool = False  # the program knows how it ended; it is kept while it lives, should rings merge


class Publishing:
    """The publications of one peer."""

    def __init__(self, ring: Ring, spaces: Spaces, walks: Walks, outboxes: Outboxes, options: DmmOptions) -> None:
        self._ring, self._spaces, self._walks, self._outboxes, self._options = ring, spaces, walks, outboxes, options
        self._numbers = count(1)
        self._publications: dict[str, _Publication] = {}

    def __len__(self) -> int:
        return len(self._publications)

    def publish(self, message: PeerPublish, now: float) -> None:
        """Publish an event; an UnreadableError or EventError if it is not sound."""
        attributes = event_attributes(message.event)
        check_event(attributes)
        me = self._ring.me.card
        event_id = f"{me.name}@{me.life}:{next(self._numbers)}"
        publication = _Publication(message, now + message.lifespan_seconds, attributes)
        self._publications[event_id] = publication
        self._ask(event_id, publication, self._spaces.entrances(message.topic, attributes), now)

    def _ask(
        self,
        event_id: str,
        publication: _Publication,
        spaces: list[Space],
        now: float,
        linked: Mapping[Space, list[ZCode]] = MappingProxyType({}),
    ) -> None:
        """Ask spaces who wants an event. Of some the leaves are known, by the links that led there."""
        publication.asked.update(spaces)
        publication.known.update(spaces)
        for space in spaces:
            target = self._spaces.grid(space).target_of_event(publication.attributes)
            work: Work = MatchWork(publication.message.event)
            if not self._spaces.scheme(space.topic).is_reliable:
                work = MulticastWork(event_id, publication.message.event)
            leaves = linked.get(space, ())
            self._walks.begin(MatchWalk(event_id, space), space, target, work, publication.until, now, leaves=leaves)

    def answered(self, purpose: MatchWalk, answer: Answer, now: float) -> None:
        """A leaf says who wants an event."""
        publication = self._publications.get(purpose.event)
        if publication is None:
            return
        if not self._spaces.scheme(purpose.space.topic).is_reliable:
            return  # the leaf sends it on
        if not answer.is_complete:
            publication.unvouched.add(purpose.space)
        for card in answer.peers:
            self._deliver(purpose.event, publication, card, now)
        linked = codes_by_space(answer.regions)
        self._ask(
            purpose.event, publication, [space for space in linked if space not in publication.known], now, linked
        )

    def _deliver(self, event_id: str, publication: _Publication, card: Card, now: float) -> None:
        if card.name not in publication.peers:
            publication.peers[card.name] = None
            message = publication.message
            self._outboxes.put(card, event_id, message.topic, message.event, publication.until, now)

    def walk_over(self, purpose: MatchWalk, is_complete: bool, now: float) -> None:  # noqa: FBT001 - a walk's outcome
        """A space has been asked, or could not be in time."""
        publication = self._publications.get(purpose.event)
        if publication is None:
            return
        publication.asked.discard(purpose.space)
        if not is_complete:
            publication.unvouched.add(purpose.space)
        if publication.unvouched and not publication.is_waiting and now < publication.until:
            publication.is_waiting = True
            self._ring.perform(SetTimer(RecheckDue(purpose.event), now + self._options.recheck_seconds))
        self._end_if_settled(purpose.event, publication, now)

    def recheck(self, event_id: str, now: float) -> None:
        """Ask again where answers were not vouched for."""
        publication = self._publications.get(event_id)
        if publication is None:
            return
        publication.is_waiting = False
        if now >= publication.until:
            self._end_if_settled(event_id, publication, now)
            return
        spaces, publication.unvouched = publication.unvouched - publication.asked, set()
        self._ask(event_id, publication, sorted(spaces, key=lambda space: space.attributes), now)

    def settled(self, settled: Settled, now: float) -> None:
        """A peer took an event, or did not in time."""
        publication = self._publications.get(settled.event)
        if publication is not None:
            publication.peers[settled.peer] = settled.is_taken
            self._end_if_settled(settled.event, publication, now)

    def _end_if_settled(self, event_id: str, publication: _Publication, now: float) -> None:
        is_vouched = not publication.unvouched
        if (
            publication.is_told
            or publication.asked
            or None in publication.peers.values()
            or not (is_vouched or now >= publication.until)
        ):
            return
        publication.is_told = True
        if now >= publication.until:
            del self._publications[event_id]
        taken = sum(1 for is_taken in publication.peers.values() if is_taken)
        missed = tuple(name for name, is_taken in publication.peers.items() if not is_taken)
        self._ring.perform(PeerPublished(publication.message.ref, taken, missed, is_vouched))

    def forget_old(self, now: float) -> None:
        """Forget publications whose time is over; and, where there are too many, the oldest that are settled."""
        settled = [key for key, each in self._publications.items() if each.is_told]
        surplus = max(0, len(settled) - self._options.living_events_max)
        for number, event_id in enumerate(settled):
            if number < surplus or self._publications[event_id].until <= now:
                del self._publications[event_id]

    def rings_merged(self, now: float) -> None:
        """Peers have come that were there all along: ask again, for all living events, when subscriptions are one."""
        for event_id, publication in self._publications.items():
            if self._spaces.scheme(publication.message.topic).is_reliable and now < publication.until:
                publication.unvouched |= publication.known
                publication.is_waiting = True
                again_at = now + _MERGED_ROUNDS * self._options.refresh_seconds
                self._ring.perform(SetTimer(RecheckDue(event_id), min(again_at, publication.until)))

    def waits(self) -> list[str]:
        """What publications wait for, for people who look at a run that failed."""
        return [
            f"publication {event_id}: asked {publication.asked}, unvouched {publication.unvouched}"
            for event_id, publication in self._publications.items()
            if not publication.is_told
        ]
