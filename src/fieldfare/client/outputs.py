"""What a client's session is told to do by its options, and what it tells its owner: data only, like a node's effects.

The owner names every request and every subscription by a key of its own making, a future or a number; the outputs
carry it back.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from fieldfare.errors import FieldfareError
from fieldfare.messages import ClientFrame, Delivery, EdgeFrame, Notice

Key: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How long a session waits, and how much it lets wait."""

    answer_timeout_seconds: float = 15.0  # a request without an answer for so long: connect again
    unanswered_publications_max: int = 1024
    unanswered_bytes_max: int = 64 * 1024 * 1024  # of events; one publication may go beyond it
    ack_delay_seconds: float = 0.05  # what was taken is acknowledged after so long,
    ack_events: int = 256  # or after so many, or after a quarter of the window
    retry_delay_seconds: float = 0.1  # doubled each time an edge is still busy
    retry_delay_seconds_max: float = 5.0


@dataclass(frozen=True, slots=True)
class Transmit:
    """Send a frame."""

    frame: ClientFrame


@dataclass(frozen=True, slots=True)
class Delivered:
    """Events for a subscription, in order, none of which was given before."""

    subscription: Key
    events: list[Delivery]


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something that a subscriber has to know."""

    subscription: Key
    notice: Notice


@dataclass(frozen=True, slots=True)
class Completed:
    """A request has been answered. There is no answer where none was needed."""

    key: Key
    answer: EdgeFrame | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A request was refused for good, or a subscription has ended. Without a key, nobody knows which."""

    key: Key | None
    error: FieldfareError


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The connection is of no use any more: close it, and open another."""

    reason: str


Output: TypeAlias = Transmit | Delivered | Noticed | Completed | Failed | Reconnect
