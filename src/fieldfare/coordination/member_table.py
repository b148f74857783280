"""What a member of a gossip knows: of every member a claim and its facts, and of every topic the offer.

All of it is joined, never overwritten: of two claims about a member the greater stays, of its facts the later, of two
offers the one with the higher version. So members that have heard the same know the same, in whatever order it came.
Facts come in ranges, as events do between logs: a range is taken if it continues what is known, else it is asked for.

To find out quickly whether two tables differ, and where, each is divided into buckets with a hash of what is in them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import msgspec

from fieldfare.coordination.gossip_messages import Claim, Fact, Health, Known, KnownOffer, News, OfferNews
from fieldfare.messages import Member, TopicKey, TopicOffer

BUCKETS = 64
ALL_BUCKETS = 2**BUCKETS - 1
FactKey: TypeAlias = TopicKey | None  # None: of the announcement
_UNKNOWN = Claim(0)
_numbers = struct.Struct(">QBQQQ")


class Joined(NamedTuple):
    """What news has changed."""

    is_claim_new: bool
    changed: frozenset[FactKey]  # the keys of facts that are new, changed or gone
    is_incomplete: bool  # there are more facts than those that are known now

    @property
    def is_new(self) -> bool:
        """Whether anything has changed."""
        return self.is_claim_new or bool(self.changed)


class MemberState:
    """What is known of one member."""

    __slots__ = ("claim", "facts", "hash", "name", "version")

    def __init__(self, name: str) -> None:
        self.name = name
        self.claim = _UNKNOWN
        self.version = 0  # of the latest fact; all before it are known too
        self.facts: dict[FactKey, tuple[int, Fact]] = {}
        self.hash = 0

    @property
    def member(self) -> Member | None:
        """What it announced, if it has."""
        fact = self.facts.get(None)
        return None if fact is None else fact[1].member  # type: ignore[union-attr]  # under None is the announcement

    @property
    def address(self) -> str:
        """Where it takes datagrams; empty: it is not known."""
        fact = self.facts.get(None)
        return "" if fact is None else fact[1].address  # type: ignore[union-attr]

    @property
    def is_owed(self) -> bool:
        """Whether some topic's events have to wait for it."""
        return any(getattr(fact, "is_owed", False) for _, fact in self.facts.values())

    def known(self) -> Known:
        """How much this is."""
        return Known(self.name, self.claim, self.version)

    def join(self, news: News) -> Joined:
        """Take what is newer."""
        changed: frozenset[FactKey] = frozenset()
        is_claim_new = news.claim > self.claim
        if is_claim_new:
            if news.claim.life != self.claim.life or news.claim.health is Health.RETIRED:
                changed, self.facts, self.version = frozenset(self.facts), {}, 0
            self.claim = news.claim
        if news.claim.life != self.claim.life or self.claim.health is Health.RETIRED:
            return Joined(is_claim_new, changed, is_incomplete=False)
        if news.after <= self.version < news.upto:
            later = {fact.topic: (version, fact) for version, fact in news.facts if version > self.version}
            self.facts.update(later)
            self.version = news.upto
            changed |= later.keys()
        return Joined(is_claim_new, changed, is_incomplete=self.version < max(news.upto, news.latest))

    def say(self, *facts: Fact) -> None:
        """Of oneself: something is new."""
        for fact in facts:
            self.version += 1
            self.facts[fact.topic] = (self.version, fact)

    def begin_life(self, stamp: int, facts: Iterable[Fact]) -> None:
        """Of oneself: others know an earlier life; this is another one, with facts of its own."""
        self.claim = Claim(stamp, life=stamp)
        self.version, self.facts = 0, {}
        self.say(*facts)

    def drop(self) -> list[TopicKey]:
        """Forget its facts; of which topics they were."""
        topics = [topic for topic in self.facts if topic is not None]
        self.facts, self.version = {}, 0
        return topics

    def facts_after(self, version: int) -> list[tuple[int, Fact]]:
        """What is later than this, in order."""
        if version >= self.version:
            return []
        return sorted((fact for fact in self.facts.values() if fact[0] > version), key=itemgetter(0))


class MemberTable:
    """Members and offers by their names. Whoever changes a state itself calls `rehash`."""

    def __init__(self, members_max: int, topics_max: int) -> None:
        self.members: dict[str, MemberState] = {}
        self.offers: dict[TopicKey, TopicOffer] = {}
        self.hash = 0
        self.refused_count = 0  # news for which there was no place
        self._members_max, self._topics_max = members_max, topics_max
        self._buckets = [_Bucket() for _ in range(BUCKETS)]
        self._offer_hashes: dict[TopicKey, int] = {}

    # Members

    @property
    def has_room(self) -> bool:
        """Whether one more member has a place."""
        return len(self.members) < self._members_max

    def add(self, name: str) -> MemberState:
        """Make a place for a member."""
        state = self.members[name] = MemberState(name)
        self._bucket(name).members[name] = None
        return state

    def join(self, news: News) -> Joined | None:
        """Take what is newer about a member; None: that is too much."""
        state = self.members.get(news.name) or self.add(news.name)
        if len(state.facts) + len(news.facts) > 2 * self._topics_max:  # its own limit is topics_max
            self.refused_count += 1
            return None
        joined = state.join(news)
        if joined.is_new:
            self.rehash(state)
        return joined

    def rehash(self, state: MemberState) -> None:
        """A state has changed."""
        claim = state.claim
        numbers = _numbers.pack(claim.incarnation, claim.health, claim.at, claim.life, state.version)
        self._replace(self._bucket(state.name), state.hash, new := _hash(state.name.encode() + numbers))
        state.hash = new

    def forget(self, name: str) -> None:
        """Know nothing of a member any more."""
        state, bucket = self.members.pop(name), self._bucket(name)
        del bucket.members[name]
        self._replace(bucket, state.hash, 0)

    # Offers

    def join_offer(self, news: OfferNews) -> bool:
        """Take an offer if it is newer; whether it was."""
        topic, offer = news.topic, news.offer
        known = self.offers.get(topic)
        if known is not None and _rank(known) >= _rank(offer):
            return False
        if known is None and len(self.offers) >= self._topics_max:
            self.refused_count += 1
            return False
        self.offers[topic] = offer
        bucket = self._bucket("\0".join(topic))
        bucket.offers[topic] = None
        self._replace(bucket, self._offer_hashes.get(topic, 0), new := _hash_of_offer(topic, offer))
        self._offer_hashes[topic] = new
        return True

    # Comparing with another table

    @property
    def hashes(self) -> list[int]:
        """Of every bucket."""
        return [bucket.hash for bucket in self._buckets]

    def known(self, buckets: int) -> Iterator[Known]:
        """How much is known of the members in some buckets, given as bits."""
        return (self.members[name].known() for bucket in self._in(buckets) for name in bucket.members)

    def known_offers(self, buckets: int) -> Iterator[KnownOffer]:
        """Which offers are known in some buckets."""
        return (self.known_offer(topic) for bucket in self._in(buckets) for topic in bucket.offers)

    def known_offer(self, topic: TopicKey) -> KnownOffer:
        """Which offer of a topic is known."""
        return KnownOffer(topic, self.offers[topic].version, self._offer_hashes[topic])

    def compare(self, buckets: int, known: Iterable[Known]) -> tuple[list[tuple[MemberState, int]], list[Known]]:
        """What others lack, each with the version after which they do, and what is lacking here."""
        theirs = {each.name: each for each in known}
        absent = (name for bucket in self._in(buckets) for name in bucket.members if name not in theirs)
        newer, older = [(self.members[name], 0) for name in absent], []
        for name, each in theirs.items():
            state = self.members.get(name)
            if state is None:
                older += [Known(name)] if each.claim is not None else []
                continue
            claim, version = each.claim or _UNKNOWN, each.version
            if claim.life != state.claim.life:
                version = 0
            if state.claim > claim or (state.claim.life == claim.life and state.version > version):
                newer.append((state, version))
            is_final = state.claim.health is Health.RETIRED
            if claim > state.claim or (claim.life == state.claim.life and version > state.version and not is_final):
                older.append(state.known())
        return newer, older

    def compare_offers(self, buckets: int, known: Iterable[KnownOffer]) -> tuple[list[OfferNews], list[KnownOffer]]:
        """The offers that others lack, and those that are lacking here."""
        theirs = {each.topic: each for each in known}
        absent = (topic for bucket in self._in(buckets) for topic in bucket.offers if topic not in theirs)
        newer, older = [OfferNews(topic, self.offers[topic]) for topic in absent], []
        for topic, each in theirs.items():
            offer = self.offers.get(topic)
            if offer is None:
                older += [KnownOffer(topic, -1, 0)] if each.version >= 0 else []
            elif each.hash != self._offer_hashes[topic]:
                if offer.version >= each.version:
                    newer.append(OfferNews(topic, offer))
                if offer.version <= each.version:
                    older.append(self.known_offer(topic))
        return newer, older

    # Buckets

    def _in(self, buckets: int) -> Iterator[_Bucket]:
        return (bucket for number, bucket in enumerate(self._buckets) if buckets >> number & 1)

    def _bucket(self, key: str) -> _Bucket:
        return self._buckets[_hash(key.encode()) % BUCKETS]

    def _replace(self, bucket: _Bucket, old: int, new: int) -> None:
        bucket.hash = (bucket.hash - old + new) % 2**64
        self.hash = (self.hash - old + new) % 2**64


class _Bucket:
    __slots__ = ("hash", "members", "offers")

    def __init__(self) -> None:
        self.hash = 0
        self.members: dict[str, None] = {}
        self.offers: dict[TopicKey, None] = {}


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def _rank(offer: TopicOffer) -> tuple[int, bytes]:
    """Of two offers the one with the higher version wins; of two with the same, any, as long as all agree."""
    return offer.version, msgspec.json.encode(offer)


def _hash_of_offer(topic: TopicKey, offer: TopicOffer) -> int:
    return _hash("\0".join(topic).encode() + msgspec.json.encode(offer))
