"""A publisher leaves one edge and comes to another: sealed durably here, adopted durably there, in one place only."""

from __future__ import annotations

import pytest
from tests.routing.frames import accepted, done, events, publication, refused, subscribed
from tests.routing.harness import ALL, TENANT, Client, Harness

from fieldfare.messages import (
    Adopt,
    Advertise,
    Candidate,
    Earlier,
    EdgesPinged,
    EventsStored,
    Identity,
    MovePublisher,
    NotStored,
    PingEdges,
    Seal,
    Sealed,
    SealedPublisher,
    SealedTopic,
)
from fieldfare.qos import Offered
from fieldfare.routing.asked_publishers import PingsAnswered


@pytest.fixture
def source() -> Harness:
    return Harness()


@pytest.fixture
def target() -> Harness:
    made = Harness()
    made.start(())  # harnesses draw the ids of their logs from the number of their life: this one has another log
    return made


def publish(client: Client, number: int, topic: str = "news") -> None:
    accepted(client.publish(topic, *events(number), publisher="p", sequence=number))


def seal(client: Client, generation: int = 1, name: str = "there") -> SealedPublisher:
    client.send(Seal(1, "p", generation, name, f"http://{name}"))
    answer = client.frames.pop()
    assert isinstance(answer, Sealed), answer
    return answer.sealed


def adopt(client: Client, sealed: SealedPublisher) -> None:
    client.send(Adopt(2, sealed))
    done(client.frames.pop())


def test_it_takes_its_numbers_along(source: Harness, target: Harness) -> None:
    here, there = source.connect(), target.connect()
    publish(here, 0)
    publish(here, 1)
    publish(here, 0, "olds")
    sealed = seal(here)
    assert {each.topic: each.last for each in sealed.topics} == {"news": 1, "olds": 0}
    adopt(there, sealed)
    assert accepted(there.publish("news", *events(1), publisher="p", sequence=1)).duplicates == 1
    refused(there.publish("news", *events(3), publisher="p", sequence=3), "sequence")
    publish(there, 2)
    publish(there, 1, "olds")


def test_ids_without_numbers_are_taken_along_too(source: Harness, target: Harness) -> None:
    here, there = source.connect(), target.connect()
    accepted(here.publish("news", *events(0, 1), publisher="p", ids=["a", "b"]))
    adopt(there, seal(here))
    assert accepted(there.publish("news", *events(1, 2), publisher="p", ids=["b", "c"])).duplicates == 1
    assert accepted(there.publish("news", *events(1), publisher="q", ids=["b"])).duplicates == 0


def test_what_is_sealed_goes_on_only_at_the_target_also_after_a_crash(source: Harness) -> None:
    here = source.connect()
    publish(here, 0)
    sealed = seal(here)
    for restart in (None, source.crash, source.checkpoint, source.crash):
        if restart is not None:
            restart()
        again = source.connect()
        answer = refused(again.publish("news", *events(1), publisher="p", sequence=1), "moved")
        assert answer.home == "http://there"
        assert seal(again) == sealed  # who died after the seal can finish the move
        assert seal(again, name="elsewhere") == sealed  # there is one target
    accepted(source.connect().publish("news", *events(1), publisher="q", sequence=0))


def test_a_crash_before_the_seal_is_stored_leaves_it_here(source: Harness) -> None:
    here = source.connect()
    publish(here, 0)
    source.holds_storage = True
    here.send(Seal(1, "p", 1, "there"))
    assert here.answer(1) is None
    refused(here.publish("news", *events(1), publisher="p", sequence=1), "busy")
    source.holds_storage = False
    source.crash()
    publish(source.connect(), 1)


def test_a_seal_that_cannot_be_stored_leaves_it_here(source: Harness) -> None:
    here = source.connect()
    publish(here, 0)
    source.holds_storage = True
    here.send(Seal(1, "p", 1, "there"))
    source.fail_to_store()
    refused(here.answer(1), "storage")
    source.holds_storage = False
    publish(here, 1)


def test_a_seal_waits_for_what_is_on_its_way_and_knows_what_was_not_stored(source: Harness) -> None:
    here = source.connect()
    publish(here, 0)
    source.holds_storage = True
    here.send(publication(1, "news", *events(1), publisher="p", sequence=1))
    here.send(Seal(2, "p", 1, "there"))
    assert not any(isinstance(frame, Sealed) for frame in here.frames)
    source.tell(NotStored(source.unstored.pop(0).number, "the disk is full"))
    source.holds_storage = False
    source.settle()
    refused(here.answer(1), "storage")
    refused(here.answer(2), "storage")
    (topic,) = seal(here).topics
    assert topic.last == 0  # number 1 is nowhere: the target must not take it for a repetition


def test_an_adoption_survives_and_may_be_repeated(source: Harness, target: Harness) -> None:
    publish(source.connect(), 0)
    sealed = seal(source.connect())
    target.holds_storage = True
    there = target.connect()
    there.send(Adopt(2, sealed))
    assert there.answer(2) is None
    refused(there.publish("news", *events(1), publisher="p", sequence=1), "busy")
    target.fail_to_store()
    refused(there.answer(2), "storage")
    target.holds_storage = False
    for restart in (None, target.crash, target.checkpoint, target.crash):
        if restart is not None:
            restart()
        again = target.connect()
        adopt(again, sealed)
        assert accepted(again.publish("news", *events(0), publisher="p", sequence=0)).duplicates == 1
    publish(target.connect(), 1)


def test_it_comes_back_with_the_next_generation(source: Harness, target: Harness) -> None:
    here, there = source.connect(), target.connect()
    publish(here, 0)
    first = seal(here)
    adopt(there, first)
    publish(there, 1)
    second = seal(there, 2, "here")
    adopt(here, second)
    publish(here, 2)
    there.send(Adopt(3, first))  # it comes late: the publisher is here again
    refused(there.answer(3), "invalid")
    refused(there.publish("news", *events(3), publisher="p", sequence=3), "moved")
    here.send(Seal(4, "p", 1, "there"))
    refused(here.answer(4), "invalid")
    publish(here, 3)


def test_its_events_say_what_they_follow(source: Harness, target: Harness) -> None:
    subscriber = target.connect()
    subscribed(subscriber.subscribe("news"))
    here, there = source.connect(), target.connect()
    publish(here, 0)
    (topic,) = (sealed := seal(here)).topics
    (before,) = topic.predecessors
    assert (before.log, before.position) == (source.edge.log_id, source.edge.parts.topics[TENANT, "news"].matched)
    adopt(there, sealed)
    publish(there, 1)
    accepted(there.publish("news", *events(7), publisher="q", sequence=0))
    stored = [record for record in target.memory.recover() if isinstance(record, EventsStored)]
    assert [record.follows for record in stored] == [{before.log: Earlier(before.position, "edge")}, {}]
    (moved_on,) = seal(there, 2).topics
    assert {each.log for each in moved_on.predecessors} == {source.edge.log_id, target.edge.log_id}


def test_who_may_not_publish_there_may_not_be_adopted(target: Harness) -> None:
    there = target.connect(Identity(TENANT, {"publish": ("other",)}))
    there.send(Adopt(2, SealedPublisher("p", 1, "there", "", [SealedTopic("news", 3)])))
    refused(there.answer(2), "forbidden")


def test_best_effort_publishers_move_too(source: Harness, target: Harness) -> None:
    here, there = source.connect(), target.connect()
    for client in (here, there):
        done(client.declare("loose", offered=Offered("best_effort", "volatile")))
    publish(here, 0, "loose")
    adopt(there, seal(here))
    assert accepted(there.publish("loose", *events(0), publisher="p", sequence=0)).duplicates == 1
    publish(there, 1, "loose")


def test_a_publisher_that_advertises_is_asked_to_move_and_to_ping(source: Harness) -> None:
    answers: list[PingsAnswered] = []
    source.edge.parts.asked.on_pinged = answers.append
    key, near, far = (TENANT, "p"), Candidate("near", "http://near"), Candidate("far", "http://far")
    here = source.connect()
    publish(here, 0)
    assert not source.edge.ask_to_move(key, near)
    assert not source.edge.ask_to_ping(key, [near])
    here.send(Advertise(1, "news", "p"))
    (sent,) = source.edge.ask_to_move(key, near)
    assert sent.frame == MovePublisher("p", 1, "near", "http://near")  # type: ignore[attr-defined]
    (sent,) = source.edge.ask_to_ping(key, [near, far])
    question = sent.frame  # type: ignore[attr-defined]
    assert isinstance(question, PingEdges)
    other = source.connect(ALL)
    other.send(EdgesPinged(question.number, [9.0, 9.0]))
    assert answers == []  # it was not asked
    here.send(EdgesPinged(question.number, [0.001, None]))
    assert answers == [PingsAnswered(key, question.number, {"near": 0.001, "far": None})]
