"""How far subscriptions are behind: at every step of a subscription's life, and after restarts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.routing.frames import accepted, subscribed
from tests.routing.harness import TENANT, Client, Harness

from fieldfare.qos import Requested
from fieldfare.routing.lag import Kept, Lag, kept_of, lag_of
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.unread import Unread

TOPIC = (TENANT, "roads")


def lag(harness: Harness, name: str = "slow") -> Lag:
    taker = harness.edge.parts.takers.get(TENANT, name)
    assert taker is not None
    return lag_of(harness.edge.parts.topics[TOPIC], taker, harness.edge.parts.topics.kept_from, harness.now)


def events_behind(harness: Harness, name: str = "slow") -> int:
    found = lag(harness, name)
    assert found.is_exact
    return found.events


def kept(harness: Harness) -> Kept:
    return kept_of(harness.edge.parts.topics[TOPIC], harness.edge.parts.topics.kept_from, harness.now)


def publish(client: Client, count: int, first: int = 0) -> None:
    for start in range(first, first + count, 1000):
        numbers = range(start, min(start + 1000, first + count))
        accepted(client.publish("roads", *({"n": number} for number in numbers)))


def test_a_subscriber_that_takes_two_of_fifty_thousand_is_as_far_behind_as_it_is() -> None:
    harness = Harness(EdgeOptions(waiting_max=1024))
    client, publisher = harness.connect(), harness.connect()
    subscribed(client.subscribe("roads", name="slow", window=2))
    publish(publisher, 50_000)
    assert events_behind(harness) == 50_000
    assert lag(harness).in_flight == 2
    client.ack("slow", client.positions("slow")[1])
    assert events_behind(harness) == 49_998
    client.detach("slow")
    assert events_behind(harness) == 49_998
    harness.checkpoint()
    publish(publisher, 10, 50_000)
    harness.crash()
    assert events_behind(harness) == 50_008
    again = harness.connect()
    subscribed(again.attach("slow", window=1000))
    assert len(again.take_all("slow")) == 50_008
    assert lag(harness) == Lag(0, 0.0, 0, is_exact=True)


def test_seconds_behind_are_since_the_first_event_that_nobody_acknowledged() -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    subscribed(client.subscribe("roads", "n < 10", name="slow"))
    client.detach("slow")
    assert lag(harness).seconds == 0
    publish(publisher, 5, 100)  # which it does not want
    harness.pass_time(100)
    assert lag(harness).seconds == 0
    publish(publisher, 5)
    harness.pass_time(60)
    publish(publisher, 5, 5)
    harness.pass_time(60)
    assert lag(harness) == Lag(10, 120.0, 0, is_exact=True)
    harness.crash()
    assert lag(harness) == Lag(10, 120.0, 0, is_exact=True)
    client = harness.connect()
    subscribed(client.attach("slow"))
    client.ack("slow", client.positions("slow")[4])
    assert lag(harness) == Lag(5, 60.0, 5, is_exact=True)


def test_polls_count_exactly() -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    subscribed(client.subscribe("roads", name="slow", window=1))
    client.close()
    publish(publisher, 500)
    after = None
    for number in range(5):
        poll = harness.connect()
        subscribed(poll.attach("slow", window=20, after=after))
        positions = poll.positions("slow")
        assert len(positions) == 20
        assert events_behind(harness) == 500 - 15 * number
        poll.close()
        assert events_behind(harness) == 500 - 15 * number
        after = positions[14]  # it has dealt with fifteen of them
    poll = harness.connect()
    poll.ack("slow", after or 0)  # nobody takes events: anybody may acknowledge
    assert events_behind(harness) == 425


def test_what_left_the_connection_counts_until_it_is_confirmed() -> None:
    harness = Harness()
    client, publisher = harness.connect(), harness.connect()
    subscribed(client.subscribe("roads", name="slow", window=5))
    publish(publisher, 100)
    while client.positions("slow")[-1] < 99:
        client.ack("slow", client.positions("slow")[-1], is_final=False)
    assert events_behind(harness) == 100
    client.ack("slow", client.positions("slow")[41])
    assert events_behind(harness) == 58
    client.close()
    assert events_behind(harness) == 58


def test_a_webhook_that_fails_falls_behind_and_one_that_gives_up_does_not() -> None:
    harness = Harness(EdgeOptions(waiting_max=8, webhook_events_max=4, webhook_attempts_max=2))
    client = harness.connect()
    subscribed(client.subscribe("roads", name="slow", webhook="https://example.org/hook"))
    publish(client, 30)
    assert events_behind(harness) == 30
    harness.answer_call()
    assert events_behind(harness) == 26
    harness.answer_call("busy")
    harness.pass_time(0.3)
    harness.crash()
    assert events_behind(harness) == 26
    harness.answer_call("gone", is_permanent=True)  # four dead letters
    assert events_behind(harness) == 22


def test_one_that_begins_with_all_that_is_alive_is_counted_when_nobody_reads_for_it() -> None:
    harness = Harness()
    client = harness.connect()
    publish(client, 300)
    subscribed(client.subscribe("roads", "n < 200", name="slow", window=1, qos=Requested(durability="transient")))
    client.close()
    assert events_behind(harness) == 200


def test_after_a_seek_it_is_an_upper_bound_until_it_has_caught_up() -> None:
    harness = Harness()
    client = harness.connect()
    subscribed(client.subscribe("roads", "n < 10", name="slow", window=1))
    publish(client, 1000)
    client.take_all("slow")
    harness.holds_reading = True
    subscribed(client.attach("slow", after=4, window=1))
    found = lag(harness)
    assert not found.is_exact
    assert 5 <= found.events <= 1000
    harness.holds_reading = False
    harness.read()
    assert events_behind(harness) == 5


def test_events_that_have_expired_are_not_waited_for() -> None:
    harness = Harness()
    client = harness.connect()
    subscribed(client.subscribe("roads", name="slow"))
    client.detach("slow")
    publish(client, 10)
    harness.pass_time(86_400)
    publish(client, 10)
    assert kept(harness).events == 20
    assert kept(harness).oldest_seconds == 86_400
    harness.pass_time(6.5 * 86_400)
    assert lag(harness).events == 10
    assert kept(harness).events == 10
    harness.pass_time(86_400)
    assert lag(harness).events == 0
    assert kept(harness) == Kept(0, 0, None)


def test_what_the_log_had_no_room_for_is_not_waited_for() -> None:
    harness = Harness()
    client = harness.connect()
    subscribed(client.subscribe("roads", name="slow"))
    client.detach("slow")
    for number in range(200):
        publish(client, 1, number)
        harness.pass_time(2)
    harness.memory.trim(149)
    publish(client, 1, 200)
    assert lag(harness).events == 51
    assert not lag(harness).is_exact
    assert kept(harness).events == 51


# The counts themselves

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 40)),
        st.tuples(st.just("take"), st.integers(1, 200)),
        st.tuples(st.just("put_back"), st.integers(1, 20)),
        st.tuples(st.just("drop"), st.integers(0, 300)),
    ),
    max_size=60,
)


@given(_steps)
def test_groups_count_what_a_list_of_positions_does(steps: list[tuple[str, int]]) -> None:
    unread, truth, taken, last = Unread(), list[int](), list[int](), 0
    for step, count in steps:
        if step == "add":
            new = [last + 2 * number for number in range(1, count + 1)]
            last = new[-1]
            unread.add(new[0], new[-1], count)
            truth += new
        elif step == "take":
            read, truth = truth[:count], truth[count:]
            unread.take(read)
            taken += read
            unread.read_upto(read[-1] if read else -1)
        elif step == "put_back" and taken:
            back, taken = taken[-count:], taken[:-count]
            unread.put_back(back)
            truth = back + truth
        elif step == "drop" and truth:
            position = truth[min(count, len(truth) - 1)]
            unread.drop_upto(position)
            truth, taken = [each for each in truth if each > position], []
        assert unread.count >= len(truth)
        assert unread.count == sum(group.events for group in unread.groups)
        if unread.is_exact:
            assert unread.count == len(truth)
        if truth:
            assert unread.first is not None
            assert unread.first <= truth[0]
        assert len(unread) <= 1024


def test_many_events_are_few_groups() -> None:
    unread = Unread()
    for number in range(300_000):
        unread.add(number, number, 1)
    assert unread.count == 300_000
    assert len(unread) < 300
    unread.drop_upto(150_000)
    assert 149_999 <= unread.count <= 149_999 + 300_000 / 32 + 64
