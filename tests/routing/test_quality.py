"""Quality of service at the edge: what is kept, for whom, for how long, and what is lost with a word about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.routing.frames import accepted, done, events, items, refused, subscribed
from tests.routing.harness import Client, Harness

from fieldfare.messages import EDGE_RECORDS, ClientFrame, DeclareTopic, Subscribe, stream_of
from fieldfare.qos import Offered, Published, Requested
from fieldfare.routing.options import EdgeOptions
from fieldfare.store.journal import Journal, JournalOptions

LOOSE = Offered("best_effort", "volatile")  # events do not go through the log
LOOSELY = Requested("best_effort")


@pytest.fixture
def harness() -> Harness:
    return Harness(EdgeOptions(waiting_max=4))


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect()


@pytest.fixture
def publisher(harness: Harness) -> Client:
    return harness.connect()


# Requested and offered


def test_more_than_the_topic_offers_is_refused(client: Client) -> None:
    done(client.declare("news", offered=LOOSE))
    assert "reliab" in refused(client.subscribe("news"), "qos").reason
    subscribed(client.subscribe("news", qos=LOOSELY))


def test_a_publication_that_breaks_the_promise_of_its_topic_is_refused(client: Client) -> None:
    refused(client.publish("news", *events(1), qos=Published(reliability="best_effort")), "qos")
    accepted(client.publish("news", *events(1), qos=Published(reliability="reliable")))


def test_a_topic_cannot_offer_less_than_its_subscribers_need(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    assert "'mine'" in refused(client.declare("news", offered=LOOSE), "qos").reason
    client.unsubscribe("mine")
    done(client.declare("news", offered=LOOSE))
    harness.crash()
    (item,) = items(harness.connect().page("topics"))
    assert item["offered"]["reliability"] == "best_effort"


@pytest.mark.parametrize("name", [None, "mine"])
@pytest.mark.parametrize("first", ["declare", "subscribe"])
def test_who_subscribes_while_the_topic_changes_is_never_served_worse_than_confirmed(
    name: str | None, first: str
) -> None:
    harness = Harness()
    client = harness.connect()
    frames: list[ClientFrame] = [DeclareTopic(1, "news", LOOSE), Subscribe(2, "news", "n >= 0", name=name)]
    harness.holds_storage = True
    harness.together(*((client, frame) for frame in (frames if first == "declare" else reversed(frames))))
    harness.holds_storage = False
    harness.settle()
    answers = [type(client.answer(ref)).__name__ for ref in (1, 2)]
    assert answers in (["Done", "Refused"], ["Refused", "Subscribed"])


def test_where_events_are_matched_does_not_change_under_a_subscription(harness: Harness, client: Client) -> None:
    harness.holds_storage = True
    harness.together(
        (client, Subscribe(1, "news", "n >= 0", name="mine")), (client, DeclareTopic(2, "news", matching="spark"))
    )
    harness.holds_storage = False
    harness.settle()
    subscribed(client.answer(1))
    refused(client.answer(2), "invalid")


# Durability


def test_a_late_joiner_that_asks_for_it_gets_what_is_alive(client: Client, publisher: Client) -> None:
    publisher.publish("news", *events(*range(10)))
    late = subscribed(client.subscribe("news", qos=Requested(durability="transient"))).subscription
    assert client.take_all(late) == list(range(10))
    publisher.publish("news", *events(10))
    assert client.numbers(late) == list(range(11))


def test_a_late_joiner_that_does_not_begins_now(client: Client, publisher: Client) -> None:
    publisher.publish("news", *events(1))
    late = subscribed(client.subscribe("news")).subscription
    publisher.publish("news", *events(2))
    assert client.numbers(late) == [2]


def test_what_is_kept_for_later_need_not_be_reliable(client: Client, publisher: Client) -> None:
    done(client.declare("news", offered=Offered("best_effort", "transient")))
    publisher.publish("news", *events(*range(10)))
    late = subscribed(client.subscribe("news", qos=Requested("best_effort", "transient"))).subscription
    assert client.take_all(late) == list(range(10))


# History


def test_of_what_waits_the_last_are_kept(client: Client, publisher: Client) -> None:
    name = subscribed(client.subscribe("news", qos=Requested(keep_last=3), window=1)).subscription
    publisher.publish("news", *events(0))
    for number in range(1, 20):
        publisher.publish("news", *events(number))
    assert client.take_all(name) == [0, 17, 18, 19]
    assert client.notices("gap") == []  # it asked for that


def test_of_what_waits_in_the_log_the_last_are_kept(harness: Harness, client: Client, publisher: Client) -> None:
    client.subscribe("news", name="mine", qos=Requested(keep_last=3))
    client.close()
    for number in range(20):
        publisher.publish("news", *events(number))
    again = harness.connect()
    again.attach("mine")
    assert again.take_all("mine") == [17, 18, 19]


def test_keep_last_may_be_more_than_others_have_in_memory(client: Client, publisher: Client) -> None:
    name = subscribed(client.subscribe("news", qos=Requested(keep_last=10), window=1)).subscription
    publisher.publish("news", *events(*range(30)))
    assert client.take_all(name)[-10:] == list(range(20, 30))


# Lifespan


@pytest.mark.parametrize("from_log", [False, True])
def test_what_has_expired_is_not_delivered(harness: Harness, from_log: bool) -> None:
    client = harness.connect()
    publisher = harness.connect()
    client.subscribe("news", name="mine", window=1)
    publisher.publish("news", *events(0))
    publisher.publish("news", *events(1), qos=Published(lifespan_seconds=10))
    publisher.publish("news", *events(2))
    harness.pass_time(11)
    if from_log:
        client.ack("mine", client.positions("mine")[0])
        client.close()
        client = harness.connect()
        client.attach("mine")
        assert client.take_all("mine") == [2]
    else:
        assert client.take_all("mine") == [0, 2]


def test_a_topic_says_how_long_events_live(harness: Harness, client: Client, publisher: Client) -> None:
    done(client.declare("news", offered=Offered(lifespan_seconds=5)))
    publisher.publish("news", *events(1))
    harness.pass_time(4)
    publisher.publish("news", *events(2))
    harness.pass_time(2)
    late = subscribed(client.subscribe("news", qos=Requested(durability="transient"))).subscription
    assert client.take_all(late) == [2]


def test_what_expires_in_a_window_of_one_does_not_stop_the_rest(
    harness: Harness, client: Client, publisher: Client
) -> None:
    done(client.declare("news", offered=Offered(lifespan_seconds=5)))
    name = subscribed(client.subscribe("news", window=1)).subscription
    for number in range(30):
        publisher.publish("news", *events(number))
    harness.pass_time(6)
    client.ack(name, client.positions(name)[-1])
    publisher.publish("news", *events(30))
    assert client.numbers(name) == [0, 30]


# Deadline


def test_who_asked_for_it_hears_that_nothing_came(harness: Harness, client: Client, publisher: Client) -> None:
    client.subscribe("news", "n > 0", qos=Requested(deadline_seconds=10))
    other = harness.connect()
    other.subscribe("news", "n > 0")
    harness.pass_time(9)
    publisher.publish("news", *events(1))
    harness.pass_time(9)
    assert client.notices("deadline") == []
    publisher.publish("news", *events(0))  # which it does not want
    harness.pass_time(2)
    assert len(client.notices("deadline")) == 1
    harness.pass_time(20)
    assert len(client.notices("deadline")) == 3
    publisher.publish("news", *events(2))
    harness.pass_time(9)
    assert len(client.notices("deadline")) == 3
    assert other.notices("deadline") == []


def test_a_deadline_ends_with_its_subscription_and_survives_a_restart(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine", qos=Requested(deadline_seconds=10))
    harness.crash()
    again = harness.connect()
    again.attach("mine")
    harness.pass_time(11)
    assert len(again.notices("deadline")) == 1
    again.unsubscribe("mine")
    harness.pass_time(30)
    assert len(again.notices("deadline")) == 1
    assert not any("DeadlineTimer" in wait for wait in harness.kernel.waits())


# Best effort


def test_a_slow_subscriber_loses_the_oldest_and_is_told(harness: Harness, client: Client, publisher: Client) -> None:
    done(client.declare("news", offered=LOOSE))
    name = subscribed(client.subscribe("news", qos=LOOSELY, window=1)).subscription
    publisher.publish("news", *events(0))
    for number in range(1, 11):
        publisher.publish("news", *events(number))
    assert client.take_all(name) == [0, 7, 8, 9, 10]
    harness.pass_time(1)
    assert [notice.subscription for notice in client.notices("gap")] == [name]
    assert "6 events" in client.notices("gap")[0].detail
    assert harness.edge.statistics().dropped == 6


def test_a_slow_subscriber_is_told_once_of_each_loss(harness: Harness, client: Client, publisher: Client) -> None:
    done(client.declare("news", offered=LOOSE))
    name = subscribed(client.subscribe("news", qos=LOOSELY, window=1)).subscription
    for first in (0, 100):
        publisher.publish("news", *events(*range(first, first + 10)))
        harness.pass_time(1)
        client.take_all(name)
        harness.pass_time(1)
    lost = [int(notice.detail.split()[0]) for notice in client.notices("gap")]
    assert sum(lost) == 20 - len(client.numbers(name))


def test_best_effort_in_a_reliable_topic_loses_too(harness: Harness, client: Client, publisher: Client) -> None:
    name = subscribed(client.subscribe("news", qos=LOOSELY, window=1)).subscription
    for number in range(11):
        publisher.publish("news", *events(number))
    assert client.take_all(name) == [0, 7, 8, 9, 10]
    harness.pass_time(1)
    assert client.notices("gap")


def test_best_effort_is_answered_and_delivered_without_the_log(harness: Harness, client: Client) -> None:
    done(client.declare("news", offered=LOOSE))
    name = subscribed(client.subscribe("news", qos=LOOSELY)).subscription
    accepted(client.publish("news", *events(1)))
    harness.holds_storage = True
    accepted(client.publish("news", *events(2)))
    assert client.numbers(name) == [1, 2]
    assert harness.unstored == []


# A topic that changes


def test_a_topic_becomes_reliable_and_loose_again_and_nothing_is_lost(client: Client, publisher: Client) -> None:
    done(client.declare("news", offered=LOOSE))
    name = subscribed(client.subscribe("news", qos=LOOSELY)).subscription
    publisher.publish("news", *events(0))
    for number in range(1, 6):
        done(client.declare("news", offered=Offered() if number % 2 else LOOSE))
        publisher.publish("news", *events(number))
    assert client.numbers(name) == list(range(6))
    late = subscribed(client.subscribe("news", qos=Requested(durability="transient"))).subscription
    assert client.take_all(late) == [1, 3, 5]
    publisher.publish("news", *events(6))
    assert client.numbers(late) == [1, 3, 5, 6]


@pytest.mark.parametrize("offers", [(LOOSE, Offered()), (Offered(), LOOSE), (LOOSE, Offered(), LOOSE, Offered())])
def test_events_stay_in_order_while_a_topic_changes_with_some_under_way(offers: tuple[Offered, ...]) -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    done(client.declare("news", offered=offers[0]))
    publisher.publish("news", *events(0))
    name = subscribed(client.subscribe("news", qos=LOOSELY)).subscription
    harness.holds_storage = True
    number = 0
    for offered in offers[1:]:
        number += 1
        publisher.publish("news", *events(number))
        client.declare("news", offered=offered)
        for stored in (0, 1, 1):
            number += 1
            publisher.publish("news", *events(number))
            if stored and harness.unstored:
                harness.store(stored)
    harness.holds_storage = False
    harness.settle()
    assert client.numbers(name) == list(range(1, number + 1))
    if offers[-1].is_kept:  # and a reader of the log finds its end
        late = subscribed(client.subscribe("news", after=-1)).subscription
        publisher.publish("news", *events(number + 1))
        assert client.take_all(late)[-1] == number + 1


def test_what_expires_before_it_is_delivered_is_told_and_counted(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine", window=1)
    client.publish("news", *events(1, 2, 3), qos=Published(lifespan_seconds=5))
    client.publish("news", *events(4))
    harness.pass_time(10)
    assert client.take_all("mine") == [1, 4]
    assert [notice.detail for notice in client.notices("gap")] == ["2 events expired before they were delivered"]
    assert harness.edge.statistics().expired == 2
    assert items(client.page("subscriptions"))[0]["expired"] == 2


def test_who_was_away_is_told_of_what_expired_in_the_log(harness: Harness, client: Client) -> None:
    client.subscribe("news", name="mine")
    client.detach("mine")
    client.publish("news", *events(1, 2), qos=Published(lifespan_seconds=5))
    harness.pass_time(10)
    client.attach("mine")
    assert client.numbers("mine") == []
    assert [notice.detail for notice in client.notices("gap")] == ["2 events expired before they were delivered"]


def test_who_was_away_is_told_of_what_left_the_log_expired(tmp_path: Path) -> None:
    with Journal(tmp_path / "log", EDGE_RECORDS, JournalOptions(segment_bytes=200)) as journal:
        assert list(journal.recover()) == []
        harness = Harness(log=journal)
        client = harness.connect()
        client.subscribe("news", name="mine")
        client.subscribe("news", name="begins", qos=Requested(durability="transient"))
        client.detach("mine")
        client.publish("news", *events(1, 2), qos=Published(lifespan_seconds=5))
        harness.pass_time(10)
        for number in range(3, 9):
            client.publish("news", *events(number))
            harness.checkpoint()
        journal.trim(harness.now)
        client.attach("mine")
        assert client.numbers("mine") == [3, 4, 5, 6, 7, 8]
        (notice,) = client.notices("gap")
        assert (notice.subscription, notice.position) == ("mine", 1)
        assert "expired" in notice.detail
    with Journal(tmp_path / "log", EDGE_RECORDS) as journal:
        assert list(journal.recover())
        assert journal.read(stream_of("acme", "news"), -1).expired_before == 1
