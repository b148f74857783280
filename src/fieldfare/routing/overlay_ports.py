"""How an edge takes part in the overlay, and what the overlay needs of its edge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fieldfare.messages import Member, Position, TopicKey
from fieldfare.routing.exporting import ExportOptions
from fieldfare.routing.home_search import HomeSearch
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.ports import Asking, Emit, LogPort, Positions, Timers
from fieldfare.routing.publisher_advertisements import PublisherAdvertisements
from fieldfare.routing.publishing import Publishing
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.replaying import ReplayOptions
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.topic import Topic, TopicChange, Topics


@dataclass(frozen=True, slots=True)
class OverlayOptions:
    """How an edge takes part in the overlay. `member` is what other brokers are told of it."""

    member: Member
    confirm_seconds: float = 2.0  # how long a subscription waits for other edges before it is acknowledged
    home_seconds: float = 10.0  # how long one waits for the edge whose pipeline matches its topic, or is refused
    handover_seconds: float = 3.0  # how long a topic stays joined at its former routing broker
    return_seconds: float = 60.0  # how long what an unnamed subscription wanted is wanted after its end
    boxes_max: int = 256  # of a topic's interest; beyond it, boxes are merged (measured by `bench covering`)
    second_paths_max: int = 8  # direct links to other edges, those that they asked for included
    tells_advertisements: bool = False  # whether the topology needs them: what comes is told by `AdvertiseTopic`
    advertise_seconds: float = 2.0  # how long an advertisement waits until the overlay knows of it
    offer_seconds: float = 10.0  # how long who changes a topic waits for coordination, before it is refused as busy
    find_seconds: float = 2.0  # how long other edges are asked for a durable subscription
    tidy_seconds: float = 0.25
    exports: ExportOptions = field(default_factory=ExportOptions)
    replays: ReplayOptions = field(default_factory=ReplayOptions)


@dataclass(frozen=True, slots=True)
class OverlayPorts:
    """What the overlay needs of its edge."""

    emit: Emit
    topics: Topics
    log: LogPort
    positions: Positions
    timers: Timers
    compiler: Asking
    pipeline: Asking
    publishing: Publishing
    subscriptions_of: Callable[[Topic], Iterable[Subscription]]  # those of a topic, the pending ones included
    load: Callable[[], float]  # the share of this edge's places for clients that are taken
    pending_count: Callable[[TopicKey], int]  # how many subscriptions to a topic are being made,
    durable_pending_count: Callable[[TopicKey], int]  # and how many of them are durable
    is_connected: Callable[[str], bool]  # whether the client of a link is still there
    has: Callable[[str, str], bool]  # whether this edge has a subscription of a tenant
    go_on: Callable[[HomeSearch, float], None]  # no other edge has what a client asks for
    refuse: Callable[[HomeSearch, Refusal], None]
    not_offered: Callable[[TopicChange, str], None]  # a change of a topic that coordination did not answer in time
    put_in_force: Callable[[PendingSubscription, float], None]  # a subscription that waited for other edges
    deny: Callable[[PendingSubscription, str], None]  # the same, if it waited in vain
    tell_of_budget: Callable[[Topic, str], None]  # tells subscribers with a latency budget something about it
    tell_missed: Callable[[Topic, Position, str], None]  # tells the subscribers of a topic that events are gone
    cursor_moved: Callable[[], None]  # more events of other logs are here
    advertisements: PublisherAdvertisements
