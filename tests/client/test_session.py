"""The session, step by step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.client.model import BAD, World

from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Completed, Delivered, Failed, Reconnect, Transmit
from fieldfare.client.session import ClientSession
from fieldfare.errors import (
    DetachedError,
    ForbiddenError,
    IncompatibleQosError,
    NotConnectedError,
    NotFoundError,
    RefusedError,
)
from fieldfare.messages import (
    EVENT_BYTES_MAX,
    EVENTS_MAX,
    Accepted,
    Ack,
    Attach,
    DeclareTopic,
    Deliver,
    Delivery,
    Detach,
    List,
    Notice,
    Publish,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from fieldfare.qos import Published


def publish(*events: bytes, topic: str = "t") -> Publish:
    return Publish(0, topic, [Raw(event) for event in events])


def deliver(subscription: str, *positions: int) -> Deliver:
    deliveries = [Delivery(position, f"e{position}", 0.0, Raw(b"{}")) for position in positions]
    return Deliver(subscription, [Raw(msgspec.json.encode(delivery)) for delivery in deliveries])


def sent(outputs: list[Any]) -> list[Any]:
    assert all(isinstance(output, Transmit) for output in outputs)
    return [output.frame for output in outputs]


def connected(**options: Any) -> ClientSession:
    session = ClientSession("me", SessionOptions(**options))
    assert session.connected(0.0) == []
    return session


def subscribed(position: int = 10, name: str | None = None, **options: Any) -> ClientSession:
    session = connected(**options)
    (frame,) = sent(session.subscribe("s", Subscribe(0, "t", "TRUE", name=name, window=8), 0.0))
    (completed,) = session.received(Subscribed(frame.ref, name or "e.1", position), 0.0)
    assert isinstance(completed, Completed)
    assert completed.key == "s"
    return session


def positions(outputs: list[Any]) -> list[int]:
    return [event.position for output in outputs if isinstance(output, Delivered) for event in output.events]


# Publishing


def test_events_are_numbered_by_topic_from_zero_without_gaps() -> None:
    session = connected()
    frames = [
        frame
        for key, topic in enumerate("aabab")
        for frame in sent(session.publish(key, publish(b"1", b"2", topic=topic), 0.0))
    ]
    assert [(frame.topic, frame.sequence) for frame in frames] == [("a", 0), ("a", 2), ("b", 0), ("a", 4), ("b", 2)]
    assert {frame.publisher for frame in frames} == {"me"}
    assert len({frame.ref for frame in frames}) == 5


def test_unanswered_publications_are_sent_again_with_the_same_numbers_in_order() -> None:
    session = connected()
    first, second, third = (sent(session.publish(key, publish(b"1", b"2"), 0.0))[0] for key in range(3))
    assert session.received(Accepted(second.ref, 2), 0.0) == [Completed(1, Accepted(second.ref, 2))]
    assert session.disconnected(1.0) == []
    assert session.received(Accepted(first.ref, 2), 1.0) == []
    assert session.publish("later", publish(b"3"), 1.0) == []
    again = sent(session.connected(2.0))
    assert [(frame.sequence, frame.events) for frame in again] == [
        (first.sequence, first.events),
        (third.sequence, third.events),
        (6, [Raw(b"3")]),
    ]


def test_a_failed_publication_leaves_no_gap() -> None:
    session = connected()
    (bad,) = sent(session.publish("bad", publish(BAD, b"1"), 0.0))
    (failed,) = session.received(Refused(bad.ref, "invalid", "no"), 0.0)
    assert isinstance(failed, Failed)
    (good,) = sent(session.publish("good", publish(b"1"), 0.0))
    assert good.sequence == 0


def test_publications_behind_a_failed_one_are_numbered_anew_once_the_edge_says_that_it_lacks_them() -> None:
    world = World(ClientSession("me"))
    world.connect()
    for key, event in enumerate([b"0", BAD, b"2", b"3", b"4"]):
        world.do(world.session.publish(key, publish(event), 0.0))
    world.settle()
    assert [event for _, event in world.edge.log] == [b"0", b"2", b"3", b"4"]
    assert sorted(world.completed) == [0, 2, 3, 4]  # type: ignore[type-var]
    assert list(world.failed) == [1]
    world.do(world.session.publish("next", publish(b"5"), 0.0))
    assert [frame.sequence for frame in world.to_edge if isinstance(frame, Publish)] == [4]


def test_the_numbers_of_a_failed_publication_that_was_sent_twice_are_not_used_before_the_edge_says_so() -> None:
    session = connected()
    session.publish("maybe", publish(b"1"), 0.0)
    session.disconnected(0.0)
    (again,) = sent(session.connected(0.0))
    session.received(Refused(again.ref, "forbidden", "no longer"), 0.0)  # but perhaps it was accepted the first time
    (following,) = sent(session.publish("next", publish(b"2"), 0.0))
    assert following.sequence == 1
    (renumbered,) = sent(session.received(Refused(following.ref, "sequence", "gap", 0), 0.0))
    assert renumbered.sequence == 0


def test_an_edge_that_expects_what_it_gets_is_asked_again_later_not_at_once() -> None:
    session = connected()
    (frame,) = sent(session.publish("p", publish(b"1"), 0.0))
    assert session.received(Refused(frame.ref, "sequence", "gap", 0), 0.0) == []
    assert session.next_timer is not None


@pytest.mark.parametrize("code", ["busy", "storage"])
def test_what_an_edge_is_too_busy_for_is_sent_again_after_a_growing_delay(code: Any) -> None:
    session = connected(retry_delay_seconds=1.0, retry_delay_seconds_max=3.0)
    (frame,) = sent(session.publish("p", publish(b"1"), 0.0))
    now = 0.0
    for delay in (1.0, 2.0, 3.0, 3.0):
        assert session.received(Refused(frame.ref, code, "later"), now) == []
        assert session.publish(now, publish(b"2"), now) == []  # waits behind it
        assert session.next_timer == now + delay
        assert session.timer(now + delay / 2) == []
        now += delay
        frames = sent(session.timer(now))
        assert frames[0].sequence == 0
        frame = frames[0]
        for other in frames[1:]:
            assert session.received(Refused(other.ref, "sequence", "gap", 0), now) == []


def test_what_was_held_up_by_a_busy_edge_goes_on_even_if_its_own_refusal_comes_late() -> None:
    session = connected(retry_delay_seconds=1.0)
    first, second = (sent(session.publish(key, publish(b"1"), 0.0))[0] for key in range(2))
    session.received(Refused(first.ref, "busy", "later"), 0.0)
    (first,) = sent(session.timer(1.0))
    assert session.received(Refused(second.ref, "sequence", "gap", 0), 1.1) == []
    assert session.publish(2, publish(b"1"), 1.1) == []
    completed, *frames = session.received(Accepted(first.ref, 1), 1.2)
    assert completed == Completed(0, Accepted(first.ref, 1))
    assert [frame.sequence for frame in sent(frames)] == [1, 2]


def test_requests_and_subscriptions_wait_for_a_busy_edge_too() -> None:
    world = World(ClientSession("me"))
    world.edge.is_busy = True
    world.connect()
    world.do(world.session.subscribe("s", Subscribe(0, "t", "TRUE"), 0.0))
    world.do(world.session.request("d", DeclareTopic(0, "t"), 0.0))
    world.settle()
    assert not world.completed
    world.edge.is_busy = False
    world.wait(1.0)
    world.settle()
    assert set(world.completed) == {"s", "d"}


def test_no_answer_in_time_asks_for_another_connection() -> None:
    session = connected(answer_timeout_seconds=5.0)
    session.publish("p", publish(b"1"), 1.0)
    session.publish("q", publish(b"1"), 2.0)
    assert session.next_timer == 6.0
    assert session.timer(5.9) == []
    (output,) = session.timer(6.0)
    assert isinstance(output, Reconnect)
    assert not session.is_connected
    assert session.next_timer is None
    assert len(session.connected(7.0)) == 2


def test_publications_without_an_answer_are_bounded_in_number_and_bytes() -> None:
    session = connected(unanswered_publications_max=2)
    for key in range(2):
        assert session.has_room
        frames = sent(session.publish(key, publish(b"1"), 0.0))
    assert not session.has_room
    (failed,) = session.publish(2, publish(b"1"), 0.0)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, RefusedError)
    assert failed.error.code == "limit"
    session.received(Accepted(frames[0].ref, 1), 0.0)
    assert session.has_room
    session = connected(unanswered_bytes_max=10)
    session.publish(0, publish(b'"12345678"'), 0.0)
    assert not session.has_room


@pytest.mark.parametrize(
    "frame",
    [
        publish(),
        publish(*[b"1"] * (EVENTS_MAX + 1)),
        publish(b'"%b"' % (b"x" * EVENT_BYTES_MAX)),
        publish(*[b'"%b"' % (b"x" * (EVENT_BYTES_MAX - 2))] * 16),
        publish(b"1", topic="no such name!"),
        Publish(0, "t", [Raw(b"1")], qos=Published(lifespan_seconds=-1)),
        Publish(0, "t", [Raw(b"1")], ids=[""]),
    ],
    ids=["none", "many", "large", "large together", "name", "qos", "id"],
)
def test_a_publication_that_no_edge_could_read_fails_here_and_uses_no_number(frame: Publish) -> None:
    session = connected()
    (failed,) = session.publish("p", frame, 0.0)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, RefusedError)
    assert failed.error.code == "invalid"
    assert sent(session.publish("q", publish(b"1"), 0.0))[0].sequence == 0


@pytest.mark.parametrize(
    ("code", "kind"),
    [("qos", IncompatibleQosError), ("forbidden", ForbiddenError), ("unknown", NotFoundError), ("limit", RefusedError)],
)
def test_refusals_are_typed_errors(code: Any, kind: type[RefusedError]) -> None:
    session = connected()
    (frame,) = sent(session.subscribe("s", Subscribe(0, "t", "TRUE"), 0.0))
    (failed,) = session.received(Refused(frame.ref, code, "because"), 0.0)
    assert isinstance(failed, Failed)
    assert failed.key == "s"
    assert type(failed.error) is kind
    assert str(failed.error) == "because"
    assert session.connected(1.0) == []  # it is not asked for again


def test_a_refusal_of_nobody_knows_what_is_told_without_a_key() -> None:
    (failed,) = connected().received(Refused(None, "invalid", "what?"), 0.0)
    assert isinstance(failed, Failed)
    assert failed.key is None


# Subscribing


def test_positions_that_were_given_are_passed_over() -> None:
    session = subscribed(10)
    assert positions(session.received(deliver("e.1", 11, 13), 0.0)) == [11, 13]
    assert positions(session.received(deliver("e.1", 10, 11, 13, 13, 14), 0.0)) == [14]
    assert positions(session.received(deliver("other", 15), 0.0)) == []


def test_acknowledgements_are_cumulative_and_batched() -> None:
    session = subscribed(10, ack_delay_seconds=1.0)  # the window of 8 makes it every 2 events
    session.received(deliver("e.1", 11, 12, 13), 0.0)
    assert session.ack("s", 11, 0.0) == []
    assert sent(session.ack("s", 12, 0.1)) == [Ack("e.1", 12)]
    assert session.ack("s", 13, 0.5) == []
    assert session.ack("s", 13, 0.5) == []  # it is known
    assert session.ack("s", 99, 0.5) == []  # it was never given
    assert session.next_timer == 1.0
    assert sent(session.timer(1.0)) == [Ack("e.1", 13)]
    assert session.next_timer is None


def test_what_is_delivered_again_is_acknowledged_again() -> None:
    session = subscribed(10)
    session.received(deliver("e.1", 11, 12), 0.0)
    session.ack("s", 11, 0.0)
    session.ack("s", 12, 0.0)
    assert sent(session.received(deliver("e.1", 11, 12), 0.0)) == [Ack("e.1", 12)]


def test_an_unnamed_subscription_resumes_after_what_the_application_is_done_with() -> None:
    session = subscribed(10)
    session.received(deliver("e.1", 11, 12, 13), 0.0)
    session.ack("s", 12, 0.0)
    session.disconnected(1.0)
    assert session.ack("s", 13, 1.0) == []
    (frame,) = sent(session.connected(2.0))
    assert (frame.topic, frame.condition, frame.after) == ("t", "TRUE", 13)
    session.received(Subscribed(frame.ref, "e.2", 13), 2.0)
    assert positions(session.received(deliver("e.1", 14), 2.0)) == []
    assert positions(session.received(deliver("e.2", 14), 2.0)) == [14]


def test_what_waits_in_a_slow_client_is_not_given_twice_after_a_reconnect() -> None:
    session = subscribed(10)
    session.received(deliver("e.1", 11, 12, 13), 0.0)
    session.disconnected(1.0)
    (frame,) = sent(session.connected(2.0))
    assert frame.after == 10
    session.received(Subscribed(frame.ref, "e.2", 10), 2.0)
    assert positions(session.received(deliver("e.2", 11, 12, 13, 14), 2.0)) == [14]


def test_what_is_taken_while_a_subscription_resumes_does_not_confuse_it() -> None:
    session = subscribed(10)
    session.received(deliver("e.1", 11, 12), 0.0)
    session.disconnected(1.0)
    (frame,) = sent(session.connected(2.0))
    session.ack("s", 11, 2.0)
    session.received(Subscribed(frame.ref, "e.2", 10), 2.0)
    assert positions(session.received(deliver("e.2", 11, 12, 13), 2.0)) == [13]


def test_a_durable_subscription_goes_on_where_its_edge_knows_and_acknowledges_at_once() -> None:
    session = subscribed(10, name="mine")
    session.received(deliver("mine", 11, 12, 13), 0.0)
    session.ack("s", 11, 0.0)
    session.disconnected(1.0)
    (frame,) = sent(session.connected(2.0))
    assert (frame.name, frame.after) == ("mine", None)
    assert sent(session.received(Subscribed(frame.ref, "mine", 10, is_new=False), 2.0)) == [Ack("mine", 11)]


@pytest.mark.parametrize("name", [None, "mine"])
def test_an_edge_that_lost_its_log_counts_anew(name: str | None) -> None:
    session = subscribed(1000, name=name)
    session.received(deliver(name or "e.1", 1001, 1002), 0.0)
    session.ack("s", 1001, 0.0)
    session.disconnected(1.0)
    (frame,) = sent(session.connected(2.0))
    session.received(Subscribed(frame.ref, name or "e.2", 0), 2.0)
    assert positions(session.received(deliver(name or "e.2", 1, 2), 2.0)) == [1, 2]
    assert session.ack("s", 1002, 2.0) == []  # of the old count: it would acknowledge what is yet to come


def test_notices_are_given_and_a_detached_subscription_is_not_taken_back() -> None:
    world = World(subscribed(10, name="mine"), is_up=True)
    world.to_client += [Notice("mine", "gap", "too slow", 12), Notice("mine", "detached", "another came")]
    world.settle()
    assert [output.notice.kind for output in world.noticed] == ["gap", "detached"]
    assert isinstance(world.failed["s"], DetachedError)
    world.drop()
    assert world.session.connected(1.0) == []


def test_detaching_acknowledges_what_was_taken() -> None:
    session = subscribed(10, name="mine")
    session.received(deliver("mine", 11), 0.0)
    session.ack("s", 11, 0.0)
    assert sent(session.detach("s")) == [Ack("mine", 11), Detach("mine")]
    assert session.next_timer is None or session.timer(session.next_timer) == []
    assert session.connected(1.0) == []


def test_detaching_before_the_subscription_is_confirmed_detaches_when_it_is() -> None:
    session = connected()
    (frame,) = sent(session.subscribe("s", Attach(0, "mine"), 0.0))
    assert session.detach("s") == []
    assert sent(session.received(Subscribed(frame.ref, "mine", 3, is_new=False), 0.0)) == [Detach("mine")]


@pytest.mark.parametrize("name", [None, "mine"])
@pytest.mark.parametrize("frames_before", range(4))
def test_a_subscription_can_be_ended_at_any_moment(name: str | None, frames_before: int) -> None:
    world = World(ClientSession("me"))
    world.connect()
    world.do(world.session.subscribe("s", Subscribe(0, "t", "TRUE", name=name), 0.0))
    for step in [world.up, world.down, world.drop][:frames_before]:
        step()
    world.do(world.session.unsubscribe("u", "s", 0.0))
    world.settle()
    assert "u" in world.completed
    assert not world.edge.cursors
    world.do(world.session.unsubscribe("twice", "s", 0.0))
    assert "twice" in world.completed


def test_an_unsubscribe_whose_answer_was_lost_is_done() -> None:
    world = World(subscribed(name="mine"), is_up=True)
    world.do(world.session.request("u", Unsubscribe(0, "else"), 0.0))
    world.to_edge.clear()
    world.drop()
    world.settle()
    assert "u" in world.completed
    world.do(world.session.request("v", Unsubscribe(0, "else"), 0.0))
    world.settle()
    assert isinstance(world.failed["v"], NotFoundError)


def test_lists_and_declarations_are_answered() -> None:
    world = World(ClientSession("me"))
    world.do(world.session.request("d", DeclareTopic(0, "t"), 0.0))
    world.do(world.session.request("l", List(0, "topics"), 0.0))
    world.settle()
    assert world.completed["l"].items == []
    assert "d" in world.completed


def test_the_last_call_fails_all_that_is_open() -> None:
    session = subscribed(10)
    session.received(deliver("e.1", 11), 0.0)
    session.ack("s", 11, 0.0)
    session.publish("p", publish(b"1"), 0.0)
    session.request("l", List(0, "topics"), 0.0)
    error = NotConnectedError("closed")
    assert session.close(error) == [
        Transmit(Ack("e.1", 11)),
        Failed("p", error),
        Failed("s", error),
        Failed("l", error),
    ]
