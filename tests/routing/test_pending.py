"""Subscriptions that are not yet in force: their webhook is being checked, their condition compiled."""

from __future__ import annotations

import pytest
from tests.routing.frames import events, refused, subscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import (
    BrokerIdentity,
    Close,
    Effect,
    Input,
    Opened,
    PeerIdentity,
    Subscribe,
    Unsubscribe,
)
from fieldfare.qos import Requested
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.taker import Taker

HOOK = "https://hook.example/"


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect()


def hooked(ref: int = 1) -> Subscribe:
    return Subscribe(ref, "news", "n >= 0", name="mine", webhook=HOOK)


def test_a_webhook_is_checked_before_its_subscription_is_in_force(harness: Harness, client: Client) -> None:
    harness.holds_checks = True
    client.send(hooked())
    assert [check.url for check in harness.checks] == [HOOK]
    client.publish("news", *events(1))
    assert (client.answer(1), harness.calls) == (None, [])
    harness.answer_check()
    assert subscribed(client.answer(1)).subscription == "mine"
    assert len(harness.calls) == 1, "it began where it was asked for"


@pytest.mark.parametrize(("is_busy", "code"), [(False, "invalid"), (True, "busy")])
def test_a_webhook_that_may_not_be_called_is_refused_and_leaves_nothing(
    harness: Harness, client: Client, is_busy: bool, code: str
) -> None:
    harness.holds_checks = True
    client.send(hooked())
    harness.answer_check("it is an internal address", is_busy=is_busy)
    assert refused(client.answer(1), code).reason == "it is an internal address"
    assert harness.edge.statistics().subscriptions == 0
    harness.holds_checks = False
    client.send(hooked(2))
    assert subscribed(client.answer(2)).is_new


def test_what_follows_on_the_link_does_not_overtake(harness: Harness, client: Client) -> None:
    harness.holds_checks = True
    client.send(hooked())
    client.send(hooked(2))
    client.send(Unsubscribe(3, "mine"))
    refused(client.answer(2), "busy")
    refused(client.answer(3), "busy")
    harness.answer_check()
    subscribed(client.answer(1))
    client.send(Unsubscribe(4, "mine"))
    assert client.answer(4) is not None


def test_a_client_that_leaves_while_its_webhook_is_checked_has_subscribed(harness: Harness, client: Client) -> None:
    harness.holds_checks = True
    client.send(hooked())
    client.close()
    harness.answer_check()
    assert harness.edge.statistics().subscriptions == 1
    harness.connect().publish("news", *events(1))
    assert len(harness.calls) == 1


def test_events_that_come_while_a_condition_is_compiled_are_not_missed(harness: Harness, client: Client) -> None:
    harness.holds_compiling = True
    client.send(Subscribe(1, "news", "n >= 0"))
    client.publish("news", *events(1, 2))
    assert client.answer(1) is None
    harness.compile()
    mine = subscribed(client.answer(1)).subscription
    client.publish("news", *events(3))
    assert client.numbers(mine) == [1, 2, 3]


def test_conditions_of_one_round_are_compiled_together(harness: Harness, client: Client) -> None:
    harness.holds_compiling = True
    harness.together(*((client, Subscribe(ref, "news", f"n >= {ref}")) for ref in range(5)))
    assert [len(effect.conditions) for effect in harness.compiling] == [5]


def test_who_leaves_while_its_condition_is_compiled_has_no_subscription(harness: Harness, client: Client) -> None:
    harness.holds_compiling = True
    client.send(Subscribe(1, "news", "n >= 0"))
    client.close()
    harness.compile()
    assert harness.edge.statistics().subscriptions == 0


@pytest.mark.parametrize("stranger", [BrokerIdentity("b"), PeerIdentity("p")])
def test_an_edge_serves_clients_only(harness: Harness, stranger: BrokerIdentity | PeerIdentity) -> None:
    closed: list[Effect] = []
    harness.kernel.provide(Close, closed.append)
    opened: Input = Opened("x", stranger)
    harness.tell(opened)
    assert closed == [Close("x", "an edge serves clients")]
    assert harness.edge.statistics().connections == 0


def test_a_taker_that_has_ended_cannot_be_attached() -> None:
    subscription = Subscription("s", "acme", "news", "n > 0", Requested(), is_durable=False)
    taker = Taker(subscription, 1, -1, reads_log=True)
    taker.end()
    with pytest.raises(KeyError):
        taker.attach("link", 10, None, 5)


def test_a_run_that_failed_can_say_what_waits_for_what(harness: Harness, client: Client) -> None:
    harness.holds_storage = harness.holds_checks = harness.holds_compiling = True
    client.send(hooked())
    client.send(Subscribe(2, "news", "n >= 0"))
    client.publish("news", *events(1))
    assert harness.edge.waits() == [
        "record 2: Publication STORING",
        "answer 1: CompilingGroup",
        "answer 1: PendingSubscription CHECKING",
    ]
