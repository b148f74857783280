"""Subscribers that are slow, away or new read the log, and go over to live without a gap or a repetition."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.routing.frames import events, subscribed
from tests.routing.harness import ALL, Harness

from fieldfare.messages import EDGE_RECORDS, Identity
from fieldfare.qos import Offered, Requested
from fieldfare.routing.options import EdgeOptions
from fieldfare.store.journal import Journal, JournalOptions

SMALL = EdgeOptions(waiting_max=4)


def waiting(harness: Harness) -> int:
    return max(counts.waiting for counts in harness.edge.statistics().per_subscription)


def test_a_slow_subscriber_gets_all_of_it_and_never_fills_the_memory() -> None:
    harness = Harness(SMALL)
    client, publisher = harness.connect(), harness.connect()
    name = subscribed(client.subscribe("news", "n % 2 = 0", window=2)).subscription
    for number in range(200):
        publisher.publish("news", *events(number))
        assert waiting(harness) <= SMALL.waiting_max
        if number % 7 == 0 and client.positions(name):
            client.ack(name, client.positions(name)[-1])
            assert waiting(harness) <= SMALL.waiting_max
    assert client.take_all(name) == list(range(0, 200, 2))


def test_more_in_one_publication_than_fits_in_memory() -> None:
    harness = Harness(SMALL)
    client = harness.connect()
    name = subscribed(client.subscribe("news", window=3)).subscription
    client.publish("news", *events(*range(100)))
    assert client.take_all(name) == list(range(100))


def test_readers_at_different_places_share_the_log_and_each_gets_its_own() -> None:
    harness = Harness(SMALL)
    publisher = harness.connect()
    clients = []
    for start in range(0, 60, 7):
        client = harness.connect()
        client.subscribe("news", f"n % 3 = {start % 3}", name=f"s{start}")
        client.close()
        publisher.publish("news", *events(*range(start, start + 7)))
    harness.holds_reading = True
    for start in reversed(range(0, 60, 7)):
        client = harness.connect()
        client.attach(f"s{start}", window=3)
        clients.append((client, start))
        if harness.fetches and start % 2:
            harness.read()
    harness.holds_reading = False
    harness.settle()
    for client, start in clients:
        assert client.take_all(f"s{start}") == [n for n in range(start, 63) if n % 3 == start % 3]
    publisher.publish("news", *events(63, 64, 65))
    for client, start in clients:
        assert client.take_all(f"s{start}") == [n for n in range(start, 66) if n % 3 == start % 3]


def test_a_piece_that_came_before_the_edge_heard_of_its_storing() -> None:
    harness = Harness(SMALL)
    client, publisher = harness.connect(), harness.connect()
    client.subscribe("news", name="mine")
    client.detach("mine")
    publisher.publish("news", *events(0))
    harness.holds_storage = harness.holds_reading = True
    client.attach("mine", window=1)
    publisher.publish("news", *events(1, 2))
    hear = harness.store_unheard()
    harness.holds_reading = False
    harness.settle()
    assert client.numbers("mine") == [0]
    client.ack("mine", client.positions("mine")[-1])
    client.ack("mine", client.positions("mine")[-1])  # all of it, before the edge knows that it is stored
    assert client.numbers("mine") == [0, 1, 2]
    client.ack("mine", client.positions("mine")[-1])
    hear()
    harness.holds_storage = False
    publisher.publish("news", *events(3))
    assert client.numbers("mine") == [0, 1, 2, 3]


def test_events_that_are_stored_while_a_piece_is_on_its_way() -> None:
    harness = Harness(SMALL)
    client, publisher = harness.connect(), harness.connect()
    publisher.publish("news", *events(0))
    harness.holds_reading = True
    name = subscribed(client.subscribe("news", after=-1)).subscription
    hear = harness.read_unheard()
    publisher.publish("news", *events(1))
    harness.holds_reading = False
    hear()
    assert client.numbers(name) == [0, 1]


def test_whoever_leaves_and_comes_back_while_a_piece_is_on_its_way() -> None:
    harness = Harness(SMALL)
    client, publisher = harness.connect(), harness.connect()
    client.subscribe("news", name="mine")
    client.detach("mine")
    publisher.publish("news", *events(0, 1, 2))
    harness.holds_reading = True
    client.attach("mine")
    hear = harness.read_unheard()
    client.detach("mine")
    client.attach("mine", after=0)
    hear()
    harness.holds_reading = False
    harness.settle()
    publisher.publish("news", *events(3))
    assert client.numbers("mine") == [1, 2, 3]


def test_nobody_holds_what_came_for_one_that_left() -> None:
    harness = Harness(SMALL)
    client = harness.connect()
    client.subscribe("news", name="mine")
    client.detach("mine")
    client.publish("news", *events(0, 1, 2))
    harness.holds_reading = True
    client.attach("mine")
    hear = harness.read_unheard()
    client.detach("mine")
    hear()
    assert waiting(harness) == 0


def test_whoever_comes_back_with_nothing_to_catch_up_while_a_piece_is_on_its_way() -> None:
    harness = Harness(SMALL)
    client = harness.connect()
    client.subscribe("news", name="mine")
    client.detach("mine")
    client.publish("news", *events(0, 1, 2))
    harness.holds_reading = True
    client.attach("mine")
    hear = harness.read_unheard()
    client.attach("mine", after=2)
    hear()
    client.publish("news", *events(3))
    assert client.numbers("mine") == [3]


def test_whoever_unsubscribes_while_a_piece_is_on_its_way() -> None:
    harness = Harness(SMALL)
    client = harness.connect()
    client.publish("news", *events(0, 1, 2))
    harness.holds_reading = True
    name = subscribed(client.subscribe("news", after=-1)).subscription
    other = subscribed(client.subscribe("news", after=-1)).subscription
    hear = harness.read_unheard()
    client.unsubscribe(name)
    hear()
    harness.holds_reading = False
    harness.settle()
    assert client.numbers(name) == []
    assert client.numbers(other) == [0, 1, 2]


def test_a_tenant_may_have_any_name() -> None:
    harness = Harness(SMALL)
    client = harness.connect(Identity("a/b", ALL.rights))
    client.publish("news", *events(0))
    assert client.numbers(subscribed(client.subscribe("news", after=-1)).subscription) == [0]


def test_the_largest_are_let_go_when_all_together_hold_too_much() -> None:
    harness = Harness(EdgeOptions(waiting_bytes_max=3000))
    client, publisher = harness.connect(), harness.connect()
    names = [subscribed(client.subscribe("news", f"n % {d} = 0", window=1)).subscription for d in (1, 2, 50)]
    loose = subscribed(client.subscribe("news", qos=Requested("best_effort"), window=1)).subscription
    for number in range(100):
        publisher.publish("news", *events(number))
    before = {counts.subscription: counts.waiting for counts in harness.edge.statistics().per_subscription}
    assert [before[name] for name in (*names, loose)] == [99, 49, 1, 99]
    harness.pass_time(1)
    after = {counts.subscription: counts.waiting for counts in harness.edge.statistics().per_subscription}
    assert [after[name] for name in (*names, loose)] == [0, 0, 1, 0]
    for name, divisor in zip(names, (1, 2, 50), strict=True):
        assert client.take_all(name) == list(range(0, 100, divisor))
    publisher.publish("news", *events(100))
    client.ack(loose, client.positions(loose)[-1])
    publisher.publish("news", *events(101))
    assert client.take_all(loose) == [0, 100, 101]
    harness.pass_time(1)
    assert [notice.subscription for notice in client.notices("gap")] == [loose]


# Retention


def test_who_comes_too_late_is_told_of_the_gap() -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    client.subscribe("news", name="mine")
    client.subscribe("olds", name="other")
    for number in range(5):
        publisher.publish("news", *events(number))
    client.close()
    harness.memory.trim(2)
    again = harness.connect()
    again.attach("mine")
    again.attach("other")
    assert again.numbers("mine") == [3, 4]
    assert [(notice.subscription, notice.position) for notice in again.notices("gap")] == [("mine", 2)]


@pytest.mark.parametrize("condition", ["n >= 0", "n >= 100"])
def test_a_notice_of_a_gap_that_may_be_lost_with_its_connection_comes_again(condition: str) -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    client.subscribe("news", condition, name="mine")
    client.close()
    for number in range(5):
        publisher.publish("news", *events(number))
    harness.memory.trim(2)

    def gaps_of_the_next() -> list[str]:
        nonlocal client
        client = harness.connect()
        client.attach("mine")
        told = [notice.subscription for notice in client.notices("gap")]
        client.close()
        return told

    assert gaps_of_the_next() == ["mine"]
    assert gaps_of_the_next() == ["mine"]  # nothing says that the first came
    client = harness.connect()
    client.attach("mine")
    publisher.publish("news", *events(100))
    client.take_all("mine")
    client.close()
    assert gaps_of_the_next() == []


def test_who_begins_with_all_that_is_alive_has_missed_nothing() -> None:
    harness = Harness()
    client = harness.connect()
    for number in range(5):
        client.publish("news", *events(number))
    harness.memory.trim(2)
    name = subscribed(client.subscribe("news", qos=Requested(durability="transient"))).subscription
    assert client.numbers(name) == [3, 4]
    assert client.notices("gap") == []


def test_catching_up_from_a_real_log_with_retention(tmp_path: Path) -> None:
    options = JournalOptions(segment_bytes=2_000, retention_bytes=6_000)
    with Journal(tmp_path / "log", EDGE_RECORDS, options) as journal:
        assert list(journal.recover()) == []
        harness = Harness(EdgeOptions(waiting_max=8), journal)
        client, publisher = harness.connect(), harness.connect()
        client.subscribe("news", name="slow", window=1)
        client.subscribe("news", name="early")
        client.detach("early")
        for number in range(200):
            publisher.publish("news" if number % 2 else "olds", *events(number))
            if number == 150:
                client.ack("slow", client.positions("slow")[-1])
            if journal.is_due_for_checkpoint:
                harness.checkpoint()
                journal.trim(harness.now)
        client.attach("early")
        early, slow = client.take_all("early"), client.take_all("slow")
        assert early == list(range(early[0], 200, 2))
        assert early[0] > 1
        lost = {notice.subscription: notice.position for notice in client.notices("gap")}
        assert set(lost) == {"early", "slow"}
        assert lost["early"] == early[0] - 2  # the position and the number of an event are the same here
        assert slow == sorted(set(slow))
        assert slow[-1] == 199


def test_a_topic_that_is_only_written_is_read_by_those_behind_too() -> None:
    harness = Harness(SMALL)
    client = harness.connect()
    client.declare("news", offered=Offered("best_effort", "transient"))
    client.subscribe("news", name="mine", qos=Requested("best_effort", "transient"))
    client.detach("mine")
    client.publish("news", *events(*range(20)))
    client.attach("mine")
    assert client.take_all("mine") == list(range(20))


@pytest.mark.parametrize("window", [1, 100])
def test_a_subscription_that_wants_little_does_not_read_all_of_the_log_again(window: int) -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    client.subscribe("news", "n = 0", name="mine", window=window)
    for number in range(50):
        publisher.publish("news", *events(number))
    client.ack("mine", client.positions("mine")[-1])
    client.close()
    before = harness.fetch_count
    again = harness.connect()
    again.attach("mine")
    assert harness.fetch_count == before
    assert again.numbers("mine") == []
