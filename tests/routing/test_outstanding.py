"""Outstanding events against the simplest model of them: a set of what is settled, and lists."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Raw

from fieldfare.routing.outstanding import EventState, Outstanding

KEYS = (None, "a", "b")
LINKS = ("one", "two")


class OutstandingMachine(RuleBasedStateMachine):
    """Events come, are sent, settled, postponed; consumers come and go; now and then only the log's view is left."""

    def __init__(self) -> None:
        super().__init__()
        self.outstanding = Outstanding(-1)
        self.now = 0.0
        self.next = 0
        self.keys: dict[int, Hashable] = {}
        self.settled: set[int] = set()
        self.in_hand: dict[int, str] = {}
        self.until: dict[int, float] = {}

    @property
    def open(self) -> list[int]:
        return [position for position in self.keys if position not in self.settled]

    @rule(key=st.sampled_from(KEYS), gap=st.integers(0, 3))
    def come(self, key: Hashable, gap: int) -> None:
        position = self.next + gap
        self.next = position + 1
        self.keys[position] = key
        self.outstanding.track((position, 1e9, Raw(b"{}")), key)

    @rule(link=st.sampled_from(LINKS), window=st.integers(1, 3))
    def join(self, link: str, window: int) -> None:
        if link not in self.outstanding.consumers:
            self.outstanding.consumers.add(link, window)

    @rule(link=st.sampled_from(LINKS))
    def leave(self, link: str) -> None:
        had = [position for position, holder in self.in_hand.items() if holder == link]
        assert [event.position for event in self.outstanding.leave(link)] == sorted(had)
        for position in had:
            del self.in_hand[position]

    @rule(seconds=st.sampled_from((5.0, 1e6)))
    def send(self, seconds: float) -> None:
        event, consumer = self.outstanding.next_ready(), self.outstanding.consumers.next()
        may_go = [position for position in self.open if self._may_go(position)]
        assert (event.position if event else None) == (may_go[0] if may_go else None)
        if event is not None and consumer is not None:
            assert consumer.room > 0
            self.outstanding.hand(event, consumer, self.now + seconds)
            self.in_hand[event.position] = consumer.link

    def _may_go(self, position: int) -> bool:
        if position in self.in_hand or self.until.get(position, 0.0) > self.now:
            return False
        key = self.keys[position]
        return key is None or position == min(each for each in self.open if self.keys[each] == key)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(self.open))
        event = self.outstanding.get(position)
        assert event is not None
        self.outstanding.settle(event)
        self.settled.add(position)
        self.in_hand.pop(position, None)

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data(), seconds=st.sampled_from((0.0, 1.0, 10.0)))
    def postpone(self, data: st.DataObject, seconds: float) -> None:
        position = data.draw(st.sampled_from(sorted(self.in_hand)))
        event = self.outstanding.get(position)
        assert event is not None
        self.outstanding.postpone(event, self.now + seconds)
        self.until[position] = self.now + seconds
        del self.in_hand[position]
        self.outstanding.wake(self.now)

    @rule(seconds=st.sampled_from((0.5, 3.0, 20.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        overdue = self.outstanding.wake(self.now)
        assert {event.position for event in overdue} <= set(self.in_hand)
        for event in overdue:
            self.outstanding.postpone(event, self.now)
            del self.in_hand[event.position]
            self.until[event.position] = self.now
        self.outstanding.wake(self.now)

    @rule()
    def crash(self) -> None:
        """What the log holds, and what is read from it again, is the same but for who has what."""
        logged = [event.as_logged for event in self.outstanding.events.values()]
        upto = self.outstanding.upto
        self.outstanding = Outstanding(-1)
        self.outstanding.recover(logged, upto)
        self.in_hand.clear()
        self.outstanding.wake(self.now)
        entries = [(position, 1e9, Raw(b"{}")) for position in range(self.next + 2)]
        new = self.outstanding.fill(entries, lambda entry: self.keys.get(entry[0]))  # type: ignore[arg-type]
        assert [entry[0] for entry in new] == [position for position in range(self.next + 2) if position > upto]
        # One that waited for its time behind another of its key is held back by that only.
        for event in self.outstanding.events.values():
            if event.state is EventState.HELD:
                self.until.pop(event.position, None)

    @invariant()
    def what_is_settled_is_what_the_model_says(self) -> None:
        assert list(self.outstanding.events) == self.open
        expected = self.open[0] - 1 if self.open else self.outstanding.upto
        assert self.outstanding.settled_before == expected

    @invariant()
    def bytes_are_counted(self) -> None:
        assert self.outstanding.size_bytes == 2 * len(self.open)

    @invariant()
    def windows_are_kept(self) -> None:
        for consumer in self.outstanding.consumers:
            had = sum(holder == consumer.link for holder in self.in_hand.values())
            assert consumer.in_window == had <= consumer.window


TestOutstanding = OutstandingMachine.TestCase
TestOutstanding.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
