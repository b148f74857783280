"""When the leader assigns topics, and when it does not."""

from __future__ import annotations

from fieldfare.coordination.leading import Leading, LeadingOptions, LeadingTimer
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
    TopicSeen,
)

T = ("default", "traffic")


class Clocked:
    """A Leading whose timers ring, and which sees its own assignments if they are to take place."""

    def __init__(self, *members: str, options: LeadingOptions | None = None) -> None:
        self.now, self.rings_at = 100.0, None
        self.epoch = 0
        self.takes_place = True
        self.assigned: list[AssignTopic] = []
        self.leading = Leading("r1", options or LeadingOptions())
        for name in members:
            self.tell(MemberSeen(Member(name, "routing", address=f"{name}:1")))

    rings_at: float | None

    def tell(self, *messages: Input) -> None:
        for message in messages:
            self._perform(self.leading.handle(message, self.now))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.rings_at = effect.at
            elif isinstance(effect, AssignTopic):
                self.assigned.append(effect)
        for effect in effects:
            if isinstance(effect, AssignTopic) and self.takes_place:
                self.epoch += 1
                self.tell(TopicSeen(effect.topic, effect.owner, self.epoch))

    def run(self, seconds: float) -> list[AssignTopic]:
        """Let time pass; what was assigned meanwhile."""
        end, self.assigned = self.now + seconds, []
        while self.rings_at is not None and self.rings_at <= end:
            self.now, self.rings_at = max(self.now, self.rings_at), None
            self.tell(TimerDue(LeadingTimer()))
        self.now = end
        return self.assigned

    def lead(self, *topics: TopicSeen) -> None:
        self.tell(LeaderSeen("r1"), *topics)
        self.run(1.0)


def test_the_leader_gives_topics_out_and_others_do_not() -> None:
    clocked = Clocked("r1", "r2")
    clocked.tell(LeaderSeen("r2"), TopicSeen(T))
    assert clocked.run(60.0) == []
    clocked.tell(LeaderSeen("r1"), TopicSeen(T))
    assert clocked.run(60.0) == [AssignTopic(T, "r1", -1)]
    clocked.tell(TopicSeen(("default", "other")))
    assert clocked.run(60.0) == [AssignTopic(("default", "other"), "r2", -1)]


def test_a_broker_that_disappears_has_a_short_grace() -> None:
    clocked = Clocked("r1", "r2")
    clocked.lead(TopicSeen(T, "r2", 7))
    clocked.tell(MemberGone("r2"))
    assert clocked.run(0.9) == []
    clocked.tell(MemberSeen(Member("r2", "routing", address="r2:1")))
    assert clocked.run(60.0) == []
    clocked.tell(MemberGone("r2"), TopicSeen(("default", "new")))
    assert clocked.run(0.9) == [AssignTopic(("default", "new"), "r1", -1)]
    assert clocked.run(0.2) == [AssignTopic(T, "r1", 7)]


def test_a_broker_that_is_leaving_gets_nothing_and_gives_all_away_at_once() -> None:
    clocked = Clocked("r1", "r2")
    clocked.lead(TopicSeen(T, "r2", 7))
    clocked.tell(MemberSeen(Member("r2", "routing", address="")))
    assert clocked.run(0.1) == [AssignTopic(T, "r1", 7)]


def test_a_leader_that_is_not_known_stops_and_goes_on_with_the_topics_it_knew() -> None:
    clocked = Clocked("r1", "r2")
    clocked.lead(TopicSeen(T, "r2", 7))
    clocked.tell(LeaderSeen(None), MemberGone("r2"))
    assert clocked.run(60.0) == []
    clocked.tell(LeaderSeen("r1"))
    assert clocked.run(1.0) == [AssignTopic(T, "r1", 7)]


def test_who_led_once_forgets_the_topics_when_another_leads() -> None:
    clocked = Clocked("r1", "r2")
    clocked.lead(TopicSeen(T, "gone", 7))
    clocked.tell(LeaderSeen("r2"), LeaderSeen("r1"))
    assert clocked.run(60.0) == []
    clocked.tell(TopicSeen(T, "r2", 9))
    assert clocked.run(60.0) == []


def test_an_assignment_that_is_not_seen_is_made_again_and_not_at_once() -> None:
    clocked = Clocked("r1")
    clocked.takes_place = False
    clocked.lead(TopicSeen(T))
    assert clocked.run(1.0) == []
    assert clocked.run(1.0) == [AssignTopic(T, "r1", -1)]
    clocked.tell(TopicSeen(T, "r1", 5))
    assert clocked.run(60.0) == []


def test_a_topic_that_has_gone_is_not_assigned() -> None:
    clocked = Clocked("r1")
    clocked.tell(LeaderSeen("r1"), TopicSeen(T), TopicGone(T))
    assert clocked.run(60.0) == []


def test_a_broker_that_comes_gets_its_share() -> None:
    clocked = Clocked("r1")
    clocked.lead(*(TopicSeen(("default", str(n)), "r1", n) for n in range(4)))
    clocked.tell(MemberSeen(Member("r2", "routing", address="r2:1")))
    moved = clocked.run(5.0)
    assert [effect.owner for effect in moved] == ["r2", "r2"]
    assert clocked.run(60.0) == []


def test_edges_get_no_topics() -> None:
    clocked = Clocked()
    clocked.tell(MemberSeen(Member("e1", "edge", address="e1:1")), LeaderSeen("r1"), TopicSeen(T))
    assert clocked.run(60.0) == []
    clocked.tell(MemberSeen(Member("r1", "routing", address="r1:1", load=0.9)))
    assert clocked.run(1.0) == [AssignTopic(T, "r1", -1)]
    assert clocked.leading.advice.verdict == "more"
