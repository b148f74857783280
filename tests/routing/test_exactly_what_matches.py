"""Every subscriber gets exactly the events that the slow oracle says, in order, however they are published."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.matching.strategies import Event, conditions, events
from tests.routing.frames import accepted
from tests.routing.harness import Client, Harness

from fieldfare.errors import ConditionError
from fieldfare.events import event_attributes
from fieldfare.language import compile  # noqa: A004
from fieldfare.matching import oracle
from fieldfare.messages import Publish, Refused, Subscribe
from fieldfare.qos import Requested
from fieldfare.routing.options import EdgeOptions


def is_json(event: Event) -> bool:
    return not any(isinstance(value, float) and not math.isfinite(value) for value in event.values())


def text(event: Event) -> bytes:
    """As a publisher would write it: times as text."""
    plain = {name: value.isoformat() if isinstance(value, datetime.date) else value for name, value in event.items()}
    return json.dumps(plain).encode()


def is_sound(condition: str) -> bool:
    try:
        compile(condition)
    except ConditionError:
        return False
    return True


def expected(condition: str, texts: Sequence[bytes]) -> list[bytes]:
    return [each for each in texts if oracle.holds(condition, event_attributes(each))]


def received(client: Client, name: str) -> list[bytes]:
    return [bytes(delivery.event) for delivery in client.deliveries(name)]


@given(
    st.lists(conditions(), min_size=1, max_size=6),
    st.lists(st.lists(events().filter(is_json), min_size=1, max_size=4), min_size=1, max_size=5),
    st.integers(1, 3),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_live_slow_and_late_get_what_the_oracle_says(
    texts: list[str], publications: list[list[Event]], window: int
) -> None:
    harness = Harness(EdgeOptions(waiting_max=2))
    live, slow, late, publisher = (harness.connect() for _ in range(4))
    for number, condition in enumerate(texts):
        harness.together(
            (live, Subscribe(number, "news", condition)),
            (slow, Subscribe(number, "news", condition, name=f"slow{number}", window=window)),
        )
    published: list[bytes] = []
    for group in publications:
        frame = Publish(publisher.ref(), "news", [Raw(text(event)) for event in group])
        publisher.send(frame)
        accepted(publisher.answer(frame.ref))
        published += [bytes(event) for event in frame.events]
    for number, condition in enumerate(texts):
        answer = live.answer(number)
        assert isinstance(answer, Refused) == (not is_sound(condition)), condition
        if answer is None or isinstance(answer, Refused):
            continue
        wanted = expected(condition, published)
        assert received(live, answer.subscription) == wanted  # type: ignore[union-attr]
        late.send(Subscribe(number, "news", condition, qos=Requested(durability="transient"), name=f"late{number}"))
        for client, name in ((slow, f"slow{number}"), (late, f"late{number}")):
            acknowledged = -1
            while (positions := client.positions(name)) and positions[-1] > acknowledged:
                acknowledged = positions[-1]
                client.ack(name, acknowledged)
            assert received(client, name) == wanted
