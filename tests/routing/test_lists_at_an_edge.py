"""Conditions on lists at an edge: live subscribers and those that come later get what the slow oracle says."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.matching.list_strategies import conditions, events
from tests.routing.frames import accepted
from tests.routing.harness import Client, Harness

from fieldfare import Range
from fieldfare.events import event_attributes
from fieldfare.matching import oracle
from fieldfare.messages import Publish, Subscribe
from fieldfare.qos import Requested


def json_value(value: Any) -> Any:
    """A value as JSON has it: no NaN, no infinity, times as texts."""
    if isinstance(value, list):
        return [json_value(member) for member in value]
    if isinstance(value, dict):
        return {name: json_value(inner) for name, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Range):
        return {"low": value.low, "high": value.high}
    return value.isoformat() if isinstance(value, datetime.date) else value


def received(client: Client, name: str) -> list[bytes]:
    return [bytes(delivery.event) for delivery in client.deliveries(name)]


@given(st.lists(conditions, min_size=1, max_size=3), st.lists(events, min_size=1, max_size=6))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_live_and_late_get_what_the_oracle_says(texts: list[str], published: list[dict[str, Any]]) -> None:
    lines = [json.dumps(json_value(event)).encode() for event in published if not isinstance(event.get("body"), Range)]
    harness = Harness()
    live, late, publisher = (harness.connect() for _ in range(3))
    for number, condition in enumerate(texts):
        live.send(Subscribe(number, "news", condition))
    for line in lines:
        frame = Publish(publisher.ref(), "news", [Raw(line)])
        publisher.send(frame)
        accepted(publisher.answer(frame.ref))
    for number, condition in enumerate(texts):
        wanted = [line for line in lines if oracle.holds(condition, event_attributes(line))]
        answer = live.answer(number)
        assert received(live, answer.subscription) == wanted  # type: ignore[union-attr]
        late.send(Subscribe(number, "news", condition, qos=Requested(durability="transient"), name=f"late{number}"))
        assert received(late, f"late{number}") == wanted
