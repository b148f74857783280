"""Quotas of tenants: refused with the reason, and only what is beyond them."""

from __future__ import annotations

import pytest
from tests.routing.frames import accepted, events, refused, subscribed
from tests.routing.harness import ALL, TENANT, Client, Harness

from fieldfare.messages import Close, Effect, Identity
from fieldfare.qos import Published
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.quotas import Quota


def limited(**quota: float) -> Harness:
    return Harness(EdgeOptions(quotas={TENANT: Quota(**quota)}))  # type: ignore[arg-type]


def test_events_a_second() -> None:
    harness = limited(events_per_second=10)
    client = harness.connect()
    for number in range(20):  # two seconds' worth at once
        accepted(client.publish("news", *events(number)))
    refusal = refused(client.publish("news", *events(99)), "busy")
    assert "10 events a second" in refusal.reason
    harness.pass_time(1)
    for number in range(10):
        accepted(client.publish("news", *events(number)))
    refused(client.publish("news", *events(99)), "busy")


def test_a_large_publication_is_taken_whole_and_paid_for_by_waiting() -> None:
    harness = limited(events_per_second=10)
    client = harness.connect()
    accepted(client.publish("news", *events(*range(100))))
    refused(client.publish("news", *events(1)), "busy")
    harness.pass_time(7.9)
    refused(client.publish("news", *events(1)), "busy")
    harness.pass_time(0.2)
    accepted(client.publish("news", *events(1)))


def test_subscriptions() -> None:
    harness = limited(subscriptions_max=2)
    client = harness.connect()
    first = subscribed(client.subscribe("news"))
    subscribed(client.subscribe("news", name="kept"))
    assert "quota" in refused(client.subscribe("news"), "limit").reason
    client.unsubscribe(first.subscription)
    subscribed(client.subscribe("news"))


def test_connections() -> None:
    harness = limited(connections_max=2)
    closed: list[Effect] = []
    harness.kernel.provide(Close, closed.append)
    one, _ = harness.connect(), harness.connect()
    third = harness.connect()
    assert closed == [Close(third.id, "this tenant has 2 connections already, its quota: close one first")]
    one.close()
    third.close()
    subscribed(harness.connect().subscribe("news"))
    assert len(closed) == 1


def test_bytes_that_are_kept_survive_a_restart_and_count_until_they_expire() -> None:
    harness = limited(kept_bytes_max=500)
    client = harness.connect()
    qos = Published(lifespan_seconds=600)
    accepted(client.publish("news", *events(*range(10)), qos=qos))
    assert "500 bytes" in refused(client.publish("news", *events(1), qos=qos), "limit").reason
    for is_checkpointed in (False, True):
        if is_checkpointed:
            harness.checkpoint()
        harness.crash()
        client = harness.connect()
        refused(client.publish("news", *events(1), qos=qos), "limit")
        assert harness.edge.usage(TENANT, harness.now).kept_bytes > 500
    harness.pass_time(700)
    accepted(client.publish("news", *events(1), qos=qos))


def test_a_repetition_costs_nothing() -> None:
    harness = limited(events_per_second=1)
    client = harness.connect()
    accepted(client.publish("news", *events(1, 2, 3), publisher="p", sequence=0))
    accepted(client.publish("news", *events(1, 2, 3), publisher="p", sequence=0))


@pytest.mark.parametrize("name", [TENANT, "other"])
def test_others_have_their_own(name: str) -> None:
    quotas = {"*": Quota(subscriptions_max=1), "rich": Quota(subscriptions_max=3)}
    harness = Harness(EdgeOptions(quotas=quotas))
    client: Client = harness.connect(Identity(name, ALL.rights))
    subscribed(client.subscribe("news"))
    refused(client.subscribe("news"), "limit")
    rich = harness.connect(Identity("rich", ALL.rights))
    for _ in range(3):
        subscribed(rich.subscribe("news"))
    refused(rich.subscribe("news"), "limit")
