"""A publisher that got no answer sends again, and every event is delivered once."""

from __future__ import annotations

import pytest
from tests.routing.frames import accepted, done, events, publication, refused, subscribed
from tests.routing.harness import Client, Harness

from fieldfare.qos import Offered, Requested
from fieldfare.routing.options import EdgeOptions

LOOSE = Offered("best_effort", "volatile")


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def publisher(harness: Harness) -> Client:
    return harness.connect()


@pytest.fixture
def subscriber(harness: Harness) -> Client:
    client = harness.connect()
    subscribed(client.subscribe("news", name="mine"))
    return client


def test_what_is_sent_again_is_accepted_again_and_delivered_once(publisher: Client, subscriber: Client) -> None:
    assert accepted(publisher.publish("news", *events(0, 1), publisher="p", sequence=0)).duplicates == 0
    assert accepted(publisher.publish("news", *events(0, 1), publisher="p", sequence=0)).duplicates == 2
    assert accepted(publisher.publish("news", *events(1, 2), publisher="p", sequence=1)).duplicates == 1
    assert accepted(publisher.publish("news", *events(0), publisher="p", sequence=0)).duplicates == 1
    assert subscriber.numbers("mine") == [0, 1, 2]


def test_publishers_and_topics_have_numbers_of_their_own(
    harness: Harness, publisher: Client, subscriber: Client
) -> None:
    for name in ("p", "q"):
        for topic in ("news", "olds"):
            assert accepted(publisher.publish(topic, *events(0), publisher=name, sequence=0)).duplicates == 0
    assert subscriber.numbers("mine") == [0, 0]
    assert harness.edge.statistics().published == 4


def test_a_gap_is_refused_with_the_number_that_is_missing(publisher: Client, subscriber: Client) -> None:
    assert refused(publisher.publish("news", *events(1), publisher="p", sequence=1), "sequence").expected == 0
    accepted(publisher.publish("news", *events(0, 1), publisher="p", sequence=0))
    assert refused(publisher.publish("news", *events(3), publisher="p", sequence=3), "sequence").expected == 2
    accepted(publisher.publish("news", *events(2, 3), publisher="p", sequence=2))
    assert subscriber.numbers("mine") == [0, 1, 2, 3]


def test_a_refused_publication_uses_no_number(publisher: Client, subscriber: Client) -> None:
    refused(publisher.publish("news", {"n": 2**70}, publisher="p", sequence=0), "invalid")
    assert accepted(publisher.publish("news", *events(0), publisher="p", sequence=0)).duplicates == 0
    assert subscriber.numbers("mine") == [0]


def test_a_repetition_is_accepted_only_when_the_first_is(
    harness: Harness, publisher: Client, subscriber: Client
) -> None:
    harness.holds_storage = True
    frames = [publication(ref, "news", *events(0), publisher="p", sequence=0) for ref in (1, 2)]
    harness.together(*((publisher, frame) for frame in frames))
    assert publisher.answer(1) is publisher.answer(2) is None
    harness.store()
    assert accepted(publisher.answer(1)).duplicates == 0
    assert accepted(publisher.answer(2)).duplicates == 1
    assert subscriber.numbers("mine") == [0]


def test_a_repetition_is_answered_though_the_pipeline_was_given_something_meanwhile(
    harness: Harness, publisher: Client
) -> None:
    done(publisher.declare("big", matching="spark"))
    publisher.publish("big", *events(0))
    harness.holds_storage = True
    publisher.send(publication(1, "news", *events(0), publisher="p", sequence=0))
    publisher.publish("big", *events(1))
    publisher.send(publication(2, "news", *events(0), publisher="p", sequence=0))
    harness.store()
    assert accepted(publisher.answer(2)).duplicates == 1


@pytest.mark.parametrize("options", [{"sequence": 0}, {"ids": ["a", "b"]}], ids=str)
def test_what_was_not_stored_is_free_to_come_again(
    harness: Harness, publisher: Client, subscriber: Client, options: dict[str, object]
) -> None:
    harness.holds_storage = True
    for ref in (1, 2):
        publisher.send(publication(ref, "news", *events(5, 6), publisher="p", **options))
    harness.fail_to_store()
    refused(publisher.answer(1), "storage")
    refused(publisher.answer(2), "storage")
    harness.holds_storage = False
    assert accepted(publisher.publish("news", *events(5, 6), publisher="p", **options)).duplicates == 0
    assert subscriber.numbers("mine") == [5, 6]


def test_of_several_that_were_not_stored_the_first_is_expected(harness: Harness, publisher: Client) -> None:
    accepted(publisher.publish("news", *events(0), publisher="p", sequence=0))
    harness.holds_storage = True
    for number in (1, 2, 3):
        publisher.publish("news", *events(number), publisher="p", sequence=number)
    harness.fail_to_store()
    assert refused(publisher.publish("news", *events(2), publisher="p", sequence=2), "sequence").expected == 1


def test_ids_make_a_repetition_known(publisher: Client, subscriber: Client) -> None:
    assert accepted(publisher.publish("news", *events(0, 1), ids=["a", "b"])).duplicates == 0
    assert accepted(publisher.publish("news", *events(1, 2, 2), ids=["b", "c", "c"])).duplicates == 2
    assert accepted(publisher.publish("news", *events(0), ids=["a"])).duplicates == 1
    assert subscriber.numbers("mine") == [0, 1, 2]


def test_an_id_is_its_publishers_own(publisher: Client, subscriber: Client) -> None:
    for name in ("p", "q", None):
        assert accepted(publisher.publish("news", *events(0), publisher=name, ids=["a"])).duplicates == 0
    assert len(subscriber.numbers("mine")) == 3


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_restart_does_not_forget(harness: Harness, has_checkpoint: bool) -> None:
    publisher, subscriber = harness.connect(), harness.connect()
    subscriber.subscribe("news", name="mine")
    publisher.publish("news", *events(0, 1), publisher="p", sequence=0)
    publisher.publish("news", *events(2), publisher="q", ids=["a"])
    harness.holds_storage = True
    publisher.publish("news", *events(9), publisher="p", sequence=2)  # which no log ever gets
    publisher.publish("news", *events(9), publisher="q", ids=["b"])
    if has_checkpoint:
        harness.checkpoint()
    harness.holds_storage = False
    harness.crash()
    publisher, subscriber = harness.connect(), harness.connect()
    assert accepted(publisher.publish("news", *events(1, 3), publisher="p", sequence=1)).duplicates == 1
    assert accepted(publisher.publish("news", *events(2, 4), publisher="q", ids=["a", "b"])).duplicates == 1
    assert accepted(publisher.publish("news", *events(5), publisher="r", ids=["a"])).duplicates == 0
    subscriber.attach("mine")
    assert subscriber.take_all("mine") == [0, 1, 2, 3, 4, 5]


def test_in_a_best_effort_topic_it_holds_as_long_as_the_edge_lives(harness: Harness, publisher: Client) -> None:
    done(publisher.declare("news", offered=LOOSE))
    name = subscribed(publisher.subscribe("news", qos=Requested("best_effort"))).subscription
    for _ in range(2):
        accepted(publisher.publish("news", *events(0), publisher="p", sequence=0))
    assert publisher.numbers(name) == [0]
    harness.checkpoint()
    harness.crash()
    publisher = harness.connect()
    assert refused(publisher.publish("news", *events(1), publisher="p", sequence=1), "sequence").expected == 0


def test_only_so_many_publishers_and_ids_are_remembered() -> None:
    harness = Harness(EdgeOptions(publishers_max=3, recent_ids_max=3))
    client = harness.connect()
    for number in range(10):
        accepted(client.publish("news", *events(0), publisher=f"p{number}", sequence=0))
        accepted(client.publish("news", *events(0), ids=[f"i{number}"]))
        accepted(client.publish("news", *events(0), publisher="steady", sequence=number))
    for name, is_known in (("p8", True), ("p9", True), ("p7", False), ("steady", True)):
        again = accepted(client.publish("news", *events(0), publisher=name, sequence=9 if name == "steady" else 0))
        assert again.duplicates == is_known, name
    for number, is_known in ((9, True), (7, True), (6, False)):
        assert accepted(client.publish("news", *events(0), ids=[f"i{number}"])).duplicates == is_known, number
    sizes = [len(getattr(record, "sequences", {})) for record in harness.edge.checkpoint()]
    assert max(sizes) <= 3


def test_too_much_at_once_is_refused_until_some_of_it_is_stored() -> None:
    harness = Harness(EdgeOptions(unstored_bytes_max=1000))
    client = harness.connect()
    harness.holds_storage = True
    answers = [client.publish("news", {"n": 0, "text": "x" * 400}) for _ in range(5)]
    assert [answer is None for answer in answers] == [True, True, True, False, False]
    refused(answers[3], "busy")
    for free in (harness.store, harness.fail_to_store, harness.fail_to_store):
        free()
        answers = [client.publish("news", {"n": 0, "text": "x" * 400}) for _ in range(4)]
        assert [answer is None for answer in answers] == [True, True, True, False]
