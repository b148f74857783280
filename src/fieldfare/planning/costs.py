"""What the parts of a way cost: measured, frozen, and saved as JSON.

Seconds are of one core of the machine that they were measured on, whose speed is 1. Stable: the fields of `Costs` and
of what it holds, `load_costs`, `save_costs` and `reference_costs`.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from fieldfare.durable import NewFile
from fieldfare.errors import CostsError
from fieldfare.planning.application import Count, Shape

Cost: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
Positive: TypeAlias = Annotated[float, Meta(gt=0, le=1e6)]
Signed: TypeAlias = Annotated[float, Meta(ge=-1e6, le=1e6)]
FORMAT = 2


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where costs were measured."""

    machine: str  # its processor, the number of its cores
    versions: str  # of fieldfare, Python, and what it stands on
    measured_at: str  # in UTC
    is_reference: bool = False  # shipped with Fieldfare: of the machine that it was made on
    load: float = 0.0  # programs that ran beside, when it was measured
    not_measured: tuple[str, ...] = ()  # parts whose costs are those of the reference


class MatchCost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU seconds to match events of one shape in batches: measured for several numbers of stored subscriptions."""

    subscriptions: tuple[Count, ...]
    event_seconds: tuple[float, ...]  # for each event, without its matches
    match_seconds: Cost  # for each match of an event
    call_seconds: Cost  # for each call with rows, as an edge makes it, whatever the batch
    table_call_seconds: Cost  # for each call with a table, as a program makes it
    bytes_per_subscription: Cost
    in_vain_share: Cost = 0.3  # of events that nobody wants beyond a link, those that a covering lets pass

    def __post_init__(self) -> None:
        sizes = self.subscriptions
        if not sizes or len(sizes) != len(self.event_seconds) or sorted(set(sizes)) != list(sizes):
            raise ValueError("each number of subscriptions needs a time, and they have to grow")

    def seconds(self, stored: float, matches: float) -> float:
        """For an event; the cost grows between measured sizes as a power, and so it does beyond them."""
        if stored <= 0:
            return 0.0
        sizes, times = np.log(self.subscriptions), np.log(self.event_seconds)
        at = math.log(max(1.0, stored))
        if len(sizes) > 1 and at > sizes[-1]:
            slope = min(1.0, max(0.0, float((times[-1] - times[-2]) / (sizes[-1] - sizes[-2]))))
            return math.exp(float(times[-1]) + slope * (at - float(sizes[-1]))) + self.match_seconds * matches
        return math.exp(float(np.interp(at, sizes, times))) + self.match_seconds * matches

    def is_measured(self, stored: float) -> bool:
        """Whether this number of subscriptions lies between sizes that were measured."""
        return stored <= self.subscriptions[-1]


class EdgeCost(msgspec.Struct, frozen=True, kw_only=True):
    """An edge broker: its rounds, what it reads, what it writes, what it keeps."""

    round_seconds: Cost
    event_seconds: Cost  # to read, check and log an event
    write_seconds: Cost  # to begin a write to a connection
    frame_seconds: Cost  # to begin a frame in it, for a subscription
    message_seconds: Cost  # for each delivery in that
    kept_round_seconds: Cost  # more for a round whose events are kept on disk
    kept_event_seconds: Cost  # more for each of those
    kept_message_seconds: Cost  # more for each of its deliveries, which is acknowledged
    flush_seconds: Cost  # that a round waits for the disk, while the edge does something else
    delay_seconds: Cost  # from a publisher to a subscriber, beside rounds: sockets, two clients
    byte_seconds: Cost  # for each byte that is read or written
    tail_seconds: Cost
    change_seconds: Cost  # to take in a subscription, or to end one
    bytes_per_subscription: Cost  # beside the index
    bytes_per_connection: Cost
    process_bytes: Cost
    delivery_bytes: Cost  # around an event's own


class LinkCost(msgspec.Struct, frozen=True, kw_only=True):
    """A link between brokers, and the routing broker that passes on what it gets."""

    round_seconds: Cost
    event_seconds: Cost  # at either end, for each event
    hop_seconds: Signed  # what a hop adds to latency beside rounds; below 0 where a part of a round comes after it
    tail_seconds: Cost
    event_bytes: Cost  # around an event's own
    process_bytes: Cost


class SparkCost(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline: a micro-batch, its events, its matches, and what a division of the subscriptions adds."""

    batch_seconds: Cost  # of a batch that is nearly empty, without a shuffle
    shuffle_seconds: Cost  # what dispatch and shuffle add to it
    read_seconds: Cost  # for each event: read, and handed to a matcher
    dispatch_seconds: Cost  # for each event and each matcher that it visits: choosing, packing, shuffling
    read_byte_seconds: Cost  # for each byte of an event
    dispatch_byte_seconds: Cost  # for each byte of an event and each matcher that it visits
    write_seconds: Cost  # for each event, into the output
    match_seconds: Cost  # for each match, into the output
    change_seconds: Cost  # for each subscription that comes or goes
    tail_seconds: Cost
    core_gain: Cost  # what a second core of the machine adds, where 1 is as much as the first
    driver_bytes: Cost
    worker_bytes: Cost  # for each core
    pair_bytes: Cost  # of a match in the output


class PeerCost(msgspec.Struct, frozen=True, kw_only=True):
    """Peers on a ring: messages, and the hops that they take."""

    round_seconds: Cost
    message_seconds: Cost  # to send, receive and acknowledge a message, at both ends together
    piece_seconds: Cost  # for each further piece of a message that is too large for one packet
    piece_bytes: Count
    hop_seconds: Cost  # what a hop adds to the latency of an idle ring, beside rounds
    tail_seconds: Cost
    bytes_per_subscription: Cost
    process_bytes: Cost
    message_bytes: Cost  # around an event's own


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that predictions stand on, but the application."""

    format: int = FORMAT
    origin: Origin
    match: dict[Shape, MatchCost]
    process_bytes: Cost  # of a program with the engine
    edge: EdgeCost
    link: LinkCost
    spark: SparkCost
    peers: PeerCost


@cache
def reference_costs() -> Costs:
    """Costs that were measured where Fieldfare is made; another machine's differ."""
    return _decoded(resources.files("fieldfare.planning").joinpath("reference_costs.json").read_bytes(), "reference")


def load_costs(file: Path) -> Costs:
    """What `save_costs` wrote."""
    try:
        return _decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise CostsError(f"{file} cannot be read: {error.strerror or error}") from error


def save_costs(costs: Costs, file: Path) -> None:
    """Write costs, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with NewFile(file) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(costs)) + b"\n")


def _decoded(content: bytes, where: str) -> Costs:
    try:
        costs = msgspec.json.decode(content, type=Costs)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CostsError(f"{where}: these are no costs ({error}); measure them: fieldfare plan --calibrate") from error
    if costs.format != FORMAT or set(costs.match) != set(Shape):
        raise CostsError(f"{where}: costs of another version; measure them again: fieldfare plan --calibrate")
    return costs
