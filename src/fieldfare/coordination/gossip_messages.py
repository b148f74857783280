"""What members of a gossip send to each other, in datagrams of about 1,200 bytes.

Each member says something about itself: *facts*, numbered by versions that only it hands out. Others claim something
about its life: that it is alive, suspected, dead. `News` carries both about one member. Everything else serves to find
out who lacks which news, and who does not answer.

What a member knows is a join of what it heard: it does not matter in which order, how often, or over whom news comes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.messages import Input, Member, PacketCodec, Text, TopicKey, TopicOffer

# Milliseconds since 1970 times 1,024, plus a random number or a count: grows with every claim that depends on another.
Stamp: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Hash: TypeAlias = Annotated[int, Meta(ge=0)]  # of 64 bits


class _Part(msgspec.Struct, frozen=True, gc=False, array_like=True):
    pass


# About a member


class Health(IntEnum):
    """What is claimed of a member. Of one incarnation the later of these is believed."""

    ALIVE = 0
    SUSPECTED = 1  # somebody had no answer from it
    DEAD = 2  # it was suspected for so long that it would have objected
    LEFT = 3  # it said goodbye
    RETIRED = 4  # somebody said by hand that it will not come back: nothing is owed to it any more


class Claim(_Part, frozen=True, order=True):
    """What is claimed of a member's life. Of two claims the greater is believed; only the member itself can top it.

    A *life* is a process from its start to its end; it has as many *incarnations* as it had to object to claims.
    """

    incarnation: Stamp
    health: Health = Health.ALIVE
    at: Stamp = 0  # of those that do not live: when it was first claimed
    life: Stamp = 0  # the incarnation in which its process began


class Announcement(_Part, frozen=True, tag=0):
    """Who a member is, and where it takes datagrams."""

    address: str
    member: Member | None = None  # None: its broker has not announced itself yet

    @property
    def topic(self) -> None:
        """A member has one announcement, not one for each topic."""
        return


class EndpointCount(_Part, frozen=True, tag=1):
    """How many endpoints of a topic are at an edge: those of CountEndpoints, to about 10%."""

    topic: TopicKey
    publishers: Count
    subscribers: Count
    is_owed: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there are none, and none are owed anything."""
        return not (self.publishers or self.subscribers or self.is_owed)


Fact: TypeAlias = Announcement | EndpointCount


class News(_Part, frozen=True):
    """What somebody knows of a member: a claim, and the member's facts after one version and up to another."""

    name: Text
    claim: Claim
    after: Count = 0
    upto: Count = 0
    facts: list[tuple[Count, Fact]] = []  # with their versions, in their order
    latest: Count = 0  # the sender has facts up to this version; ask for those that are missing


class OfferNews(_Part, frozen=True):
    """What a topic offers."""

    topic: TopicKey
    offer: TopicOffer


class Known(_Part, frozen=True):
    """How much somebody knows of a member. No claim: nothing."""

    name: Text
    claim: Claim | None = None
    version: Count = 0


class KnownOffer(_Part, frozen=True):
    """Which offer of a topic somebody knows."""

    topic: TopicKey
    version: int
    hash: Hash


# Messages


class GossipMessage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is in a datagram. `sender` is a member's name."""

    sender: Text


class Tell(GossipMessage, frozen=True, tag=0):
    """News. With a hash of all that the sender knows: whoever knows something else compares notes."""

    news: list[News] = []
    offers: list[OfferNews] = []
    hash: Hash = 0  # 0: do not compare
    receiver_address: str = ""  # where this was sent, for a receiver that does not know its own address


class Compare(GossipMessage, frozen=True, tag=1):
    """Hashes of the parts of what the sender knows: answer with a Digest of those that differ."""

    hashes: list[Hash]


class Digest(GossipMessage, frozen=True, tag=2):
    """How much the sender knows: answer with what is newer, and ask for what is older."""

    buckets: Hash  # bits: of these parts the lists are complete; none: they ask about what they name
    members: list[Known] = []
    offers: list[KnownOffer] = []


class Ping(GossipMessage, frozen=True, tag=3):
    """Answer with Pong, if this is your name."""

    name: Text
    number: Count


class Pong(GossipMessage, frozen=True, tag=4):
    """The answer to a Ping, directly or over somebody who was asked to ping."""

    number: Count


class PingFor(GossipMessage, frozen=True, tag=5):
    """Ping this member for me, and pass its Pong on."""

    name: Text
    address: str
    number: Count


AnyGossipMessage: TypeAlias = Tell | Compare | Digest | Ping | Pong | PingFor


def gossip_codec(secret: bytes | None = None) -> PacketCodec[AnyGossipMessage]:
    """How gossip becomes datagrams; with a secret only those who have it are heard."""
    return PacketCodec(AnyGossipMessage, secret)


# Timers, and what an operator says


class RoundDue(msgspec.Struct, frozen=True):
    """The key of the timer of rounds."""


class PongDue(msgspec.Struct, frozen=True):
    """The key of the timer by which a Ping has to be answered."""


class RetireBroker(Input, frozen=True):
    """By hand: this broker will not come back, and nothing is owed to it. If it lives after all, it returns."""

    name: str


class Depart(Input, frozen=True):
    """The broker stops soon: say goodbye for it, so that nobody has to find out."""
