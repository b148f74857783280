"""A publisher that reads another log: where it goes on is stored with its events, and is never forgotten."""

from __future__ import annotations

import pytest
from tests.routing.frames import accepted, events, publication, refused, subscribed
from tests.routing.harness import TENANT, Harness

from fieldfare.messages import EdgeFrame
from fieldfare.qos import Requested
from fieldfare.routing.options import EdgeOptions


def feed(harness: Harness, sequence: int, upto: int, *numbers: int, reader: str = "kafka/0") -> EdgeFrame | None:
    ids = [f"{reader}:{number}" for number in numbers] or None
    client = harness.connect()
    return client.publish("news", *events(*numbers), publisher=reader, sequence=sequence, upto=upto, ids=ids)


def place(harness: Harness, reader: str = "kafka/0") -> int:
    topic = next((each for each in harness.edge.parts.topics if each.key == (TENANT, "news")), None)
    return 0 if topic is None else topic.publishers.last(reader) + 1


def delivered(harness: Harness) -> list[int]:
    client = harness.connect()
    subscribed(client.subscribe("news", name="all", qos=Requested(durability="transient")))
    return client.numbers("all")


def test_numbers_may_have_gaps_and_it_goes_on_where_it_said() -> None:
    harness = Harness()
    accepted(feed(harness, 0, 101))  # it begins at 100
    accepted(feed(harness, 101, 140, 100, 107))
    assert accepted(feed(harness, 101, 140, 100, 107)).duplicates == 2
    accepted(feed(harness, 140, 150))
    assert accepted(feed(harness, 140, 150)).duplicates == 0
    assert refused(feed(harness, 149, 160, 149), "sequence").expected == 150
    assert refused(feed(harness, 151, 160, 151), "sequence").expected == 150
    accepted(feed(harness, 150, 151, 149))
    assert delivered(harness) == [100, 107, 149]


def test_after_a_crash_at_any_record_events_and_place_belong_together() -> None:
    harness = Harness()
    accepted(feed(harness, 0, 11))
    accepted(feed(harness, 11, 15, 10, 12))
    harness.holds_storage = True
    feed(harness, 15, 20, 16, 17)
    harness.crash()  # it was not stored
    harness.holds_storage = False
    assert place(harness) == 15
    accepted(feed(harness, 15, 18, 16))  # other pieces, after the crash
    accepted(feed(harness, 18, 20, 17))
    harness.checkpoint()
    harness.crash()
    assert place(harness) == 20
    assert delivered(harness) == [10, 12, 16, 17]


def test_what_was_not_stored_is_read_again() -> None:
    harness = Harness()
    accepted(feed(harness, 0, 11))
    harness.holds_storage = True
    client = harness.connect()
    first = publication(11, "news", *events(10), publisher="kafka/0", sequence=11, upto=15, ids=["a"])
    harness.together((client, first), (client, publication(15, "news", publisher="kafka/0", sequence=15, upto=16)))
    harness.fail_to_store()
    refused(client.answer(11), "storage")
    refused(client.answer(15), "storage")
    harness.holds_storage = False
    assert place(harness) == 11
    accepted(feed(harness, 11, 16, 10))
    assert delivered(harness) == [10]


def test_a_reader_that_is_quiet_is_not_forgotten_for_others() -> None:
    harness = Harness(EdgeOptions(publishers_max=3))
    accepted(feed(harness, 0, 11))
    for number in range(5):
        accepted(harness.connect().publish("news", *events(0), publisher=f"p{number}", sequence=0))
    assert place(harness) == 11
    harness.checkpoint()
    harness.crash()
    for number in range(5):
        accepted(harness.connect().publish("news", *events(0), publisher=f"q{number}", sequence=0))
    assert place(harness) == 11
    for number in range(2):
        accepted(feed(harness, 0, 1, reader=f"kafka/{number + 1}"))
    refused(feed(harness, 0, 1, reader="kafka/3"), "limit")


@pytest.mark.parametrize(
    "options",
    [{"sequence": 0, "upto": 5}, {"sequence": 0, "upto": 1, "ids": ["a", "b"]}, {"upto": 5, "ids": ["a", "b"]}],
)
def test_a_range_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    refused(Harness().connect().publish("news", *events(0, 1), publisher="p", **options), "invalid")
