"""Which routing broker gets which topic: PubSubCoord section 2.3, and what its section 2.4 leaves to an operator.

Pure functions of who lives and who owns what: the same question has the same answer, at whichever broker leads. A topic
without a living owner goes to the least loaded broker. When brokers come, as few topics move as even the loads out, and
only if that is worth the interruption. What "load" means is a strategy: the number of topics, or what brokers measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from fieldfare.messages import AssignTopic, Member, TopicSeen

Verdict: TypeAlias = Literal["more", "fewer", "enough"]


class LoadStrategy(Protocol):
    """What the load of a routing broker is, in any unit."""

    def loads(self, members: Sequence[Member], topic_counts: Mapping[str, int]) -> dict[str, float]:
        """The load of each broker, by name, given how many topics each has."""
        ...

    def topic_load(self, members: Sequence[Member], topic_counts: Mapping[str, int]) -> float:
        """What one more topic adds to a broker's load, on average."""
        ...


class ByTopicCount:
    """The load is the number of topics, as in the paper."""

    def loads(self, members: Sequence[Member], topic_counts: Mapping[str, int]) -> dict[str, float]:
        """How many topics each has."""
        return {member.name: float(topic_counts[member.name]) for member in members}

    def topic_load(self, _members: Sequence[Member], _topic_counts: Mapping[str, int]) -> float:
        """One."""
        return 1.0


class ByMeasuredLoad:
    """The load is the share of its time in which a broker is busy, as it announces it."""

    def loads(self, members: Sequence[Member], _topic_counts: Mapping[str, int]) -> dict[str, float]:
        """What each has announced."""
        return {member.name: member.load for member in members}

    def topic_load(self, members: Sequence[Member], topic_counts: Mapping[str, int]) -> float:
        """All that was measured, divided by all topics; a little where nothing was, so that topics still spread."""
        total = sum(member.load for member in members)
        return max(total / max(1, sum(topic_counts.values())), 1e-6)


@dataclass(frozen=True, slots=True)
class Worth:
    """How large the gap between the most and the least loaded broker is at least before topics move."""

    topics_min: float = 2.0  # in topics: a gap of one cannot be closed
    share_min: float = 0.2  # and as a share of the mean load


BY_TOPIC_COUNT = ByTopicCount()
WORTH = Worth()


def assignments(
    members: Iterable[Member],
    topics: Iterable[TopicSeen],
    strategy: LoadStrategy = BY_TOPIC_COUNT,
    keeping: Collection[str] = (),
) -> list[AssignTopic]:
    """An owner for each topic that has none, or one that is neither a member nor among those that keep theirs."""
    plan = _Plan(members, topics, strategy)
    for seen in plan.unowned(keeping):
        plan.give(seen)
    return plan.effects


def rebalancing(
    members: Iterable[Member],
    topics: Iterable[TopicSeen],
    strategy: LoadStrategy = BY_TOPIC_COUNT,
    worth: Worth = WORTH,
) -> list[AssignTopic]:
    """The fewest moves after which no broker has more than one topic's load more than another; none if not worth it."""
    plan = _Plan(members, topics, strategy)
    if plan.is_worth_moving(worth):
        while plan.move_one():
            pass
    return plan.effects


class _Plan:
    """Loads and topics of the living brokers, as they would be with the assignments made so far."""

    def __init__(self, members: Iterable[Member], topics: Iterable[TopicSeen], strategy: LoadStrategy) -> None:
        living = sorted((member for member in members if member.role == "routing"), key=lambda member: member.name)
        self.effects: list[AssignTopic] = []
        self._topics = sorted(topics, key=lambda seen: seen.topic)
        self._owned: dict[str, list[TopicSeen]] = {member.name: [] for member in living}
        for seen in sorted(self._topics, key=lambda seen: (seen.epoch, seen.topic)):
            if seen.owner in self._owned:
                self._owned[seen.owner].append(seen)
        counts = {name: len(owned) for name, owned in self._owned.items()}
        self._loads = strategy.loads(living, counts)
        self._topic_load = strategy.topic_load(living, counts)

    def unowned(self, keeping: Collection[str]) -> list[TopicSeen]:
        return [seen for seen in self._topics if seen.owner not in self._owned and seen.owner not in keeping]

    def give(self, seen: TopicSeen) -> None:
        """To the least loaded; of several, the first by name."""
        if self._loads:
            owner = min(self._loads, key=lambda name: (self._loads[name], name))
            self._loads[owner] += self._topic_load
            self.effects.append(AssignTopic(seen.topic, owner, seen.epoch))

    def is_worth_moving(self, worth: Worth) -> bool:
        if len(self._loads) < 2:
            return False
        loads = self._loads.values()
        gap, mean = max(loads) - min(loads), sum(loads) / len(loads)
        return gap >= worth.topics_min * self._topic_load and gap >= worth.share_min * mean

    def move_one(self) -> bool:
        """Move the topic that the most loaded broker got last to the least loaded; False if that evens nothing out."""
        most = max(self._owned, key=lambda name: (self._loads[name] if self._owned[name] else -math.inf, name))
        least = min(self._loads, key=lambda name: (self._loads[name], name))
        # A small tolerance, as loads are sums of floats: a gap of one topic is even.
        if not self._owned[most] or self._loads[most] - self._loads[least] <= self._topic_load * 1.001:
            return False
        self._loads[most] -= self._topic_load
        self.give(self._owned[most].pop())
        return True


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether there are enough routing brokers."""

    verdict: Verdict
    brokers: int  # how many there should be
    reason: str


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """How busy routing brokers may be on average."""

    high: float = 0.7  # above it there should be more
    wanted: float = 0.5  # what there should be after a change


LOAD_LIMITS = LoadLimits()


def advise(members: Iterable[Member], limits: LoadLimits = LOAD_LIMITS) -> Advice:
    """Whether more or fewer routing brokers are needed, from the loads that they measured."""
    loads = [member.load for member in members if member.role == "routing"]
    if not loads:
        return Advice("more", 1, "there is no routing broker")
    count, total = len(loads), sum(loads)
    wanted = max(1, math.ceil(total / limits.wanted - 1e-9))
    busy = f"{count} routing {'broker is' if count == 1 else 'brokers are'} busy for {total / count:.0%} of the time"
    if total / count > limits.high:
        return Advice("more", wanted, f"{busy}: {wanted} would be for {total / wanted:.0%}")
    if wanted < count:
        return Advice("fewer", wanted, f"{busy}: {wanted} would be for {total / wanted:.0%}")
    return Advice("enough", count, busy)
