"""Events that an application settles one by one, over connections that break: none is lost, none is given twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.messages import Ack, AckEach, ClientFrame, Delivery, Position, Subscribe, Subscribed

_EVENTS = 3


def _subscription() -> SessionSubscription:
    return SessionSubscription("s", Subscribe(0, "t", "TRUE", name="s"))


@dataclass
class KnowingEdge:
    """An edge with a few events, which sends each until it is settled; frames may be lost with their connection.

    It knows events by one cursor until one is refused, as the real one does.
    """

    client: SessionSubscription = field(default_factory=_subscription)
    settled: set[Position] = field(default_factory=set)
    refused: dict[Position, int] = field(default_factory=dict)  # and how often
    on_link: set[Position] = field(default_factory=set)  # sent on this connection, and not answered
    in_hand: list[tuple[Position, int]] = field(default_factory=list)  # as the application knows, with the attempt
    ever_refused: set[Position] = field(default_factory=set)
    done: list[Position] = field(default_factory=list)  # by the application, as often as it was
    unsent: list[ClientFrame | Position] = field(default_factory=list)  # a position: it is refused

    def __post_init__(self) -> None:
        self.client.in_hand.is_manual = True
        self.client.confirm(Subscribed(0, "s", -1))

    def send(self) -> None:
        for position in range(_EVENTS):
            if position not in self.settled and position not in self.on_link:
                self.on_link.add(position)
                event = Delivery(position, str(position), 0.0, Raw(b"{}"), attempt=1 + self.refused.get(position, 0))
                fresh = self.client.fresh([event])
                self.in_hand += [(each.position, each.attempt) for each in fresh]
                if not fresh:
                    self.unsent += self.client.acknowledgements()

    def settle(self, number: int) -> None:
        if self.in_hand:
            position, _ = self.in_hand.pop(number % len(self.in_hand))
            self.client.settle(position)
            self.done.append(position)
            self.unsent += self.client.acknowledgements()

    def refuse(self, number: int) -> None:
        if self.in_hand:
            position, attempt = self.in_hand.pop(number % len(self.in_hand))
            self.ever_refused.add(position)
            if self.client.id is None:
                self.client.in_hand.refuse(position, comes_again=True, is_told=False)
            else:
                self.client.refuse(position, attempt - 1000)  # never too often
                self.unsent += [*self.client.acknowledgements(), position]

    def arrive(self, count: int = 1000) -> None:
        for frame in self.unsent[:count]:
            if isinstance(frame, Ack):
                in_order = {each for each in self.on_link if each not in self.refused}
                self.settled |= {each for each in in_order if each <= frame.position}
            elif isinstance(frame, AckEach):
                self.settled |= self.on_link & set(frame.positions)
            elif isinstance(frame, int) and frame in self.on_link:
                self.on_link.discard(frame)
                self.refused[frame] = self.refused.get(frame, 0) + 1
            self.on_link -= self.settled
        del self.unsent[:count]

    def break_off(self, number: int) -> None:
        self.arrive(number % 4)
        self.unsent.clear()
        self.on_link.clear()
        self.client.disconnect()
        if number % 2:
            self.settle(number)  # while there is no connection
        if number % 3 == 0:
            self.refuse(number)
        cursor = next((each for each in range(_EVENTS) if each not in self.settled), _EVENTS) - 1
        self.client.confirm(Subscribed(0, "s", cursor, is_new=False))
        self.unsent += self.client.acknowledgements()


_STEPS = st.one_of(
    st.tuples(st.just("send")),
    st.tuples(st.just("settle"), st.integers(0, 11)),
    st.tuples(st.just("refuse"), st.integers(0, 11)),
    st.tuples(st.just("arrive")),
    st.tuples(st.just("break_off"), st.integers(0, 11)),
)


@settings(max_examples=2000, deadline=None)
@given(st.lists(_STEPS, max_size=25))
@example([("send",), ("break_off", 2), ("refuse", 0), ("settle", 0), ("arrive",)])  # before it is sent again
def test_nothing_is_settled_that_is_not_done_and_all_is_done_in_the_end(steps: list[tuple[str, int]]) -> None:
    edge = KnowingEdge()
    for name, *arguments in steps:
        getattr(edge, name)(*arguments)
        assert edge.settled <= set(edge.done), steps
    for _ in range(20):
        edge.send()
        edge.settle(0)
        edge.arrive()
    edge.break_off(2)
    edge.send()
    edge.arrive()
    assert edge.settled == set(edge.done) == set(range(_EVENTS)), steps
    again = {each for each in edge.done if edge.done.count(each) > 1}
    assert again <= edge.ever_refused, steps  # such a one may come twice, if a connection breaks just then
