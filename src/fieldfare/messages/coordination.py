"""How a broker finds the others: what it tells its coordination, and what it is told.

Coordination is ZooKeeper or gossip; a broker cannot tell which. It learns who lives, which routing broker owns each
topic, and who leads. Nothing here has to be right for events to be safe: a broker that is told something old or wrong
sends events the wrong way, and they come again by the right one.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from fieldfare.messages.effects import Effect
from fieldfare.messages.inputs import Input
from fieldfare.messages.streams import TopicKey
from fieldfare.qos import Matching, Offered

Role: TypeAlias = Literal["edge", "routing", "tree"]


class Member(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """A broker that lives."""

    name: str
    role: Role
    address: str = ""  # where brokers dial it; empty: nobody can
    url: str = ""  # of an edge: where clients connect
    log: str = ""  # of an edge: the id of its log
    network: str = ""  # of an edge: the network that it serves; several edges may serve one
    load: float = 0.0  # the share of its time in which it is busy, or of its places for clients that are taken
    topic_count: int = 0  # of a routing broker: those for which edges have joined
    behind: int = 0  # of an edge: positions of its log that the edge furthest behind has not taken, at most


class TopicOffer(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """What a topic offers at every edge. A change names the version that it replaces, or is refused."""

    offered: Offered
    matching: Matching = "edge"
    home: str = ""  # where Spark matches it: the name of the edge that has the pipeline
    version: int = 0


# What a broker asks for


class Announce(Effect, frozen=True):
    """Tell the others about me for as long as I live. Announcing again replaces what they know."""

    member: Member


class CountEndpoints(Effect, frozen=True):
    """So many publishers and subscribers of a topic are at this edge. The topic gets an owner while there are any."""

    topic: TopicKey
    publishers: int
    subscribers: int
    is_owed: bool = False  # events have to wait for this edge while it is away: it has durable subscriptions


class OfferTopic(Effect, frozen=True):
    """Change what a topic offers, if its offer has the version before this one; answered by OfferAnswered."""

    number: int
    topic: TopicKey
    offer: TopicOffer


class AssignTopic(Effect, frozen=True):
    """As the leader, give a topic to a routing broker, if nobody has done so since this epoch. Not answered.

    Whether it took place is seen by TopicSeen.
    """

    topic: TopicKey
    owner: str
    since_epoch: int


class AdvertiseTopic(Effect, frozen=True):
    """All that publishers here say they will publish in a topic; answered by TopicAdvertised when it is known.

    Only where `OverlayOptions.tells_advertisements` says so. Advertising again replaces what was said before.
    """

    number: int
    topic: TopicKey
    advertised: bytes  # an encoded fieldfare.overlay.covering.Covering


# What a broker is told


class MemberSeen(Input, frozen=True):
    """A broker is there, or has changed what it says of itself."""

    member: Member


class MemberGone(Input, frozen=True):
    """A broker seems to be gone."""

    name: str


class TopicSeen(Input, frozen=True):
    """What is known of a topic: an edge is told of those that it has endpoints of, the leader of all."""

    topic: TopicKey
    owner: str = ""  # the routing broker that connects the edges of this topic; empty: none yet
    epoch: int = -1  # grows with every assignment
    offer: TopicOffer | None = None
    owed: tuple[str, ...] = ()  # edges with durable subscriptions, by name; they may be away


class TopicGone(Input, frozen=True):
    """No edge has endpoints of a topic any more."""

    topic: TopicKey


class LeaderSeen(Input, frozen=True):
    """Who leads the routing brokers; None: nobody, or it is not known now."""

    name: str | None


class TopicAdvertised(Input, frozen=True):
    """Whoever may want what is advertised knows of it."""

    number: int


class EdgeRetired(Input, frozen=True):
    """Somebody said by hand that an edge will not come back: nobody waits for what is in its log."""

    name: str


class OfferAnswered(Input, frozen=True):
    """A topic's offer was changed; or it was not, and why."""

    number: int
    failure: str | None = None
