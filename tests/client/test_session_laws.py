"""Whatever happens to its connections, a session publishes each thing once and gives each delivery once, in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.client.model import BAD, World

from fieldfare.client.options import SessionOptions
from fieldfare.client.session import ClientSession
from fieldfare.messages import Publish, Subscribe

WINDOW = 4
NAMES = {"unnamed": None, "durable": "mine"}

_step = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from("aab"), st.integers(1, 3)),
    st.tuples(st.just("publish bad"), st.sampled_from("ab"), st.integers(1, 2)),
    st.tuples(st.sampled_from(["up", "down"]), st.just(""), st.integers(1, 8)),
    st.tuples(st.just("take"), st.sampled_from(sorted(NAMES)), st.integers(1, 4)),
    st.tuples(st.sampled_from(["settle", "reconnect", "busy", "idle"]), st.just(""), st.just(0)),
    st.tuples(st.just("wait"), st.just(""), st.sampled_from([1, 3, 20])),
)
steps = st.lists(_step, min_size=20, max_size=80)


class History(World):
    """A world that remembers what the application asked for and got."""

    def __init__(self) -> None:
        options = SessionOptions(answer_timeout_seconds=10.0, unanswered_publications_max=12, ack_delay_seconds=2.0)
        super().__init__(ClientSession("me", options))
        self.asked: dict[int, tuple[str, list[bytes]]] = {}
        self.taken: dict[str, int] = dict.fromkeys(NAMES, 0)
        self.made = 0
        for key, name in NAMES.items():
            self.do(self.session.subscribe(key, Subscribe(0, "a", "TRUE", name=name, window=WINDOW), 0.0))

    def publish(self, topic: str, count: int, *, is_bad: bool = False) -> None:
        if self.session.has_room:
            events = [b'{"n":%d}' % (self.made + number) for number in range(count)]
            self.made += count
            if is_bad:
                events[-1] = BAD
            key = len(self.asked)
            self.asked[key] = topic, events
            self.do(self.session.publish(key, Publish(0, topic, [Raw(event) for event in events]), self.now))

    def take(self, key: str, count: int) -> None:
        """The application is done with some more events."""
        for event in self.given.get(key, [])[self.taken[key] :][:count]:
            self.taken[key] += 1
            self.do(self.session.ack(key, event.position, self.now))

    def step(self, what: str, which: str, count: int) -> None:
        match what:
            case "publish" | "publish bad":
                self.publish(which, count, is_bad=what == "publish bad")
            case "up" | "down":
                for _ in range(count):
                    self.up() if what == "up" else self.down()
            case "take":
                self.take(which, count)
            case "settle":
                self.settle()
            case "reconnect":
                self.drop()
                self.connect()
            case "busy" | "idle":
                self.edge.is_busy = what == "busy"
            case "wait":
                self.wait(count)

    def finish(self) -> None:
        """Faults end; all that is open is completed."""
        self.edge.is_busy = False
        for _ in range(80):
            self.settle()
            for key in NAMES:
                self.take(key, WINDOW)
            self.wait(1.0)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_each_publication_and_each_delivery_once_and_in_order(story: list[tuple[str, str, int]]) -> None:
    world = History()
    for step in story:
        world.step(*step)
        for key in NAMES:  # memory is bounded, however often the connection broke
            assert len(world.given.get(key, [])) - world.taken[key] <= WINDOW
    world.finish()

    bad = {key for key, (_, events) in world.asked.items() if BAD in events}
    assert {key for key in world.failed if key is not None} == bad
    assert set(world.completed) == set(world.asked) - bad | set(NAMES)
    for topic in "ab":
        wanted = [events for key, (of, events) in world.asked.items() if of == topic and key not in bad]
        assert [event for of, event in world.edge.log if of == topic] == [
            event for events in wanted for event in events
        ]
    positions = [position for position, (of, _) in enumerate(world.edge.log) if of == "a"]
    for key in NAMES:
        begin = world.completed[key].position
        assert [event.position for event in world.given.get(key, [])] == [at for at in positions if at > begin]
