"""What tests send and expect: events that are numbers, and answers of a certain kind."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from msgspec import Raw

from fieldfare.messages import (
    Accepted,
    Delivery,
    Done,
    EdgeFrame,
    Listed,
    Publish,
    Refused,
    Subscribed,
    Unsubscribed,
)

_Frame = TypeVar("_Frame", bound=EdgeFrame)


def publication(ref: int, topic: str, *events: dict[str, Any], **options: Any) -> Publish:
    return Publish(ref, topic, [Raw(json.dumps(event).encode()) for event in events], **options)


def number_of(delivery: Delivery) -> int:
    number = json.loads(bytes(delivery.event))["n"]
    assert isinstance(number, int)
    return number


def events(*numbers: int) -> list[dict[str, int]]:
    return [{"n": number} for number in numbers]


def accepted(frame: EdgeFrame | None) -> Accepted:
    return _of(Accepted, frame)


def subscribed(frame: EdgeFrame | None) -> Subscribed:
    return _of(Subscribed, frame)


def unsubscribed(frame: EdgeFrame | None) -> Unsubscribed:
    return _of(Unsubscribed, frame)


def done(frame: EdgeFrame | None) -> Done:
    return _of(Done, frame)


def items(frame: EdgeFrame | None) -> list[dict[str, Any]]:
    return _of(Listed, frame).items


def refused(frame: EdgeFrame | None, code: str) -> Refused:
    """The refusal of a request, for this kind of reason."""
    refusal = _of(Refused, frame)
    assert refusal.code == code, refusal
    return refusal


def _of(kind: type[_Frame], frame: EdgeFrame | None) -> _Frame:
    assert isinstance(frame, kind), frame
    return frame
