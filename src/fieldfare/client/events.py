"""An event as an application gets it. Its attributes are decoded when they are first asked for."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from fieldfare.errors import EventError
from fieldfare.messages import Delivery, Envelope, Position

T = TypeVar("T")

_UNDECODED: Any = object()


class Event(Generic[T]):
    """An event that was delivered: its attributes are a dict, or of the type that was asked for in the subscription."""

    __slots__ = ("_attributes", "_decoder", "_delivery", "log", "subscription", "topic")

    def __init__(
        self, delivery: Delivery, topic: str, subscription: str, decoder: msgspec.json.Decoder[T], log: str = ""
    ) -> None:
        self._delivery = delivery
        self._decoder = decoder
        self._attributes: T = _UNDECODED
        self.topic = topic
        self.subscription = subscription
        self.log = log  # to which its position belongs, if the service says it

    @property
    def position(self) -> Position:
        """Its place in the order of delivery: positions only grow."""
        return self._delivery.position

    @property
    def id(self) -> str:
        """Its id, which the publisher gave it, or else the broker."""
        return self._delivery.id

    @property
    def at(self) -> float:
        """When it was accepted, in seconds since 1970."""
        return self._delivery.at

    @property
    def publisher(self) -> str | None:
        """Who published it, if that is known."""
        return self._delivery.publisher

    @property
    def payload(self) -> bytes | None:
        """The bytes that its publisher sent beside its attributes, if any."""
        return self._delivery.payload

    @property
    def envelope(self) -> Envelope | None:
        """If it is a CloudEvent: its type, source, subject, extensions and all else but its data."""
        return self._delivery.envelope

    @property
    def trace(self) -> str | None:
        """The context of the trace to which it belongs, as W3C's traceparent has it."""
        return self._delivery.trace

    @property
    def attempt(self) -> int:
        """1 for the first sending; more for an event that was refused, or not dealt with in time."""
        return self._delivery.attempt

    @property
    def delivery(self) -> Delivery:
        """The event as the service sent it."""
        return self._delivery

    @property
    def json(self) -> bytes:
        """The event as it was published."""
        return bytes(self._delivery.event)

    @property
    def attributes(self) -> T:
        """What the publisher said."""
        if self._attributes is _UNDECODED:
            try:
                self._attributes = self._decoder.decode(self._delivery.event)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise EventError("*", f"the event does not have the type that was asked for: {error}") from error
        return self._attributes

    def __repr__(self) -> str:
        json = self.json.decode(errors="replace")
        return f"Event(topic={self.topic!r}, position={self.position}, id={self.id!r}, json={json!r})"
