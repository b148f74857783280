"""A transit-stub network: a few transit domains in the middle, many stub domains of routers around them.

The idea is that of the Georgia Tech generator (GT-ITM). A stub domain is tied to one transit router by one link, so the
way between two stub domains is: to the gateway, over the transit routers, and from the gateway on. Distances therefore
need a small table for each domain and one for the transit routers, not one for all pairs. Packets take the way of
least latency; hops are the links of that way, with the two links of the places themselves.

network = TransitStub(TransitStubOptions(), random.Random(1))
world.network.quality_of = network.attach([f"p{number}" for number in range(5000)])
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fieldfare.simulation.network import LinkQuality

_QUALITIES_MAX = 1_000_000  # pairs of places whose quality is remembered; then it is worked out anew

Link = tuple[int, int]  # two routers, the smaller number first; a place is a router with a negative number


@dataclass(frozen=True, slots=True)
class TransitStubOptions:
    """The paper's numbers where it has one; those marked "ours" it leaves open. Sizes are exact, not averages."""

    transit_domains: int = 10  # ours; 10 x 5 x (1 + 10 x 10) = 5,050 routers
    transit_routers: int = 5  # of each domain; ours
    stub_domains: int = 10  # of each transit router
    stub_routers: int = 10  # of each stub domain
    domain_edge_share: float = 0.5  # of all pairs of transit domains that are linked, at least; ours
    transit_edge_share: float = 0.6  # of all pairs of routers of a transit domain; ours
    stub_edge_share: float = 0.4  # of all pairs of routers of a stub domain; ours
    inside_seconds: tuple[float, float] = (0.025, 0.075)  # a link inside of a domain: from, to; 50 ms on average
    between_seconds: tuple[float, float] = (0.1, 0.5)  # a link between two domains
    place_seconds: float = 0.001  # from a place to its router
    loss_per_hop: float = 0.001

    @property
    def transits(self) -> int:
        """How many transit routers there are."""
        return self.transit_domains * self.transit_routers

    @property
    def routers(self) -> int:
        """How many routers there are."""
        return self.transits * (1 + self.stub_domains * self.stub_routers)


class Way(NamedTuple):
    """How far it is from one router to another."""

    seconds: float
    hops: int
    previous: int  # the last router before the end; at the beginning, the router itself


_Graph = dict[int, dict[int, float]]


class _Tie(NamedTuple):
    """Where a place is tied to the network, and the way between its router and the transit router of its domain."""

    router: int
    domain: int
    transit: int
    up_seconds: float  # to the transit router
    gateway_seconds: float  # of the link between the domain and the transit router
    down_seconds: float  # from the gateway
    hops: int  # to the transit router


class TransitStub:
    """One such network. Transit routers have the first numbers, then come the stub domains, one after the other."""

    def __init__(self, options: TransitStubOptions, rng: random.Random) -> None:
        self.options = options
        self._rng = rng
        self._places_seconds = 2 * options.place_seconds
        self._ties: dict[str, _Tie] = {}  # by place
        self._numbers: dict[str, int] = {}  # of places, for their links
        self._transit = _all_ways(self._make_transit())
        self._inside: list[dict[int, dict[int, Way]]] = []  # of each stub domain, by both routers
        self._gateways: list[tuple[int, int, float]] = []  # of each: its router, the transit router, the latency
        for domain in range(options.transits * options.stub_domains):
            first = options.transits + domain * options.stub_routers
            routers = range(first, first + options.stub_routers)
            self._inside.append(_all_ways(self._connected(routers, options.stub_edge_share, options.inside_seconds)))
            transit = domain // options.stub_domains
            self._gateways.append((rng.choice(routers), transit, rng.uniform(*options.between_seconds)))
        self._qualities: dict[tuple[str, str], LinkQuality] = {}

    # Making it

    def _make_transit(self) -> _Graph:
        options, rng = self.options, self._rng
        graph: _Graph = {}
        members = [
            range(domain * options.transit_routers, (domain + 1) * options.transit_routers)
            for domain in range(options.transit_domains)
        ]
        for routers in members:
            graph.update(self._connected(routers, options.transit_edge_share, options.inside_seconds))
        domains = self._connected(range(options.transit_domains), options.domain_edge_share, options.between_seconds)
        for one, others in domains.items():
            for other, seconds in others.items():
                if one < other:
                    _join(graph, rng.choice(members[one]), rng.choice(members[other]), seconds)
        return graph

    def _connected(self, nodes: Sequence[int], edge_share: float, latency: tuple[float, float]) -> _Graph:
        """A random tree, and then so many random edges that this share of all pairs is joined."""
        rng, graph = self._rng, {node: dict[int, float]() for node in nodes}
        order = rng.sample(nodes, len(nodes))
        for index in range(1, len(order)):
            _join(graph, order[index], rng.choice(order[:index]), rng.uniform(*latency))
        free = [(one, other) for one in nodes for other in nodes if one < other and other not in graph[one]]
        missing = round(edge_share * len(nodes) * (len(nodes) - 1) / 2) - (len(nodes) - 1)
        for one, other in rng.sample(free, max(0, min(missing, len(free)))):
            _join(graph, one, other, rng.uniform(*latency))
        return graph

    # Places

    def attach(self, places: Sequence[str]) -> Callable[[str, str], LinkQuality]:
        """Tie each place to a random stub router. Returns what `Network.quality_of` needs."""
        routers = range(self.options.transits, self.options.routers)
        for place in places:
            self._ties[place] = self._tie(self._rng.choice(routers))
            self._numbers[place] = -1 - len(self._numbers)
        return self.quality

    def _tie(self, router: int) -> _Tie:
        domain = (router - self.options.transits) // self.options.stub_routers
        gateway, transit, seconds = self._gateways[domain]
        up, down = self._inside[domain][router][gateway], self._inside[domain][gateway][router]
        return _Tie(router, domain, transit, up.seconds + seconds, seconds, down.seconds, up.hops + 1)

    def quality(self, one: str, other: str) -> LinkQuality:
        """What the way from a place to another is like."""
        quality = self._qualities.get((one, other))
        if quality is None:
            seconds, hops = self.distance(one, other)
            if len(self._qualities) >= _QUALITIES_MAX:
                self._qualities.clear()
            loss = 1.0 - (1.0 - self.options.loss_per_hop) ** hops
            quality = self._qualities[one, other] = LinkQuality(seconds, 0.0, loss)
        return quality

    def seconds(self, one: str, other: str) -> float:
        """Seconds from a place to another: what is asked for millions of times when tables are made."""
        _, domain, transit, up_seconds, _, _, _ = self._ties[one]
        _, beyond, far_transit, _, far_seconds, down_seconds, _ = self._ties[other]
        if domain == beyond:
            return self.distance(one, other)[0]
        way = up_seconds + self._transit[transit][far_transit].seconds + far_seconds + down_seconds
        return way + self._places_seconds

    def distance(self, one: str, other: str) -> tuple[float, int]:
        """Seconds and hops from a place to another."""
        if one == other:
            return 0.0, 0
        here, there = self._ties[one], self._ties[other]
        if here.domain != there.domain:
            return self.seconds(one, other), here.hops + there.hops + self._transit[here.transit][
                there.transit
            ].hops + 2
        way = self._inside[here.domain][here.router][there.router]
        return way.seconds + self._places_seconds, way.hops + 2

    def hops(self, one: str, other: str) -> int:
        """Links from a place to another."""
        return self.distance(one, other)[1]

    def path(self, one: str, other: str) -> Iterator[Link]:
        """The links from a place to another, in some order."""
        if one == other:
            return
        source, domain = self._ties[one][:2]
        target, beyond = self._ties[other][:2]
        yield self._numbers[one], source
        yield self._numbers[other], target
        if domain == beyond:
            yield from _links(self._inside[domain][source], target)
            return
        gateway, transit, _ = self._gateways[domain]
        far_gateway, far_transit, _ = self._gateways[beyond]
        yield transit, gateway
        yield far_transit, far_gateway
        yield from _links(self._inside[domain][gateway], source)
        yield from _links(self._transit[transit], far_transit)
        yield from _links(self._inside[beyond][far_gateway], target)


def _join(graph: _Graph, one: int, other: int, seconds: float) -> None:
    graph.setdefault(one, {})[other] = seconds
    graph.setdefault(other, {})[one] = seconds


def _all_ways(graph: _Graph) -> dict[int, dict[int, Way]]:
    return {source: _ways_from(graph, source) for source in graph}


def _ways_from(graph: _Graph, source: int) -> dict[int, Way]:
    """The way of least latency to each node, by Dijkstra."""
    found: dict[int, Way] = {}
    nearest = [(0.0, 0, source, source)]
    while nearest:
        seconds, hops, node, previous = heapq.heappop(nearest)
        if node not in found:
            found[node] = Way(seconds, hops, previous)
            for other, more in graph[node].items():
                if other not in found:
                    heapq.heappush(nearest, (seconds + more, hops + 1, other, node))
    return found


def _links(ways: dict[int, Way], target: int) -> Iterator[Link]:
    """The links of the way to a node, backwards."""
    while (previous := ways[target].previous) != target:
        yield min(previous, target), max(previous, target)
        target = previous
