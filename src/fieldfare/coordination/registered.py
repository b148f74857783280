"""What coordination knows, for people: who is there, who owns which topic, who is owed events. For commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fieldfare.coordination.zookeeper.tree import EndpointCounts
from fieldfare.messages import Member, TopicKey, TopicOffer


@dataclass(frozen=True, slots=True)
class RegisteredTopic:
    """What is known of a topic."""

    topic: TopicKey
    owner: str  # empty: none yet
    epoch: int  # -1: none yet
    offer: TopicOffer | None
    endpoints: Mapping[str, EndpointCounts]  # by edge
    owed: Mapping[str, str]  # the edges with durable subscriptions, and the ids of their logs


@dataclass(frozen=True, slots=True)
class Registered:
    """All that is known at one moment."""

    members: tuple[Member, ...]
    leader: str | None
    topics: tuple[RegisteredTopic, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The edges that are owed events and are not there."""
        there = {member.name for member in self.members}
        return tuple(sorted({edge for topic in self.topics for edge in topic.owed} - there))
