"""Peers that keep a log: what they have accepted and what they want survive crashes, and nothing comes twice."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from tests.dmm.scenario import EXPERIMENT, meaning, random_condition, random_event

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.peer_messages import PeerDelivered, PeerSubscribe
from fieldfare.dmm.peer_records import PEER_RECORDS, PeerSubscriptionStored
from fieldfare.matching import oracle
from fieldfare.messages import Effect
from fieldfare.simulation import World
from fieldfare.simulation.network import LinkQuality
from fieldfare.simulation.peers import SimulatedPeers, event_ref

OPTIONS = DmmOptions(entries_max=10, replicas_each_side=2, refresh_seconds=5.0, entry_seconds=20.0)
WINDOW_SECONDS = 0.1  # before a crash: what was noted by then, and not waited for, may not have reached the disk


class LoggedPeers(SimulatedPeers):
    """Peers with disks, and when each event came to each subscription."""

    def __init__(self, seed: int, count: int, loss: float = 0.0) -> None:
        super().__init__(World(seed, LinkQuality(loss=loss)), {"t": EXPERIMENT}, keep_logs=True)
        self.came_at: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.crashed_at: defaultdict[str, list[float]] = defaultdict(list)
        for number in range(count):
            self.add(f"p{number}", OPTIONS)
            self.clock.run_for(0.3)
        self.run_until(self.is_right)

    def told(self, effect: Effect) -> None:
        if isinstance(effect, PeerDelivered):
            event = event_ref(effect.event)
            for ref in effect.refs:
                self.came_at[event, ref].append(self.clock.now)
        super().told(effect)

    def crash(self, *names: str) -> None:
        for name in names:
            self.crashed_at[name].append(self.clock.now)
            for ref in [ref for ref in self.active if self.wanted[ref].peer == name]:
                del self.active[ref]
        super().crash(*names)

    def come_back(self, name: str) -> None:
        """Start a peer again, whose program wants the same as before."""
        self.restart(name)
        for ref, wanted in self.wanted.items():
            if wanted.peer == name:
                self.tell(name, PeerSubscribe(ref, wanted.topic, wanted.condition))

    def check(self, events: dict[str, dict[str, Any]], sure: dict[str, set[str]]) -> None:
        """Every accepted event came to each subscription that was active: once, but for crashes while it came."""
        assert self.accepted.keys() & events.keys()
        for event, expected in sure.items():
            if event in self.accepted:
                assert expected <= self.deliveries[event].keys(), (event, expected - self.deliveries[event].keys())
        for (event, ref), times in self.came_at.items():
            assert oracle.holds(self.wanted[ref].condition, meaning(events[event]))
            crashes = self.crashed_at[self.wanted[ref].peer]
            excused = [at for at in times if any(0 <= crash - at < WINDOW_SECONDS for crash in crashes)]
            assert len(times) <= 1 + len(excused), (event, ref, times, crashes)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_accepted_reaches_all_once_whoever_crashes_and_comes_back(seed: int) -> None:
    peers, rng = LoggedPeers(seed, 10, loss=0.03), random.Random(seed)
    for number in range(20):
        peers.subscribe(f"p{rng.randrange(10)}", f"s{number}", random_condition(rng))
    peers.run_until(lambda: len(peers.active) == 20)
    events: dict[str, dict[str, Any]] = {}
    sure: dict[str, set[str]] = {}
    down: list[str] = []
    for step in range(60):
        if step % 4 == 0:
            if len(down) == 2:
                peers.come_back(down.pop(0))
            crashing = rng.choice([name for name in peers.peers if name not in down])
            peers.crash(crashing)
            down.append(crashing)
        event = random_event(rng)
        # A crashed peer's subscriptions live on: at the leaves for a while, and on its disk.
        wanting = {ref for ref, wanted in peers.wanted.items() if oracle.holds(wanted.condition, meaning(event))}
        ref = peers.publish(rng.choice(sorted(peers.peers)), event, lifespan_seconds=600.0)
        events[ref], sure[ref] = event, wanting
        peers.clock.run_for(rng.choice((0.0, 0.001, 0.01, 0.5)))
    for name in down:
        peers.come_back(name)
    peers.run_until(peers.is_right, 200)
    settled = [ref for ref in events if ref in peers.accepted]
    peers.run_until(lambda: all(peers.deliveries[ref].keys() >= sure[ref] for ref in settled), 300)
    peers.clock.run_for(60)  # whatever else comes
    peers.check(events, sure)
    assert len(settled) > 40
    assert sum(len(sure[ref]) for ref in settled) > 50


@pytest.mark.parametrize("seed", range(3))
def test_what_was_accepted_survives_a_crash_of_all_peers_at_once(seed: int) -> None:
    peers, rng = LoggedPeers(seed, 8), random.Random(seed)
    for number in range(12):
        peers.subscribe(f"p{rng.randrange(8)}", f"s{number}", random_condition(rng))
    peers.run_until(lambda: len(peers.active) == 12)
    events = {}
    for _ in range(20):
        event = random_event(rng)
        events[peers.publish(rng.choice(sorted(peers.peers)), event, lifespan_seconds=600.0)] = event
        peers.clock.run_for(rng.choice((0.0, 0.001, 0.01)))
    sure = {
        ref: {name for name, wanted in peers.wanted.items() if oracle.holds(wanted.condition, meaning(event))}
        for ref, event in events.items()
    }
    peers.crash(*sorted(peers.peers))
    peers.clock.run_for(100)  # longer than any leaf would remember an entry
    for number in range(8):
        peers.come_back(f"p{number}")
    peers.run_until(peers.is_right, 200)
    peers.run_until(lambda: all(peers.deliveries[ref].keys() >= sure[ref] for ref in peers.accepted), 200)
    peers.clock.run_for(60)
    peers.check(events, sure)
    assert any(sure[ref] for ref in peers.accepted)


def test_an_event_is_accepted_only_when_it_is_on_the_disk() -> None:
    peers = LoggedPeers(1, 3)
    host = peers.ring.hosts["p0"]
    host.log.stall_seconds = 5.0
    ref = peers.publish("p0", {"a0": 5}, lifespan_seconds=100.0)
    peers.clock.run_for(4)
    assert ref not in peers.accepted
    peers.clock.run_for(2)
    assert peers.accepted[ref].is_stored
    host.log.stall_seconds = 0.0
    host.log.failure = "the disk is full"
    refused = peers.publish("p0", {"a0": 5})
    peers.subscribe("p0", "s", "a0 > 3")
    peers.clock.run_for(5)
    assert "the disk is full" in peers.refused[refused]
    assert "the disk is full" in peers.refused["s"]
    assert "s" not in peers.active
    host.log.failure = None
    later = peers.publish("p0", {"a0": 5})
    peers.run_until(lambda: later in peers.outcomes)


def test_an_event_that_was_published_while_a_peer_could_not_join_is_delivered_later() -> None:
    peers = LoggedPeers(2, 6)
    peers.subscribe("p1", "s", "a0 > 3")
    peers.run_until(lambda: "s" in peers.active)
    peers.crash("p5")
    partition = peers.ring.world.partition(["p5"], ["p0", "p1", "p2", "p3", "p4"])
    peers.restart("p5")
    ref = peers.publish("p5", {"a0": 5}, lifespan_seconds=1000.0)
    peers.clock.run_for(1)
    assert peers.accepted[ref].is_stored
    peers.crash("p5")
    peers.clock.run_for(30)
    peers.ring.world.heal(partition)
    peers.restart("p5")
    peers.run_until(lambda: peers.deliveries[ref] == {"s": 1})


def test_events_wait_until_the_program_of_a_restarted_subscriber_is_there() -> None:
    peers = LoggedPeers(3, 6)
    peers.subscribe("p1", "s", "a0 > 3")
    peers.subscribe("p1", "covered", "a0 > 7")
    peers.run_until(lambda: len(peers.active) == 2)
    peers.crash("p1")
    ref = peers.publish("p2", {"a0": 9}, lifespan_seconds=1000.0)
    peers.clock.run_for(5)
    peers.restart("p1")
    peers.run_until(peers.is_right)
    peers.clock.run_for(40)
    assert peers.peers["p1"].held > 0
    assert ref not in peers.outcomes
    peers.tell("p1", PeerSubscribe("s", "t", "a0 > 3"))
    peers.clock.run_for(20)
    assert not peers.deliveries[ref], "it wants another one for the same event"
    peers.unsubscribe("covered")
    peers.run_until(lambda: ref in peers.outcomes)
    assert peers.deliveries[ref] == {"s": 1}
    peers.crash("p1")
    peers.restart("p1")
    peers.clock.run_for(5)
    assert [each.ref for each in peers.peers["p1"].subscribing.records()] == ["s"]  # type: ignore[union-attr]


def test_an_event_is_owed_to_a_subscriber_that_is_gone_for_longer_than_leaves_remember_it() -> None:
    peers = LoggedPeers(4, 6)
    peers.subscribe("p1", "s", "a0 > 3")
    peers.run_until(lambda: "s" in peers.active)
    peers.crash("p1")
    ref = peers.publish("p2", {"a0": 9}, lifespan_seconds=1000.0)
    peers.clock.run_for(3 * OPTIONS.entry_seconds)
    peers.crash("p2")
    peers.restart("p2")
    peers.clock.run_for(20)
    assert ref not in peers.outcomes
    peers.come_back("p1")
    peers.run_until(lambda: peers.deliveries[ref] == {"s": 1})


def test_a_peer_comes_back_from_checkpoints_too() -> None:
    peers = LoggedPeers(5, 6)
    peers.subscribe("p1", "s", "a0 > 3")
    peers.run_until(lambda: "s" in peers.active)
    for host in peers.ring.hosts.values():
        host.checkpoint_records = 3
    waiting = peers.publish("p2", {"a0": 4}, lifespan_seconds=1000.0)
    peers.crash("p1")
    refs = [peers.publish("p2", {"a0": 10 + number}, lifespan_seconds=1000.0) for number in range(20)]
    peers.clock.run_for(10)
    peers.crash("p2")
    peers.restart("p2")
    peers.come_back("p1")
    peers.run_until(lambda: all(peers.deliveries[ref] == {"s": 1} for ref in [waiting, *refs]))
    peers.crash("p1", "p2")
    peers.restart("p2")
    peers.come_back("p1")
    peers.clock.run_for(60)
    assert all(peers.deliveries[ref] == {"s": 1} for ref in [waiting, *refs])


def test_numbers_are_never_used_again_though_all_events_that_had_them_are_forgotten() -> None:
    """A subscriber knows by its number that it has an event: a second event with that number would be lost."""
    peers = LoggedPeers(6, 4)
    peers.subscribe("p1", "s", "a0 > 3")
    peers.run_until(lambda: "s" in peers.active)
    peers.ring.hosts["p2"].checkpoint_records = 1
    refs: list[str] = []
    for life in range(3):
        refs.extend(peers.publish("p2", {"a0": 10 + life}, lifespan_seconds=10.0) for _ in range(3))
        peers.run_until(lambda: all(peers.deliveries[ref] == {"s": 1} for ref in refs))
        peers.clock.run_for(30)
        assert not len(peers.peers["p2"].publishing)
        if life:
            peers.crash("p2")
            peers.restart("p2")
            peers.run_until(peers.is_right)


def test_without_a_log_nothing_pretends_to_be_stored() -> None:
    peers = SimulatedPeers(World(1))
    for name in ("p0", "p1", "p2"):
        peers.add(name)
    ref = peers.publish("p0", {"a0": 5})
    peers.run_until(lambda: ref in peers.outcomes)
    assert not peers.accepted[ref].is_stored
    assert not hasattr(peers.ring.nodes["p0"], "recover")


def test_too_many_events_that_nobody_takes_are_refused() -> None:
    peers = SimulatedPeers(World(1))
    for name in ("p0", "p1", "p2"):
        peers.add(name, DmmOptions(unsettled_events_max=5))
    peers.subscribe("p1", "s", "a0 > 3")
    peers.run_until(lambda: "s" in peers.active)
    peers.crash("p1")
    for _ in range(8):
        peers.publish("p0", {"a0": 5}, lifespan_seconds=100.0)
    assert (len(peers.accepted), len(peers.refused)) == (5, 3)
    peers.clock.run_for(120)
    later = peers.publish("p0", {"a0": 5})
    assert later in peers.accepted


def test_records_are_read_as_they_were_written() -> None:
    record = PeerSubscriptionStored("s", "t", "a0 > 3")
    assert PEER_RECORDS.decode(PEER_RECORDS.encode(record)) == record
