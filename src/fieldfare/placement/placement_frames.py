"""What brokers send each other for placement. The paper's names for the messages stand beside ours.

They go from neighbour to neighbour, but for the last two. A broker is named as the tree names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

BrokerName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
PublisherName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
DeliveryCount: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Amount: TypeAlias = Annotated[float, Meta(ge=0.0)]
BROKERS_MAX = 100_000  # in one path or report
SavedAlong: TypeAlias = Annotated[tuple[Amount, ...], Meta(max_length=BROKERS_MAX)]
PUBLICATIONS_MAX = 1_000_000  # in one session
RESULTS_MAX = 1_000  # in one frame


class TraceId(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One traced publication of POP, or one session of GRAPE. The first broker never uses a number again."""

    publisher: PublisherName
    first_broker: BrokerName
    number: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class SessionTag(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a publication carries that GRAPE traces: its session, and its place in it, which is its bit."""

    session: TraceId
    place: Annotated[int, Meta(ge=0, lt=PUBLICATIONS_MAX)]


class PlacementFrame(msgspec.Struct, frozen=True, array_like=True):
    """A frame of placement. What a later release adds stands last and has a default."""


class TraceResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Deliveries of one traced publication, at the broker that tells it and downstream of it."""

    trace: TraceId
    deliveries: DeliveryCount


class TraceResults(PlacementFrame, frozen=True, tag="traced"):
    """POP, to the upstream neighbour. The paper's TRM tells of one publication; ours of all that were gathered."""

    results: Annotated[tuple[TraceResult, ...], Meta(min_length=1, max_length=RESULTS_MAX)]


class RelocationRequest(PlacementFrame, frozen=True, tag="relocate"):
    """POP's search for the closest broker (RRM), on its way downstream.

    `ahead` is ours: the sender's average of the deliveries down this link. A broker's own averages are over the traces
    that reached it, the sender's over those that reached the sender; with `ahead` they are brought to one measure.
    """

    publisher: PublisherName
    ahead: Amount  # average deliveries of a trace down the link that this frame takes
    behind: Amount  # average deliveries everywhere else
    saved: Amount  # hops that the deliveries of an event are spared so far, with the publisher moved as far as this
    path: Annotated[tuple[BrokerName, ...], Meta(max_length=BROKERS_MAX)]  # brokers passed, the nearest first
    saved_before: SavedAlong = ()  # the same at each broker of the path but the last, the publisher's own


class RelocationAnswer(PlacementFrame, frozen=True, tag="relocation"):
    """POP's answer (RAM), back along the path to the first broker: the first of the path is the target."""

    publisher: PublisherName
    path: Annotated[tuple[BrokerName, ...], Meta(min_length=2, max_length=BROKERS_MAX)]
    saved: Amount  # hops that the deliveries of an event are spared
    deliveries: Amount  # of an event, on average
    saved_before: SavedAlong = ()  # at the brokers between: they may take the publisher where the target does not


class ReportRequest(PlacementFrame, frozen=True, tag="report"):
    """GRAPE, downstream, at the end of a session (TIR): report what was delivered.

    It follows the session's publications on the same link. `sent` is ours: a broker that has seen another number of
    them, because it restarted, must not report the rest as if it were all.
    """

    session: TraceId
    sent: DeliveryCount  # publications of the session that the sender has sent over this link


class BrokerDelays(msgspec.Struct, frozen=True, array_like=True):
    """What a broker measured lately: how long an event takes to pass it."""

    input_seconds: Amount = 0.0  # waiting to be matched
    matching_seconds: Amount = 0.0
    output_seconds: Mapping[BrokerName, Amount] = {}  # waiting for and passing the link to each neighbour
    client_seconds: Amount = 0.0  # the same for its clients


class BrokerReport(msgspec.Struct, frozen=True, array_like=True):
    """What one broker knows of a session."""

    broker: BrokerName
    neighbours: Annotated[tuple[BrokerName, ...], Meta(max_length=BROKERS_MAX)]  # that had a part in the session
    delivered: Annotated[
        bytes, Meta(max_length=PUBLICATIONS_MAX // 8)
    ]  # bit n: publication n had a local delivery; lowest first
    deliveries: DeliveryCount  # to local subscribers, in all
    delays: BrokerDelays


class SessionReport(PlacementFrame, frozen=True, tag="reported"):
    """GRAPE, upstream (TIA): the reports of a broker and of all downstream of it."""

    session: TraceId
    reports: Annotated[tuple[BrokerReport, ...], Meta(max_length=BROKERS_MAX)]
    is_complete: bool = True  # False: some broker restarted or did not answer, so the session tells too little


class ArrivalRequest(PlacementFrame, frozen=True, tag="arrival"):
    """Ours: a first broker asks the target, wherever it is, whether a publisher may come."""

    publisher: PublisherName
    source: BrokerName
    measure: str  # of the two costs: see `passages.Measure`
    cost_now: Amount  # of an event, at the source
    cost_then: Amount  # the same at the target, as predicted


class ArrivalAnswer(PlacementFrame, frozen=True, tag="arrival_answer"):
    """Ours: the target's answer. It refuses where too many come at once, and who left it a short time ago."""

    publisher: PublisherName
    target: BrokerName
    refusal: str = ""  # empty: it may come


AnyPlacementFrame: TypeAlias = TraceResults | RelocationRequest | RelocationAnswer | ReportRequest | SessionReport
AnyArrivalFrame: TypeAlias = ArrivalRequest | ArrivalAnswer
