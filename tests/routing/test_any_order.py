"""Whatever the order of publishing, storing, reading, acknowledging and leaving: each gets every event, and once."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.routing.frames import events
from tests.routing.harness import Client, Harness

from fieldfare.routing.options import EdgeOptions

WAITING_MAX = 3


class Crowd:
    """Four durable subscribers with windows of their own, who come and go, and a publisher."""

    def __init__(self) -> None:
        self.harness = Harness(EdgeOptions(waiting_max=WAITING_MAX))
        self.publisher = self.harness.connect()
        self.takers: dict[int, Client] = {number: self.harness.connect() for number in range(4)}
        self.got: dict[int, list[int]] = {number: [] for number in self.takers}
        self.published = 0
        for number, taker in self.takers.items():
            taker.subscribe("news", name=f"s{number}", window=number + 1)
        self.harness.holds_storage = self.harness.holds_reading = True

    def publish(self, which: int) -> None:
        count = which + 1
        self.publisher.publish("news", *events(*range(self.published, self.published + count)))
        self.published += count

    def store(self, _: int) -> None:
        if self.harness.unstored:
            self.harness.store(1)

    def read(self, _: int) -> None:
        if self.harness.fetches:
            self.harness.read()

    def acknowledge(self, which: int) -> None:
        taker, name = self.takers[which], f"s{which}"
        if taker.positions(name):
            taker.ack(name, taker.positions(name)[-1])

    def come_or_go(self, which: int) -> None:
        taker = self.takers[which]
        if taker.id in self.harness.clients:
            self.got[which] += taker.numbers(f"s{which}")
            taker.close()
        else:
            self.takers[which] = self.harness.connect()
            self.takers[which].attach(f"s{which}", window=which + 1)

    def waiting(self) -> int:
        return max(counts.waiting for counts in self.harness.edge.statistics().per_subscription)


STEPS = [Crowd.publish, Crowd.store, Crowd.read, Crowd.acknowledge, Crowd.come_or_go]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=40))
@settings(max_examples=200, deadline=None)
def test_each_gets_every_event_and_in_order(steps: list[tuple[Callable[[Crowd, int], None], int]]) -> None:
    crowd = Crowd()
    for step, which in steps:
        step(crowd, which)
        assert crowd.waiting() <= WAITING_MAX
    crowd.harness.holds_storage = crowd.harness.holds_reading = False
    crowd.harness.settle()
    for number in crowd.takers:
        if crowd.takers[number].id not in crowd.harness.clients:
            crowd.come_or_go(number)
        live = crowd.takers[number].take_all(f"s{number}")
        assert live == sorted(set(live))  # to one connection nothing is sent twice
        assert list(dict.fromkeys([*crowd.got[number], *live])) == list(range(crowd.published))
