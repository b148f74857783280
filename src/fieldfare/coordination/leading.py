"""What the leader of the routing brokers does: it gives topics to brokers, as `assignment` decides.

A part that a routing broker's node embeds: it is fed what coordination tells, and returns what to do. While another one
leads, or nobody knows who does, it does nothing but remember the brokers. It forgets the topics when it hears of
another leader, as coordination does; it keeps them while the leader is not known.

A broker that announces itself without an address takes no topics and its topics move at once: so it leaves without a
pause, by announcing that and serving on until edges have gone over. One that disappears keeps them for a short time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from fieldfare.coordination.assignment import (
    BY_TOPIC_COUNT,
    Advice,
    LoadStrategy,
    Worth,
    advise,
    assignments,
    rebalancing,
)
from fieldfare.messages import (
    AssignTopic,
    Effect,
    Input,
    LeaderSeen,
    Member,
    MemberGone,
    MemberSeen,
    SetTimer,
    TimerDue,
    TopicGone,
    TopicKey,
    TopicSeen,
)


class LeadingTimer(msgspec.Struct, frozen=True):
    """The key of the leader's timer."""


@dataclass(frozen=True, slots=True)
class LeadingOptions:
    """When the leader acts."""

    strategy: LoadStrategy = BY_TOPIC_COUNT
    worth: Worth = field(default_factory=Worth)
    gather_seconds: float = 0.02  # what comes in this time is decided together
    settle_seconds: float = 0.5  # a new leader first hears what there is
    grace_seconds: float = 1.0  # a broker that disappeared may come back
    retry_seconds: float = 2.0  # for an assignment to be seen; then it is made again, if it is still needed
    rebalance_seconds: float = 10.0  # from one look at the balance to the next


_DEFAULT_OPTIONS = LeadingOptions()


@dataclass(frozen=True, slots=True)
class _Pending:
    effect: AssignTopic
    retry_at: float


class Leading:
    """The leading of one routing broker, by its name."""

    def __init__(self, name: str, options: LeadingOptions = _DEFAULT_OPTIONS) -> None:
        self.leads = False
        self._name, self._options = name, options
        self._members: dict[str, Member] = {}
        self._gone: dict[str, float] = {}  # brokers that disappeared, and when their topics are given to others
        self._topics: dict[TopicKey, TopicSeen] = {}
        self._pending: dict[TopicKey, _Pending] = {}
        self._decide_at: float | None = None
        self._settled_at = self._rebalance_at = 0.0

    @property
    def advice(self) -> Advice:
        """Whether more or fewer routing brokers are needed."""
        return advise(self._members.values())

    @property
    def able(self) -> list[Member]:
        """The routing brokers that can be given topics."""
        return [member for member in self._members.values() if member.address]

    def waits(self) -> list[str]:
        """What it waits for, for people who look at a run that failed."""
        pending = [f"{pending.effect!r} is not seen yet" for pending in self._pending.values()]
        return [*pending, *(f"{name!r} may come back until {at:.3f}" for name, at in self._gone.items())]

    def handle(self, message: Input, now: float) -> list[Effect]:
        """What to do about something that coordination tells, or that its timer is due; others are ignored."""
        match message:
            case MemberSeen(member) if member.role == "routing":
                return self._member_seen(member, now)
            case MemberGone(name) if name in self._members:
                del self._members[name]
                self._gone[name] = now + self._options.grace_seconds
                return self._decide_by(self._gone[name])
            case TopicSeen(topic, epoch=epoch):
                self._topics[topic] = message
                pending = self._pending.get(topic)
                if pending is not None and epoch != pending.effect.since_epoch:
                    del self._pending[topic]
                return self._decide_soon(now)
            case TopicGone(topic):
                self._topics.pop(topic, None)
                self._pending.pop(topic, None)
            case LeaderSeen(name):
                return self._leader_seen(name, now)
            case TimerDue(LeadingTimer()):
                return self._decide(now)
        return []

    def _member_seen(self, member: Member, now: float) -> list[Effect]:
        is_new = member.name not in self._members or not self._members[member.name].address
        self._members[member.name] = member
        self._gone.pop(member.name, None)
        if is_new:
            self._rebalance_at = min(self._rebalance_at, now + self._options.settle_seconds)
        return self._decide_soon(now)

    def _leader_seen(self, name: str | None, now: float) -> list[Effect]:
        self.leads = name == self._name
        self._pending.clear()
        if name is not None and not self.leads:
            self._topics.clear()
        if not self.leads:
            self._decide_at = None
            return []
        self._settled_at = self._rebalance_at = now + self._options.settle_seconds
        return self._decide_by(self._settled_at)

    def _decide_soon(self, now: float) -> list[Effect]:
        return self._decide_by(now + self._options.gather_seconds)

    def _decide_by(self, at: float) -> list[Effect]:
        at = max(at, self._settled_at)
        if not self.leads or (self._decide_at is not None and self._decide_at <= at):
            return []
        self._decide_at = at
        return [SetTimer(LeadingTimer(), at)]

    def _decide(self, now: float) -> list[Effect]:
        if not self.leads or self._decide_at is None:
            return []
        self._decide_at = None
        self._gone = {name: at for name, at in self._gone.items() if at > now}
        self._pending = {topic: pending for topic, pending in self._pending.items() if pending.retry_at > now}
        able = self.able
        effects = assignments(able, self._expected(), self._options.strategy, keeping=self._gone)
        self._note(effects, now)
        if now >= self._rebalance_at and not self._gone:
            self._rebalance_at = now + self._options.rebalance_seconds
            moves = rebalancing(able, self._expected(), self._options.strategy, self._options.worth)
            moves = [move for move in moves if move.topic not in self._pending]
            self._note(moves, now)
            effects += moves
        dues = [*self._gone.values(), *(pending.retry_at for pending in self._pending.values())]
        if not self._gone:
            dues.append(self._rebalance_at)
        return [*effects, *self._decide_by(min(dues))]

    def _note(self, effects: list[AssignTopic], now: float) -> None:
        for effect in effects:
            self._pending[effect.topic] = _Pending(effect, now + self._options.retry_seconds)

    def _expected(self) -> list[TopicSeen]:
        """The topics with the owners that they have when all assignments that were made are seen."""
        return [
            msgspec.structs.replace(seen, owner=self._pending[topic].effect.owner) if topic in self._pending else seen
            for topic, seen in self._topics.items()
        ]
