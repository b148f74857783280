"""Clients that know several edges, and go from one to another: nothing is lost or doubled; what is in doubt is told.

FIELDFARE_SEEDS=5000 tries more, FIELDFARE_SEED=17 replays one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import msgspec
import pytest
from tests.overlay.directory import Directory
from tests.overlay.scenario import BUSY_SECONDS, Scenario

from fieldfare.client.options import ClientOptions
from fieldfare.client.session_publications import SessionPublications
from fieldfare.client.session_subscription import SessionSubscription
from fieldfare.errors import BrokenPromiseError, UnknownOutcomeError
from fieldfare.simulation import faults
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.history import Reception
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World

SEEDS = int(os.environ.get("FIELDFARE_SEEDS", "16"))
ONLY = os.environ.get("FIELDFARE_SEED")
PARTS = 2


class Network:
    """Two edges of one network, and a client that knows both; another one stays at the third edge."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.deployment = Deployment(self.world, Directory())
        self.deployment.routing("routing")
        self.edges = [self.deployment.edge(name, network="here") for name in ("a", "b")]
        self.far = self.deployment.edge("far", network="there")
        self.roaming = self.world.client("roaming", self.edges)
        self.fixed = self.world.client("fixed", self.far)
        self.world.run_for(1.0)

    @property
    def used(self) -> SimulatedHost:
        """The edge that the roaming client uses."""
        return next(edge for edge in self.edges if self.world.network.streams("roaming", edge.name))

    @property
    def other(self) -> SimulatedHost:
        """The edge that it does not use."""
        used = self.used
        return next(edge for edge in self.edges if edge is not used)


@pytest.fixture
def network() -> Network:
    return Network()


def numbers(reception: Reception) -> list[int]:
    return [msgspec.json.decode(delivery.event)["n"] for delivery in reception.events]


def test_clients_spread() -> None:
    used = {Network(seed).used.name for seed in range(10)}
    assert used == {"a", "b"}


def test_a_client_stays_with_an_edge_that_comes_back_soon(network: Network) -> None:
    reception = network.roaming.subscribe("news", "n >= 0")
    network.world.run_for(3.0)
    used = network.used
    network.world.crash(used)
    network.world.run_for(0.2)
    network.world.restart(used)
    network.world.run_for(3.0)
    assert network.used is used
    network.fixed.publish("news", {"n": 1})
    network.world.run_for(3.0)
    assert (numbers(reception), reception.notices) == ([1], [])
    network.world.check()


def test_a_client_without_doubts_goes_on_at_another_edge(network: Network) -> None:
    world = network.world
    reception = network.roaming.subscribe("news", "n >= 0")
    world.run_for(3.0)
    network.fixed.publish("news", {"n": 1})
    world.run_for(1.0)
    used, other = network.used, network.other
    world.crash(used)
    world.run_for(6.0)
    assert network.used is other
    assert [notice.kind for notice in reception.notices] == ["gap"]
    network.fixed.publish("news", {"n": 2})
    own = network.roaming.publish("news", {"n": 3})
    world.run_for(3.0)
    world.restart(used)
    world.run_for(10.0)
    assert own.outcome == "accepted"
    assert sorted(numbers(reception)) == [1, 2, 3]
    world.check()


def test_a_publication_in_doubt_waits_for_its_edge_and_then_ends_as_unknown(network: Network) -> None:
    world = network.world
    reception = network.fixed.subscribe("news", "n >= 0")
    world.run_for(3.0)
    used, other = network.used, network.other
    network.roaming.answers_to_lose = 1
    doubtful = network.roaming.publish("news", {"n": 1})
    while network.roaming.answers_to_lose:
        world.run_for(0.01)
    world.crash(used)
    world.run_for(5.0)
    assert doubtful.outcome == "waiting"
    later = network.roaming.publish("news", {"n": 2})
    world.run_for(10.0)
    assert network.used is other
    assert isinstance(doubtful.error, UnknownOutcomeError)
    assert (doubtful.outcome, later.outcome) == ("unknown", "accepted")
    world.restart(used)
    world.run_for(20.0)
    assert sorted(numbers(reception)) == [1, 2]  # it was accepted after all, once
    world.check()


def test_a_publication_in_doubt_is_answered_by_its_edge_if_that_comes_back(network: Network) -> None:
    world = network.world
    reception = network.fixed.subscribe("news", "n >= 0")
    world.run_for(3.0)
    used = network.used
    network.roaming.answers_to_lose = 1
    doubtful = network.roaming.publish("news", {"n": 1})
    while network.roaming.answers_to_lose:
        world.run_for(0.01)
    world.crash(used)
    world.run_for(5.0)
    world.restart(used)
    world.run_for(10.0)
    assert doubtful.outcome == "accepted"
    assert numbers(reception) == [1]
    world.check()


def test_a_durable_subscription_is_received_from_its_home(network: Network) -> None:
    world = network.world
    reception = network.roaming.subscribe("news", "n >= 0", name="mine")
    world.run_for(5.0)
    home = network.used
    world.crash(home)
    world.run_for(5.0)
    assert network.used is not home
    network.fixed.publish("news", {"n": 1})
    network.roaming.publish("news", {"n": 2})
    world.run_for(5.0)
    assert numbers(reception) == []
    world.restart(home)
    world.run_for(20.0)
    assert sorted(numbers(reception)) == [1, 2]
    assert reception.notices == []
    world.check()


def test_events_that_reach_the_next_edge_after_the_client_do_not_come_again(network: Network) -> None:
    world = network.world
    reception = network.roaming.subscribe("news", "n >= 0", window=1)
    world.client("other", network.other).subscribe("news", "n >= 0")
    world.run_for(3.0)
    used, other = network.used, network.other
    partition = world.partition({other.name}, {"routing"})
    for number in range(3):
        network.fixed.publish("news", {"n": number})
    world.run_for(1.0)
    assert numbers(reception) == [0, 1, 2]
    world.crash(used)
    world.run_for(6.0)
    assert network.used is other
    world.heal(partition)
    world.run_for(10.0)
    network.fixed.publish("news", {"n": 3})
    world.run_for(5.0)
    assert numbers(reception) == [0, 1, 2, 3]
    world.check()


def test_an_edge_with_another_disk_has_another_log(network: Network) -> None:
    world = network.world
    reception = network.roaming.subscribe("news", "n >= 0")
    world.run_for(3.0)
    network.fixed.publish("news", {"n": 1})
    world.run_for(1.0)
    used = network.used
    world.crash(used)
    world.wipe_disk(used)
    world.restart(used)
    world.run_for(5.0)
    assert network.used is used
    assert [notice.kind for notice in reception.notices] == ["gap"]
    network.fixed.publish("news", {"n": 2})
    world.run_for(5.0)
    assert numbers(reception) == [1, 2]
    world.check()


# Many random deployments


class MovingScenario(Scenario):
    """A random deployment with clients that know all edges."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for number in range(self.rng.randint(1, 3)):
            client = self.world.client(f"roaming{number}", self.edges)
            client.crash()
            client.moving = ClientOptions(
                patience_seconds=self.rng.choice((0.0, 0.5, 1.0)), doubt_seconds=self.rng.choice((0.0, 1.0, 10.0))
            )
            client.start()
            self.clients[client] = self.edges[0]

    def _plan(self) -> list[faults.Fault]:
        """Edges are away for so long that clients go elsewhere."""
        away = [
            faults.Fault(
                self.rng.uniform(0.0, BUSY_SECONDS),
                "crash",
                self.rng.choice(self.edges).name,
                self.rng.uniform(1.0, 8.0),
            )
            for _ in range(self.rng.randint(1, 5))
        ]
        return [*super()._plan(), *away]


def run(seeds: Iterable[int]) -> None:
    for seed in seeds:
        scenario = MovingScenario(seed)
        try:
            scenario.run()
        except Exception as error:
            plan = "\n".join(f"  {fault}" for fault in scenario.faults)
            error.add_note(f"seed {seed}; to replay it: FIELDFARE_SEED={seed} pytest {__file__}\nfaults:\n{plan}")
            raise


@pytest.mark.parametrize("part", range(PARTS) if ONLY is None else [0])
def test_promises_hold_for_clients_that_move(part: int) -> None:
    run(range(part, SEEDS, PARTS) if ONLY is None else [int(ONLY)])


# The seeds are worth something only if they find what is broken.


def the_same_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher keeps its name at another log, and counts from 0 there."""

    def leave_log(publications: SessionPublications) -> list[object]:
        for queue in publications._topics.values():
            for publication in queue.take_doubtful():
                publications.unanswered -= 1
                del publication
            queue.begin_anew(publications.publisher)
        return []

    monkeypatch.setattr(SessionPublications, "leave_log", leave_log)


def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client does not know the events again that came from another edge."""
    monkeypatch.setattr(SessionSubscription, "_leave_log", lambda _: None)


@pytest.mark.parametrize("breaks", [the_same_publisher, forgetting])
def test_the_seeds_find_what_is_broken(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    with pytest.raises(BrokenPromiseError):
        run(range(200))
