"""Webhooks as the edge drives them: one call at a time, in order, again after a failure, and dead letters."""

from __future__ import annotations

import json

import pytest
from msgspec.json import decode
from tests.routing.frames import events, items, refused, subscribed, unsubscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import CallWebhook, Delivery, WebhookCalled
from fieldfare.routing.options import EdgeOptions

URL = "https://example.com/hook"
OPTIONS = EdgeOptions(
    webhook_events_max=3,
    webhook_attempts_max=4,
    webhook_backoff_seconds=1.0,
    webhook_backoff_seconds_max=3.0,
    waiting_max=4,
    dead_letters_max=2,
)


@pytest.fixture
def harness() -> Harness:
    return Harness(OPTIONS)


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.connect()
    subscribed(client.subscribe("news", name="hook", webhook=URL))
    return client


def numbers(call: CallWebhook) -> list[int]:
    return [json.loads(bytes(decode(event, type=Delivery).event))["n"] for event in call.events]


def dead(client: Client) -> list[int]:
    letters = items(client.page("dead_letters", subscription="hook"))
    return [json.loads(bytes(decode(letter["event"], type=Delivery).event))["n"] for letter in letters]


def test_events_are_posted_in_order_a_call_at_a_time(harness: Harness, client: Client) -> None:
    for number in range(20):
        client.publish("news", *events(number))
    got = []
    while harness.calls:
        (call,) = harness.calls
        assert (call.url, call.subscription, call.topic) == (URL, "hook", "news")
        assert len(call.events) <= 3
        got += numbers(harness.answer_call())
    assert got == list(range(20))
    client.publish("news", *events(20))
    assert numbers(harness.answer_call()) == [20]


def test_the_client_that_made_it_is_not_needed(harness: Harness, client: Client) -> None:
    client.close()
    harness.connect().publish("news", *events(1))
    assert numbers(harness.calls[0]) == [1]


def test_a_failed_call_is_made_again_later_and_later(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1))
    waits = []
    for _ in range(3):
        harness.answer_call("it answered 500")
        assert harness.calls == []
        began = harness.now
        while not harness.calls:
            harness.pass_time(0.01)
        waits.append(harness.now - began)
        assert numbers(harness.calls[0]) == [1]
    for wait, expected in zip(waits, (1, 2, 3), strict=True):
        assert 0.74 * expected <= wait <= 1.27 * expected
    harness.answer_call()
    assert dead(client) == []
    assert harness.edge.statistics().calls_failed == 3


def test_an_endpoint_says_when_to_come_again(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1))
    harness.answer_call("busy", retry_after_seconds=30.0)
    harness.pass_time(29.9)
    assert harness.calls == []
    harness.pass_time(0.2)
    assert numbers(harness.calls[0]) == [1]


def test_what_comes_meanwhile_waits_for_the_next_call(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1))
    harness.answer_call("busy")
    client.publish("news", *events(2, 3))
    assert harness.calls == []
    harness.pass_time(2)
    assert numbers(harness.answer_call()) == [1]
    assert numbers(harness.answer_call()) == [2, 3]


def test_what_is_never_taken_becomes_a_dead_letter_and_the_rest_goes_on(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1, 2))
    client.publish("news", *events(3))
    for attempt in range(4):
        assert numbers(harness.calls[0]) == [1, 2]
        harness.answer_call(f"failure {attempt}")
        harness.pass_time(10)
    assert dead(client) == [1, 2]
    letters = items(client.page("dead_letters", subscription="hook"))
    assert {letter["reason"] for letter in letters} == {"failure 3"}
    assert numbers(harness.answer_call()) == [3]


def test_what_would_fail_again_is_not_tried_again(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1))
    harness.answer_call("it answered 410", is_permanent=True)
    harness.pass_time(100)
    assert harness.calls == []
    assert dead(client) == [1]


def test_of_many_dead_letters_the_latest_are_kept(harness: Harness, client: Client) -> None:
    for number in range(5):
        client.publish("news", *events(number))
        harness.answer_call("no", is_permanent=True)
    assert dead(client) == [3, 4]


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_dead_letters_survive_and_end_with_their_subscription(harness: Harness, has_checkpoint: bool) -> None:
    client = harness.connect()
    client.subscribe("news", name="hook", webhook=URL)
    client.publish("news", *events(1))
    harness.holds_storage = True
    harness.answer_call("no", is_permanent=True)
    if has_checkpoint:
        harness.checkpoint()  # while the letter is on its way to the log
    harness.holds_storage = False
    harness.settle()
    harness.pass_time(1)
    for _ in range(2):
        harness.crash()
        client = harness.connect()
        assert dead(client) == [1]
        assert harness.calls == []
    unsubscribed(client.unsubscribe("hook"))
    client.subscribe("news", name="hook", webhook=URL)
    assert dead(client) == []
    harness.crash()
    assert dead(harness.connect()) == []


def test_a_letter_that_comes_after_the_end_of_its_subscription_is_forgotten(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1))
    harness.holds_storage = True
    client.unsubscribe("hook")
    harness.answer_call("no", is_permanent=True)
    harness.holds_storage = False
    harness.settle()
    harness.crash()
    again = harness.connect()
    again.subscribe("news", name="hook", webhook=URL)
    assert dead(again) == []


def test_after_a_restart_what_was_not_confirmed_is_called_again(harness: Harness, client: Client) -> None:
    for number in range(10):
        client.publish("news", *events(number))
    assert numbers(harness.answer_call()) == [0]
    assert numbers(harness.answer_call()) == [1, 2, 3]
    harness.pass_time(1)
    harness.crash()
    got = []
    while harness.calls:
        got += numbers(harness.answer_call())
    assert got == list(range(4, 10))


def test_unsubscribing_ends_it_even_during_a_call(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1, 2, 3, 4))
    unsubscribed(client.unsubscribe("hook"))
    harness.answer_call("no")
    harness.pass_time(100)
    assert harness.calls == []
    subscribed(client.subscribe("news", name="hook", webhook=URL))
    client.publish("news", *events(5))
    assert numbers(harness.answer_call()) == [5]
    assert harness.calls == []


def test_unsubscribing_while_it_waits_to_call_again(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1))
    harness.answer_call("no")
    unsubscribed(client.unsubscribe("hook"))
    harness.pass_time(100)
    assert harness.calls == []


def test_an_answer_to_a_call_of_the_past_changes_nothing(harness: Harness, client: Client) -> None:
    client.publish("news", *events(1))
    past = harness.answer_call()
    client.publish("news", *events(2))
    harness.tell(WebhookCalled(past.handle, past.tenant, past.subscription, past.position))
    harness.pass_time(1)
    harness.crash()
    assert numbers(harness.calls[0]) == [2]


def test_one_webhook_that_fails_does_not_hold_up_another(harness: Harness, client: Client) -> None:
    subscribed(client.subscribe("news", name="other", webhook=URL))
    client.publish("news", *events(1))
    calls = {call.subscription: call for call in harness.calls}
    harness.calls.sort(key=lambda call: call.subscription != "hook")
    harness.answer_call("no")
    harness.answer_call()
    client.publish("news", *events(2))
    assert set(calls) == {"hook", "other"}
    assert [(call.subscription, numbers(call)) for call in harness.calls] == [("other", [2])]


def test_a_webhook_needs_a_name_and_nobody_attaches_to_it(client: Client) -> None:
    refused(client.subscribe("news", webhook=URL), "invalid")
    refused(client.attach("hook"), "invalid")
    assert not subscribed(client.subscribe("news", name="hook", webhook=URL)).is_new
    refused(client.subscribe("news", name="hook", webhook=URL + "2"), "invalid")


@pytest.mark.parametrize("with_checkpoint", [False, True])
@pytest.mark.parametrize(("form", "together"), [("binary", 1), ("structured", 1), ("batch", 3)])
def test_the_form_of_a_call_survives_a_crash(form: str, together: int, with_checkpoint: bool) -> None:
    harness = Harness(OPTIONS)
    subscribed(harness.connect().subscribe("news", name="hook", webhook=URL, webhook_form=form))
    if with_checkpoint:
        harness.checkpoint()
    harness.crash()
    client = harness.connect()
    client.publish("news", *events(*range(3)))
    (call,) = harness.calls
    assert (call.form, len(call.events)) == (form, together)
