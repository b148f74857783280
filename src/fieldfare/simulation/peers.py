"""Peers without infrastructure in a simulated world: what their programs ask for, and what they are told.

peers = SimulatedPeers(World(seed=7))
peers.add("p1")
peers.add("p2")
peers.subscribe("p1", "fast", "speed > 100")
peers.run_until(lambda: "fast" in peers.active)
peers.publish("p2", {"speed": 120})
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.peer import DmmPeer, LoggingDmmPeer
from fieldfare.dmm.peer_messages import (
    PeerAccepted,
    PeerDelivered,
    PeerPublish,
    PeerPublished,
    PeerRefused,
    PeerSubscribe,
    PeerSubscribed,
    PeerUnsubscribe,
)
from fieldfare.dmm.peer_records import PEER_RECORDS
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.messages import Effect, Input
from fieldfare.pastry.bulk import DRAWN
from fieldfare.pastry.options import PastryOptions
from fieldfare.simulation.clock import Clock
from fieldfare.simulation.pastry import SimulatedRing
from fieldfare.simulation.world import World

TOPIC = "t"
_REF = "ref"  # an attribute of every event, a list, so that no condition sees it
_DEFAULT_OPTIONS, _DEFAULT_PASTRY_OPTIONS = DmmOptions(), PastryOptions()


def event_ref(event: bytes) -> str:
    """The ref of an event that a program here has published."""
    ref: str = json.loads(event)[_REF][0]
    return ref


@dataclass(frozen=True, slots=True)
class Wanted:
    """A subscription."""

    peer: str
    topic: str
    condition: str


class PeerPrograms(ABC):
    """The programs of some peers. Subscriptions and events are known by refs, which are their own."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.peers: dict[str, DmmPeer] = {}  # those that are up
        self.wanted: dict[str, Wanted] = {}  # by subscription
        self.active: dict[str, float] = {}  # since when subscriptions are acknowledged
        self.accepted: dict[str, PeerAccepted] = {}  # by event
        self.publishers: dict[str, str] = {}  # by event
        self.published_at: dict[str, float] = {}
        self.deliveries: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by event: how often to whom
        self.delays: list[float] = []
        self.outcomes: dict[str, PeerPublished] = {}
        self.refused: dict[str, str] = {}

    @abstractmethod
    def tell(self, peer: str, message: Input) -> None:
        """Ask something of a peer."""

    def is_right(self) -> bool:
        """Whether all peers know their neighbours, and have what they are to keep."""
        return all(peer.is_ready for peer in self.peers.values())

    def subscribe(self, peer: str, ref: str, condition: str, topic: str = TOPIC) -> None:
        """Want something at a peer."""
        self.wanted[ref] = Wanted(peer, topic, condition)
        self.tell(peer, PeerSubscribe(ref, topic, condition))

    def unsubscribe(self, ref: str) -> None:
        """Want it no more."""
        self.active.pop(ref, None)
        self.tell(self.wanted.pop(ref).peer, PeerUnsubscribe(ref))

    def publish(self, peer: str, event: Mapping[str, Any], topic: str = TOPIC, lifespan_seconds: float = 60.0) -> str:
        """Publish at a peer; the event's ref."""
        ref = f"e{len(self.publishers)}"
        self.publishers[ref], self.published_at[ref] = peer, self.clock.now
        text = json.dumps({**event, _REF: [ref]}).encode()
        self.tell(peer, PeerPublish(ref, topic, text, lifespan_seconds))
        return ref

    def told(self, effect: Effect) -> None:
        """Note what a program is told."""
        match effect:
            case PeerSubscribed(ref):
                self.active[ref] = self.clock.now
            case PeerAccepted(ref):
                self.accepted[ref] = effect
            case PeerDelivered():
                ref = event_ref(effect.event)
                self.deliveries[ref].update(effect.refs)
                self.delays.append(self.clock.now - self.published_at[ref])
            case PeerPublished():
                self.outcomes[effect.ref] = effect
            case PeerRefused():
                self.refused[effect.ref] = effect.reason

    def run_until(self, holds: Callable[[], bool], seconds_max: float = 120.0) -> float:
        """Let time pass until something holds; how long that took, or an AssertionError."""
        began_at = self.clock.now
        while not holds():
            if self.clock.now - began_at > seconds_max:
                waits = {name: peer.waits() for name, peer in self.peers.items() if peer.waits()}
                raise AssertionError(f"not within {seconds_max} s; what peers wait for: {waits}")
            self.clock.run_for(0.05)
        return self.clock.now - began_at


class SimulatedPeers(PeerPrograms):
    """Peers on a simulated Pastry ring; with `keep_logs` they come back from their disks.

    With `with_packets` messages travel as bytes, which are counted in `ring.packets`.
    """

    def __init__(
        self,
        world: World,
        schemes: Mapping[str, TopicScheme] | None = None,
        pastry_options: PastryOptions = _DEFAULT_PASTRY_OPTIONS,
        *,
        keep_logs: bool = False,
        with_packets: bool = False,
    ) -> None:
        super().__init__(world.clock)
        self._peer_class = LoggingDmmPeer if keep_logs else DmmPeer
        self.ring = SimulatedRing(world, pastry_options, self._make_peer, with_packets=with_packets)
        self.ring.records = PEER_RECORDS
        self._schemes = schemes
        self._options: dict[str, DmmOptions] = {}

    def _make_peer(self, name: str) -> DmmPeer:
        peer = self.peers[name] = self._peer_class(self._options[name], self._schemes)
        return peer

    def add(self, name: str, options: DmmOptions = _DEFAULT_OPTIONS) -> None:
        """One more, which joins over one that is up."""
        self._options[name] = options
        self.ring.add(name)
        self._take_effects(name)

    def add_acquainted(
        self,
        options: Mapping[str, DmmOptions],
        drawn: int = DRAWN,
        seconds: Callable[[str, str], float] | None = None,
    ) -> None:
        """Many, by name, which begin with right tables rather than join; see SimulatedRing."""
        self._options.update(options)
        self.ring.add_acquainted(list(options), drawn, seconds)
        for name in options:
            self._take_effects(name)

    def _take_effects(self, name: str) -> None:
        for effect in (PeerAccepted, PeerSubscribed, PeerDelivered, PeerPublished, PeerRefused):
            self.ring.hosts[name].perform_with(effect, self.told)

    def is_right(self) -> bool:
        """Whether all peers know their neighbours, and have what they are to keep."""
        return self.ring.is_right() and super().is_right()

    def crash(self, *names: str) -> None:
        """Some stop at once."""
        for name in names:
            self.ring.hosts[name].crash()
            del self.peers[name]

    def restart(self, *names: str) -> None:
        """Some come back, with what is on their disks. Their programs have to subscribe again."""
        for name in names:
            self.ring.hosts[name].start()

    def tell(self, peer: str, message: Input) -> None:
        """Ask something of a peer."""
        self.ring.hosts[peer].tell(message)
