"""Topics that the Spark pipeline matches: events and subscriptions go there, matches come back, each once."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw
from tests.routing.frames import accepted, done, events, publication, refused, subscribed, unsubscribed
from tests.routing.harness import TENANT, Client, Harness

from fieldfare.messages import HandEvents, HandSubscription, MatchedEvent, PipelineMatched, Subscribe
from fieldfare.qos import Requested
from fieldfare.routing.options import EdgeOptions


@pytest.fixture
def harness() -> Harness:
    harness = Harness(EdgeOptions(waiting_max=4))
    done(harness.connect().declare("big", matching="spark"))
    return harness


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.connect()


def subscribe(client: Client, name: str | None, condition: str = "n >= 0") -> str:
    ref = client.ref()
    qos = Requested(reliability="reliable" if name else "best_effort")
    client.send(Subscribe(ref, "big", condition, name=name, qos=qos))
    client.harness.take_over()
    return subscribed(client.answer(ref)).subscription


def matched(harness: Harness, batch: int, *found: tuple[int, list[str]]) -> None:
    """The pipeline commits a batch: numbers, and who wants them."""
    told = [
        MatchedEvent(f"id{number}", "p", harness.now, Raw(json.dumps({"n": number}).encode()), names)
        for number, names in found
    ]
    harness.tell(PipelineMatched(TENANT, "big", batch, told))


def test_events_are_handed_over_and_then_accepted(harness: Harness, client: Client) -> None:
    client.send(publication(1, "big", *events(1, 2), publisher="p"))
    assert client.answer(1) is None
    handed = harness.take_over()
    assert isinstance(handed, HandEvents)
    assert [json.loads(bytes(event)) for event in handed.events] == events(1, 2)
    assert (handed.tenant, handed.topic, handed.publisher) == (TENANT, "big", "p")
    assert accepted(client.answer(1)).count == 2


def test_a_subscription_is_in_force_when_the_pipeline_has_it(harness: Harness, client: Client) -> None:
    client.send(Subscribe(1, "big", "n > 5", name="mine"))
    assert client.answer(1) is None
    handed = harness.take_over()
    assert isinstance(handed, HandSubscription)
    assert (handed.subscription, handed.condition) == ("mine", "n > 5")
    assert subscribed(client.answer(1)).is_new


def test_a_wrong_condition_never_reaches_the_pipeline(harness: Harness, client: Client) -> None:
    refused(client.subscribe("big", "n <", name="mine"), "condition")
    assert harness.handed == []


def test_matches_are_delivered_once_for_each_batch_and_in_order(harness: Harness, client: Client) -> None:
    mine, other = subscribe(client, "mine"), subscribe(client, None)
    matched(harness, 0, (1, [mine]), (2, [mine, other]))
    matched(harness, 0, (1, [mine]), (2, [mine, other]))
    matched(harness, 2, (3, [mine]), (4, ["nobody", other]))
    matched(harness, 1, (9, [mine]))
    assert client.numbers(mine) == [1, 2, 3]
    assert client.numbers(other) == [2, 4]
    assert [delivery.id for delivery in client.deliveries(mine)] == ["id1", "id2", "id3"]


def test_a_slow_subscriber_reads_matches_from_the_log(harness: Harness, client: Client) -> None:
    mine = subscribe(client, "mine")
    client.attach(mine, window=1)
    for batch in range(20):
        matched(harness, batch, *((batch * 10 + n, [mine] if n % 2 else ["nobody"]) for n in range(10)))
    assert client.take_all(mine) == list(range(1, 200, 2))


def test_a_batch_with_nothing_for_anybody_here(harness: Harness, client: Client) -> None:
    mine = subscribe(client, "mine")
    matched(harness, 0, (1, [mine]))
    client.detach(mine)
    harness.crash()  # positions go on far beyond what the log holds
    matched(harness, 1, (2, ["nobody"]))
    matched(harness, 2)
    for _ in range(2):
        client = harness.connect()
        client.attach(mine)
        assert client.numbers(mine) == [1]
        harness.crash()
    client = harness.connect()
    client.attach(mine)
    matched(harness, 1, (9, [mine]))
    matched(harness, 3, (3, [mine]))
    assert client.numbers(mine) == [1, 3]
    harness.crash()
    client = harness.connect()
    client.attach(mine)
    matched(harness, 2, (9, [mine]))
    assert client.numbers(mine) == [1, 3]


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_after_a_restart_batches_are_still_known(harness: Harness, has_checkpoint: bool) -> None:
    client = harness.connect()
    mine = subscribe(client, "mine")
    matched(harness, 0, (1, [mine]))
    harness.holds_storage = True
    matched(harness, 1, (2, [mine]))  # which no log ever gets
    if has_checkpoint:
        harness.checkpoint()
    harness.holds_storage = False
    harness.crash()
    assert harness.edge.parts.topics[TENANT, "big"].stored_batch == 0
    client = harness.connect()
    client.attach(mine)
    matched(harness, 0, (1, [mine]))
    matched(harness, 1, (2, [mine]))
    assert client.numbers(mine) == [1, 2]


def test_a_batch_that_was_not_stored_may_be_given_again(harness: Harness, client: Client) -> None:
    mine = subscribe(client, "mine")
    harness.holds_storage = True
    matched(harness, 0, (1, [mine]))
    matched(harness, 1, (2, [mine]))
    harness.fail_to_store()
    harness.holds_storage = False
    assert client.numbers(mine) == []
    matched(harness, 0, (1, [mine]))
    matched(harness, 1, (2, [mine]))
    assert client.numbers(mine) == [1, 2]


def test_events_that_are_not_handed_over_have_not_happened(harness: Harness, client: Client) -> None:
    client.send(publication(1, "big", *events(0), publisher="p", sequence=0))
    harness.take_over("the pipeline's disk is full")
    assert "disk" in refused(client.answer(1), "storage").reason
    client.send(publication(2, "big", *events(0), publisher="p", sequence=0))
    harness.take_over()
    assert accepted(client.answer(2)).duplicates == 0


@pytest.mark.parametrize("options", [{"publisher": "p", "sequence": 0}, {"ids": ["a"]}], ids=str)
def test_a_repetition_is_not_accepted_before_the_first_is(
    harness: Harness, client: Client, options: dict[str, object]
) -> None:
    client.send(publication(1, "big", *events(0), **options))
    client.send(publication(2, "big", *events(0), **options))
    refused(client.answer(2), "busy")
    harness.take_over()
    assert accepted(client.answer(1)).duplicates == 0
    client.send(publication(3, "big", *events(0), **options))
    assert accepted(client.answer(3)).duplicates == 1
    assert harness.handed == []


def test_nor_while_the_log_is_told_that_positions_are_used(harness: Harness, client: Client) -> None:
    harness.holds_storage = True
    client.send(publication(1, "big", *events(0), publisher="p", sequence=0))
    client.send(publication(2, "big", *events(0), publisher="p", sequence=0))
    refused(client.answer(2), "busy")
    harness.fail_to_store()
    refused(client.answer(1), "storage")
    harness.holds_storage = False
    client.send(publication(3, "big", *events(0), publisher="p", sequence=0))
    harness.take_over()
    assert accepted(client.answer(3)).duplicates == 0


def test_what_was_handed_over_twice_is_delivered_once(harness: Harness, client: Client) -> None:
    """A publisher sends again what an edge handed over before it crashed, and the pipeline matches both."""
    mine = subscribe(client, "mine")
    client.send(publication(1, "big", *events(0), publisher="p", sequence=0))
    first = harness.handed[0]
    harness.crash()
    client = harness.connect()
    client.attach(mine)
    client.send(publication(1, "big", *events(0), publisher="p", sequence=0))
    again = harness.take_over()
    accepted(client.answer(1))
    assert isinstance(first, HandEvents)
    assert isinstance(again, HandEvents)
    for batch, handed in enumerate((first, again)):
        found = [MatchedEvent(handed.ids[0], handed.publisher, handed.at, handed.events[0], [mine])]
        harness.tell(PipelineMatched(TENANT, "big", batch, found))
    assert client.numbers(mine) == [0]


def test_a_subscription_that_is_not_handed_over_has_not_happened(harness: Harness, client: Client) -> None:
    client.send(Subscribe(1, "big", "n > 5", name="mine"))
    harness.take_over("the store is away")
    refused(client.answer(1), "storage")
    refused(client.attach("mine"), "unknown")


def test_a_subscription_that_is_not_stored_leaves_the_pipeline_again(harness: Harness, client: Client) -> None:
    harness.holds_storage = True
    client.send(Subscribe(1, "big", "n > 5", name="mine"))
    harness.take_over()
    harness.fail_to_store()
    refused(client.answer(1), "storage")
    handed = harness.take_over()
    assert isinstance(handed, HandSubscription)
    assert (handed.subscription, handed.condition) == ("mine", None)


def test_an_end_is_handed_over_too(harness: Harness, client: Client) -> None:
    mine, unnamed = subscribe(client, "mine"), subscribe(client, None)
    unsubscribed(client.unsubscribe(mine))
    client.close()
    removed = [harness.take_over() for _ in range(2)]
    assert [(effect.subscription, effect.condition) for effect in removed if isinstance(effect, HandSubscription)] == [
        (mine, None),
        (unnamed, None),
    ]


def test_ids_do_not_repeat_after_restarts(harness: Harness, client: Client) -> None:
    ids = []
    for _ in range(3):
        client.publish("big", *events(1, 2))
        handed = harness.take_over()
        assert isinstance(handed, HandEvents)
        ids += handed.ids
        harness.crash()
        client = harness.connect()
    assert len(set(ids)) == 6


def test_a_restart_forgets_what_was_on_its_way_and_nothing_else(harness: Harness, client: Client) -> None:
    subscribe(client, "mine")
    client.send(publication(1, "big", *events(1), publisher="p", sequence=0))
    client.send(Subscribe(2, "big", "n > 5", name="late"))
    harness.crash()
    client = harness.connect()
    refused(client.attach("late"), "unknown")
    subscribed(client.attach("mine"))
    client.send(publication(1, "big", *events(1), publisher="p", sequence=0))
    harness.take_over()
    assert accepted(client.answer(1)).duplicates == 0


def test_the_pipelines_topics_are_matched_there_alone(harness: Harness, client: Client) -> None:
    mine = subscribe(client, "mine")
    client.publish("big", *events(1))
    harness.take_over()
    assert client.numbers(mine) == []
    refused(client.declare("big", matching="edge"), "invalid")


def test_a_late_joiner_gets_only_what_was_matched_for_it(harness: Harness, client: Client) -> None:
    mine = subscribe(client, "mine")
    matched(harness, 0, (1, [mine]))
    ref = client.ref()
    client.send(Subscribe(ref, "big", "n >= 0", qos=Requested(durability="transient"), name="late"))
    harness.take_over()
    matched(harness, 1, (2, [mine, "late"]))
    assert client.numbers("late") == [2]


def test_what_a_publisher_sends_again_after_a_crash_is_delivered_once(harness: Harness, client: Client) -> None:
    """The edge crashed when the pipeline had the event, and before the publisher had its answer."""
    mine = subscribe(client, "mine")
    client.send(publication(1, "big", *events(1), publisher="p", sequence=0))
    first = harness.handed[-1]
    assert isinstance(first, HandEvents)
    harness.crash()
    again = harness.connect()
    again.attach(mine)
    again.send(publication(1, "big", *events(1, 2), publisher="p", sequence=0))
    second = harness.take_over()
    assert isinstance(second, HandEvents)
    assert accepted(again.answer(1)).count == 2
    assert second.ids[0] == first.ids[0] == "p:0"
    told = [
        MatchedEvent(name, "p", harness.now, event, [mine])
        for handed in (first, second)
        for name, event in zip(handed.ids, handed.events, strict=True)
    ]
    harness.tell(PipelineMatched(TENANT, "big", 0, told[:2]))
    harness.crash()
    last = harness.connect()
    last.attach(mine)
    harness.tell(PipelineMatched(TENANT, "big", 1, told[1:]))
    assert last.take_all(mine) == [1, 2]
    assert accepted(last.publish("big", *events(1, 2), publisher="p", sequence=0)).duplicates == 2


def test_who_is_to_miss_nothing_needs_a_name(client: Client) -> None:
    refused(client.subscribe("big"), "qos")


def test_what_fails_is_not_overtaken_by_what_the_publisher_sent_next(harness: Harness, client: Client) -> None:
    for number in range(3):
        client.send(publication(number, "big", *events(number), publisher="p", sequence=number))
    assert len(harness.handed) == 1, "the next waits until the pipeline has the first"
    harness.take_over("the disk is full")
    assert [refused(client.answer(number), "storage").ref for number in range(3)] == [0, 1, 2]
    for number in range(3):
        client.send(publication(10 + number, "big", *events(number), publisher="p", sequence=number))
    handed = [harness.take_over() for _ in range(3)]
    assert [each.ids for each in handed if isinstance(each, HandEvents)] == [["p:0"], ["p:1"], ["p:2"]]
    assert all(accepted(client.answer(10 + number)).count == 1 for number in range(3))
