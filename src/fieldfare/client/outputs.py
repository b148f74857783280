"""What a client's session tells its owner to do: data only, like a node's effects.

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
    """A request is done. The answer is None where the edge did not have to be asked."""

    key: Key
    answer: EdgeFrame | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A request was refused for good, or a subscription has ended. Key None: the edge did not say which request."""

    key: Key | None
    error: FieldfareError


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The connection does not answer any more: close it, and open another."""

    reason: str


Output: TypeAlias = Transmit | Delivered | Noticed | Completed | Failed | Reconnect
