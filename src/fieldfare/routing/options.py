"""The limits of an edge broker: every queue and table in it has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fieldfare.routing.quotas import Quota


@dataclass(frozen=True, slots=True)
class EdgeOptions:
    """How much an edge takes on before it refuses, and how patient it is."""

    connections_max: int = 100_000  # beyond it, clients are sent to other edges of the same network
    topics_max: int = 10_000  # of a tenant
    subscriptions_max: int = 1_000_000  # of a tenant
    subscriptions_per_connection_max: int = 100_000
    unstored_bytes_max: int = 64 * 1024 * 1024  # published, and not yet in the log; beyond it publishers are told: busy
    waiting_max: int = 1024  # matched events that a subscription has in memory; beyond it, it reads them from the log
    waiting_bytes_max: int = 256 * 1024 * 1024  # of all subscriptions together
    # Events of a subscription that are known one by one, and their bytes in memory; beyond either, new ones wait.
    outstanding_max: int = 10_000
    outstanding_bytes_max: int = 32 * 1024 * 1024
    frame_bytes_max: int = 512 * 1024  # of deliveries in one frame
    publishers_max: int = 10_000  # of a topic, whose numbers are remembered
    recent_ids_max: int = 100_000  # of a topic, by which a publication is known to be a repetition
    adopt_seconds: float = 2.0  # how long a publisher that comes from another edge waits for its earlier events
    tidy_seconds: float = 0.2  # how often moved cursors are written, and memory is looked after
    webhook_events_max: int = 100  # in one call
    webhook_attempts_max: int = 8
    webhook_backoff_seconds: float = 0.5  # before the second attempt; then twice as long each time
    webhook_backoff_seconds_max: float = 60.0
    dead_letters_max: int = 1000  # of a subscription
    dead_letter_bytes_max: int = 2 * 1024 * 1024  # of a subscription: they are listed in one frame
    auto_create: bool = True  # False: a topic is made by who may manage it, not by who uses a name
    audits: bool = False  # True: the host is told who changed what
    has_pipeline: bool = True  # False: topics that Spark would match are refused
    quotas: Mapping[str, Quota] = field(default_factory=dict)  # by tenant; `*` for those that have none of their own
