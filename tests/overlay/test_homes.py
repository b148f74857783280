"""A durable subscription has one home edge, to which the others send its client."""

from __future__ import annotations

import pytest
from tests.overlay.directory import Directory

from fieldfare.errors import FieldfareError, MovedError, NotFoundError
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.history import Reception
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World


class Networks:
    """Three edges behind one routing broker, each with a client."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.directory = Directory()
        self.deployment = Deployment(self.world, self.directory)
        self.routing = self.deployment.routing("routing")
        self.edges = [self.deployment.edge(name) for name in ("a", "b", "c")]
        self.clients = [self.client(edge) for edge in self.edges]
        for client in self.clients:
            client.follows = False
        self.world.run_for(1.0)

    def client(self, edge: SimulatedHost) -> SimulatedClient:
        return self.world.client(f"client-{len(self.world.machines)}", edge)

    def subscribe(self, client: SimulatedClient, name: str = "mine", seconds: float = 5.0) -> Reception:
        reception = client.subscribe("news", "n >= 0", name=name)
        self.world.run_for(seconds)
        return reception


@pytest.fixture
def networks() -> Networks:
    return Networks()


def home_in(error: FieldfareError | None) -> str | None:
    assert isinstance(error, MovedError), error
    return error.home


def test_a_new_name_is_made_where_its_client_is(networks: Networks) -> None:
    receptions = [networks.subscribe(client, f"of-{client.name}") for client in networks.clients]
    assert all(reception.confirmed_at is not None for reception in receptions)


def test_it_is_acknowledged_when_all_can_know_that_its_edge_has_durable_subscriptions(networks: Networks) -> None:
    networks.directory.records_owed = False
    reception = networks.subscribe(networks.clients[0])
    assert reception.confirmed_at is None
    assert reception.error is None or "try again" in str(reception.error)
    networks.directory.records_owed = True
    assert networks.subscribe(networks.client(networks.edges[0])).confirmed_at is not None


def test_another_edge_sends_the_client_to_the_home(networks: Networks) -> None:
    first, second, third = networks.clients
    assert networks.subscribe(first).confirmed_at is not None
    assert home_in(networks.subscribe(second).error) == "a"
    assert home_in(networks.subscribe(third).error) == "a"
    assert networks.subscribe(networks.client(networks.edges[0])).confirmed_at is not None


def test_who_attaches_is_sent_there_too(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(first)
    unknown_topic = second.attach("mine")
    networks.world.run_for(5.0)
    assert isinstance(unknown_topic.error, NotFoundError)  # that edge has nothing to do with the topic
    with_topic = second.attach("mine", topic="news")
    networks.world.run_for(5.0)
    assert home_in(with_topic.error) == "a"
    networks.subscribe(second, "other")
    without_topic = second.attach("mine")
    networks.world.run_for(5.0)
    assert home_in(without_topic.error) == "a"
    nowhere = second.attach("nobody's", topic="news")
    networks.world.run_for(5.0)
    assert isinstance(nowhere.error, NotFoundError)


def test_who_ends_it_or_looks_at_it_is_sent_there_too(networks: Networks) -> None:
    first, second, third = networks.clients
    networks.subscribe(first)
    ending, shown = second.end("mine", topic="news"), third.ask_list("subscriptions", "mine", topic="news")
    letters = networks.client(networks.edges[1]).ask_list("dead_letters", "mine", topic="news")
    networks.world.run_for(5.0)
    assert [home_in(asked.error) for asked in (ending, shown, letters)] == ["a", "a", "a"]
    shown, ending = first.ask_list("subscriptions", "mine"), first.end("mine")
    networks.world.run_for(5.0)
    assert ending.is_done
    assert shown.items is not None
    assert [item["subscription"] for item in shown.items] == ["mine"]


def test_what_nobody_has_is_unknown_when_all_edges_have_answered(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(first)
    networks.subscribe(second, "other")  # so its edge uses the topic, and need not be told of it
    ending, shown = second.end("nobody's"), second.ask_list("subscriptions", "nobody-s")
    networks.world.run_for(5.0)
    assert isinstance(ending.error, NotFoundError)
    assert shown.items == []


def test_who_ends_what_an_absent_edge_may_have_waits_for_that_edge(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(first)
    networks.world.crash(networks.edges[0])
    ending = second.end("mine", topic="news")
    networks.world.run_for(20.0)
    assert (ending.is_done, ending.error) == (False, None)
    networks.world.restart(networks.edges[0])
    networks.world.run_for(20.0)
    assert home_in(ending.error) == "a"


def test_a_topic_that_was_only_searched_is_not_counted_as_used(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(first)
    second.end("nobody's", topic="news")
    networks.world.run_for(5.0)
    assert networks.directory.counted["a", "news"].subscribers == 1
    assert networks.directory.counted["b", "news"].subscribers == 0


def test_a_home_that_is_away_is_waited_for(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(first)
    networks.world.crash(networks.edges[0])
    reception = networks.subscribe(second, seconds=20.0)
    assert (reception.confirmed_at, reception.error) == (None, None)
    networks.world.restart(networks.edges[0])
    networks.world.run_for(20.0)
    assert home_in(reception.error) == "a"


def test_a_home_that_was_retired_is_not_waited_for(networks: Networks) -> None:
    first, second, _ = networks.clients
    networks.subscribe(first)
    networks.world.crash(networks.edges[0])
    reception = networks.subscribe(second, seconds=20.0)
    networks.directory.remove("a")
    networks.world.run_for(20.0)
    assert reception.confirmed_at is not None


def test_a_name_that_has_ended_may_be_made_elsewhere(networks: Networks) -> None:
    first, second, _ = networks.clients
    first.unsubscribe(networks.subscribe(first))
    networks.world.run_for(5.0)
    assert networks.subscribe(second).confirmed_at is not None


@pytest.mark.parametrize("seed", range(30))
def test_two_edges_at_once_make_one_home(seed: int) -> None:
    networks = Networks(seed)
    for client in networks.clients:
        networks.subscribe(client, f"of-{client.name}", seconds=0.0)
    networks.world.run_for(5.0)
    rng = networks.world.rng("test")
    receptions = []
    for client in networks.clients:
        networks.world.run_for(rng.choice((0.0, 0.005, 0.02, 0.05)))
        receptions.append(client.subscribe("news", "n >= 0", name="mine"))
    networks.world.run_for(20.0)
    homes = [edge for edge, each in zip("abc", receptions, strict=True) if each.confirmed_at is not None]
    assert len(homes) == 1
    assert {home_in(each.error) for each in receptions if each.confirmed_at is None} == set(homes)
