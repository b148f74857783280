"""POP, phase 2 (section III-B): one step of the search for the broker that is closest to most deliveries.

The next broker is the neighbour beyond which there are more deliveries than everywhere else together. Where there is
none, the search is over: moving the publisher over any link would lengthen more ways than it shortens.
"""

from __future__ import annotations

from fieldfare.placement.placement_frames import BrokerName, PublisherName, RelocationAnswer, RelocationRequest
from fieldfare.placement.pop_averages import DeliveryAverages


def begin(
    publisher: PublisherName, broker: BrokerName, averages: DeliveryAverages
) -> tuple[BrokerName, RelocationRequest] | None:
    """At the first broker: where the search goes on, and with what; None if the publisher is best where it is."""
    ahead = averages.total
    return _next(RelocationRequest(publisher, ahead, 0.0, 0.0, ()), broker, averages)


def proceed(
    request: RelocationRequest, broker: BrokerName, averages: DeliveryAverages | None
) -> tuple[BrokerName, RelocationRequest | RelocationAnswer]:
    """At a broker that the search has come to: go on to the next one, or answer, back along the path."""
    step = _next(request, broker, averages) if averages is not None else None
    if step is not None:
        return step
    everything = request.ahead + request.behind
    answer = RelocationAnswer(
        request.publisher, (broker, *request.path), request.saved, everything, request.saved_before
    )
    return request.path[0], answer


def _next(
    request: RelocationRequest, broker: BrokerName, averages: DeliveryAverages
) -> tuple[BrokerName, RelocationRequest] | None:
    if averages.total <= 0.0:
        return None
    factor = request.ahead / averages.total  # this broker's averages are over fewer traces than its upstream's
    everything = request.ahead + request.behind
    for neighbour, deliveries in averages.beyond.items():
        ahead = deliveries * factor
        behind = max(0.0, everything - ahead)
        if ahead > behind and neighbour not in request.path:
            saved = request.saved + ahead - behind
            path = (broker, *request.path)
            saved_before = (request.saved, *request.saved_before) if request.path else ()
            return neighbour, RelocationRequest(request.publisher, ahead, behind, saved, path, saved_before)
    return None
