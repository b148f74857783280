"""What the program of a peer asks of it, and is told."""

from __future__ import annotations

from fieldfare.messages import Effect, Input


class PeerSubscribe(Input, frozen=True):
    """Want events of a topic that satisfy a condition. `ref` is the program's own name for it.

    The same ref again with another condition replaces it. Of a peer that keeps a log, a durable subscription survives a
    restart: from then on events wait, at the peers that published them, until the program subscribes again.
    """

    ref: str
    topic: str
    condition: str
    is_durable: bool = True  # if the peer keeps a log
    is_taken_by_program: bool = False  # an event counts as taken only when the program says so (PeerTake)


class PeerUnsubscribe(Input, frozen=True):
    """Want them no more."""

    ref: str


class PeerTake(Input, frozen=True):
    """The program is done with an event that was delivered: whoever published it need not keep it for this peer."""

    event_id: str


class PeerPublish(Input, frozen=True):
    """Bring an event, as JSON, to all who want it."""

    ref: str
    topic: str
    event: bytes
    lifespan_seconds: float = 60.0


class PeerSubscribed(Effect, frozen=True):
    """Every event that is published from now on, and satisfies the condition, comes."""

    ref: str


class PeerDelivered(Effect, frozen=True):
    """An event came that satisfies some conditions."""

    topic: str
    event_id: str
    event: bytes
    refs: tuple[str, ...]


class PeerAccepted(Effect, frozen=True):
    """An event was accepted: it is brought to all who want it.

    If it is stored, a restart of this peer does not change that. Without a log, and by multicast, nothing is stored.
    """

    ref: str
    event_id: str
    is_stored: bool


class PeerPublished(Effect, frozen=True):
    """An event needs nothing more: so many peers took it; these did not in time."""

    ref: str
    taken: int
    missed: tuple[str, ...]
    is_vouched: bool  # every leaf vouched for its table; else there may be peers that nobody knew of


class PeerRefused(Effect, frozen=True):
    """A condition or an event is not sound, or cannot be stored, or too many events wait already."""

    ref: str
    reason: str
