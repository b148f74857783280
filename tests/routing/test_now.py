"""The time of now at an edge is the instant that is stored with the event: live, late, and after a restart."""

from __future__ import annotations

import datetime
import json

from msgspec import Raw
from tests.routing.frames import accepted
from tests.routing.harness import Client, Harness

from fieldfare.messages import Publish, Subscribe
from fieldfare.qos import Requested

FROM_THE_BEGINNING = Requested(durability="transient")
FRESH = "sent > current_timestamp() - INTERVAL 5 SECONDS AND sent <= now()"
STALE = "NOT (sent > now() - INTERVAL 5 SECONDS)"


def received(client: Client, name: str) -> list[int]:
    return [json.loads(bytes(delivery.event))["n"] for delivery in client.deliveries(name)]


def test_late_and_recovered_subscribers_see_the_instant_at_which_the_event_was_stored() -> None:
    harness = Harness()
    publisher = harness.connect()
    live = harness.connect()
    for ref, (name, condition) in enumerate({"fresh": FRESH, "stale": STALE}.items()):
        live.send(Subscribe(ref, "news", condition, name=name))
    for number, seconds in enumerate((0, 4, 6)):  # how old the event is when it is published
        sent = datetime.datetime.fromtimestamp(harness.now - seconds, datetime.UTC).isoformat()
        event = {"n": number, "sent": sent}
        frame = Publish(publisher.ref(), "news", [Raw(json.dumps(event).encode())])
        publisher.send(frame)
        accepted(publisher.answer(frame.ref))
    assert (received(live, "fresh"), received(live, "stale")) == ([0, 1], [2])

    harness.now += 3_000
    harness.start(harness.memory.recover())
    late = harness.connect()
    for ref, (name, condition) in enumerate({"late-fresh": FRESH, "late-stale": STALE}.items()):
        late.send(Subscribe(ref, "news", condition, qos=FROM_THE_BEGINNING, name=name))
    assert (received(late, "late-fresh"), received(late, "late-stale")) == ([0, 1], [2])


def test_what_an_event_says_of_now_does_not_count() -> None:
    harness = Harness()
    publisher, subscriber = harness.connect(), harness.connect()
    subscriber.send(Subscribe(1, "news", "year(now()) = 1970", name="seventies"))
    frame = Publish(publisher.ref(), "news", [Raw(b'{"n": 1, "current_timestamp()": "2026-01-01"}')])
    publisher.send(frame)
    accepted(publisher.answer(frame.ref))
    assert received(subscriber, "seventies") == [1]
