"""After a crash an edge goes on as if nothing had happened: from all records, or from a checkpoint and the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.routing.frames import accepted, done, events, items, number_of, publication, subscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import Accepted, Record
from fieldfare.qos import Offered, Requested
from fieldfare.routing.options import EdgeOptions

LOOSE = Offered("best_effort", "volatile")
TOPICS = {"kept": Offered(), "written": Offered("best_effort", "transient"), "loose": LOOSE}
CONDITIONS: dict[str, Callable[[int], bool]] = {
    "n >= 0": lambda _: True,
    "n % 2 = 0": lambda n: n % 2 == 0,
    "n % 3 = 1 OR n < 5": lambda n: n % 3 == 1 or n < 5,
}
REQUESTED = {
    "kept": [Requested(), Requested(durability="transient"), Requested(keep_last=2)],
    "written": [Requested("best_effort", "transient")],
    "loose": [Requested("best_effort")],
}
NAMES = ("a", "b", "c")
OPTIONS = EdgeOptions(waiting_max=3)


def revived(harness: Harness, records: Sequence[Record]) -> Harness:
    """Another edge that begins with these records, and has the same events in its log."""
    other = Harness(OPTIONS)
    other.log = other.memory = harness.memory.copy()
    other.now = harness.now
    other.start(records)
    return other


class Lives(RuleBasedStateMachine):
    """An edge, its crashes, and what each durable subscriber is owed."""

    @initialize()
    def begin(self) -> None:
        self.harness = Harness(OPTIONS)
        self.client = self.harness.connect()
        for topic, offered in TOPICS.items():
            done(self.client.declare(topic, offered=offered))
        self.count = 0
        self.accepted: dict[str, list[int]] = {topic: [] for topic in TOPICS}
        self.sequences = dict.fromkeys(TOPICS, 0)
        self.subscriptions: dict[str, tuple[str, str, Requested]] = {}
        self.owed: dict[str, list[int]] = {}
        self.got: dict[str, list[int]] = {}
        self.takers: dict[str, Client] = {}
        self.places: dict[int, int] = {}

    # What clients do

    @rule(topic=st.sampled_from(list(TOPICS)), count=st.integers(1, 3), fate=st.sampled_from(["", "", "full", "crash"]))
    def publish(self, topic: str, count: int, fate: str) -> None:
        numbers = list(range(self.count, self.count + count))
        self.count += count
        self.harness.holds_storage = bool(fate)
        frame = publication(1, topic, *events(*numbers), publisher="p", sequence=self.sequences[topic])
        self.client.frames.clear()
        self.client.send(frame)
        if isinstance(self.client.answer(1), Accepted):
            self.note_accepted(topic, numbers)
        elif fate == "full":
            self.harness.fail_to_store()
        self.harness.holds_storage = False
        if fate == "crash":
            self.crash()

    def note_accepted(self, topic: str, numbers: list[int]) -> None:
        self.accepted[topic] += numbers
        self.sequences[topic] += len(numbers)
        for name, (where, condition, _) in self.subscriptions.items():
            if where == topic:
                self.owed[name] += filter(CONDITIONS[condition], numbers)

    @rule(topic=st.sampled_from(["kept", "written"]))
    def publish_again(self, topic: str) -> None:
        last = self.accepted[topic][-1:]
        first = self.sequences[topic] - len(last)
        answer = accepted(self.client.publish(topic, *events(*last), publisher="p", sequence=first))
        assert answer.duplicates == len(last)

    @rule(
        name=st.sampled_from(NAMES),
        topic=st.sampled_from(list(TOPICS)),
        condition=st.sampled_from(list(CONDITIONS)),
        which=st.integers(0, 2),
    )
    def subscribe(self, name: str, topic: str, condition: str, which: int) -> None:
        if name not in self.subscriptions:
            qos = REQUESTED[topic][which % len(REQUESTED[topic])]
            taker = self.takers[name] = self.harness.connect()
            assert subscribed(taker.subscribe(topic, condition, qos=qos, name=name, window=2)).is_new
            self.subscriptions[name] = (topic, condition, qos)
            alive = self.accepted[topic] if qos.durability == "transient" else []
            self.owed[name] = list(filter(CONDITIONS[condition], alive))
            self.got[name] = []

    @precondition(lambda self: self.subscriptions)
    @rule(data=st.data(), is_taken=st.booleans())
    def take(self, data: st.DataObject, is_taken: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.subscriptions)))
        taker = self.takers[name]
        if taker.id not in self.harness.clients:
            self.takers[name] = self.harness.connect()
            subscribed(self.takers[name].attach(name, window=2))
        elif is_taken and taker.positions(name):
            taker.ack(name, taker.positions(name)[-1])
        else:
            self.collect(name)
            taker.close()

    @precondition(lambda self: self.subscriptions)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.subscriptions)))
        self.collect(name)
        self.client.unsubscribe(name)
        del self.subscriptions[name]

    def collect(self, name: str) -> None:
        """What a taker got: each event once, and no position was ever another event's."""
        taker = self.takers[name]
        for delivery in taker.deliveries(name):
            number = number_of(delivery)
            assert self.places.setdefault(delivery.position, number) == number
            if number not in self.got[name]:
                self.got[name].append(number)
        taker.frames.clear()

    # What happens to the edge

    @rule()
    def checkpoint(self) -> None:
        self.harness.pass_time(1)  # so that the log knows what has been acknowledged as well
        self.harness.checkpoint()

    @rule(seconds=st.sampled_from([0.1, 1.0]))
    def wait(self, seconds: float) -> None:
        self.harness.pass_time(seconds)

    @rule()
    def crash(self) -> None:
        for name in self.subscriptions:
            self.collect(name)
        self.harness.crash()
        self.client = self.harness.connect()
        self.sequences["loose"] = 0  # nothing of it is remembered

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        for name in self.subscriptions:
            self.collect(name)
            if self.takers[name].id in self.harness.clients:
                self.takers[name].close()
        self.harness.pass_time(1)
        worlds = [
            self.harness,
            revived(self.harness, self.harness.memory.all),
            revived(self.harness, self.harness.memory.recover()),
            revived(self.harness, self.harness.edge.checkpoint()),
        ]
        later = [self.afterwards(world) for world in worlds]
        assert later[0] == later[1] == later[2] == later[3]
        for name, (topic, _, qos) in self.subscriptions.items():
            if topic != "loose" and qos.keep_last is None:
                assert list(dict.fromkeys([*self.got[name], *later[0][name]])) == self.owed[name]

    def afterwards(self, world: Harness) -> dict[str, Any]:
        """What all subscribers get from now on, and what a client sees of the edge."""
        client = world.connect()
        got: dict[str, Any] = {}
        for name in self.subscriptions:
            subscribed(client.attach(name, window=1))
        for name, (_, condition, _) in self.subscriptions.items():
            got[name] = client.take_all(name)
            assert set(got[name]) <= set(filter(CONDITIONS[condition], range(self.count)))
        for topic in ("kept", "written"):
            answer = accepted(client.publish(topic, *events(9), publisher="p", sequence=self.sequences[topic]))
            assert answer.duplicates == 0
        for name, (topic, condition, _) in self.subscriptions.items():
            live = [9] if topic != "loose" and CONDITIONS[condition](9) else []
            assert client.take_all(name)[len(got[name]) :] == live
        got["topics"] = [(item["topic"], item["offered"]) for item in items(client.page("topics"))]
        return got


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("is_kept", [False, True])
def test_positions_never_repeat(is_kept: bool) -> None:
    """Nor where the log holds none of them, whenever the crash comes."""
    harness = Harness()
    done(harness.connect().declare("news", offered=Offered() if is_kept else LOOSE))
    positions = []
    for life in range(6):
        client = harness.connect()
        name = subscribed(client.subscribe("news", qos=Requested("best_effort"))).subscription
        harness.holds_storage = life == 4
        client.publish("news", *events(1, 2))
        client.publish("news", *events(3, 4, 5))
        harness.holds_storage = False
        positions += client.positions(name)
        if life % 2:
            harness.checkpoint()
        harness.crash()
    assert positions == sorted(set(positions))
    assert len(positions) == 25  # in one life the log was too slow: what it does not know of is not sent


def test_records_that_a_checkpoint_covers_as_well_may_come_again() -> None:
    harness = Harness()
    client = harness.connect()
    client.subscribe("news", name="mine")
    client.subscribe("news", name="gone")
    client.publish("news", *events(1, 2))
    client.ack("mine", client.positions("mine")[0])
    client.unsubscribe("gone")
    harness.pass_time(1)
    harness.start([*harness.edge.checkpoint(), *harness.memory.all])
    again = harness.connect()
    assert [item["subscription"] for item in items(again.page("subscriptions"))] == ["mine"]
    again.attach("mine")
    assert again.numbers("mine") == [2]
    assert accepted(again.publish("news", *events(3))).count == 1
    assert again.numbers("mine") == [2, 3]
