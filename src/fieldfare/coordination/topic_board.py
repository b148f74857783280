"""Topics as a member of a gossip sees them: who has endpoints, who owns them, what they offer, who is owed events.

The owner of a topic is found without asking anybody: of the routing brokers that are seen, the one whose name and the
topic's have the highest hash together (rendezvous hashing). Members that see the same name the same owner; when a
routing broker comes or goes, only the topics that it wins or had move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from fieldfare.coordination.gossip_messages import EndpointCount, Health
from fieldfare.coordination.member_table import MemberState, MemberTable
from fieldfare.messages import Input, LeaderSeen, Member, TopicGone, TopicKey, TopicSeen


class TopicBoard:
    """What a broker has been told about topics and the leader, and what it has to be told.

    `seen` are the others as they have been told to it, by name; `me` is what it announced of itself.
    """

    def __init__(self, name: str, table: MemberTable, seen: Mapping[str, Member]) -> None:
        self._name = name
        self._table = table
        self._seen = seen
        self._me: Member | None = None
        self._counts: dict[TopicKey, dict[str, EndpointCount]] = {}  # by topic, then by the name of the edge
        self._told: dict[TopicKey, TopicSeen] = {}
        self._leader: str | None = None
        self._dirty: set[TopicKey] = set()
        self._is_routing_dirty = False
        self._living: list[tuple[str, int, int]] = []  # routing brokers: name, hash, incarnation
        self._departed: list[tuple[int, int]] = []  # those that are gone: hash, when that was claimed

    # What has changed

    def announce(self, member: Member) -> None:
        """The broker itself is such."""
        if self._me is None or takes_topics(self._me) != takes_topics(member):
            self._is_routing_dirty = True
        self._me = member

    def routing_changed(self) -> None:
        """A routing broker has come or gone."""
        self._is_routing_dirty = True

    def counts_changed(self, state: MemberState, topics: Iterable[TopicKey]) -> None:
        """An edge says something else about these topics, or its state has gone."""
        for topic in topics:
            fact = state.facts.get(topic)
            count = fact[1] if fact is not None else None
            if isinstance(count, EndpointCount) and not count.is_empty:
                self._counts.setdefault(topic, {})[state.name] = count
            elif (edges := self._counts.get(topic)) is not None:
                edges.pop(state.name, None)
                if not edges:
                    del self._counts[topic]
            self._dirty.add(topic)

    def edge_changed(self, state: MemberState) -> None:
        """An edge has come or gone; what it says has not changed."""
        self._dirty.update(topic for topic in state.facts if topic is not None)

    def offer_changed(self, topic: TopicKey) -> None:
        """A topic offers something else."""
        self._dirty.add(topic)

    # What to tell

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self._leader == self._name

    @property
    def leader(self) -> str | None:
        """Who leads, as far as is known here."""
        self._find_routing_brokers()
        return min((name for name, _, _ in self._living), default=None)

    def all_topics(self) -> list[TopicSeen]:
        """Every topic that somebody who is seen has endpoints of, or is owed to somebody, in the order of names."""
        self._find_routing_brokers()
        return [self._view(topic, edges) for topic, edges in sorted(self._counts.items()) if self._is_there(edges)]

    def news(self) -> Iterator[Input]:
        """What the broker has to be told now."""
        if self._is_routing_dirty:
            self._is_routing_dirty = False
            leader = self.leader
            if leader != self._leader:
                self._leader = leader
                yield LeaderSeen(leader)
            self._dirty.update(self._counts)
        dirty, self._dirty = self._dirty, set()
        for topic in sorted(dirty):
            edges = self._counts.get(topic, {})
            if not self._is_there(edges):
                if self._told.pop(topic, None) is not None:
                    yield TopicGone(topic)
            elif not (self.is_leader or self._name in edges):
                self._told.pop(topic, None)
            elif (seen := self._view(topic, edges)) != self._told.get(topic):
                self._told[topic] = seen
                yield seen

    def _is_there(self, edges: Mapping[str, EndpointCount]) -> bool:
        return any(self._is_alive(name) or count.is_owed for name, count in edges.items())

    def _is_alive(self, name: str) -> bool:
        return name == self._name or name in self._seen

    def _view(self, topic: TopicKey, edges: Mapping[str, EndpointCount]) -> TopicSeen:
        told = self._told.get(topic)
        owner, epoch = self._owner(topic)
        if told is not None:
            # As long as the owner is the same, so is the epoch: what else grew in it is of no interest.
            epoch = told.epoch if owner == told.owner else max(epoch, told.epoch + 1)
        owed = tuple(sorted(name for name, count in edges.items() if count.is_owed))
        return TopicSeen(topic, owner, epoch, self._table.offers.get(topic), owed)

    def _owner(self, topic: TopicKey) -> tuple[str, int]:
        """The owner, and since when: since it began, or since the last one that would have come before it has gone.

        Members with the same table find the same epoch, and one that has heard of a later change finds a later one.
        """
        topic_hash = _hash("\0".join(topic))
        won, owner, epoch = max(
            ((_together(topic_hash, hash_), name, incarnation) for name, hash_, incarnation in self._living),
            default=(-1, "", -1),
        )
        if owner:
            gone = (at for hash_, at in self._departed if _together(topic_hash, hash_) > won)
            epoch = max(epoch, max(gone, default=-1))
        return owner, epoch

    def _find_routing_brokers(self) -> None:
        self._living, self._departed = [], []
        for name, state in self._table.members.items():
            member = state.member if name != self._name else self._me
            if member is None or member.role != "routing":
                continue
            if self._is_alive(name):
                if takes_topics(member):
                    self._living.append((name, _hash(name), state.claim.incarnation))
            elif state.claim.health > Health.SUSPECTED:
                self._departed.append((_hash(name), state.claim.at))


def takes_topics(member: Member) -> bool:
    """Whether it is a routing broker, and not about to end."""
    return member.role == "routing" and bool(member.address)


@lru_cache(maxsize=65_536)
def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def _together(one: int, other: int) -> int:
    """A hash of two hashes: the finalizer of SplitMix64."""
    mixed = one ^ other
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return mixed ^ mixed >> 31
