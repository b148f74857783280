"""A position belongs to a log: a client that comes with one of another log is told, and never silently repositioned."""

from __future__ import annotations

import pytest
from tests.routing.harness import Client, Harness

from fieldfare.messages import Attach, Notice, Subscribe, Subscribed
from fieldfare.qos import Requested

FOREIGN = "0123456789abcdef"


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.connect()
    client.publish("t", {"n": 1}, {"n": 2}, {"n": 3})
    return client


def subscribed(client: Client, frame: Subscribe | Attach) -> Subscribed:
    client.send(frame)
    answers = [each for each in client.frames if isinstance(each, Subscribed) and each.ref == frame.ref]
    assert len(answers) == 1
    return answers[0]


def test_the_log_is_told_to_clients_that_know_of_logs_only(harness: Harness, client: Client) -> None:
    assert subscribed(client, Subscribe(90, "t", "TRUE")).log == ""
    assert subscribed(client, Subscribe(91, "t", "TRUE", log="")).log == harness.edge.log_id != ""
    assert subscribed(client, Subscribe(92, "t", "TRUE", name="mine", log="")).log == harness.edge.log_id
    assert subscribed(client, Attach(93, "mine", log="")).log == harness.edge.log_id
    assert subscribed(client, Attach(94, "mine")).log == ""


@pytest.mark.parametrize("log", [None, "", "own"])
def test_a_position_of_this_log_is_where_it_goes_on(harness: Harness, client: Client, log: str | None) -> None:
    made = subscribed(client, Subscribe(90, "t", "TRUE", log=harness.edge.log_id if log == "own" else log, after=0))
    assert made.position == 0
    assert client.numbers(made.subscription) == [2, 3]
    assert client.notices("gap") == []


def test_a_position_of_another_log_is_a_gap(harness: Harness, client: Client) -> None:
    made = subscribed(client, Subscribe(90, "t", "TRUE", after=0, log=FOREIGN))
    assert (made.position, made.log) == (harness.edge.parts.positions.last, harness.edge.log_id)
    (notice,) = client.notices("gap")
    assert notice.subscription == made.subscription
    assert FOREIGN in notice.detail
    client.publish("t", {"n": 4})
    assert client.numbers(made.subscription) == [4]
    kinds = [type(frame) for frame in client.frames if isinstance(frame, Subscribed | Notice)]
    assert kinds == [Subscribed, Notice]  # a client could not know yet whose gap it is


def test_one_that_begins_with_what_is_alive_does_so_again(client: Client) -> None:
    request = Subscribe(90, "t", "TRUE", Requested(durability="transient"), after=1, log=FOREIGN)
    made = subscribed(client, request)
    assert client.numbers(made.subscription) == [1, 2, 3]
    assert len(client.notices("gap")) == 1


@pytest.mark.parametrize("is_attached", [True, False])
def test_a_durable_subscription_goes_on_where_it_was(harness: Harness, client: Client, is_attached: bool) -> None:
    subscribed(client, Subscribe(90, "t", "TRUE", name="mine"))
    client.publish("t", {"n": 4}, {"n": 5}, {"n": 6})
    client.ack("mine", 3)
    other = harness.connect()
    frame: Subscribe | Attach = Subscribe(91, "t", "TRUE", name="mine", after=5, log=FOREIGN)
    if is_attached:
        frame = Attach(91, "mine", after=5, log=FOREIGN)
    assert subscribed(other, frame).position == 3
    assert other.numbers("mine") == [5, 6]
    assert len(other.notices("gap")) == 1
