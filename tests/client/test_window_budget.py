"""The budget of windows: laws that hold whatever happens, checked against an edge that sends as much as it may."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.client.window_budget import WindowBudget, WindowShare


@dataclass
class GreedyEdge:
    """Sends as many events as it may to every subscription, and learns of windows late. It counts for itself."""

    budget: WindowBudget
    shares: list[WindowShare] = field(default_factory=list)
    windows: dict[int, int] = field(default_factory=dict)  # as the edge knows them, by share
    untaken: dict[int, int] = field(default_factory=dict)
    told: deque[tuple[WindowShare, int]] = field(default_factory=deque)  # on their way to the edge

    def changed(self, share: WindowShare) -> None:
        self.told.append((share, share.window))

    def join(self, window_max: int) -> None:
        share = WindowShare(window_max, self.changed)
        self.shares.append(share)
        self.untaken[id(share)] = 0
        self.budget.join(share)
        if not share.is_waiting:
            self.told.append((share, share.window))

    def leave(self, number: int) -> None:
        if self.shares:
            share = self.shares.pop(number % len(self.shares))
            self.budget.leave(share)
            del self.untaken[id(share)]
            self.windows.pop(id(share), None)
            self.told = deque(each for each in self.told if each[0] is not share)

    def learn(self) -> None:
        if self.told:
            share, window = self.told.popleft()
            self.windows[id(share)] = window
            if share.is_changing and window == share.window:
                self.budget.in_effect(share)

    def send(self) -> None:
        for share in self.shares:
            count = self.windows.get(id(share), 0) - self.untaken[id(share)]
            if count > 0:
                self.untaken[id(share)] += count
                self.budget.came(share, count, 100)

    def take(self, number: int, count: int) -> None:
        if self.shares:
            share = self.shares[number % len(self.shares)]
            count = min(count, self.untaken[id(share)])
            self.untaken[id(share)] -= count
            if count:
                self.budget.took(share, count)


_STEPS = st.one_of(
    st.tuples(st.just("join"), st.integers(1, 100)),
    st.tuples(st.just("leave"), st.integers(0, 1000)),
    st.tuples(st.just("learn")),
    st.tuples(st.just("send")),
    st.tuples(st.just("take"), st.integers(0, 1000), st.integers(1, 60)),
)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 200), st.lists(_STEPS, max_size=80))
def test_what_waits_is_never_more_than_the_budget(events_max: int, steps: list[tuple[str, int]]) -> None:
    edge = GreedyEdge(WindowBudget(events_max))
    for name, *arguments in steps:
        getattr(edge, name)(*arguments)
        assert sum(edge.untaken.values()) <= events_max
        assert edge.budget.reserved == sum(share.held for share in edge.shares) <= events_max
        assert all(share.window <= share.window_max for share in edge.shares)


@settings(max_examples=100, deadline=None)
@given(st.integers(20, 200), st.lists(_STEPS, max_size=60))
def test_in_the_end_every_subscription_has_a_window(events_max: int, steps: list[tuple[str, int]]) -> None:
    """If applications take their events, and there are no more subscriptions than events in the budget."""
    edge = GreedyEdge(WindowBudget(events_max))
    for name, *arguments in steps:
        if name != "join" or len(edge.shares) < events_max:
            getattr(edge, name)(*arguments)
    for _ in range(200):
        edge.learn()
        for number in range(len(edge.shares)):
            edge.take(number, 1000)
    assert [share for share in edge.shares if share.is_waiting] == []


def test_a_busy_subscription_grows_and_one_that_nobody_reads_does_not() -> None:
    edge = GreedyEdge(WindowBudget(10_000))
    edge.join(1024)
    edge.join(1024)
    for _ in range(2000):
        edge.send()
        edge.take(0, 16)
        edge.take(0, 1000)
        edge.learn()
    busy, unread = edge.shares
    assert busy.window == 1024
    assert unread.window == unread.outstanding == 16


def test_a_slow_application_keeps_a_small_window() -> None:
    edge = GreedyEdge(WindowBudget(10_000))
    edge.join(1024)
    for _ in range(2000):
        edge.learn()
        edge.send()
        edge.take(0, 1)
    assert edge.shares[0].window == 16


def test_those_that_grew_give_back_what_many_others_need() -> None:
    edge = GreedyEdge(WindowBudget(1000))
    edge.join(1024)
    for _ in range(500):
        edge.learn()
        edge.send()
        edge.take(0, 1000)
    assert edge.shares[0].window > 400
    for _ in range(900):
        edge.join(1024)
    while edge.told:
        edge.learn()
    assert edge.shares[0].window <= 8
    assert all(share.window >= 1 for share in edge.shares)


def test_large_events_get_smaller_windows() -> None:
    budget = WindowBudget(10_000, bytes_max=1_000_000)
    edge = GreedyEdge(budget)
    for _ in range(100):
        edge.join(1024)
    for _ in range(500):
        edge.learn()
    for _ in range(10):
        budget.came(edge.shares[0], 1000, 100_000)
        budget.took(edge.shares[0], 1000)
    assert budget.room == 10
    assert {share.window for share in edge.shares} == {1}
