"""What becomes of news about the others: the table joins it, the broker is told, and the news is spread.

A member whose ping nobody could bring an answer to is suspected. If it does not object in time it is dead, and of that
incarnation it stays so; dead members are kept in the table for a week, and those that are owed events until they are
retired.
"""

from __future__ import annotations

from collections import deque

from fieldfare.coordination.gossip_messages import Claim, Health, News, OfferNews
from fieldfare.coordination.gossip_options import GossipOptions
from fieldfare.coordination.member_table import Joined, MemberState, MemberTable
from fieldfare.coordination.member_view import MemberView
from fieldfare.coordination.myself import Stamps, stamp_at
from fieldfare.coordination.rumours import Rumours
from fieldfare.coordination.topic_board import TopicBoard, takes_topics
from fieldfare.messages import EdgeRetired, Input, Member

_SENDS_OF_OLD_NEWS = 2


class Membership:
    """The others, as one member knows them. `told` is what its broker has to be told."""

    def __init__(self, name: str, table: MemberTable, stamps: Stamps, options: GossipOptions) -> None:
        self.suspicion_count = 0  # raised here
        self.told: deque[Input] = deque()
        self.candidates: dict[str, MemberState] = {}  # whom to talk to: all who live or may live, by name
        self.view = MemberView()
        self.topics = TopicBoard(name, table, self.view.seen)
        self.rumours = Rumours(table)
        self._table, self._stamps, self._options = table, stamps, options

    @property
    def count(self) -> int:
        """How many there are, with oneself."""
        return len(self.candidates) + 1

    @property
    def sends(self) -> int:
        """How often something new is sent on."""
        return self._options.sends(self.count)

    # Hearing

    def hear(self, news: News, now: float, *, is_rumour: bool) -> bool:
        """Take what is newer; whether there is more to ask for.

        What comes of a comparison is news here, but hardly elsewhere: it is not spread as if it was.
        """
        before = self._table.members.get(news.name)
        if before is None and (self._is_long_gone(news, now) or not self._make_room()):
            return False
        after = before.version if before is not None and before.claim.life == news.claim.life else 0
        joined = self._table.join(news)
        if joined is None:
            return False
        if joined.is_new:
            self._changed(self._table.members[news.name], joined, now)
            self.rumours.add(news.name, self.sends if is_rumour else _SENDS_OF_OLD_NEWS, after)
        else:
            self.rumours.came_again(news.name)
        return joined.is_incomplete

    def hear_offer(self, news: OfferNews) -> bool:
        """Take an offer if it is newer; whether it is."""
        is_new = self._table.join_offer(news)
        if is_new:
            self.topics.offer_changed(news.topic)
            self.rumours.add(news.topic, self.sends)
        else:
            self.rumours.came_again(news.topic)
        return is_new

    # Judging

    def suspect(self, name: str, now: float) -> None:
        """A member did not answer."""
        state = self._table.members.get(name)
        if state is not None and state.claim.health is Health.ALIVE:
            self.suspicion_count += 1
            self.claim(state, Health.SUSPECTED, now)

    def bury_overdue(self, now: float) -> None:
        """Those that had time enough to object are gone."""
        for name in self.view.overdue(now, self._options.suspicion_seconds(self.count)):
            state = self._table.members[name]
            if state.claim.health is Health.SUSPECTED:
                self.claim(state, Health.DEAD, now)
            was_seen = self.view.seen.get(name)
            self.told += self.view.lose(name)
            self._sight_changed(state, was_seen)

    def claim(self, state: MemberState, health: Health, now: float) -> None:
        """Say something about another member's life."""
        at = 0 if health is Health.SUSPECTED else self._stamps.next(now)
        joined = self._table.join(News(state.name, Claim(state.claim.incarnation, health, at, state.claim.life)))
        if joined is not None and joined.is_new:
            self._changed(state, joined, now)
            self.rumours.add(state.name, self.sends, state.version)

    def lost(self) -> list[MemberState]:
        """Those that seem dead, but may only be out of reach."""
        members = self._table.members
        return [state for state in members.values() if state.claim.health is Health.DEAD and state.address]

    def forget_long_gone(self, now: float) -> None:
        """Members that are long gone, and that are owed nothing."""
        before = stamp_at(now - self._options.forget_seconds)
        for state in self._forgettable():
            if state.claim.at < before:
                self._forget(state)

    def _make_room(self) -> bool:
        """For one more member, at the cost of the one that is gone for longest; whether there is any."""
        if not self._table.has_room:
            oldest = min(self._forgettable(), key=lambda state: state.claim.at, default=None)
            if oldest is None:
                self._table.refused_count += 1
                return False
            self._forget(oldest)
        return True

    def _forgettable(self) -> list[MemberState]:
        return [
            state
            for state in self._table.members.values()
            if state.claim.health > Health.SUSPECTED and state.name not in self.view.seen and not state.is_owed
        ]

    def _forget(self, state: MemberState) -> None:
        self.told += self.view.lose(state.name)
        self.topics.counts_changed(state, state.drop())
        self._table.forget(state.name)

    def _is_long_gone(self, news: News, now: float) -> bool:
        """Whether it is about a member that was forgotten: others may not have done so yet."""
        return (
            news.claim.health > Health.SUSPECTED
            and news.claim.at < stamp_at(now - self._options.forget_seconds)
            and not any(getattr(fact, "is_owed", False) for _, fact in news.facts)
        )

    # Changes

    def _changed(self, state: MemberState, joined: Joined, now: float) -> None:
        was_seen = self.view.seen.get(state.name)
        self.told += self.view.review(state, now)
        self.topics.counts_changed(state, [topic for topic in joined.changed if topic is not None])
        self._sight_changed(state, was_seen)
        if state.claim.health is Health.RETIRED:
            self.told.append(EdgeRetired(state.name))

    def _sight_changed(self, state: MemberState, was_seen: Member | None) -> None:
        """A member may have come, gone, or changed its role."""
        is_seen = self.view.seen.get(state.name)
        may_live = state.claim.health <= Health.SUSPECTED or is_seen is not None
        if may_live and state.address:
            self.candidates[state.name] = state
        else:
            self.candidates.pop(state.name, None)
        members = was_seen, is_seen
        if len({member is not None and takes_topics(member) for member in members}) > 1:
            self.topics.routing_changed()
        if len({None if member is None else member.role for member in members}) > 1:
            self.topics.edge_changed(state)
