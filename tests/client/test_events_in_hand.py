"""Events settled one by one, against an edge that knows the truth, over connections that break."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from fieldfare.client.events_in_hand import EventsInHand
from fieldfare.messages import Ack, AckEach, Delivery, Position

_EVENTS = 3


@dataclass
class Truth:
    """An edge with a few events, which sends each until it is settled; frames may be lost with their connection."""

    hand: EventsInHand = field(default_factory=EventsInHand)
    settled: set[Position] = field(default_factory=set)  # as the edge knows
    refused: dict[Position, int] = field(default_factory=dict)  # as the edge knows, and how often
    on_link: set[Position] = field(default_factory=set)  # sent on this connection, and not answered
    in_hand: list[Position] = field(default_factory=list)  # as the application knows
    done: list[Position] = field(default_factory=list)  # by the application, as often as it was
    unsent: list[Ack | AckEach | Position] = field(default_factory=list)  # frames; a position: refuse it

    def __post_init__(self) -> None:
        self.hand.confirmed(-1, is_anew=True)

    def send(self) -> None:
        for position in range(_EVENTS):
            if position not in self.settled and position not in self.on_link:
                self.on_link.add(position)
                event = Delivery(position, str(position), 0.0, Raw(b"{}"), attempt=1 + self.refused.get(position, 0))
                self.in_hand += [each.position for each in self.hand.fresh([event])]

    def settle(self, number: int) -> None:
        if self.in_hand:
            position = self.in_hand.pop(number % len(self.in_hand))
            assert self.hand.settle(position)
            self.done.append(position)
            self.unsent += self.hand.acknowledgements("s", -1)

    def refuse(self, number: int) -> None:
        if self.in_hand:
            position = self.in_hand.pop(number % len(self.in_hand))
            assert self.hand.refuse(position)
            self.unsent.append(position)

    def arrive(self, count: int = 1000) -> None:
        for frame in self.unsent[:count]:
            if isinstance(frame, Ack):
                first = {each for each in self.on_link if each not in self.refused}
                self.settled |= {each for each in first if each <= frame.position}
            elif isinstance(frame, AckEach):
                self.settled |= self.on_link & set(frame.positions)
            elif frame in self.on_link:
                self.on_link.discard(frame)
                self.refused[frame] = self.refused.get(frame, 0) + 1
            self.on_link -= self.settled
        del self.unsent[:count]

    def break_off(self, number: int) -> None:
        self.arrive(number % 4)
        self.unsent.clear()
        self.on_link.clear()
        self.hand.disconnected()
        if number % 2:
            self.settle(number)  # while there is no connection
        if number % 3 == 0:
            self.refuse(number)
        self.unsent.clear()
        cursor = next((each for each in range(_EVENTS) if each not in self.settled), _EVENTS) - 1
        self.hand.confirmed(cursor, is_anew=False)
        self.unsent += self.hand.acknowledgements("s", -1)


_STEPS = st.one_of(
    st.tuples(st.just("send")),
    st.tuples(st.just("settle"), st.integers(0, 11)),
    st.tuples(st.just("refuse"), st.integers(0, 11)),
    st.tuples(st.just("arrive")),
    st.tuples(st.just("break_off"), st.integers(0, 11)),
)


@settings(max_examples=2000)
@given(st.lists(_STEPS, max_size=25))
def test_nothing_is_settled_that_is_not_done_and_nothing_is_done_twice(steps: list[tuple[str, int]]) -> None:
    truth = Truth()
    for name, *arguments in steps:
        getattr(truth, name)(*arguments)
        assert truth.settled <= set(truth.done)
        assert len(truth.done) == len(set(truth.done))
    for _ in range(20):  # in the end all are done
        truth.send()
        truth.settle(0)
        truth.arrive()
        truth.unsent += truth.hand.acknowledgements("s", -1)
    assert truth.settled == set(truth.done) == set(range(_EVENTS))
