"""What the gateway stands between: a broker that serves frames, and somebody who knows the tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fieldfare.messages import FRAME_BYTES_MAX, ClientFrame, EdgeFrame, Identity
from fieldfare.routing.tree.view import TreeView
from fieldfare.runtime.gateway.tickets import Tickets
from fieldfare.runtime.pipeline_status import PipelineStatus


class Connection(Protocol):
    """A client of the broker, as the broker's host sees it."""

    def send(self, frame: ClientFrame, /) -> None:
        """Hand a frame of the client's to the broker."""
        ...

    def close(self) -> None:
        """The client is gone. Nothing more is sent to it."""
        ...


class Broker(Protocol):
    """The host of an edge, where connections begin."""

    def connect(
        self, identity: Identity, on_frames: Callable[[list[EdgeFrame]], None], on_close: Callable[[str], None], /
    ) -> Connection:
        """A new connection: `on_frames` takes what one step of the broker has for it, `on_close` why it was ended."""
        ...


class Authenticator(Protocol):
    """Who is behind a token."""

    def identify(self, token: str | None, client_host: str, /) -> Identity:
        """Whose token it is; an UnauthenticatedError if nobody's."""
        ...

    def check_again(self, identity: Identity, client_host: str, /) -> None:
        """Raise an UnauthenticatedError if who was let in before would not be now."""
        ...


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The limits of the gateway, and what it tells of the rest of the service."""

    metrics: Callable[[str], str] = field(default=lambda _: "")  # for a tenant, in the text format of Prometheus
    why_not_ready: Callable[[], str | None] = field(default=lambda: None)
    log_id: Callable[[], str] = field(default=lambda: "")  # of the edge's log; empty: clients are told nothing of logs
    other_edges: Callable[[], Sequence[str]] = field(default=lambda: ())  # URLs for clients, those with most room first
    kafka: Callable[[str], Sequence[dict[str, Any]]] = field(default=lambda _: ())  # of a tenant: its links to Kafka
    pipelines: Callable[[str], Sequence[PipelineStatus]] = field(default=lambda _: ())  # of a tenant
    tree: Callable[[str], TreeView | None] = field(default=lambda _: None)  # for a tenant; None: there is no tree
    is_development: bool = False  # reached by the names of this machine only, since no token protects it
    origins: frozenset[str] = frozenset()  # web pages that may connect
    connections_max: int = 10_000  # requests, streams and WebSockets under way
    head_bytes_max: int = 32 * 1024
    body_bytes_max: int = FRAME_BYTES_MAX
    read_seconds: float = 30.0  # for a whole body
    answer_seconds: float = 30.0  # for an answer of the broker
    stall_seconds: float = 60.0  # a client that takes nothing for so long is given up
    waiting_bytes_max: int = 16 * 1024 * 1024  # for one client that reads too slowly
    heartbeat_seconds: float = 15.0  # of a stream of server-sent events
    ping_seconds: float = 20.0  # of a WebSocket; who has not answered when the next is due is given up


@dataclass(slots=True)
class Inside:
    """How many requests, streams and WebSockets are under way. Who begins one counts up, and down when it ends."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Gateway:
    """Everything that a request handler and a WebSocket need."""

    broker: Broker
    authenticator: Authenticator
    options: GatewayOptions
    inside: Inside = field(default_factory=Inside)
    tickets: Tickets = field(default_factory=Tickets)
    streams: dict[tuple[str, str], Connection] = field(default_factory=dict)  # open ones, by tenant and subscription
