"""How a client connects, how long its session waits, and how much it lets wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from fieldfare.client.window_budget import BUFFERED_BYTES_MAX, BUFFERED_EVENTS_MAX


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How long a session waits, and how much it lets wait."""

    answer_timeout_seconds: float = 15.0  # after this time without an answer to a request, connect again
    unanswered_publications_max: int = 1024
    unanswered_bytes_max: int = 64 * 1024 * 1024  # of events; one publication may go beyond it
    ack_delay_seconds: float = 0.05  # events that the application took are acknowledged after this time,
    ack_events: int = 256  # or after this many events, or a quarter of the window
    remembered_events_max: int = 10_000  # of a subscription that may move: what came is known again at the next edge
    is_movable: bool = False  # advertise every topic that is published in, so that the service may move the publisher
    retry_delay_seconds: float = 0.1  # doubled each time an edge is still busy
    retry_delay_seconds_max: float = 5.0


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a client connects, and how long it tries."""

    connect_timeout_seconds: float = 10.0  # for the first connection; later ones are tried until it is closed
    reconnect_delay_seconds: float = 0.1  # doubled with each failure, and varied, so that not all come back at once
    reconnect_delay_seconds_max: float = 5.0
    close_timeout_seconds: float = 5.0  # for the publications that wait for an answer
    ping_timeout_seconds: float = 5.0  # for an edge that may be better for this client's publisher
    # Of several edges, how long the one that was connected is tried before another: where publications have no answer
    # that may have been accepted there, and where there are none.
    doubt_seconds: float = 10.0
    patience_seconds: float = 1.0
    # Of all subscriptions together, what may wait in this client or be on its way to it: beyond it, edges keep it.
    buffered_events_max: int = BUFFERED_EVENTS_MAX  # one for each subscription at least; there are no more than that
    buffered_bytes_max: int = BUFFERED_BYTES_MAX  # by the mean size of events: after small ones, large ones exceed it
    publisher: str = "client"  # the name it publishes under begins so; a random rest makes it unique
    session: SessionOptions = field(default_factory=SessionOptions)
