"""A session that goes from one edge to another: positions and numbers belong to the log of an edge."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.client.model import ModelEdge, World

from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Completed, Delivered, Failed, GoElsewhere, LogChanged, Moved, Transmit
from fieldfare.client.session import ClientSession
from fieldfare.errors import MovedError, UnknownOutcomeError
from fieldfare.messages import (
    Accepted,
    Ack,
    Attach,
    Deliver,
    Delivery,
    Publish,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
)

WINDOW = 4


def publish(*events: bytes, topic: str = "t") -> Publish:
    return Publish(0, topic, [Raw(event) for event in events])


def sent(outputs: list[Any]) -> list[Any]:
    assert all(isinstance(output, Transmit) for output in outputs), outputs
    return [output.frame for output in outputs]


def connected(log: str | None = "A", **options: Any) -> ClientSession:
    session = ClientSession("me", SessionOptions(), **options)
    assert session.connected(0.0, log) == []
    return session


def deliver(subscription: str, events: dict[int, str]) -> Deliver:
    deliveries = [Delivery(position, name, 0.0, Raw(b"{}"), "p") for position, name in events.items()]
    return Deliver(subscription, [Raw(msgspec.json.encode(delivery)) for delivery in deliveries])


def names(outputs: list[Any]) -> list[str]:
    return [event.id for output in outputs if isinstance(output, Delivered) for event in output.events]


# Publications


def test_what_was_not_answered_ends_as_unknown_at_another_log() -> None:
    session = connected()
    first, second = (sent(session.publish(key, publish(b"1"), 0.0))[0] for key in range(2))
    session.received(Accepted(first.ref, 1), 0.0)
    assert not session.is_in_doubt
    session.disconnected(1.0)
    assert session.is_in_doubt
    assert session.publish("unsent", publish(b"2"), 1.0) == []
    failed, transmitted = session.connected(2.0, "B")
    assert isinstance(failed, Failed)
    assert failed.key == 1
    assert isinstance(failed.error, UnknownOutcomeError)
    assert failed.error.topic == "t"
    assert isinstance(transmitted, Transmit)
    frame = transmitted.frame
    assert isinstance(frame, Publish)
    assert (frame.publisher, frame.sequence, second.sequence) == ("me.1", 0, 1)
    assert (session.unanswered, session.is_in_doubt, session.publisher) == (1, False, "me.1")


def test_at_the_same_log_it_is_sent_again_under_its_number() -> None:
    session = connected()
    sent(session.publish("first", publish(b"1"), 0.0))
    session.disconnected(1.0)
    (again,) = sent(session.connected(2.0, "A"))
    assert (again.publisher, again.sequence) == ("me", 0)
    session.received(Accepted(again.ref, 1), 2.0)
    assert not session.is_in_doubt


def test_an_edge_that_says_nothing_of_logs_is_taken_for_the_same() -> None:
    session = connected(None)
    sent(session.publish("first", publish(b"1"), 0.0))
    session.disconnected(1.0)
    (again,) = sent(session.connected(2.0, None))
    assert (again.publisher, again.sequence) == ("me", 0)


def test_back_at_the_first_log_it_is_another_publisher_still() -> None:
    session = connected()
    (frame,) = sent(session.publish("first", publish(b"1"), 0.0))
    session.received(Accepted(frame.ref, 1), 0.0)
    session.connected(1.0, "B")
    session.connected(2.0, "A")
    (frame,) = sent(session.publish("second", publish(b"2"), 2.0))
    assert (frame.publisher, frame.sequence) == ("me.2", 0)


def test_what_an_edge_was_too_busy_for_is_not_in_doubt() -> None:
    session = connected()
    (frame,) = sent(session.publish("first", publish(b"1"), 0.0))
    session.received(Refused(frame.ref, "busy", "later"), 0.0)
    session.disconnected(1.0)
    assert not session.is_in_doubt
    (frame,) = sent(session.connected(2.0, "B"))
    assert (frame.publisher, frame.sequence) == ("me.1", 0)


def test_what_is_in_doubt_stays_so_if_its_edge_is_too_busy_to_tell() -> None:
    session = connected()
    sent(session.publish("first", publish(b"1"), 0.0))
    session.disconnected(1.0)
    (frame,) = sent(session.connected(2.0, "A"))
    session.received(Refused(frame.ref, "busy", "later"), 2.0)
    session.disconnected(3.0)
    assert session.is_in_doubt
    (failed,) = session.connected(4.0, "B")
    assert isinstance(failed, Failed)


def test_an_edge_that_is_full_took_nothing() -> None:
    session = connected()
    sent(session.publish("first", publish(b"1"), 0.0))
    assert session.received(Refused(None, "full", "no room", edges=("b",)), 0.0) == [GoElsewhere(("b",), "no room")]
    session.disconnected(0.0)
    assert not session.is_in_doubt
    (frame,) = sent(session.connected(1.0, "B"))
    assert frame.sequence == 0


def test_an_end_that_another_edge_knows_nothing_of_did_not_take_place() -> None:
    session = connected()
    sent(session.request("end", Unsubscribe(0, "mine"), 0.0))
    session.disconnected(1.0)
    (frame,) = sent(session.connected(2.0, "B"))
    (failed,) = session.received(Refused(frame.ref, "unknown", "which?"), 2.0)
    assert isinstance(failed, Failed)


# Subscriptions


def test_the_log_travels_with_the_position() -> None:
    session = connected()
    (frame,) = sent(session.subscribe("s", Subscribe(0, "t", "TRUE"), 0.0))
    assert (frame.log, frame.after) == ("", None)
    session.received(Subscribed(frame.ref, "e.1", 10, log="A"), 0.0)
    session.received(deliver("e.1", {11: "x"}), 0.0)
    session.ack("s", 11, 0.0)
    (frame,) = sent(session.connected(1.0, "B"))
    assert (frame.log, frame.after) == ("A", 11)
    changed, ack = session.received(Subscribed(frame.ref, "f.1", 3, log="B"), 1.0)
    assert changed == LogChanged("s", "B")
    assert ack == Transmit(Ack("f.1", 3))
    assert names(session.received(deliver("f.1", {4: "y"}), 1.0)) == ["y"]
    session.ack("s", 4, 1.0)
    (frame,) = sent(session.connected(2.0, "B"))
    assert (frame.log, frame.after) == ("B", 4)
    assert sent(session.received(Subscribed(frame.ref, "f.2", 4, log="B"), 2.0)) == [Ack("f.2", 4)]


def test_nothing_is_said_of_logs_to_an_edge_that_says_nothing_of_them() -> None:
    session = connected(None)
    (frame,) = sent(session.subscribe("s", Subscribe(0, "t", "TRUE", log="A", after=3), 0.0))
    assert frame.log is None


def test_a_position_that_an_application_kept_has_its_log() -> None:
    session = connected()
    (frame,) = sent(session.subscribe("s", Subscribe(0, "t", "TRUE", log="Z", after=3), 0.0))
    assert (frame.log, frame.after) == ("Z", 3)


def test_events_that_came_from_another_edge_are_known_again() -> None:
    session = connected(may_move=True)
    (frame,) = sent(session.subscribe("s", Subscribe(0, "t", "TRUE", window=1), 0.0))
    session.received(Subscribed(frame.ref, "e.1", 10, log="A"), 0.0)
    assert names(session.received(deliver("e.1", {11: "x", 12: "y"}), 0.0)) == ["x", "y"]
    (frame,) = sent(session.connected(1.0, "B"))
    session.received(Subscribed(frame.ref, "f.1", 3, log="B"), 1.0)
    known = session.received(deliver("f.1", {4: "x"}), 1.0)
    assert sent(known) == [Ack("f.1", 4)]  # or its place in the window would stay taken
    assert names(session.received(deliver("f.1", {5: "z", 6: "y"}), 1.0)) == ["z"]
    session.ack("s", 5, 1.0)
    (frame,) = sent(session.connected(2.0, "B"))
    assert frame.after == 6  # there was nothing to take of the one after it


def test_a_durable_subscription_whose_home_is_another_edge_is_handed_on_with_its_progress() -> None:
    session = connected()
    (frame,) = sent(session.subscribe("s", Subscribe(0, "t", "TRUE", name="mine"), 0.0))
    session.received(Subscribed(frame.ref, "mine", 10, log="A"), 0.0)
    session.received(deliver("mine", {11: "x"}), 0.0)
    (frame,) = sent(session.connected(1.0, "B"))
    (moved,) = session.received(Refused(frame.ref, "moved", "at a", home="http://a"), 1.0)
    assert isinstance(moved, Moved)
    assert (moved.subscription, moved.error.home) == ("s", "http://a")
    at_home = connected("A")
    (frame,) = sent(at_home.adopt(moved.progress, 2.0))
    assert (frame.name, frame.log, frame.after) == ("mine", "A", None)
    assert not isinstance(at_home.received(Subscribed(frame.ref, "mine", 10, is_new=False, log="A"), 2.0)[0], Completed)
    assert names(at_home.received(deliver("mine", {11: "x", 12: "y"}), 2.0)) == ["y"]


def test_the_end_of_one_that_has_moved_is_not_taken_for_done() -> None:
    session = connected()
    sent(session.subscribe("s", Attach(0, "mine"), 0.0))
    assert session.unsubscribe("end", "s", 0.0) == []
    (frame,) = sent(session.connected(1.0, "B"))
    (failed,) = session.received(Refused(frame.ref, "moved", "at a", home="http://a"), 1.0)
    assert isinstance(failed, Failed)
    assert failed.key == "end"
    assert isinstance(failed.error, MovedError)


# Whatever happens


class Moving(World):
    """A session, and edges with logs of their own, to which it goes in turn."""

    def __init__(self) -> None:
        options = SessionOptions(answer_timeout_seconds=10.0, unanswered_publications_max=12)
        super().__init__(ClientSession("me", options, may_move=True), ModelEdge(log_id="A"))
        self.edges = [self.edge, ModelEdge(log_id="B"), ModelEdge(log_id="C")]
        self.asked: dict[int, list[bytes]] = {}
        self.do(self.session.subscribe("s", Subscribe(0, "t", "TRUE", window=WINDOW), 0.0))

    def step(self, what: str, count: int) -> None:
        match what:
            case "publish":
                key = len(self.asked)
                if self.session.has_room:
                    self.asked[key] = [b'{"n":%d,"k":%d}' % (number, key) for number in range(count)]
                    self.do(self.session.publish(key, publish(*self.asked[key]), self.now))
            case "up" | "down":
                for _ in range(count):
                    self.up() if what == "up" else self.down()
            case "move":
                self.drop()
                self.edge = self.edges[count % len(self.edges)]
                self.connect()
            case "busy" | "idle":
                self.edge.is_busy = what == "busy"
            case "wait":
                self.wait(count)
            case "take":
                for event in self.given.get("s", [])[-count:]:
                    self.do(self.session.ack("s", event.position, self.now))

    def finish(self) -> None:
        for edge in self.edges:
            edge.is_busy = False
        for _ in range(60):
            self.settle()
            self.step("take", WINDOW)
            self.wait(1.0)


_step = st.one_of(
    st.tuples(st.sampled_from(["publish", "publish", "up", "down", "take"]), st.integers(1, 4)),
    st.tuples(st.sampled_from(["move", "busy", "idle"]), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.sampled_from([1, 20])),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_step, min_size=20, max_size=80))
def test_what_is_published_is_in_one_log_once_or_its_outcome_is_unknown(story: list[tuple[str, int]]) -> None:
    world = Moving()
    for step in story:
        world.step(*step)
    world.finish()
    world.step("publish", 2)  # the subscription is in force, wherever it is now
    world.finish()
    assert set(world.completed) | set(world.failed) == set(world.asked) | {"s"}
    stored = [event for edge in world.edges for _, event in edge.log]
    assert len(set(stored)) == len(stored)
    for key, events in world.asked.items():
        if key in world.completed:
            assert set(events) <= set(stored)
        else:
            assert isinstance(world.failed[key], UnknownOutcomeError)
            assert set(events) <= set(stored) or not set(events) & set(stored)
    for edge in world.edges:
        keys = [msgspec.json.decode(event)["k"] for _, event in edge.log]
        assert keys == sorted(keys)
    given_events = [bytes(event.event) for event in world.given.get("s", [])]
    assert len(set(given_events)) == len(given_events)
    assert given_events[-2:] == world.asked[len(world.asked) - 1]
