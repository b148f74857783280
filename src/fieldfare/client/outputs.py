"""What a client's session tells its owner to do: data only, like a node's effects.

The owner names every request and every subscription by a key of its own making, a future or a number; the outputs
carry it back.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fieldfare.errors import FieldfareError, MovedError
from fieldfare.messages import ClientFrame, Delivery, EdgeFrame, Notice

if TYPE_CHECKING:
    from fieldfare.client.session_subscription import SessionSubscription

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


@dataclass(frozen=True, slots=True)
class LogChanged:
    """The positions of a subscription belong to another log from now on: those of before mean nothing there."""

    subscription: Key
    log: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Events of a subscription that the application has not taken are others' now, or come again: drop them."""

    subscription: Key


@dataclass(frozen=True, slots=True)
class GoElsewhere:
    """The edge has no place for this client, and will close the connection: connect to one of these others."""

    edges: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Another edge has a durable subscription: have a session there adopt it, or fail it with this error."""

    subscription: Key
    error: MovedError
    progress: SessionSubscription  # how far it has come


@dataclass(frozen=True, slots=True)
class MoveAsked:
    """The edge asks that this session's publisher goes on at another edge."""

    target: str  # the name of that edge
    url: str


@dataclass(frozen=True, slots=True)
class PingsAsked:
    """The edge asks how far other edges are: ping them, and have the session send EdgesPinged with this number."""

    number: int
    urls: tuple[str, ...]


Output: TypeAlias = (
    Transmit
    | Delivered
    | Noticed
    | Completed
    | Failed
    | Reconnect
    | LogChanged
    | Withdrawn
    | GoElsewhere
    | Moved
    | MoveAsked
    | PingsAsked
)
