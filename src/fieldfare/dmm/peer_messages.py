"""What the program of a peer asks of it, and is told."""

from __future__ import annotations

from fieldfare.messages import Effect, Input


class PeerSubscribe(Input, frozen=True):
    """Want events of a topic that satisfy a condition. `ref` is the program's own name for it."""

    ref: str
    topic: str
    condition: str


class PeerUnsubscribe(Input, frozen=True):
    """Want them no more."""

    ref: str


class PeerPublish(Input, frozen=True):
    """Bring an event, as JSON, to all who want it."""

    ref: str
    topic: str
    event: bytes
    lifespan_seconds: float = 60.0
    given_id: str = ""  # the program's own id for it; it travels behind the peer's


class PeerSubscribed(Effect, frozen=True):
    """Every event that is published from now on, and satisfies the condition, comes."""

    ref: str


class PeerDelivered(Effect, frozen=True):
    """An event came that satisfies some conditions."""

    topic: str
    event_id: str
    event: bytes
    refs: tuple[str, ...]


class PeerPublished(Effect, frozen=True):
    """An event needs nothing more: so many peers took it; these did not in time."""

    ref: str
    taken: int
    missed: tuple[str, ...]
    is_vouched: bool  # every leaf vouched for its table; else there may be peers that nobody knew of


class PeerRefused(Effect, frozen=True):
    """A condition or an event is not sound."""

    ref: str
    reason: str
