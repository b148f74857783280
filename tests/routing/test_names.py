"""Durable subscriptions have names: they wait, are taken up again, taken over, and end."""

from __future__ import annotations

import pytest
from tests.routing.frames import events, items, refused, subscribed, unsubscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import Subscribe


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect()


def test_a_name_goes_on_where_it_was(harness: Harness, client: Client) -> None:
    publisher = harness.connect()
    assert subscribed(client.subscribe("news", name="mine")).is_new
    publisher.publish("news", *events(1, 2))
    client.ack("mine", client.positions("mine")[0])
    client.close()
    publisher.publish("news", *events(3))
    again = harness.connect()
    answer = subscribed(again.subscribe("news", name="mine"))
    assert not answer.is_new
    assert answer.position == client.positions("mine")[0]
    assert again.numbers("mine") == [2, 3]
    assert again.positions("mine")[0] == client.positions("mine")[1]


def test_a_name_with_other_settings_is_refused_and_untouched(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    other = harness.connect()
    refused(other.subscribe("news", "n > 7", name="mine"), "invalid")
    refused(other.subscribe("olds", name="mine"), "invalid")
    client.publish("news", *events(1))
    assert client.numbers("mine") == [1]
    assert client.notices("detached") == []


def test_two_that_make_the_same_name_at_once_do_not_both_get_it(harness: Harness, client: Client) -> None:
    other = harness.connect()
    harness.together(
        (client, Subscribe(1, "news", "n > 0", name="mine")), (other, Subscribe(1, "news", "n < 0", name="mine"))
    )
    assert subscribed(client.answer(1)).is_new
    refused(other.answer(1), "busy")


def test_another_connection_takes_over_and_the_first_is_told(harness: Harness, client: Client) -> None:
    publisher = harness.connect()
    client.subscribe("news", name="mine", window=2)
    publisher.publish("news", *events(1, 2, 3))
    other = harness.connect()
    other.attach("mine")
    assert [notice.subscription for notice in client.notices("detached")] == ["mine"]
    assert other.numbers("mine") == [1, 2, 3]
    client.ack("mine", client.positions("mine")[-1])  # it has no say any more
    client.detach("mine")
    client.close()
    publisher.publish("news", *events(4))
    assert other.numbers("mine") == [1, 2, 3, 4]
    assert client.numbers("mine") == [1, 2]
    other.close()
    third = harness.connect()
    third.attach("mine")
    assert third.numbers("mine") == [1, 2, 3, 4]


def test_attaching_again_on_the_same_connection_changes_the_window(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine", window=1)
    harness.connect().publish("news", *events(1, 2, 3))
    client.attach("mine", window=10)
    assert client.numbers("mine") == [1, 1, 2, 3]
    assert client.notices("detached") == []


def test_attaching_after_a_position_acknowledges_up_to_it(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    client.publish("news", *events(1, 2, 3, 4))
    second = client.positions("mine")[1]
    client.close()
    other = harness.connect()
    assert subscribed(other.attach("mine", after=second)).position == second
    assert other.numbers("mine") == [3, 4]
    other.close()
    third = harness.connect()
    third.attach("mine")
    assert third.numbers("mine") == [3, 4]
    third.attach("mine", after=-1)  # and back
    assert third.numbers("mine") == [3, 4, 1, 2, 3, 4]


def test_a_durable_subscription_waits_detached(client: Client) -> None:
    client.subscribe("news", name="mine")
    client.detach("mine")
    client.publish("news", *events(1))
    assert client.numbers("mine") == []
    (item,) = items(client.page("subscriptions"))
    assert not item["is_attached"]
    client.attach("mine")
    assert client.numbers("mine") == [1]


def test_an_unnamed_subscription_ends_when_it_is_detached(client: Client) -> None:
    name = subscribed(client.subscribe("news")).subscription
    client.detach(name)
    refused(client.attach(name), "unknown")


def test_on_close_the_unnamed_end_and_the_named_stay(harness: Harness, client: Client) -> None:
    client.subscribe("news")
    client.subscribe("news", name="mine")
    other = harness.connect()
    stays = subscribed(other.subscribe("news")).subscription
    client.close()
    assert {item["subscription"] for item in items(other.page("subscriptions"))} == {"mine", stays}


def test_the_position_of_an_unnamed_one_is_enough_to_go_on(harness: Harness, client: Client) -> None:
    first = subscribed(client.subscribe("news")).subscription
    publisher = harness.connect()
    publisher.publish("news", *events(1, 2))
    seen = client.positions(first)[0]
    client.close()
    publisher.publish("news", *events(3))
    harness.crash()
    again = harness.connect()
    name = subscribed(again.subscribe("news", after=seen)).subscription
    assert again.numbers(name) == [2, 3]


def test_whoever_closes_while_subscribing_leaves_only_what_is_named(harness: Harness, client: Client) -> None:
    other = harness.connect()
    harness.holds_storage = True
    client.subscribe("news", name="mine")
    client.close()
    harness.store()
    harness.holds_storage = False
    other.publish("news", *events(1))
    assert subscribed(other.attach("mine")).subscription == "mine"
    assert other.numbers("mine") == [1]


# Ending


def test_after_unsubscribing_nothing_comes(harness: Harness, client: Client) -> None:
    unnamed = subscribed(client.subscribe("news")).subscription
    client.subscribe("news", name="mine")
    assert unsubscribed(client.unsubscribe("mine")).subscription == "mine"
    unsubscribed(client.unsubscribe(unnamed))
    client.publish("news", *events(1))
    assert client.numbers("mine") == client.numbers(unnamed) == []
    refused(client.unsubscribe("mine"), "unknown")
    assert subscribed(client.subscribe("news", "n > 5", name="mine")).is_new  # the name is free
    harness.crash()
    (item,) = items(harness.connect().page("subscriptions"))
    assert item["condition"] == "n > 5"


def test_whoever_is_served_hears_that_another_ended_the_subscription(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    other = harness.connect()
    unsubscribed(other.unsubscribe("mine"))
    assert [notice.subscription for notice in client.notices("detached")] == ["mine"]
    assert other.notices("detached") == []


def test_a_name_that_is_just_ending_is_not_taken_up_again(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    other = harness.connect()
    harness.holds_storage = True
    client.unsubscribe("mine")
    refused(other.subscribe("news", name="mine"), "busy")
    refused(other.attach("mine"), "busy")
    harness.holds_storage = False
    harness.store()
    assert subscribed(other.subscribe("news", name="mine")).is_new
