"""What could not be stored has not happened: not now, and not after a restart."""

from __future__ import annotations

import pytest
from tests.routing.frames import accepted, done, events, items, publication, refused, subscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import DeclareTopic, Subscribe, Unsubscribe
from fieldfare.qos import Offered, Requested

LOOSE = Offered("best_effort", "volatile")


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect()


def test_a_publication(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    harness.holds_storage = True
    client.send(publication(1, "news", *events(1)))
    harness.fail_to_store("the disk is full")
    assert refused(client.answer(1), "storage").reason == "the disk is full"
    harness.holds_storage = False
    client.publish("news", *events(2))
    assert client.numbers("mine") == [2]
    client.attach("mine", after=-1)
    assert client.numbers("mine") == [2, 2]
    assert harness.edge.statistics().published == 1


def test_a_subscription(harness: Harness, client: Client) -> None:
    harness.holds_storage = True
    client.send(Subscribe(1, "news", "n >= 0", name="mine"))
    harness.fail_to_store()
    refused(client.answer(1), "storage")
    harness.holds_storage = False
    client.publish("news", *events(1))
    refused(client.attach("mine"), "unknown")
    assert items(client.page("subscriptions")) == []
    assert subscribed(client.subscribe("news", "n > 5", name="mine")).is_new
    client.publish("news", *events(2, 6))
    assert client.numbers("mine") == [6]


def test_an_end(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    harness.holds_storage = True
    client.send(Unsubscribe(1, "mine"))
    harness.fail_to_store()
    refused(client.answer(1), "storage")
    harness.holds_storage = False
    client.publish("news", *events(1))
    assert client.numbers("mine") == [1]
    harness.crash()
    again = harness.connect()
    again.attach("mine")
    assert again.numbers("mine") == [1]


def test_a_change_of_a_topic(harness: Harness, client: Client) -> None:
    harness.holds_storage = True
    client.send(DeclareTopic(1, "news", LOOSE))
    harness.fail_to_store()
    refused(client.answer(1), "storage")
    harness.holds_storage = False
    (item,) = items(client.page("topics"))
    assert item["offered"]["reliability"] == "reliable"
    subscribed(client.subscribe("news"))


def test_a_first_publication_without_the_log_and_what_comes_after_it(harness: Harness, client: Client) -> None:
    done(client.declare("news", offered=LOOSE))
    name = subscribed(client.subscribe("news", qos=Requested("best_effort"))).subscription
    harness.holds_storage = True
    client.send(publication(1, "news", *events(1), publisher="p", sequence=0))
    harness.fail_to_store()
    refused(client.answer(1), "storage")  # its position could be used again after a restart
    harness.holds_storage = False
    assert accepted(client.publish("news", *events(2), publisher="p", sequence=0)).duplicates == 0
    assert client.numbers(name) == [2]


def test_what_follows_goes_on_though_what_was_before_it_failed(harness: Harness, client: Client) -> None:
    done(client.declare("loose", offered=LOOSE))
    done(client.declare("news", offered=LOOSE))
    accepted(client.publish("loose", *events(0)))  # from here on best effort needs no log
    done(client.declare("news", offered=Offered()))
    name = subscribed(client.subscribe("news", qos=Requested("best_effort"))).subscription
    harness.holds_storage = True
    client.send(DeclareTopic(1, "news", LOOSE))
    client.send(publication(2, "news", *events(1)))
    harness.store(1)
    client.send(publication(3, "news", *events(2)))
    assert client.numbers(name) == []  # it waits for the one before it
    harness.fail_to_store()
    refused(client.answer(2), "storage")
    accepted(client.answer(3))
    assert client.numbers(name) == [2]
