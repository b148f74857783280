"""What publishers say that they will publish, and what happens to the rest."""

from __future__ import annotations

import pytest
from tests.routing.frames import accepted, done, events, refused
from tests.routing.harness import TENANT, Client, Harness

from fieldfare.messages import Advertise, Identity, Unadvertise


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect()


def advertise(client: Client, condition: str | None, publisher: str = "p") -> None:
    ref = client.ref()
    client.send(Advertise(ref, "news", publisher, condition))
    done(client.answer(ref))


def test_an_event_outside_is_refused_and_uses_no_number(client: Client) -> None:
    advertise(client, "n < 5 AND n * 2 < 8")
    accepted(client.publish("news", *events(1, 3), publisher="p", sequence=0))
    assert "event 1" in refused(client.publish("news", *events(1, 4), publisher="p", sequence=2), "unadvertised").reason
    refused(client.publish("news", *events(9), publisher="p", sequence=2), "unadvertised")
    accepted(client.publish("news", *events(2), publisher="p", sequence=2))
    accepted(client.publish("news", *events(9), publisher="q", sequence=0))
    accepted(client.publish("olds", *events(9), publisher="p", sequence=0))
    accepted(client.publish("news", *events(9)))


def test_the_latest_counts_and_it_ends_with_its_connection(harness: Harness, client: Client) -> None:
    advertise(client, "n < 5")
    advertise(client, "n >= 5")
    accepted(client.publish("news", *events(9), publisher="p", sequence=0))
    advertise(client, None)
    accepted(client.publish("news", *events(1), publisher="p", sequence=1))
    advertise(client, "n < 5")
    client.close()
    accepted(harness.connect().publish("news", *events(9), publisher="p", sequence=2))


def test_it_is_taken_back(client: Client) -> None:
    advertise(client, "n < 5")
    client.send(Unadvertise(7, "news", "p"))
    done(client.answer(7))
    client.send(Unadvertise(8, "news", "p"))
    done(client.answer(8))
    accepted(client.publish("news", *events(9), publisher="p", sequence=0))


def test_another_connection_takes_it_over(harness: Harness, client: Client) -> None:
    advertise(client, "n < 5")
    other = harness.connect()
    advertise(other, "n < 6")
    client.close()
    refused(other.publish("news", *events(9), publisher="p", sequence=0), "unadvertised")


def test_a_bad_condition_and_a_missing_right_are_refused(harness: Harness, client: Client) -> None:
    client.send(Advertise(1, "news", "p", "n <"))
    refused(client.answer(1), "condition")
    other = harness.connect(Identity(TENANT, {"publish": ("olds",)}))
    other.send(Advertise(1, "news", "p"))
    refused(other.answer(1), "forbidden")
