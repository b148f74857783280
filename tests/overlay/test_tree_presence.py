"""Presence alone: brokers that tell each other who is there, over links that come and go at any moment."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.messages import Absent, Member, Present
from fieldfare.routing.tree.presence import Presence, PresencePorts

Hop = tuple[int, int]


class Brokers:
    """Some brokers, and what is on its way between them: each link has a queue for each direction."""

    def __init__(self, number: int) -> None:
        self.links: dict[Hop, str] = {}
        self.queues: dict[tuple[str, int], deque[Any]] = {}  # by link and receiver
        self.brokers = [self._broker(each) for each in range(number)]
        self.now, self._numbers = 0.0, count(1)
        for each, broker in enumerate(self.brokers):
            broker.announce(Member(f"b{each}", "tree", "", log=f"log{each}"), 0.0)

    def _broker(self, number: int) -> Presence:
        def links() -> list[str]:
            return [link for hop, link in self.links.items() if number in hop]

        def send(link: str, frame: object) -> None:
            if link in self.links.values():
                other = next(each for hop, name in self.links.items() if name == link for each in hop if each != number)
                self.queues[link, other].append(frame)

        def close(link: str, _: tuple[str, ...]) -> None:
            self.disconnect(next(hop for hop, name in self.links.items() if name == link))

        return Presence(f"b{number}", PresencePorts(send, links, lambda _: None, lambda _: None, close))

    def connect(self, hop: Hop) -> None:
        link = self.links[hop] = f"link{next(self._numbers)}"
        self.queues.update({(link, each): deque() for each in hop})
        for each in hop:
            self.brokers[each].opened(link)

    def disconnect(self, hop: Hop) -> None:
        link = self.links.pop(hop)
        for each in hop:
            del self.queues[link, each]
        for each in hop:
            self.brokers[each].closed(link)

    def deliver(self, choice: int) -> bool:
        """Let one frame arrive; whether there was one."""
        waiting = [key for key, queue in self.queues.items() if queue]
        if waiting:
            link, number = waiting[choice % len(waiting)]
            match self.queues[link, number].popleft():
                case Present() as frame:
                    self.brokers[number].received(link, frame)
                case Absent() as frame:
                    self.brokers[number].absent(link, frame)
        return bool(waiting)

    def come_to_rest(self) -> None:
        for _ in range(100_000):
            if not self.deliver(0):
                return
        raise AssertionError("it never ends")

    def reached(self, number: int, without: Hop | None = None) -> set[int]:
        """The brokers that a broker is connected with, found by walking."""
        found, queue = {number}, [number]
        while queue:
            here = queue.pop()
            for hop in self.links:
                if here in hop and hop != without and not found.issuperset(hop):
                    (there,) = set(hop) - {here}
                    found.add(there)
                    queue.append(there)
        return found

    def check(self) -> None:
        """Every broker knows exactly those that it is connected with, over the link that leads there."""
        for number, broker in enumerate(self.brokers):
            assert {known.member.name for known in broker} == {f"b{each}" for each in self.reached(number)}
            for other in self.reached(number) - {number}:
                hop = next(hop for hop, link in self.links.items() if link == broker.link_to(f"log{other}"))
                assert number in hop
                (neighbour,) = set(hop) - {number}
                assert other in self.reached(neighbour)


NUMBERS = st.integers(0, 5)
HOPS = st.tuples(NUMBERS, NUMBERS).filter(lambda hop: hop[0] < hop[1])
STEPS = st.lists(st.one_of(HOPS, st.integers(0, 11), st.integers(0, 11)), max_size=40)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_tables_are_those_of_the_tree_after_any_changes_of_links(steps: list[Hop | int]) -> None:
    brokers = Brokers(6)
    for step in steps:
        if isinstance(step, int):
            brokers.deliver(step)
        elif step in brokers.links:
            brokers.disconnect(step)
        elif step[1] not in brokers.reached(step[0]):  # there is no cycle
            brokers.connect(step)
    brokers.come_to_rest()
    brokers.check()
    for number, broker in enumerate(brokers.brokers):
        for hop, link in brokers.links.items():
            if number in hop:  # what lies beyond each link
                beyond = brokers.reached(sum(hop) - number, without=hop)
                assert {f"b{each}" for each in beyond} == {known.member.name for known in broker if known.link == link}


@settings(max_examples=300, deadline=None)
@given(st.lists(HOPS, unique=True, max_size=9), st.lists(st.integers(0, 11), max_size=60))
def test_of_whatever_links_a_tree_is_left_that_connects_as_much(hops: list[Hop], choices: list[int]) -> None:
    brokers = Brokers(6)
    for number, hop in enumerate(hops):
        brokers.connect(hop)
        for choice in choices[number::9]:
            brokers.deliver(choice)
    before = [brokers.reached(number) for number in range(6)]
    for _ in range(40):
        brokers.come_to_rest()
        brokers.now += 1.0
        for broker in brokers.brokers:
            broker.tidy(brokers.now)
    brokers.come_to_rest()
    assert [brokers.reached(number) for number in range(6)] == before
    assert len(brokers.links) == 6 - len({frozenset(group) for group in before})  # so there is no cycle
    brokers.check()
