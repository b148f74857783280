"""Publish, subscribe, acknowledge: what a client is sent, and in which order."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw
from tests.routing.frames import accepted, done, events, items, publication, refused, subscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import Deliver, Notice, Publish, Subscribe, Subscribed
from fieldfare.qos import Requested
from fieldfare.routing.options import EdgeOptions


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect()


def test_a_matching_event_is_delivered_as_it_was_published(client: Client) -> None:
    name = subscribed(client.subscribe("news", "n > 1")).subscription
    text = b'{"n":  2, "big": 12345678901234567890.125, "\\u00e9": [1]}'
    client.send(Publish(99, "news", [Raw(text), Raw(b'{"n": 1}')], publisher="p", ids=["a", "b"]))
    assert accepted(client.answer(99)).count == 2
    (delivery,) = client.deliveries(name)
    assert bytes(delivery.event) == text
    assert (delivery.id, delivery.publisher, delivery.at) == ("a", "p", client.harness.now)


def test_events_arrive_in_the_order_of_publication(harness: Harness, client: Client) -> None:
    name = subscribed(client.subscribe("news")).subscription
    publisher = harness.connect()
    harness.holds_storage = True
    for number in range(0, 20, 2):
        publisher.publish("news", *events(number, number + 1))
    assert client.deliveries(name) == []
    harness.store(3)
    harness.store()
    assert client.numbers(name) == list(range(20))
    assert sorted(set(client.positions(name))) == client.positions(name)


def test_a_publication_is_answered_when_it_is_stored(harness: Harness, client: Client) -> None:
    harness.holds_storage = True
    client.send(publication(1, "news", *events(1)))
    assert client.answer(1) is None
    harness.store()
    assert accepted(client.answer(1)).count == 1


def test_ids_that_the_edge_gives_are_all_different(client: Client) -> None:
    name = subscribed(client.subscribe("news")).subscription
    client.publish("news", *events(1, 2))
    client.publish("news", *events(3))
    assert len({delivery.id for delivery in client.deliveries(name)}) == 3


def test_every_subscription_gets_its_own_copy(harness: Harness, client: Client) -> None:
    first = subscribed(client.subscribe("news", "n < 5")).subscription
    second = subscribed(client.subscribe("news", "n > 3")).subscription
    elsewhere = subscribed(client.subscribe("olds", "n >= 0")).subscription
    harness.connect().publish("news", *events(3, 4, 5))
    assert client.numbers(first) == [3, 4]
    assert client.numbers(second) == [4, 5]
    assert client.numbers(elsewhere) == []


def test_many_subscriptions_of_one_round_are_all_confirmed(harness: Harness) -> None:
    clients = [harness.connect() for _ in range(5)]
    harness.together(
        *((client, Subscribe(number, "news", f"n = {number}")) for client in clients for number in range(20))
    )
    clients[0].publish("news", *events(7, 19, 20))
    for client in clients:
        names = {number: subscribed(client.answer(number)).subscription for number in range(20)}
        assert len(set(names.values())) == 20
        assert {number for number in names if client.numbers(names[number])} == {7, 19}


def test_a_condition_that_is_wrong_is_refused_with_its_place(harness: Harness, client: Client) -> None:
    harness.together(
        (client, Subscribe(101, "news", "n >= 0")),
        (client, Subscribe(102, "news", "n >= 0 AND (n <")),
        (client, Subscribe(103, "news", "frobnicate(n) = 1")),
        (client, Subscribe(104, "news", "n < 9", name="last")),
    )
    assert "at character 15" in refused(client.answer(102), "condition").reason
    refused(client.answer(103), "condition")
    client.publish("news", *events(1))
    assert client.numbers(subscribed(client.answer(101)).subscription) == [1]
    assert client.numbers("last") == [1]
    assert len(items(client.page("subscriptions"))) == 2


def test_a_wrong_condition_does_not_use_up_its_name(client: Client) -> None:
    refused(client.subscribe("news", "n <", name="mine"), "condition")
    assert subscribed(client.subscribe("news", "n < 3", name="mine")).is_new


# Windows


def test_no_more_is_sent_than_the_window_allows(harness: Harness, client: Client) -> None:
    name = subscribed(client.subscribe("news", window=3)).subscription
    harness.connect().publish("news", *events(*range(10)))
    assert client.numbers(name) == [0, 1, 2]
    client.ack(name, client.positions(name)[1])
    assert client.numbers(name) == [0, 1, 2, 3, 4]
    client.ack(name, client.positions(name)[1])  # again: nothing more is free
    assert client.numbers(name) == [0, 1, 2, 3, 4]
    assert client.take_all(name) == list(range(10))


def test_one_slow_subscriber_does_not_hold_up_another(harness: Harness, client: Client) -> None:
    slow = subscribed(client.subscribe("news", window=1)).subscription
    quick = subscribed(client.subscribe("news")).subscription
    harness.connect().publish("news", *events(*range(10)))
    assert client.numbers(slow) == [0]
    assert client.numbers(quick) == list(range(10))


def test_frames_are_not_longer_than_allowed() -> None:
    client = Harness(EdgeOptions(frame_bytes_max=200)).connect()
    name = subscribed(client.subscribe("news")).subscription
    client.publish("news", *events(*range(50)))
    frames = [frame for frame in client.frames if isinstance(frame, Deliver)]
    longest = max(len(bytes(event)) for frame in frames for event in frame.events)
    assert client.numbers(name) == list(range(50))
    assert all(sum(len(bytes(event)) for event in frame.events) < 200 + longest for frame in frames)


def test_acknowledging_what_was_never_sent_frees_nothing_that_comes_later(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine", window=2)
    client.ack("mine", 1_000_000)
    harness.connect().publish("news", *events(*range(5)))
    assert client.numbers("mine") == [0, 1]
    client.close()
    again = harness.connect()
    again.subscribe("news", name="mine")
    assert again.numbers("mine") == list(range(5))


def test_what_left_a_connection_makes_room_but_is_sent_again_to_the_next(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine", window=2)
    harness.connect().publish("news", *events(*range(5)))
    for _ in range(3):
        client.ack("mine", client.positions("mine")[-1], is_final=False)
    assert client.numbers("mine") == list(range(5))
    client.close()
    again = harness.connect()
    again.attach("mine")
    assert again.numbers("mine") == list(range(5))


# While events are under way


def test_an_event_that_had_its_position_before_is_not_delivered(harness: Harness, client: Client) -> None:
    publisher = harness.connect()
    harness.holds_storage = True
    publisher.publish("news", *events(1))
    name = subscribed(client.subscribe("news")).subscription
    client.subscribe("news", name="mine")
    publisher.publish("news", *events(2))
    harness.store()
    assert client.numbers(name) == [2]
    assert client.numbers("mine") == [2]


@pytest.mark.parametrize("named", [False, True])
def test_an_event_that_is_published_after_the_confirmation_always_comes(named: bool) -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    harness.holds_storage = True
    publisher.publish("news", *events(1))
    ref = client.ref()
    client.send(Subscribe(ref, "news", "n >= 0", name="mine" if named else None))
    publisher.publish("news", *events(2))
    harness.store(1)
    while client.answer(ref) is None:
        harness.store(1)
    name = subscribed(client.answer(ref)).subscription
    publisher.publish("news", *events(3))
    harness.store()
    assert client.numbers(name)[-1:] == [3]
    assert 1 not in client.numbers(name)


def test_subscribing_and_publishing_in_one_round(harness: Harness, client: Client) -> None:
    harness.together(
        (client, publication(1, "news", *events(1))),
        (client, Subscribe(2, "news", "n >= 0")),
        (client, publication(3, "news", *events(2))),
    )
    assert client.numbers(subscribed(client.answer(2)).subscription) == [2]


def test_confirmation_comes_before_the_first_event(client: Client) -> None:
    client.publish("news", *events(1))
    name = subscribed(client.subscribe("news", after=-1)).subscription
    kinds = [type(frame) for frame in client.frames if getattr(frame, "subscription", "") == name]
    assert kinds == [Subscribed, Deliver]


# Bad events


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "[]",
        "null",
        '{"n": 1, "n": 2}',
        '{"n": 1e999}',
        '{"n": NaN}',
        '{"n": 9223372036854775808}',
        '{"n": ' + "9" * 4000 + "}",
        '{"n": {"low": 3, "high": "x"}}',
        '{"n": "\\ud800"}',
        '{"n": ' + "[" * 200 + "]" * 200 + "}",
        '{"n": "' + "x" * 300_000 + '"}',
    ],
    ids=lambda text: text[:24],
)
def test_a_strange_event_is_refused_with_all_of_its_publication_or_matched_and_stops_nobody(
    client: Client, text: str
) -> None:
    name = subscribed(client.subscribe("news", "n >= 0 OR n IS NULL")).subscription
    client.send(Publish(50, "news", [Raw(b'{"n": 1}'), Raw(text.encode())]))
    answer = client.answer(50)
    assert answer is not None
    if not hasattr(answer, "code"):
        assert accepted(answer).count == 2
    else:
        assert "event 1" in refused(answer, "invalid").reason
        assert client.deliveries(name) == []
    client.publish("news", *events(2))
    assert json.loads(bytes(client.deliveries(name)[-1].event)) == {"n": 2}


def test_as_many_ids_as_events(client: Client) -> None:
    refused(client.publish("news", *events(1, 2), ids=["a"]), "invalid")
    refused(client.publish("news", *events(1), sequence=0), "invalid")


def test_nothing_published_is_accepted(client: Client) -> None:
    assert accepted(client.publish("news")).count == 0


def test_what_is_matched_and_not_is_counted(client: Client) -> None:
    client.publish("news", *events(1))
    client.subscribe("news", "n > 2", name="mine")
    client.publish("news", *events(1, 2, 3))
    (item,) = items(client.page("subscriptions"))
    assert (item["accepted"], item["rejected"]) == (1, 2)
    statistics = client.harness.edge.statistics()
    assert (statistics.published, statistics.matched, statistics.delivered) == (4, 1, 1)


def test_who_asks_for_it_is_told_once_when_it_has_caught_up(harness: Harness, client: Client) -> None:
    client.publish("news", *events(*range(10)))
    mine = subscribed(client.subscribe("news", qos=Requested(durability="transient"), window=4, wants_mark=True))
    assert client.numbers(mine.subscription) == [0, 1, 2, 3]
    assert client.notices("caught_up") == []
    assert client.take_all(mine.subscription) == list(range(10))
    assert [notice.position for notice in client.notices("caught_up")] == [9]
    client.publish("news", *events(10))
    client.take_all(mine.subscription)
    assert len(client.notices("caught_up")) == 1
    other = harness.connect()
    subscribed(other.subscribe("news"))
    assert other.notices("caught_up") == []


def test_where_there_is_nothing_the_mark_comes_at_once(client: Client) -> None:
    client.subscribe("news", wants_mark=True, name="kept")
    assert len(client.notices("caught_up")) == 1
    client.detach("kept")
    client.publish("news", *events(1))
    client.attach("kept", wants_mark=True)
    kinds = [frame.kind if isinstance(frame, Notice) else "event" for frame in client.frames[-2:]]
    assert kinds == ["event", "caught_up"]


def test_a_topic_for_spark_is_refused_where_there_is_no_pipeline() -> None:
    client = Harness(EdgeOptions(has_pipeline=False)).connect()
    assert "--spark" in refused(client.declare("big", matching="spark"), "invalid").reason
    done(client.declare("big"))
