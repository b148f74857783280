"""A part of all peers crashes at once: how long until every event is delivered promptly again, and what that costs.

    python -m fieldfare.simulation.peer_recovery --peers 5000 --subscriptions 2000

Conditions and events are random, as in the DMM paper (section VI): 1 to 5 of 10 attributes with values from 1 to 256.
An event is late if a live subscriber got it more than `LATE_SECONDS` after it was published. Delivery is complete again
when the last late event has arrived; from then on all arrive in time.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace

import msgspec

from fieldfare.dmm.axis_codes import DomainAxis
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.peer import DmmPeer
from fieldfare.dmm.peer_load import Spread
from fieldfare.dmm.peer_messages import PeerDelivered
from fieldfare.dmm.sender_replicas import ReplicaContent
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.messages import Effect
from fieldfare.pastry.options import PastryOptions
from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.peers import TOPIC, SimulatedPeers, event_ref
from fieldfare.simulation.world import World

LATE_SECONDS = 2.0
_ATTRIBUTES = tuple(f"a{number}" for number in range(10))
_SCHEME = TopicScheme({name: DomainAxis(1, 256) for name in _ATTRIBUTES})
_SPACING_SECONDS = 0.01  # between subscriptions
_AFTER_SECONDS = 30.0  # after the crash, whose traffic is told

Ranges = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """What happens in a run."""

    peers: int = 300
    subscriptions: int = 300
    crashed_share: float = 0.2
    seed: int = 1
    loss: float = 0.001
    quiet_seconds: float = 10.0  # in which events are published before the crash
    seconds: float = 60.0  # in which they are published after it
    events_per_second: float = 10.0
    dmm: DmmOptions = field(default_factory=DmmOptions)
    pastry: PastryOptions = field(default_factory=PastryOptions)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What peers sent in some time, for each peer that lives and second, acknowledgements included."""

    messages: float
    bytes: float
    all_bytes: int  # of all peers, in all of the time


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late events were that were published after a crash. The times are seconds."""

    late: int  # deliveries
    complete_again_seconds: float  # after the crash
    slowest_seconds: float  # of all deliveries


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was seen."""

    crashed: int
    events: int  # published after the crash by peers that live
    expected: int  # deliveries of these to peers that live
    missing: int  # of these, that never came
    doubled: int
    lateness: Lateness
    median_seconds_before: float  # of deliveries before the crash
    traffic_quiet: Traffic  # nothing is published
    traffic_subscribing: Traffic
    traffic_before: Traffic  # events are published
    traffic_after: Traffic  # the same, in the 30 s after the crash
    replica_bytes: int  # of copies for neighbours, when all subscriptions are placed
    state: Spread  # entries at the leaves of each peer
    work: Spread  # messages that came to each peer


def random_ranges(rng: random.Random) -> Ranges:
    """A subscription."""
    return {name: _range(rng) for name in rng.sample(_ATTRIBUTES, rng.randint(1, 5))}


def _range(rng: random.Random) -> tuple[int, int]:
    low, high = sorted((rng.randint(1, 256), rng.randint(1, 256)))
    return low, high


class _TimedPeers(SimulatedPeers):
    """Peers, and when each event came to each subscription for the first time."""

    def __init__(self, settings: RecoverySettings) -> None:
        self.delivered_at: dict[tuple[str, str], float] = {}  # by event and subscription
        world = World(settings.seed, LinkQuality(loss=settings.loss))
        super().__init__(world, {TOPIC: _SCHEME}, settings.pastry, with_packets=True)

    def told(self, effect: Effect) -> None:
        super().told(effect)
        if isinstance(effect, PeerDelivered):
            event = event_ref(effect.event)
            for ref in effect.refs:
                self.delivered_at.setdefault((event, ref), self.clock.now)


class RecoveryRun:
    """One run. Whether an event satisfies a subscription is found out here by itself."""

    def __init__(self, settings: RecoverySettings) -> None:
        self.settings, self.peers = settings, _TimedPeers(settings)
        self.rng = self.peers.ring.world.rng("a recovery")
        self.ranges: dict[str, Ranges] = {}
        self._events: dict[str, dict[str, int]] = {}

    def run(self) -> Recovery:
        """Let it happen."""
        peers, settings = self.peers, self.settings
        names = [f"p{number:05}" for number in range(settings.peers)]
        peers.add_acquainted(dict.fromkeys(names, settings.dmm))
        peers.clock.run_for(2.0)
        quiet = self._traffic(lambda: peers.clock.run_for(settings.quiet_seconds))
        subscribing = self._traffic(lambda: self._subscribe(names))
        replica_bytes = sum(map(_replica_bytes, peers.peers.values()))
        before = self._traffic(lambda: self._publish_for(settings.quiet_seconds))
        peers.clock.run_for(5.0)
        first, delays = set(self._events), sorted(peers.delays)
        loads = [peer.load() for peer in peers.peers.values()]
        crashed = self.rng.sample(names, int(settings.crashed_share * settings.peers))
        crashed_at = peers.clock.now
        peers.crash(*crashed)
        after = self._traffic(lambda: self._publish_for(_AFTER_SECONDS))
        self._publish_for(settings.seconds - _AFTER_SECONDS)
        expected = {ref: self._wanting(event, crashed) for ref, event in self._events.items() if ref not in first}
        peers.run_until(lambda: expected.keys() <= peers.outcomes.keys(), 200.0)
        return Recovery(
            crashed=len(crashed),
            events=len(expected),
            expected=sum(map(len, expected.values())),
            missing=sum(len(refs - peers.deliveries[ref].keys()) for ref, refs in expected.items()),
            doubled=sum(times > 1 for ref in expected for times in peers.deliveries[ref].values()),
            lateness=self._lateness(expected, crashed_at),
            median_seconds_before=delays[len(delays) // 2] if delays else 0.0,
            traffic_quiet=quiet,
            traffic_subscribing=subscribing,
            traffic_before=before,
            traffic_after=after,
            replica_bytes=replica_bytes,
            state=Spread.of(load.entries for load in loads),
            work=Spread.of(load.messages for load in loads),
        )

    def _traffic(self, act: Callable[[], None]) -> Traffic:
        """What is sent while something happens."""
        clock, packets = self.peers.clock, self.peers.ring.packets
        if packets is None:
            raise ValueError("packets are not counted")
        at, messages, size = clock.now, packets.count, packets.bytes
        act()
        share = len(self.peers.peers) * (clock.now - at)
        return Traffic((packets.count - messages) / share, (packets.bytes - size) / share, packets.bytes - size)

    def _subscribe(self, names: list[str]) -> None:
        peers = self.peers
        for number in range(self.settings.subscriptions):
            ranges = self.ranges[f"s{number}"] = random_ranges(self.rng)
            condition = " AND ".join(f"{name} BETWEEN {low} AND {high}" for name, (low, high) in ranges.items())
            peers.subscribe(self.rng.choice(names), f"s{number}", condition)
            peers.clock.run_for(_SPACING_SECONDS)
        peers.run_until(lambda: len(peers.active) == self.settings.subscriptions, 300.0)

    def _publish_for(self, seconds: float) -> None:
        clock, pause = self.peers.clock, 1.0 / self.settings.events_per_second
        until = clock.now + seconds
        while clock.now < until:
            names = self.rng.sample(_ATTRIBUTES, self.rng.randint(1, len(_ATTRIBUTES)))
            event = {name: self.rng.randint(1, 256) for name in names}
            ref = self.peers.publish(self.rng.choice(list(self.peers.peers)), event, lifespan_seconds=120.0)
            self._events[ref] = event
            clock.run_for(pause)

    def _wanting(self, event: Mapping[str, int], crashed: Collection[str]) -> set[str]:
        gone, wanted = set(crashed), self.peers.wanted
        return {
            ref
            for ref, ranges in self.ranges.items()
            if wanted[ref].peer not in gone
            and all(name in event and low <= event[name] <= high for name, (low, high) in ranges.items())
        }

    def _lateness(self, expected: Collection[str], crashed_at: float) -> Lateness:
        peers = self.peers
        arrivals = [
            (at - crashed_at, at - peers.published_at[event])
            for (event, _), at in peers.delivered_at.items()
            if event in expected
        ]
        late = [at for at, delay in arrivals if delay > LATE_SECONDS]
        return Lateness(
            late=len(late),
            complete_again_seconds=max(late, default=0.0),
            slowest_seconds=max((delay for _, delay in arrivals), default=0.0),
        )


def _replica_bytes(peer: DmmPeer) -> int:
    """How large the copies are that a peer keeps for its neighbours."""
    copies = [each for each in peer.keeper.book.regions.values() if not each.is_primary and each.table is not None]
    tables = (region.table for region in copies if region.table is not None)
    return sum(len(msgspec.msgpack.encode((*table.entries(0.0), *table.lines))) for table in tables)


def main() -> None:
    """Run once, and print what was seen as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    defaults = RecoverySettings()
    parser.add_argument("--peers", type=int, default=defaults.peers)
    parser.add_argument("--subscriptions", type=int, default=defaults.subscriptions)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--loss", type=float, default=defaults.loss)
    parser.add_argument("--heartbeat-seconds", type=float, default=defaults.pastry.heartbeat_seconds)
    parser.add_argument("--senders", action="store_true", help="replicas hold who sent entries, as in the paper")
    given = parser.parse_args()
    settings = replace(
        defaults,
        peers=given.peers,
        subscriptions=given.subscriptions,
        seed=given.seed,
        loss=given.loss,
        dmm=replace(defaults.dmm, replicas_hold=ReplicaContent.SENDERS) if given.senders else defaults.dmm,
        pastry=replace(defaults.pastry, heartbeat_seconds=given.heartbeat_seconds),
    )
    sys.stdout.write(json.dumps(asdict(RecoveryRun(settings).run()), indent=2) + "\n")


if __name__ == "__main__":
    main()
