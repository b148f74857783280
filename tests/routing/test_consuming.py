"""Consuming one by one: refusals, backoff, dead letters, shared subscriptions and keys, and what of it survives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.json import decode
from tests.routing.frames import events, items, number_of, refused, subscribed
from tests.routing.harness import ALL, Client, Harness

from fieldfare.messages import (
    AckEach,
    Change,
    Deliver,
    Delivery,
    Done,
    DropDeadLetters,
    Identity,
    Nack,
    PauseDelivery,
    Redrive,
    ResumeDelivery,
    Seek,
    Start,
    Subscribe,
    SubscriptionRequest,
)
from fieldfare.qos import Consuming, Offered, Requested
from fieldfare.routing.options import EdgeOptions

SHARED = Consuming(is_shared=True, attempts_max=3, take_seconds=10.0)
KEYED = Consuming(key="k", attempts_max=3)


@pytest.fixture
def harness() -> Harness:
    return Harness(EdgeOptions(waiting_max=16))


def got(client: Client, name: str = "s") -> list[int]:
    return [number_of(delivery) for delivery in client.deliveries(name)]


def took(client: Client, name: str = "s") -> list[Delivery]:
    """What came since the last time."""
    came = client.deliveries(name)
    client.frames[:] = [frame for frame in client.frames if not isinstance(frame, Deliver)]
    return came


def ask(client: Client, make: Any, *arguments: Any, **options: Any) -> Any:
    ref = client.ref()
    request: SubscriptionRequest = make(ref, *arguments, **options)
    client.send(request)
    return client.answer(ref)


def done(client: Client, make: Any, *arguments: Any, **options: Any) -> Done:
    answer = ask(client, make, *arguments, **options)
    assert isinstance(answer, Done), answer
    return answer


def dead(client: Client, name: str = "s") -> list[int]:
    letters = items(client.page("dead_letters", subscription=name))
    return [json.loads(bytes(decode(letter["event"], type=Delivery).event))["n"] for letter in letters]


def outstanding(client: Client, name: str = "s") -> dict[str, Any]:
    (item,) = items(client.page("subscriptions", subscription=name))
    return item


# Refusing


def test_a_refused_event_comes_again_and_holds_back_nothing(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s"))
    client.publish("news", *events(1, 2, 3))
    first, second, third = took(client)
    client.send(Nack("s", first.position, "not now"))
    client.ack("s", third.position)
    client.publish("news", *events(4))
    assert [number_of(each) for each in took(client)] == [4]
    harness.pass_time(1.1)
    (again,) = took(client)
    assert (number_of(again), again.attempt, again.position) == (1, 2, first.position)
    assert second.attempt == 1
    client.send(AckEach("s", [again.position]))
    harness.pass_time(1)
    assert outstanding(client)["outstanding"] == 1  # the fourth


def test_the_wait_doubles_and_then_it_is_a_dead_letter_and_not_acknowledged(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", consuming=Consuming(attempts_max=3, backoff_seconds=2.0)))
    client.publish("news", *events(1))
    (event,) = took(client)
    for wait in (2.0, 4.0):
        client.send(Nack("s", event.position, "broken"))
        harness.pass_time(wait - 0.01)
        assert took(client) == []
        harness.pass_time(0.02)
        (event,) = took(client)
    client.send(Nack("s", event.position, "still broken"))
    harness.pass_time(100)
    assert took(client) == []
    (letter,) = items(client.page("dead_letters", subscription="s"))
    assert (letter["reason"], letter["attempts"], letter["id"]) == ("still broken", 3, str(event.position))
    assert (harness.edge.statistics().acknowledged, harness.edge.statistics().dead_letters) == (0, 1)
    assert outstanding(client)["outstanding"] == 0


def test_who_refuses_may_say_when_it_comes_again(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s"))
    client.publish("news", *events(1))
    client.send(Nack("s", took(client)[0].position, "busy", delay_seconds=50.0))
    harness.pass_time(49)
    assert took(client) == []
    harness.pass_time(2)
    assert len(took(client)) == 1


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_what_is_settled_and_refused_survives_a_crash(harness: Harness, has_checkpoint: bool) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", consuming=Consuming(attempts_max=3, backoff_seconds=5.0)))
    client.publish("news", *events(1, 2, 3, 4))
    came = took(client)
    client.send(Nack("s", came[1].position, "no"))
    client.send(AckEach("s", [came[0].position, came[3].position]))
    harness.pass_time(1)
    if has_checkpoint:
        harness.checkpoint()
    harness.crash()
    client = harness.connect()
    client.attach("s")
    assert [(number_of(each), each.attempt) for each in took(client)] == [(3, 1)]
    harness.pass_time(5)
    assert [(number_of(each), each.attempt) for each in took(client)] == [(2, 2)]
    client.send(Nack("s", came[1].position, "no"))
    harness.pass_time(20)
    client.send(Nack("s", took(client)[0].position, "no"))
    assert dead(client) == [2]


def test_an_event_with_one_attempt_that_is_only_in_the_log_is_read_before_it_is_buried(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", consuming=Consuming(attempts_max=1)))
    client.publish("news", *events(1, 2))
    client.send(Nack("s", took(client)[0].position, "no"))
    assert dead(client) == [1]
    assert outstanding(client)["outstanding"] == 1


def test_in_a_topic_that_keeps_nothing_a_refused_event_is_dropped(harness: Harness) -> None:
    client = harness.connect()
    client.declare("news", offered=Offered("best_effort", "volatile"))
    subscribed(client.subscribe("news", name="s", qos=Requested("best_effort")))
    client.publish("news", *events(1, 2))
    client.send(Nack("s", took(client)[0].position, "no"))
    harness.pass_time(100)
    assert (took(client), dead(client)) == ([], [])
    client.publish("news", *events(3))
    assert [number_of(each) for each in took(client)] == [3]


def test_a_stream_that_passed_events_on_may_refuse_them(harness: Harness) -> None:
    client, other = harness.connect(), harness.connect()
    subscribed(client.subscribe("news", name="s"))
    client.publish("news", *events(1, 2, 3))
    came = took(client)
    client.ack("s", came[2].position, is_final=False)
    other.send(Nack("s", came[1].position, "no"))  # as an HTTP request would
    client.ack("s", came[2].position)
    harness.pass_time(2)
    assert [(number_of(each), each.attempt) for each in took(client)] == [(2, 2)]


# Keys


def keyed(*pairs: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"n": number, "k": key} for number, key in pairs]


def test_a_refused_event_holds_back_its_key_only(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", consuming=KEYED, log=""))
    client.publish("news", *keyed((1, "a"), (2, "a"), (3, "b"), (4, "b")))
    first, third = took(client)
    assert [number_of(each) for each in (first, third)] == [1, 3]
    client.send(Nack("s", first.position, "no"))
    client.send(AckEach("s", [third.position]))
    (fourth,) = took(client)
    assert number_of(fourth) == 4
    harness.pass_time(1.5)
    (again,) = took(client)
    assert (number_of(again), again.attempt) == (1, 2)
    client.send(AckEach("s", [again.position]))
    assert [number_of(each) for each in took(client)] == [2]


def test_a_dead_event_lets_the_next_of_its_key_go(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", consuming=Consuming(key="k", attempts_max=1)))
    client.publish("news", *keyed((1, "a"), (2, "a")))
    client.send(Nack("s", took(client)[0].position, "no"))
    assert dead(client) == [1]
    assert [number_of(each) for each in took(client)] == [2]


def test_keys_hold_after_a_crash(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", consuming=KEYED))
    client.publish("news", *keyed((1, "a"), (2, "a"), (3, "b")))
    client.send(Nack("s", took(client)[0].position, "no", delay_seconds=30.0))
    harness.pass_time(1)
    harness.crash()
    client = harness.connect()
    client.attach("s")
    assert [number_of(each) for each in took(client)] == [3]
    harness.pass_time(30)
    (again,) = took(client)
    client.send(AckEach("s", [again.position]))
    assert [number_of(again), *map(number_of, took(client))] == [1, 2]


# Shared subscriptions


def consumers(harness: Harness, count: int, **options: Any) -> list[Client]:
    clients = [harness.connect() for _ in range(count)]
    for client in clients:
        options.setdefault("consuming", SHARED)
        subscribed(client.subscribe("news", name="s", **options))
    return clients


def test_each_event_goes_to_one_consumer_and_nobody_is_evicted(harness: Harness) -> None:
    one, two = consumers(harness, 2)
    one.publish("news", *events(*range(10)))
    assert sorted(got(one) + got(two)) == list(range(10))
    assert got(one)
    assert got(two)
    assert not [frame for frame in (*one.frames, *two.frames) if type(frame).__name__ == "Notice"]
    assert outstanding(one)["consumers"] == 2


def test_what_a_dead_consumer_had_goes_to_another(harness: Harness) -> None:
    one, two = consumers(harness, 2)
    one.publish("news", *events(*range(6)))
    had = got(two)
    took(one)
    two.close()
    again = took(one)
    assert [number_of(each) for each in again] == had
    assert {each.attempt for each in again} == {2}
    assert dead(one) == []


def test_who_lets_its_time_run_out_loses_the_event(harness: Harness) -> None:
    (one,) = consumers(harness, 1, window=1)
    one.publish("news", *events(1))
    (two,) = consumers(harness, 1, window=1)
    harness.pass_time(9.9)
    assert took(two) == []
    harness.pass_time(0.2)
    (again,) = took(two)
    assert again.attempt == 2
    two.send(AckEach("s", [again.position]))
    one.publish("news", *events(2))
    harness.pass_time(1)
    assert harness.edge.statistics().overdue == 1


def test_who_never_deals_with_an_event_makes_it_a_dead_letter(harness: Harness) -> None:
    (one,) = consumers(harness, 1)
    one.publish("news", *events(1))
    harness.pass_time(31)
    assert len(took(one)) == 3
    assert dead(one) == [1]


def test_a_late_acknowledgement_counts_also_when_another_has_the_event(harness: Harness) -> None:
    one, two = consumers(harness, 2)
    one.publish("news", *events(1))
    holder, other = (one, two) if got(one) else (two, one)
    position = took(holder)[0].position
    harness.pass_time(10.1)
    holder.send(AckEach("s", [position]))
    took(one), took(two)
    harness.pass_time(100)
    other.close()
    assert took(holder) == []
    assert outstanding(holder)["outstanding"] == 0


def test_nobody_gets_an_event_after_its_acknowledgement_was_flushed(harness: Harness) -> None:
    one, _ = consumers(harness, 2)
    one.publish("news", *events(*range(20)))
    acknowledged = [each for each in took(one) if number_of(each) % 3 == 0]
    one.send(AckEach("s", [each.position for each in acknowledged]))
    harness.pass_time(0.5)
    harness.crash()
    (late,) = consumers(harness, 1)
    assert sorted(got(late)) == sorted(set(range(20)) - {number_of(each) for each in acknowledged})


def test_a_consumer_that_is_full_leaves_events_to_others(harness: Harness) -> None:
    one, two = consumers(harness, 2, window=2)
    one.publish("news", *events(*range(40)))
    assert (len(got(one)), len(got(two))) == (2, 2)
    while came := took(one):
        one.send(AckEach("s", [each.position for each in came]))
    assert outstanding(one)["outstanding"] == 2
    two.close()
    while came := took(one):
        one.send(AckEach("s", [each.position for each in came]))
    assert outstanding(one)["outstanding"] == 0


def test_order_per_key_holds_over_consumers(harness: Harness) -> None:
    one, two = consumers(harness, 2, consuming=Consuming(is_shared=True, key="k"))
    one.publish("news", *keyed(*((number, "abc"[number % 3]) for number in range(30))))
    seen: dict[str, list[int]] = {}
    while came := [(client, each) for client in (one, two) for each in took(client)]:
        assert len({json.loads(bytes(each.event))["k"] for _, each in came}) == len(came)
        for client, each in came:
            seen.setdefault(json.loads(bytes(each.event))["k"], []).append(number_of(each))
            client.send(AckEach("s", [each.position]))
    assert seen == {key: list(range(index, 30, 3)) for index, key in enumerate("abc")}


def test_when_all_have_gone_the_events_wait(harness: Harness) -> None:
    one, two = consumers(harness, 2)
    one.publish("news", *events(*range(4)))
    one.close()
    two.close()
    harness.connect().publish("news", *events(4))
    (three,) = consumers(harness, 1)
    assert sorted(got(three)) == list(range(5))


def test_a_shared_subscription_needs_a_name_and_no_webhook(harness: Harness) -> None:
    client = harness.connect()
    refused(client.subscribe("news", consuming=SHARED), "invalid")
    refused(client.subscribe("news", name="s", webhook="https://example.com", consuming=SHARED), "invalid")
    subscribed(client.subscribe("news", name="s", consuming=SHARED))
    refused(client.subscribe("news", name="s"), "invalid")


def test_another_tenant_cannot_touch_it(harness: Harness) -> None:
    (one,) = consumers(harness, 1)
    one.publish("news", *events(1))
    (event,) = took(one)
    stranger = harness.connect(Identity("evil", ALL.rights))
    refused(stranger.attach("s"), "unknown")
    for make in (PauseDelivery, ResumeDelivery, Redrive, DropDeadLetters):
        refused(ask(stranger, make, "s"), "unknown")
    refused(ask(stranger, Seek, "s", Start(beginning=True)), "unknown")
    stranger.send(AckEach("s", [event.position]))
    stranger.send(Nack("s", event.position, "mine"))
    assert outstanding(one)["outstanding"] == 1
    harness.pass_time(5)
    assert took(one) == []


def test_a_subscription_of_one_consumer_is_taken_over_as_before(harness: Harness) -> None:
    one = harness.connect()
    subscribed(one.subscribe("news", name="s"))
    two = harness.connect()
    subscribed(two.attach("s"))
    assert [frame.kind for frame in one.frames if type(frame).__name__ == "Notice"] == ["detached"]  # type: ignore[union-attr]


# Dead letters


def buried(harness: Harness, *numbers: int, **options: Any) -> Client:
    client = harness.connect()
    consuming = Consuming(attempts_max=1)
    subscribed(client.subscribe("news", name="s", consuming=consuming, **options))
    client.publish("news", *events(*numbers))
    for each in took(client):
        client.send(Nack("s", each.position, "no"))
    assert dead(client) == list(numbers)
    return client


@pytest.mark.parametrize("crashes", [False, True])
def test_dead_letters_are_sent_again(harness: Harness, crashes: bool) -> None:
    client = buried(harness, 1, 2, 3)
    ids = [letter["id"] for letter in items(client.page("dead_letters", subscription="s"))]
    assert done(client, Redrive, "s", ids[:2]).count == 2
    if crashes:
        harness.crash()
        client = harness.connect()
        client.attach("s")
    again = took(client)
    assert [number_of(each) for each in again] == [1, 2]
    assert all(each.attempt > 1 for each in again)
    client.send(AckEach("s", [again[0].position]))
    client.send(Nack("s", again[1].position, "no"))
    harness.pass_time(1)
    assert dead(client) == [3, 2]
    harness.crash()
    client = harness.connect()
    client.attach("s")
    assert (took(client), dead(client)) == ([], [3, 2])


def test_dead_letters_are_dropped(harness: Harness) -> None:
    client = buried(harness, 1, 2, 3)
    ids = [letter["id"] for letter in items(client.page("dead_letters", subscription="s"))]
    assert done(client, DropDeadLetters, "s", [ids[1], "nonsense"]).count == 1
    assert dead(client) == [1, 3]
    harness.crash()
    client = harness.connect()
    assert dead(client) == [1, 3]
    assert done(client, DropDeadLetters, "s").count == 2
    harness.checkpoint()
    harness.crash()
    assert dead(harness.connect()) == []


# Pausing and seeking


def test_a_paused_subscription_waits_also_after_a_crash(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s"))
    done(client, PauseDelivery, "s")
    client.publish("news", *events(*range(40)))
    assert took(client) == []
    harness.crash()
    client = harness.connect()
    client.attach("s")
    assert (took(client), outstanding(client)["is_paused"]) == ([], True)
    done(client, ResumeDelivery, "s")
    assert got(client) == list(range(40))


def seek(client: Client, start: Start) -> None:
    """Who is served is told to attach again; what it says until then is about what came before."""
    done(client, Seek, "s", start)
    last = client.harness.edge.parts.positions.last
    client.ack("s", last)
    client.send(AckEach("s", list(range(last % 1000 + 1))))
    assert took(client) == []
    client.attach("s")


@pytest.mark.parametrize("consuming", [Consuming(), SHARED], ids=["one", "shared"])
def test_seeking(harness: Harness, consuming: Consuming) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", consuming=consuming))
    times = []
    for number in range(10):
        times.append(harness.now)
        client.publish("news", *events(number))
        harness.pass_time(10 if not consuming.is_shared else 1)
    came = took(client)
    client.send(AckEach("s", [each.position for each in came]))
    seek(client, Start(beginning=True))
    assert [number_of(each) for each in took(client)] == list(range(10))
    seek(client, Start(time=times[7]))
    assert [number_of(each) for each in took(client)] == [7, 8, 9]
    harness.crash()
    client = harness.connect()
    client.attach("s")
    assert [number_of(each) for each in took(client)] == [7, 8, 9]
    seek(client, Start(position=came[8].position))
    assert [number_of(each) for each in took(client)] == [9]
    refused(ask(client, Seek, "s", Start(position=1, log="another")), "invalid")


def test_a_new_subscription_begins_where_it_says(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="first"))
    client.publish("news", *events(0))
    harness.pass_time(10)
    middle = harness.now
    client.publish("news", *events(1))
    for name, start, expected in (
        ("a", Start(beginning=True), [0, 1]),
        ("b", Start(time=middle), [1]),
        ("c", Start(position=client.deliveries("first")[0].position), [1]),
        ("d", None, []),
    ):
        subscribed(client.subscribe("news", name=name, start=start))
        assert got(client, name) == expected
    ref = client.ref()
    client.send(Subscribe(ref, "news", "n >= 0", start=Start(beginning=True)))
    answer = subscribed(client.answer(ref))
    assert got(client, answer.subscription) == [0, 1]


# Changing


def test_a_subscription_is_changed_and_keeps_its_place(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", "n < 10", name="s", window=2))
    client.publish("news", *events(*range(5)))
    first = took(client)
    assert [number_of(each) for each in first] == [0, 1]
    done(client, Change, "s", condition="n >= 3")
    client.publish("news", *events(20))
    client.ack("s", first[-1].position)
    second = took(client)
    assert [number_of(each) for each in second] == [3, 4]  # what was not sent yet is matched anew
    client.ack("s", second[-1].position)
    assert [number_of(each) for each in took(client)] == [20]
    harness.pass_time(1)
    harness.crash()
    client = harness.connect()
    client.attach("s")
    client.publish("news", *events(1, 30))
    assert [number_of(each) for each in took(client)] == [20, 30]
    assert outstanding(client)["condition"] == "n >= 3"


def test_a_change_that_is_wrong_changes_nothing(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", "n < 10", name="s"))
    refused(ask(client, Change, "s", condition="n <"), "condition")
    refused(ask(client, Change, "s", webhook="https://example.com"), "invalid")
    client.publish("news", *events(1))
    assert [number_of(each) for each in took(client)] == [1]
    assert harness.edge.parts.takers.count_of("acme") == 1


def test_attempts_and_sharing_are_changed(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s"))
    client.publish("news", *events(1, 2))
    (first, second) = took(client)
    done(client, Change, "s", consuming=Consuming(is_shared=True, attempts_max=1))
    assert [frame.kind for frame in client.frames if type(frame).__name__ == "Notice"] == ["detached"]  # type: ignore[union-attr]
    one, two = harness.connect(), harness.connect()
    one.attach("s")
    two.attach("s")
    assert sorted(got(one) + got(two)) == [1, 2]
    one.send(Nack("s", first.position, "no"))
    one.send(AckEach("s", [second.position]))
    assert dead(one) == [1]


def test_dead_letters_survive_a_change(harness: Harness) -> None:
    client = buried(harness, 1)
    done(client, Change, "s", condition="n >= 2")
    harness.crash()
    assert dead(harness.connect()) == [1]


def test_a_webhook_gets_another_address_in_the_midst_of_a_call(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", webhook="https://example.com/old"))
    client.publish("news", *events(1))
    done(client, Change, "s", webhook="https://example.com/new")
    client.publish("news", *events(2))
    harness.answer_call()
    assert [call.url for call in harness.calls] == ["https://example.com/new"]


def test_a_webhook_may_refuse_single_events(harness: Harness) -> None:
    client = harness.connect()
    subscribed(client.subscribe("news", name="s", webhook="https://example.com", consuming=Consuming(attempts_max=2)))
    client.publish("news", *events(1, 2, 3))
    call = harness.calls[0]
    middle = decode(call.events[1], type=Delivery).position
    harness.answer_call(refused=((middle, "no"), (999, "what?")))
    assert harness.calls == []
    harness.pass_time(1.1)
    assert [decode(event, type=Delivery).attempt for event in harness.calls[0].events] == [2]
    client.publish("news", *events(4))
    harness.answer_call(refused=((middle, "no"),))
    assert dead(client) == [2]
    assert [number_of(decode(event, type=Delivery)) for event in harness.answer_call().events] == [4]
    assert harness.edge.statistics().acknowledged == 3


def test_who_lost_an_event_cannot_refuse_it_any_more(harness: Harness) -> None:
    one, two = consumers(harness, 2)
    one.publish("news", *events(1))
    holder, other = (one, two) if got(one) else (two, one)
    (event,) = took(holder)
    harness.pass_time(10.1)
    (again,) = took(other) or took(holder)
    for client in (one, two, harness.connect()):
        client.send(Nack("s", event.position, "late", attempt=1))
    harness.pass_time(3)
    assert took(one) + took(two) == []
    one.send(AckEach("s", [again.position]))
    assert outstanding(one)["outstanding"] == 0


def test_what_is_known_one_by_one_is_bounded_in_number_and_bytes() -> None:
    for options in (EdgeOptions(outstanding_max=5), EdgeOptions(outstanding_bytes_max=200)):
        harness = Harness(options)
        (one,) = consumers(harness, 1, consuming=Consuming(is_shared=True, key="k"))
        one.publish("news", *keyed(*((number, "a") for number in range(50)), (50, "b")))
        assert outstanding(one)["outstanding"] <= 5
        seen = []
        while came := took(one):
            seen += [number_of(each) for each in came]
            one.send(AckEach("s", [each.position for each in came]))
        assert sorted(seen) == list(range(51))
