"""A node for tests of coordination: it announces itself, does as it is told, and notes what it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fieldfare.coordination.leading import Leading, LeadingOptions
from fieldfare.messages import (
    Announce,
    AssignTopic,
    EdgeRetired,
    Effect,
    Input,
    LeaderSeen,
    Member,
    MemberGone,
    MemberSeen,
    OfferAnswered,
    Started,
    TopicGone,
    TopicKey,
    TopicSeen,
)


class Do(Input, frozen=True):
    """A test tells the node to do this."""

    effect: Effect


class ScriptedNode:
    """A broker that does nothing but coordinate. A routing broker assigns topics if it `decides`."""

    def __init__(self, member: Member, *, decides: bool = False) -> None:
        self.member = member
        self.told: list[Input] = []
        self.asked: list[AssignTopic] = []
        self.members: dict[str, Member] = {}
        self.topics: dict[TopicKey, TopicSeen] = {}
        self.leader: str | None = None
        self.leading = Leading(member.name, LeadingOptions(grace_seconds=0.2)) if decides else None

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        match message:
            case Started():
                effects.append(Announce(self.member))
            case Do(effect):
                effects.append(effect)
            case _:
                self._note(message)
        if self.leading is not None:
            effects += self.leading.handle(message, now)
            self.asked += [effect for effect in effects if isinstance(effect, AssignTopic)]
        return effects

    def _note(self, message: Input) -> None:
        match message:
            case MemberSeen(member):
                self.members[member.name] = member
            case MemberGone(name):
                del self.members[name]
            case TopicSeen(topic):
                self.topics[topic] = message
            case TopicGone(topic):
                del self.topics[topic]
            case LeaderSeen(name):
                self.leader = name
                if name not in {None, self.member.name} and self.member.role == "routing":
                    self.topics.clear()
            case OfferAnswered() | EdgeRetired():
                pass
            case _:
                return
        self.told.append(message)

    def answers(self) -> dict[int, str | None]:
        return {message.number: message.failure for message in self.told if isinstance(message, OfferAnswered)}

    def owner(self, topic: TopicKey) -> str:
        return self.topics[topic].owner if topic in self.topics else ""


def routing(name: str, *, decides: bool = True) -> ScriptedNode:
    return ScriptedNode(Member(name, "routing", address=f"{name}:1"), decides=decides)


def edge(name: str) -> ScriptedNode:
    return ScriptedNode(Member(name, "edge", address=f"{name}:1", log=f"log of {name}"))


def by_subject(told: Iterable[Input]) -> dict[object, list[Input]]:
    """What a node was told of each subject, in order: of different subjects it may hear in any order."""
    found: dict[object, list[Input]] = {}
    for message in told:
        match message:
            case MemberSeen(member):
                subject: object = member.name
            case MemberGone(name):
                subject = name
            case TopicSeen(topic) | TopicGone(topic):
                subject = topic
            case OfferAnswered(number):
                subject = number
            case _:
                subject = "leader"
        found.setdefault(subject, []).append(message)
    return found
