"""One run: peers on a transit-stub network subscribe, publish and perhaps crash, and everything is counted."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

import msgspec

from fieldfare.dmm.peer_messages import PeerAccepted, PeerDelivered, PeerPublish
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.experiments.dmm.floors import direct_links, shortest_tree_links, spanning_tree_links
from fieldfare.experiments.dmm.metering import Meter
from fieldfare.experiments.dmm.outcome import Counts, EventOutcome, Outcome, mean
from fieldfare.experiments.dmm.settings import CRASHING_NETWORK, DMM, SLOW_NETWORK, Algorithm, Scale
from fieldfare.experiments.dmm.workload import DrawnSubscription, Oracle, draw_event, draw_subscriptions
from fieldfare.messages import Effect
from fieldfare.simulation.peers import TOPIC, SimulatedPeers
from fieldfare.simulation.transit_stub import TransitStub
from fieldfare.simulation.world import World

_FLOOR_EVENTS = 100  # publications of which the floor is computed
_SPANNING_EVENTS = 10
_LIFESPAN_SECONDS = 600.0
_SOON_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PeerRun:
    """One run."""

    algorithm: Algorithm
    subscriptions: int
    dimensions: int | None = None  # of every subscription; None: one to five
    do_crash: bool = False
    loss_per_hop: float | None = None  # None: that of the scale

    @property
    def name(self) -> str:
        """What its results are kept under."""
        words = [self.algorithm.name.replace(",", "").replace(" ", "-"), str(self.subscriptions)]
        if self.dimensions is not None:
            words.append(f"{self.dimensions}d")
        if self.loss_per_hop is not None:
            words.append(f"loss-{self.loss_per_hop:g}")
        return "-".join([*words, *(["crash"] if self.do_crash else [])])


@dataclass(slots=True)
class _Published:
    at: float
    publisher: str
    wanted: dict[str, str]  # refs of subscriptions that it satisfies, of peers that were up; and their peers
    promised: set[str]  # those that had been acknowledged


class PaperPeers(SimulatedPeers):
    """Peers whose events have no attribute beside the paper's: they are known by their publications' refs."""

    def __init__(self, world: World, schemes: Mapping[str, TopicScheme], *, do_crash: bool) -> None:
        super().__init__(world, schemes, CRASHING_NETWORK if do_crash else SLOW_NETWORK)
        self.arrivals: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)  # by event: subscriptions, times
        self._event_numbers = count()
        self._refs: dict[str, str] = {}  # by the ids that peers gave to events

    def publish_drawn(self, peer: str, event: Mapping[str, int]) -> str:
        """Publish an event; its ref."""
        ref = f"event {next(self._event_numbers)}"
        self.tell(peer, PeerPublish(ref, TOPIC, msgspec.json.encode(event), _LIFESPAN_SECONDS))
        return ref

    def told(self, effect: Effect) -> None:
        """Note what a program is told."""
        if isinstance(effect, PeerAccepted):
            self._refs[effect.event_id] = effect.ref
        elif isinstance(effect, PeerDelivered):
            now = self.clock.now
            self.arrivals[self._refs[effect.event_id]] += [(ref, now) for ref in effect.refs]
        else:
            super().told(effect)


class Experiment:
    """One run, from the empty ring to its outcome."""

    def __init__(self, case: PeerRun, scale: Scale) -> None:
        self.case, self.scale = case, scale
        self.world = world = World(scale.seed)
        options = scale.network
        if case.loss_per_hop is not None:
            options = replace(options, loss_per_hop=case.loss_per_hop)
        self.network = TransitStub(options, world.rng("routers"))
        self.names = [f"p{number:04}" for number in range(scale.peers)]
        world.network.quality_of = self.network.attach(self.names)
        self.meter = Meter(self.network.hops)
        world.network.on_datagram = self.meter.note
        self.peers = PaperPeers(world, {TOPIC: case.algorithm.scheme}, do_crash=case.do_crash)
        self.publishers = self.names[: scale.publishers if case.dimensions is None else scale.dimensions_publishers]
        self.published: dict[str, _Published] = {}
        self.crashed_at: float | None = None

    def run(self) -> Outcome:
        """Subscribe, publish, perhaps crash, and count."""
        began_at = time.process_time()
        scale, world = self.scale, self.world
        options = self.case.algorithm.options(scale, do_crash=self.case.do_crash)
        self.peers.add_acquainted(dict.fromkeys(self.names, options), scale.compared_peers, self.network.seconds)
        subscriptions = self._subscribe()
        oracle, active = Oracle(subscriptions), len(self.peers.active)
        subscribing = self.meter.counts()
        first_at = world.clock.now
        self._plan_publications(oracle)
        if self.case.do_crash:
            world.clock.call_at(first_at + scale.crash_at_seconds, self._crash)
        world.run_for(self._publishing_seconds + self._tail_seconds)
        events = [self._event_outcome(ref, each, first_at) for ref, each in self.published.items()]
        floors = self._floors()
        return Outcome(
            self.case.algorithm.name,
            len(subscriptions),
            scale.peers,
            events,
            sum(len({ref for ref, _ in self.peers.arrivals[key]} - each.wanted.keys()) for key, each in self._quiet()),
            sum(
                count - len({ref for ref, _ in found})
                for found in self.peers.arrivals.values()
                for count in [len(found)]
            ),
            active,
            subscribing,
            _difference(self.meter.counts(), subscribing),
            *floors,
            sorted(peer.keeper.load() for peer in self.peers.peers.values()),
            sorted(peer.multicast.state for peer in self.peers.peers.values()),
            time.process_time() - began_at,
            None if self.crashed_at is None else self.crashed_at - first_at,
            world.network.datagrams_lost,
        )

    @property
    def _publishing_seconds(self) -> float:
        scale = self.scale
        if self.case.do_crash:
            return scale.crash_at_seconds + scale.crash_watched_seconds
        return scale.publishing_seconds if self.case.dimensions is None else scale.dimensions_publishing_seconds

    @property
    def _tail_seconds(self) -> float:
        case, scale = self.case, self.scale
        if case.algorithm.schema and case.algorithm.strategy is DMM.strategy:
            return scale.climbing_tail_seconds
        return scale.tail_seconds if case.loss_per_hop is None else scale.loss_tail_seconds

    # Subscriptions

    def _subscribe(self) -> list[DrawnSubscription]:
        rng, scale = self.world.rng("subscriptions"), self.scale
        drawn = draw_subscriptions(self.case.subscriptions, rng, self.case.dimensions)
        order = rng.sample(self.names[scale.publishers :], scale.peers - scale.publishers)
        for number, subscription in enumerate(drawn):
            peer = order[number % len(order)]
            self.peers.subscribe(peer, f"s{number}", subscription.condition)
            self.world.run_for(scale.subscription_spacing_seconds)
        self.world.run_for(scale.settling_seconds)
        return drawn

    # Publications

    def _plan_publications(self, oracle: Oracle) -> None:
        rng, scale, clock = self.world.rng("publications"), self.scale, self.world.clock
        period = scale.period_seconds
        if self.case.do_crash:
            period = 60.0 * scale.publishers / scale.crash_publications_per_minute
        for publisher in self.publishers:
            at = clock.now + rng.uniform(0.0, min(period, self._publishing_seconds))
            while at < clock.now + self._publishing_seconds:
                event = draw_event(rng, has_all=self.case.dimensions is not None)
                clock.call_at(at, self._publish, publisher, event, oracle)
                at += period

    def _publish(self, publisher: str, event: dict[str, int], oracle: Oracle) -> None:
        peers = self.peers
        if publisher not in peers.peers:
            return
        refs = [f"s{number}" for number in oracle.matching(event)]
        wanted = {ref: peers.wanted[ref].peer for ref in refs if peers.wanted[ref].peer in peers.peers}
        ref = peers.publish_drawn(publisher, event)
        self.published[ref] = _Published(self.world.clock.now, publisher, wanted, wanted.keys() & peers.active.keys())

    def _crash(self) -> None:
        rng, scale = self.world.rng("crash"), self.scale
        self.crashed_at = self.world.clock.now
        self.peers.crash(*rng.sample(self.names, round(scale.crashed_share * scale.peers)))

    # What came of it

    def _quiet(self) -> list[tuple[str, _Published]]:
        """Publications after which nobody crashed who might have taken them."""
        return [item for item in self.published.items() if self.crashed_at is None or item[1].at > self.crashed_at]

    def _event_outcome(self, published_ref: str, published: _Published, first_at: float) -> EventOutcome:
        first: dict[str, float] = {}
        for ref, at in self.peers.arrivals[published_ref]:
            if ref in published.wanted:
                first.setdefault(ref, at - published.at)
        ways = {peer: self.network.distance(published.publisher, peer)[0] for peer in published.wanted.values()}
        direct = [ways[peer] for peer in published.wanted.values()]
        # Of an event that was under way when its takers crashed nobody can ask whether they took it.
        expected = {ref for ref, peer in published.wanted.items() if peer in self.peers.peers or ref in first}
        promised = published.promised & expected
        return EventOutcome(
            published.at - first_at,
            len(expected),
            len(first),
            mean(first.values()) if first else None,
            mean(direct) if direct else None,
            len(promised),
            len(promised & first.keys()),
            sum(1 for seconds in first.values() if seconds <= _SOON_SECONDS),
            published.publisher not in self.peers.peers,
        )

    def _floors(self) -> tuple[float, float, float]:
        """For each match: links of a tree of shortest ways, of a spanning tree among peers, and of direct ways."""
        chosen = [each for each in self.published.values() if each.wanted][:_FLOOR_EVENTS]
        links = spanning = direct = matches = spanning_matches = 0
        for number, each in enumerate(chosen):
            targets = list(dict.fromkeys(each.wanted.values()))
            matches += len(each.wanted)
            links += shortest_tree_links(self.network, each.publisher, targets)
            direct += direct_links(self.network, each.publisher, targets)
            if number < _SPANNING_EVENTS:
                spanning += spanning_tree_links(self.network, each.publisher, targets)
                spanning_matches += len(each.wanted)
        return links / max(1, matches), spanning / max(1, spanning_matches), direct / max(1, matches)


def _difference(later: Counts, earlier: Counts) -> Counts:
    none = (0, 0)
    return {
        kind: (count - earlier.get(kind, none)[0], links - earlier.get(kind, none)[1])
        for kind, (count, links) in later.items()
    }
