"""Random conditions, events and changes of the ring, and what should have been delivered."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.dmm.perfect_ring import PerfectRing

from fieldfare.dmm.axis_codes import DomainAxis
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.matching import oracle
from fieldfare.model import Range
from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.peers import SimulatedPeers
from fieldfare.simulation.world import World

MakeRing = Callable[[int, Mapping[str, TopicScheme], LinkQuality], PerfectRing | SimulatedPeers]
ATTRIBUTES = ("a0", "a1", "a2", "a3")
STRINGS = ("", "a", "ab", "abc", "b", "ba", "zebra", "zebras and more")
EXPERIMENT = TopicScheme({name: DomainAxis(1, 256) for name in ATTRIBUTES})  # DMM-AR, domains as in the paper
ONE_SPACE = TopicScheme(EXPERIMENT.domains, ATTRIBUTES)  # DMM
NOTHING_DECLARED = TopicScheme()


def random_condition(rng: random.Random) -> str:
    """Mostly conjunctions of ranges, as in the paper; now and then what lies in the empty space, or in several."""
    special = rng.random()
    if special < 0.03:
        return "TRUE"
    if special < 0.06:
        return f"{rng.choice(ATTRIBUTES)} IS NULL"
    if special < 0.12:
        return f"{_range(rng, 'a0')} OR {_range(rng, 'a1')} AND {_range(rng, 'a2')}"
    if special < 0.16:
        return "a0 + a1 > 200"
    if special < 0.22:
        return f"a2 >= '{rng.choice(STRINGS)}' AND {_range(rng, 'a3')}"
    names = rng.sample(ATTRIBUTES, rng.randint(1, 3))
    return " AND ".join(_range(rng, name) for name in names)


def _range(rng: random.Random, name: str) -> str:
    low, high = sorted((rng.randint(1, 256), rng.randint(1, 256)))
    return f"{name} BETWEEN {low} AND {high}"


def random_event(rng: random.Random) -> dict[str, Any]:
    return {name: _value(rng) for name in rng.sample(ATTRIBUTES, rng.randint(0, len(ATTRIBUTES)))}


def _value(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(STRINGS)
    if kind < 0.15:
        return None
    if kind < 0.25:
        low, high = sorted((rng.randint(1, 256), rng.randint(1, 256)))
        return {"low": low, "high": high}
    return rng.randint(-5, 270) + rng.choice((0, 0, 0.5))


def meaning(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as the oracle reads it."""
    return {name: Range(**value) if isinstance(value, dict) else value for name, value in event.items()}


class Run:
    """A ring of peers, and for each event the subscriptions that were active when it was published."""

    def __init__(
        self,
        seed: int,
        peers: int,
        scheme: TopicScheme = EXPERIMENT,
        options: DmmOptions = DmmOptions(),  # noqa: B008 - it is frozen
        link: LinkQuality = LinkQuality(),  # noqa: B008
        make_ring: MakeRing = PerfectRing,
    ) -> None:
        self.rng = random.Random(seed)
        self.options = options
        self.ring = make_ring(seed, {"t": scheme}, link)
        self.conditions: dict[str, str] = {}
        self.expected: dict[str, set[str]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}  # of all conditions that ever were
        self._peers = self._subscriptions = 0
        for _ in range(peers):
            self.join()
            self.ring.clock.run_for(0.2)
        self.ring.run_until(self.ring.is_right)
        self.ring.clock.run_for(2)

    def join(self) -> None:
        self._peers += 1
        self.ring.add(f"p{self._peers}", self.options)

    def crash(self, count: int) -> list[str]:
        names = self.rng.sample(sorted(self.ring.peers), count)
        self.ring.crash(*names)
        for ref in [ref for ref in self.ring.active if self.ring.wanted[ref].peer in names]:
            del self.ring.active[ref]
            del self.conditions[ref]
            for expected in self.expected.values():
                expected.discard(ref)
        wanted = self.ring.wanted
        self.conditions = {ref: text for ref, text in self.conditions.items() if wanted[ref].peer not in names}
        return names

    def subscribe(self, condition: str | None = None) -> str:
        self._subscriptions += 1
        ref = f"s{self._subscriptions}"
        self.texts[ref] = self.conditions[ref] = condition or random_condition(self.rng)
        self.ring.subscribe(self.rng.choice(sorted(self.ring.peers)), ref, self.conditions[ref])
        return ref

    def unsubscribe(self, ref: str) -> None:
        self.ring.unsubscribe(ref)
        del self.conditions[ref]
        for expected in self.expected.values():
            expected.discard(ref)

    def publish(self, event: dict[str, Any] | None = None, lifespan_seconds: float = 120.0) -> str:
        chosen = random_event(self.rng) if event is None else event
        sure = {ref: text for ref, text in self.conditions.items() if ref in self.ring.active}
        peer = self.rng.choice(sorted(self.ring.peers))
        ref = self.ring.publish(peer, chosen, lifespan_seconds=lifespan_seconds)
        self.expected[ref] = {name for name, text in sure.items() if oracle.holds(text, meaning(chosen))}
        self.events[ref] = meaning(chosen)
        return ref

    def matching(self, event: dict[str, Any]) -> set[str]:
        """The subscriptions that an event satisfies."""
        return {ref for ref, text in self.conditions.items() if oracle.holds(text, meaning(event))}

    def settle_subscriptions(self, seconds_max: float = 120.0) -> None:
        self.ring.run_until(lambda: self.conditions.keys() <= self.ring.active.keys(), seconds_max)

    def settle_events(self, seconds_max: float = 200.0) -> None:
        self.ring.run_until(lambda: all(map(self._is_settled, self.expected)), seconds_max)

    def _is_settled(self, ref: str) -> bool:
        return ref in self.ring.outcomes or self.ring.publishers[ref] not in self.ring.peers

    def check(self) -> None:
        """Nothing is missing, nothing came twice, and nothing came that was not wanted."""
        for ref, expected in self.expected.items():
            delivered = self.ring.deliveries[ref]
            is_lost = self.ring.publishers[ref] not in self.ring.peers  # its publisher crashed
            if not is_lost:
                assert expected <= delivered.keys(), (ref, expected - delivered.keys())
            assert all(times == 1 for times in delivered.values()), (ref, delivered)
            assert all(oracle.holds(self.texts[name], self.events[ref]) for name in delivered), (ref, delivered)

    def count(self, part: str, name: str) -> int:
        """The sum of a statistic over all peers."""
        return sum(getattr(getattr(peer.keeper, part), name) for peer in self.ring.peers.values())


def pastry_ring(seed: int, schemes: Mapping[str, TopicScheme], link: LinkQuality) -> SimulatedPeers:
    """A ring as it is: for `Run`, in place of the perfect one."""
    return SimulatedPeers(World(seed, link), schemes)
