"""Where things stand in ZooKeeper, as in Figure 2 of the PubSubCoord paper, and how they are written there.

brokers/NAME              ephemeral: a Member in JSON
leader/NAME-0000000007    ephemeral, sequential: a routing broker that would lead; the lowest number leads
topics/TENANT:TOPIC       persistent, as are the four below it
    owner                 the name of the routing broker; its epoch is the transaction that wrote it last
    offer                 a TopicOffer in JSON; the znode's version is one more than the offer's
    endpoints/EDGE        ephemeral: how many publishers and subscribers of the topic an edge has
    owed/EDGE             persistent: an edge with durable subscriptions; the id of its log
retired/EDGE              persistent: somebody said by hand that an edge will not come back; if it does, it removes it
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from fieldfare.coordination.zookeeper.znodes import CreateZnode, Znode
from fieldfare.messages import Member, TopicKey, TopicOffer

Part: TypeAlias = Literal["owner", "offer", "endpoints", "owed"]
PARTS: tuple[Part, ...] = ("owner", "offer", "endpoints", "owed")
_SEQUENCE_DIGITS = 10
_ROOT = re.compile(r"(/[^/\x00-\x20]+)*")


class EndpointCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many endpoints of a topic are at an edge."""

    publishers: int = 0
    subscribers: int = 0


class Tree:
    """The paths below a root, which is empty or begins with a slash."""

    def __init__(self, root: str = "") -> None:
        if not _ROOT.fullmatch(root):
            raise ValueError(f"{root!r} is no path of ZooKeeper: it begins with '/' and does not end with it")
        self.root = root
        self.brokers, self.leader, self.topics = f"{root}/brokers", f"{root}/leader", f"{root}/topics"
        self.retired = f"{root}/retired"

    def broker(self, name: str) -> str:
        """The znode of a broker."""
        return f"{self.brokers}/{znode_name(name)}"

    def candidate(self, name: str) -> str:
        """The znode of a routing broker that would lead, up to its number."""
        return f"{self.leader}/{znode_name(name)}-"

    def retired_edge(self, name: str) -> str:
        """The record that an edge will not come back."""
        return f"{self.retired}/{znode_name(name)}"

    def topic(self, topic: TopicKey) -> str:
        """The znode of a topic."""
        return f"{self.topics}/{topic_znode_name(topic)}"

    def part(self, topic: TopicKey, part: Part) -> str:
        """A part of a topic."""
        return f"{self.topic(topic)}/{part}"

    def endpoints(self, topic: TopicKey, edge: str) -> str:
        """The count of an edge's endpoints."""
        return f"{self.part(topic, 'endpoints')}/{znode_name(edge)}"

    def owed(self, topic: TopicKey, edge: str) -> str:
        """The record that an edge is owed a topic's events."""
        return f"{self.part(topic, 'owed')}/{znode_name(edge)}"

    def new_topic(self, topic: TopicKey) -> tuple[CreateZnode, ...]:
        """Create a topic with all its parts. In one transaction with what it is for, or the leader removes it again."""
        return (CreateZnode(self.topic(topic)), *(CreateZnode(self.part(topic, part)) for part in PARTS))


def znode_name(name: str) -> str:
    """A name as a part of a path: ZooKeeper allows neither slashes nor a single dot there."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted.strip(".") == "" else quoted


def name_of(znode: str) -> str:
    """The name that `znode_name` made a part of a path of."""
    return unquote(znode)


def topic_znode_name(topic: TopicKey) -> str:
    """A topic as a part of a path."""
    return f"{quote(topic[0], safe='')}:{quote(topic[1], safe='')}"


def topic_of(znode: str) -> TopicKey | None:
    """The topic that `topic_znode_name` made a part of a path of; None: it is none of ours."""
    tenant, colon, topic = znode.partition(":")
    return (unquote(tenant), unquote(topic)) if colon else None


def sequence_of(candidate: str) -> tuple[int, str]:
    """The number and the name of a routing broker that would lead."""
    name, _, number = candidate.rpartition("-")
    return (int(number) if number.isdecimal() and len(number) == _SEQUENCE_DIGITS else 2**63), name_of(name)


def is_candidate(child: str) -> bool:
    """Whether a child of `leader` stands for a routing broker."""
    return sequence_of(child)[0] < 2**63


encode = msgspec.json.encode
_member = msgspec.json.Decoder(Member)
_offer = msgspec.json.Decoder(TopicOffer)
_counts = msgspec.json.Decoder(EndpointCounts)


def decode_member(data: bytes) -> Member | None:
    """The broker that a znode tells of; None if it is none, or of a release that we do not understand."""
    try:
        return _member.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def decode_offer(znode: Znode) -> TopicOffer | None:
    """What a topic offers; None: nothing yet."""
    try:
        offer = _offer.decode(znode.data) if znode.data else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return None if offer is None else msgspec.structs.replace(offer, version=znode.version - 1)


def decode_counts(data: bytes) -> EndpointCounts:
    """How many endpoints an edge has."""
    try:
        return _counts.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return EndpointCounts()


def decode_owner(znode: Znode) -> tuple[str, int]:
    """The owner of a topic and its epoch; an empty name and -1: it has none yet."""
    owner = znode.data.decode(errors="replace")
    return (owner, znode.transaction) if owner else ("", -1)
