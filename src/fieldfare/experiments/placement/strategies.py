"""Where publishers end with each way of placing them, and what that took: POP and GRAPE on the model of a tree."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from fieldfare.experiments.placement.load_model import LoadModel
from fieldfare.experiments.placement.state_size import state_bytes
from fieldfare.experiments.placement.workloads import StockPublisher
from fieldfare.placement.grape import Grape
from fieldfare.placement.options import DampingOptions, GrapeOptions, PopOptions
from fieldfare.placement.placement_frames import BrokerDelays
from fieldfare.placement.pop import Pop
from fieldfare.simulation.placement_tree import Machine, PlacementCounts, PlacementPorts, PlacementTree

_MEASURED_SECONDS = 60.0  # brokers' delays are those of the last minute
_EXPIRE_SECONDS = 1.0
_RELOCATION_FRAMES_PER_HOP = 2  # an update, and its completion: what the paper's protocol sends on the path


@dataclass(frozen=True, slots=True)
class Placed:
    """The end of a run."""

    places: Mapping[str, str]
    counts: PlacementCounts = field(default_factory=PlacementCounts)
    events: float = 0.0  # messages with events that brokers received in the run
    state_bytes: float = 0.0  # that placement holds at a broker: the average of all brokers, at its highest

    @property
    def messages(self) -> int:
        """Placement's own: between brokers, and a publisher's pings."""
        relocated_hops = sum(moved.relocation.hops for moved in self.counts.relocated)
        return self.counts.frames.total() + self.counts.pings + _RELOCATION_FRAMES_PER_HOP * relocated_hops

    @property
    def overhead(self) -> float:
        """Placement's own messages, for each message with an event."""
        return self.messages / self.events if self.events else 0.0


def run_pop(model: LoadModel, options: PopOptions, damping: DampingOptions, minutes: int, seed: int) -> Placed:
    """POP."""
    return _run(model, lambda broker, _: Pop(broker, options, random.Random(f"{seed} {broker}")), damping, minutes)  # noqa: S311


def run_grape(model: LoadModel, options: GrapeOptions, damping: DampingOptions, minutes: int) -> Placed:
    """GRAPE. Publishers are as far from all brokers, so the delays that they measure are those of a link."""
    return _run(model, lambda broker, delays: Grape(broker, options, delays), damping, minutes)


def _run(
    model: LoadModel,
    machine: Callable[[str, Callable[[], BrokerDelays]], Machine],
    damping: DampingOptions,
    minutes: int,
) -> Placed:
    """Publish for some minutes; placement works as it would, with delays that follow from where publishers are."""
    workload = model.workload
    rates = model.rates(workload.places)
    delays = model.delays(rates)
    ports = PlacementPorts(
        lambda broker: machine(broker, lambda: delays[broker]),
        lambda _publisher, _broker: model.service.link_seconds,
        busy_share=lambda broker: model.busy_share(rates[broker]),
    )
    tree = PlacementTree(workload.shape, workload.places, ports, damping)
    events, measured_at, expired_at, held_bytes = 0.0, 0.0, 0.0, 0.0
    for now, publisher, kind in _publications(workload.publishers, minutes * 60.0):
        if now - measured_at >= _MEASURED_SECONDS:
            rates, measured_at = model.rates(tree.places), now
            delays = model.delays(rates)
            held_bytes = max(held_bytes, fmean(state_bytes(each) for each in tree.machines.values()))
        if now - expired_at >= _EXPIRE_SECONDS:
            tree.expire(now)
            expired_at = now
        deliveries = publisher.kinds[kind].deliveries
        events += len(tree.passed(tree.places[publisher.name], deliveries))
        tree.publish(publisher.name, deliveries, now)
    return Placed(tree.places, tree.counts, events, held_bytes)


def _publications(publishers: Sequence[StockPublisher], seconds: float) -> list[tuple[float, StockPublisher, int]]:
    """In the order of time: when, whose, and of which kind."""
    found = [
        (publisher.phase_seconds + number * publisher.period_seconds, publisher, kind)
        for publisher in publishers
        for number, kind in enumerate(publisher.sequence)
    ]
    return sorted((each for each in found if each[0] < seconds), key=lambda each: (each[0], each[1].name))
