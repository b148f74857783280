"""Reading what a gossip knows without being one of its members, for commands.

Members answer whoever compares tables with them: a digest of an empty table is answered with all that they know. A
reader tells nothing of itself, so nobody waits for it, pings it or gives it topics, and nothing is left when it ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from fieldfare.coordination.comparing import Comparing
from fieldfare.coordination.gossip_messages import (
    AnyGossipMessage,
    Claim,
    EndpointCount,
    Health,
    News,
    Ping,
    Pong,
    Tell,
)
from fieldfare.coordination.gossip_options import GossipOptions
from fieldfare.coordination.member_table import MemberState, MemberTable
from fieldfare.coordination.myself import Stamps
from fieldfare.coordination.registered import Registered, RegisteredTopic
from fieldfare.coordination.topic_board import TopicBoard
from fieldfare.coordination.zookeeper.tree import EndpointCounts
from fieldfare.messages import SendDatagram, TopicKey

_NAME = "a reader"  # no name of a broker has a space
_QUIET_ROUNDS = 2  # an answer may be lost, but hardly twice
_IS_RUMOUR = 1  # the hash of a Tell whose news is to be spread


class GossipReader:
    """One reader. In rounds it asks until nothing new comes; whoever runs it sends datagrams and brings the answers."""

    def __init__(self, addresses: Iterable[str], rng: random.Random) -> None:
        options = GossipOptions()
        self.table = MemberTable(options.members_max, options.topics_max)
        self._addresses = tuple(addresses)
        self._comparing = Comparing(_NAME, self.table, rng)
        self._stamps = Stamps(rng)
        self._teller: tuple[str, str] | None = None  # the address and the name of the member that answers
        self._number = 0  # of the round
        self._hash_before = 0
        self._quiet_rounds = 0
        self._has_answer = False

    @property
    def is_answered(self) -> bool:
        """Whether the member that is asked has answered all of this round."""
        return self._has_answer

    @property
    def is_complete(self) -> bool:
        """Whether nothing new came any more, this round included."""
        return self._quiet_rounds + self._is_quiet >= _QUIET_ROUNDS

    @property
    def _is_quiet(self) -> bool:
        return self._has_answer and self.table.hash == self._hash_before

    def begin_round(self) -> list[SendDatagram]:
        """Ask for all that is not known yet; the Ping after it is answered when the rest has been."""
        self._quiet_rounds = self._quiet_rounds + 1 if self._is_quiet else 0
        if not self._has_answer:
            self._teller = None  # it may be gone: ask all again
        self._number += 1
        self._hash_before, self._has_answer = self.table.hash, False
        asked = self._addresses if self._teller is None else (self._teller[0],)
        questions = [SendDatagram(address, digest) for address in asked for digest in self._comparing.digests_of_all()]
        if self._teller is not None:
            questions.append(SendDatagram(self._teller[0], Ping(_NAME, self._teller[1], self._number)))
        return questions

    def receive(self, address: str, message: AnyGossipMessage) -> list[SendDatagram]:
        """A datagram has come; returns what is to be asked now."""
        match message:
            case Tell():
                return self._hear(address, message)
            case Pong() if self._teller is not None and message.number == self._number:
                self._has_answer = True
        return []

    def _hear(self, address: str, message: Tell) -> list[SendDatagram]:
        incomplete = []
        for news in message.news:
            self._stamps.saw(news.claim)
            joined = self.table.join(news)
            if joined is not None and joined.is_incomplete:
                incomplete.append(news.name)
        for offer in message.offers:
            self.table.join_offer(offer)
        questions = self._comparing.ask(address, incomplete) if incomplete else []
        if self._teller is None:
            self._teller = address, message.sender
            questions.append(SendDatagram(address, Ping(_NAME, message.sender, self._number)))
        return questions

    # What is known

    def read(self) -> Registered:
        """Who is there, and who owns which topic."""
        living = {state.name: state for state in self.table.members.values() if _may_live(state)}
        seen = {name: member for name, state in living.items() if (member := state.member) is not None}
        board = TopicBoard("", self.table, seen)
        for state in self.table.members.values():
            board.counts_changed(state, [topic for topic in state.facts if topic is not None])
        topics = [
            RegisteredTopic(
                each.topic,
                each.owner,
                each.epoch,
                each.offer,
                {state.name: counts for state in living.values() if (counts := _counts(state, each.topic)) is not None},
                {name: self._log_of(name) for name in each.owed},
            )
            for each in board.all_topics()
        ]
        members = sorted(seen.values(), key=lambda member: (member.role, member.name))
        return Registered(tuple(members), board.leader, tuple(topics))

    def _log_of(self, name: str) -> str:
        member = self.table.members[name].member
        return "" if member is None else member.log

    # Retiring

    def may_live(self, name: str) -> bool:
        """Whether a member is there, or may be: it is not believed to be dead yet."""
        return name in self.table.members and _may_live(self.table.members[name])

    def owed_to(self, name: str) -> tuple[TopicKey, ...]:
        """The topics whose events wait for a member."""
        state = self.table.members.get(name)
        facts = [] if state is None else [fact for _, fact in state.facts.values()]
        return tuple(sorted(fact.topic for fact in facts if isinstance(fact, EndpointCount) and fact.is_owed))

    def is_retired(self, name: str) -> bool:
        """Whether it is known that a member will not come back."""
        return name not in self.table.members or self.table.members[name].claim.health is Health.RETIRED

    def retirement(self, name: str, now: float) -> list[SendDatagram]:
        """What tells all who live that a member will not come back. They pass it on, so that some may miss it."""
        claim = self.table.members[name].claim
        news = News(name, Claim(claim.incarnation, Health.RETIRED, self._stamps.next(now), claim.life))
        known = [state.address for state in self.table.members.values() if _may_live(state) and state.address]
        return [
            SendDatagram(address, Tell(_NAME, [news], hash=_IS_RUMOUR))
            for address in dict.fromkeys((*self._addresses, *known))
        ]


def _may_live(state: MemberState) -> bool:
    return state.claim.health <= Health.SUSPECTED


def _counts(state: MemberState, topic: TopicKey) -> EndpointCounts | None:
    _, fact = state.facts.get(topic, (0, None))
    if not isinstance(fact, EndpointCount) or not (fact.publishers or fact.subscribers):
        return None
    return EndpointCounts(fact.publishers, fact.subscribers)
