"""Streams: the rows of events that a journal keeps apart. All that a journal knows of a record is in its Span.

Every role of node has records of its own, and a codec that turns them into bytes and says which stream they belong to.
So one journal serves them all.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from fieldfare.messages.frames import Position

R = TypeVar("R")
TopicKey: TypeAlias = tuple[str, str]  # tenant and name


class Span(NamedTuple):
    """Where the events of a record lie: in which stream, from which position to which, and when all have expired."""

    stream: str
    first: Position
    last: Position
    expires_at: float
    part: str = ""  # the part of the stream to which they belong, whose losses are also noted apart; empty: to none


class RecordCodec(Protocol[R]):
    """How the records of one role are written into a journal, and read again."""

    def encode(self, record: R) -> bytes:
        """The record as bytes."""
        ...

    def decode(self, body: bytes | memoryview) -> R:
        """The record that was encoded so; raises msgspec.MsgspecError for bytes that are none."""
        ...

    def span(self, record: R) -> Span | None:
        """Where its events lie; None if it holds no events."""
        ...


def stream_of(*names: str) -> str:
    """The stream that these names stand for, such as a tenant and a topic. Other names give another stream."""
    return "/".join([name.replace("%", "%25").replace("/", "%2F") for name in names])


def own_part_of(tenant: str, topic: str) -> str:
    """The part of a topic's stream that was published here, and did not come from another log."""
    return stream_of(tenant, topic, "", "own")  # no topic has an empty name


def is_part(stream: str) -> bool:
    """Whether this names a part of a stream."""
    return "//" in stream


def names_of(stream: str) -> list[str]:
    """The names that a stream was made of."""
    return [part.replace("%2F", "/").replace("%25", "%") for part in stream.split("/")]
