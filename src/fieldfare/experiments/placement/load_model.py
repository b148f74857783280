"""Rates, utilisation, delays and hops in a tree of brokers, with the publishers at given places: a model, not a run.

A broker receives each publication once, matches it in a constant time, and sends a copy, each in a constant time, to
every neighbour and every local subscriber that wants it. Utilisation is arrival rate times service time; waiting is
that of random arrivals at one server with equal service times (M/D/1). A broker with more work than time would have
an endless queue: its waiting is cut off at a utilisation of 0.99, and it is counted as overloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fieldfare.experiments.placement.workloads import StockPublisher, StockWorkload
from fieldfare.placement.placement_frames import BrokerDelays

Table = npt.NDArray[np.float64]
_UTILISATION_MAX = 0.99


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """What a broker's server takes for one message, and a link for passing it on."""

    matching_seconds: float  # for each message that comes in
    sending_seconds: float  # for each copy that goes out
    link_seconds: float


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """Messages per second."""

    received: float = 0.0
    sent: float = 0.0


@dataclass(frozen=True, slots=True)
class TreeLoad:
    """Averages over all brokers, or over all deliveries."""

    rates: Mapping[str, BrokerRates]
    message_rate: float  # events that a broker receives, per second
    input_utilisation: float
    output_utilisation: float
    busiest: float  # the input or output utilisation of the busiest broker
    overloaded: int  # brokers
    delay_seconds: float  # from publisher to subscriber
    hops: float  # between brokers


class LoadModel:
    """One workload with one service time."""

    def __init__(self, workload: StockWorkload, service: ServiceTime) -> None:
        self.workload, self.service = workload, service

    def rates(self, places: Mapping[str, str]) -> dict[str, BrokerRates]:
        """What each broker receives and sends."""
        received = dict.fromkeys(self.workload.shape.neighbours, 0.0)
        sent = dict(received)
        for publisher in self.workload.publishers:
            for kind in publisher.kinds:
                rate = publisher.per_second * kind.share
                ways = self.workload.shape.ways(places[publisher.name], frozenset(kind.deliveries))
                for broker, downstream in ways.items():
                    received[broker] += rate
                    sent[broker] += rate * (len(downstream) + kind.deliveries.get(broker, 0))
        return {broker: BrokerRates(received[broker], sent[broker]) for broker in received}

    def delays(self, rates: Mapping[str, BrokerRates]) -> dict[str, BrokerDelays]:
        """What each broker would measure: what GRAPE is told."""
        service, found = self.service, {}
        received = waiting(np.array([rate.received for rate in rates.values()]), service.matching_seconds)
        sent = waiting(np.array([rate.sent for rate in rates.values()]), service.sending_seconds)
        for broker, in_queue, out_queue in zip(rates, received.tolist(), sent.tolist(), strict=True):
            sending = out_queue + service.sending_seconds + service.link_seconds
            found[broker] = BrokerDelays(
                in_queue,
                service.matching_seconds,
                dict.fromkeys(self.workload.shape.neighbours[broker], sending),
                sending,
            )
        return found

    def busy_share(self, rates: BrokerRates) -> float:
        """A broker's utilisation, of its input or its output, whichever is higher."""
        return max(rates.received * self.service.matching_seconds, rates.sent * self.service.sending_seconds)

    def publisher_delay(
        self, publisher: StockPublisher, place: str, delays: Mapping[str, BrokerDelays]
    ) -> tuple[float, float, float]:
        """Of a publisher at a place, per second: delay and hops, summed over its deliveries, and deliveries."""
        total_seconds = total_hops = total_deliveries = 0.0
        for kind in publisher.kinds:
            rate = publisher.per_second * kind.share
            arrived = {place: (self.service.link_seconds, 0)}
            for broker, downstream in self.workload.shape.ways(place, frozenset(kind.deliveries)).items():
                seconds, hops = arrived[broker]
                delay = delays[broker]
                seconds += delay.input_seconds + delay.matching_seconds + delay.client_seconds  # the same to all links
                for neighbour in downstream:
                    arrived[neighbour] = (seconds, hops + 1)
                deliveries = rate * kind.deliveries.get(broker, 0)
                total_seconds += deliveries * seconds
                total_hops += deliveries * hops
                total_deliveries += deliveries
        return total_seconds, total_hops, total_deliveries

    def load(self, places: Mapping[str, str]) -> TreeLoad:
        """All of it, with the publishers at these places."""
        rates = self.rates(places)
        delays = self.delays(rates)
        sums = [self.publisher_delay(each, places[each.name], delays) for each in self.workload.publishers]
        seconds, hops, deliveries = (sum(column) for column in zip(*sums, strict=True))
        inputs = [rate.received * self.service.matching_seconds for rate in rates.values()]
        outputs = [rate.sent * self.service.sending_seconds for rate in rates.values()]
        return TreeLoad(
            rates,
            sum(rate.received for rate in rates.values()) / len(rates),
            sum(inputs) / len(inputs),
            sum(outputs) / len(outputs),
            max(*inputs, *outputs),
            sum(max(both) >= 1.0 for both in zip(inputs, outputs, strict=True)),
            seconds / deliveries,
            hops / deliveries,
        )


def scaled_to(workload: StockWorkload, busiest: float) -> ServiceTime:
    """Service times with which the busiest broker, with publishers where they begin, has a utilisation."""
    rates = LoadModel(workload, ServiceTime(0.0, 0.0, 0.0)).rates(workload.places).values()
    return ServiceTime(
        busiest / max(rate.received for rate in rates),
        busiest / max(rate.sent for rate in rates),
        workload.testbed.link_seconds,
    )


def waiting(rates: Table, service_seconds: float) -> Table:
    """In the queue of one server, in seconds, by messages per second."""
    utilisation = np.minimum(_UTILISATION_MAX, rates * service_seconds)
    return np.asarray(service_seconds * utilisation / (2.0 * (1.0 - utilisation)))
