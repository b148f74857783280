"""Orders of events in which overlays like this one go wrong, each told as a short story.

A second path that breaks and reopens has its story in `test_second_paths`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.overlay.test_two_networks import TOPIC, TwoNetworks, numbers

from fieldfare.coordination.zookeeper import Tree
from fieldfare.messages import Notice
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.qos import Offered, Requested
from fieldfare.routing.edge import Edge
from fieldfare.routing.overlay import EdgeOverlay
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.deployment import Deployment
from fieldfare.simulation.disk import OPTIONS
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.world import World
from fieldfare.simulation.zookeeper import SimulatedZooKeeper


def publish(world: World, publisher: SimulatedClient, wanted: Iterable[int], pause_seconds: float = 0.05) -> None:
    for number in wanted:
        publisher.publish("news", {"n": number})
        world.run_for(pause_seconds)


def overlay_of(deployment: Deployment, edge: SimulatedHost) -> EdgeOverlay:
    node = deployment.nodes[edge.name]
    assert isinstance(node, Edge)
    assert node.parts.overlay is not None
    return node.parts.overlay


def run_until(world: World, is_reached: Callable[[], bool], seconds_max: float = 30.0) -> None:
    """Let time pass in small steps until something holds."""
    ends_at = world.clock.now + seconds_max
    while not is_reached():
        assert world.clock.now < ends_at, "it never came to that"
        world.run_for(0.001)


def test_a_paused_routing_broker_wakes_after_its_topic_has_moved_and_passes_an_old_confirmation_on() -> None:
    networks = TwoNetworks()
    world, (_, publisher), (_, subscriber) = networks.world, networks.here, networks.there
    networks.deployment.routing("routing-2")
    few = subscriber.subscribe("news", "n >= 100")
    world.run_for(3.0)
    publish(world, publisher, range(100, 105))

    origin, receiver = (overlay_of(networks.deployment, edge) for edge, _ in (networks.here, networks.there))
    exports = origin.exports.get(TOPIC)
    assert exports is not None
    before = exports.takers[receiver.log_id].version
    more = subscriber.subscribe("news", "n >= 50")
    run_until(world, lambda: exports.takers[receiver.log_id].version > before)
    world.pause(networks.routing)  # the confirmation is on its way to it
    networks.directory.give(TOPIC, "routing-2")
    publish(world, publisher, range(50, 60))
    world.run_for(4.0)
    assert more.confirmed_at is not None, "the other routing broker serves"

    cut = world.partition({"here"}, {"routing-2"})  # so that nothing but the old confirmation comes
    everything = subscriber.subscribe("news", "n >= 0")
    world.run_for(0.5)
    world.resume(networks.routing)
    world.run_for(0.5)
    assert everything.confirmed_at is None, "an old confirmation is none of the new condition"
    world.heal(cut)
    world.run_for(3.0)
    publish(world, publisher, range(10))
    world.run_for(3.0)
    assert numbers(few) == list(range(100, 105))
    assert numbers(more) == list(range(50, 60))
    assert numbers(everything) == list(range(10))
    world.check()


class ZooKeeperNetworks:
    """Two edges and two routing brokers that find each other by ZooKeeper."""

    def __init__(self) -> None:
        self.world = World(1)
        self.zookeeper = SimulatedZooKeeper(self.world.network)
        self.deployment = Deployment(self.world, self.zookeeper)
        self.routing = [self.deployment.routing(f"routing-{number}") for number in (1, 2)]
        self.here, self.there = (self._network(name) for name in ("here", "there"))
        self.world.run_for(5.0)

    def _network(self, name: str) -> tuple[SimulatedHost, SimulatedClient]:
        edge = self.deployment.edge(name)
        return edge, self.world.client(f"client-{name}", edge)


def test_an_edge_whose_session_expired_is_still_owed_what_its_durable_subscriptions_want() -> None:
    networks = ZooKeeperNetworks()
    world, (_, publisher), (edge, subscriber) = networks.world, networks.here, networks.there
    first = subscriber.subscribe("news", "n >= 0", name="mine")
    world.run_for(3.0)
    publish(world, publisher, range(5))
    world.crash(subscriber)
    networks.zookeeper.expire("there")
    publish(world, publisher, range(5, 10))
    world.crash(edge)  # before it has noticed
    world.run_for(10.0)
    assert "there" not in networks.zookeeper.children(Tree().brokers)
    assert networks.zookeeper.children(Tree().part(TOPIC, "owed")) == ("there",)
    publish(world, publisher, range(10, 15))
    world.restart(edge)
    world.run_for(10.0)
    world.restart(subscriber)
    publish(world, publisher, range(15, 20))
    world.run_for(5.0)
    second = world.history.receptions[-1]
    assert numbers(second)[-15:] == list(range(5, 20))
    assert set(numbers(first) + numbers(second)) == set(range(20))
    world.check()


def test_a_connection_that_resets_comes_back_with_after_and_has_missed_nothing() -> None:
    networks = TwoNetworks()
    world, (_, publisher), (_, subscriber) = networks.world, networks.here, networks.there
    reception = subscriber.subscribe("news", "n >= 0")
    world.run_for(3.0)
    publish(world, publisher, range(10))
    receiver = overlay_of(networks.deployment, networks.there[0])
    (wanted,) = receiver.wanted
    subscriber.cut()
    run_until(world, lambda: not wanted.topic.takers)  # the edge has heard of it
    cut = world.partition({"client-there"}, {"there"})
    publish(world, publisher, range(10, 110))
    assert not wanted.topic.takers, "the edge has no subscription meanwhile"
    world.heal(cut)
    publish(world, publisher, range(110, 120))
    world.run_for(8.0)
    assert numbers(reception) == list(range(120))
    world.check()


def test_a_publisher_whose_answer_was_lost_goes_to_another_edge_and_nothing_is_doubled() -> None:
    networks = TwoNetworks()
    world, (_, publisher), (_, subscriber) = networks.world, networks.here, networks.there
    reception = subscriber.subscribe("news", "n >= 0")
    world.run_for(3.0)
    publish(world, publisher, range(5))
    publisher.answers_to_lose = 1
    publisher.publish("news", {"n": 5})
    run_until(world, lambda: publisher.answers_to_lose == 0)
    publisher.move_to("there")  # what is in doubt stays in doubt
    world.run_for(3.0)
    publish(world, publisher, range(6, 10))
    world.run_for(3.0)
    assert sorted(numbers(reception)) == list(range(10))
    world.check()


def test_a_slow_edge_does_not_hold_up_a_fast_one() -> None:
    networks = TwoNetworks(change=_small_windows)
    world, (_, publisher), (_, fast_client) = networks.world, networks.here, networks.there
    slow_edge = networks.deployment.edge("slow")
    slow_client = world.client("client-slow", slow_edge)
    fast, slow = (client.subscribe("news", "n >= 0") for client in (fast_client, slow_client))
    world.run_for(3.0)
    slow_edge.log.stall_seconds = 1.0
    for number in range(100):
        publish(world, publisher, [number], 0.1)
        assert len(fast.events) >= number, "it waits for nobody"
    assert len(slow.events) < 50
    world.run_for(60.0)
    assert numbers(fast) == numbers(slow) == list(range(100))
    world.check()


def _small_windows(options: OverlayOptions) -> OverlayOptions:
    return replace(options, exports=replace(options.exports, window_bytes=300, piece_events_max=4))


def test_the_first_publication_at_an_edge_that_nobody_knew_is_not_lost() -> None:
    networks = TwoNetworks()
    world, (_, subscriber) = networks.world, networks.there
    reception = subscriber.subscribe("news", "n >= 0")
    world.run_for(3.0)
    stranger = networks.deployment.edge("stranger")
    client = world.client("client-stranger", stranger)
    publish(world, client, range(5), pause_seconds=0.0)
    world.run_for(5.0)
    assert numbers(reception) == list(range(5))
    world.check()


def test_a_covering_condition_that_is_removed_leaves_what_it_covered() -> None:
    networks = TwoNetworks(change=lambda options: replace(options, return_seconds=5.0))
    world, (_, publisher), (_, subscriber) = networks.world, networks.here, networks.there
    wide = subscriber.subscribe("news", "n >= 0")
    narrow = subscriber.subscribe("news", "n BETWEEN 50 AND 54")
    world.run_for(3.0)
    publish(world, publisher, range(48, 57))
    subscriber.unsubscribe(wide)
    publish(world, publisher, range(48, 57))
    world.run_for(8.0)
    routing = networks.deployment.nodes["routing-1"]
    assert isinstance(routing, RoutingBroker)
    carried = routing.counts.events
    assert carried >= 18, "while the client may come back, its events come"
    publish(world, publisher, range(48, 57))
    world.run_for(2.0)
    assert routing.counts.events == carried + 5, "what nobody wants stays where it is"
    assert numbers(narrow) == 3 * list(range(50, 55))


def test_an_edge_whose_clock_is_hours_ahead_keeps_events_as_long_as_the_others() -> None:
    networks = TwoNetworks()
    world, (_, here), (edge, there) = networks.world, networks.here, networks.there
    here.declare("news", Offered(lifespan_seconds=30.0))
    world.run_for(1.0)
    world.crash(edge)
    edge.clock_ahead_seconds = 3 * 3600.0
    world.restart(edge)
    world.run_for(10.0)
    receptions = [client.subscribe("news", "n >= 0") for client in (here, there)]
    world.run_for(3.0)
    publish(world, here, range(5))
    publish(world, there, range(5, 10))
    world.run_for(3.0)
    assert [numbers(reception) for reception in receptions] == 2 * [list(range(10))]
    living = Requested(durability="transient")
    late = [client.subscribe("news", "n >= 0", qos=living) for client in (here, there)]
    world.run_for(5.0)
    assert [sorted(numbers(reception)) for reception in late] == 2 * [list(range(10))], "they live"
    world.run_for(40.0)
    too_late = [client.subscribe("news", "n >= 0", qos=living) for client in (here, there)]
    world.run_for(5.0)
    assert [numbers(reception) for reception in too_late] == [[], []], "they have expired, by any clock"


def test_a_range_that_a_full_disk_could_not_take_comes_again() -> None:
    """A cursor moves when what lies below it is flushed, and not before."""
    networks = TwoNetworks()
    world, (_, publisher), (edge, subscriber) = networks.world, networks.here, networks.there
    reception = subscriber.subscribe("news", "n >= 0", name="mine")
    world.run_for(3.0)
    publish(world, publisher, range(5))
    edge.log.failure = "the disk is full"
    publish(world, publisher, range(5, 10))
    world.run_for(1.0)
    edge.log.failure = None
    publish(world, publisher, range(10, 15))
    world.run_for(5.0)
    assert numbers(reception) == list(range(15))
    edge.log.flush_failure = "the disk does not flush"
    publish(world, publisher, range(15, 20))
    world.crash(edge)  # with it goes what was not flushed
    edge.log.flush_failure = None
    world.restart(edge)
    world.run_for(10.0)
    assert numbers(reception) == list(range(20))
    world.check()


def test_retention_that_is_reached_while_an_edge_is_away_is_told() -> None:
    networks = TwoNetworks()
    world, (origin, publisher), (edge, subscriber) = networks.world, networks.here, networks.there
    origin.log.options = replace(OPTIONS, segment_bytes=500, retention_bytes=2_000)
    origin.checkpoint_records = 5
    world.crash(origin)
    world.restart(origin)
    world.run_for(5.0)
    attached = subscriber.subscribe("news", "n >= 0", name="attached")
    away = world.client("away", edge)
    away.subscribe("news", "n >= 0", name="detached")
    world.run_for(3.0)
    publish(world, publisher, range(10))
    world.crash(away)
    cut = world.partition({"there"}, {"here", "routing-1"})
    publish(world, publisher, range(10, 210))
    world.heal(cut)
    world.run_for(20.0)
    assert numbers(attached)[:10] == list(range(10))
    assert numbers(attached)[-1] == 209
    assert len(attached.events) < 210
    assert gaps(attached.notices), "who is served is told at once"
    world.restart(away)
    world.run_for(5.0)
    returned = world.history.receptions[-1]
    assert gaps(returned.notices), "who was away is told when it comes back"
    assert numbers(returned)[-1] == 209
    world.check()


def gaps(notices: Iterable[Notice]) -> list[str]:
    return [notice.detail for notice in notices if notice.kind == "gap"]


def test_what_an_origin_passed_over_before_it_heard_of_a_condition_comes_again() -> None:
    """The version rule: the subscription is acknowledged although an origin could not confirm it."""
    networks = TwoNetworks()
    world, (_, publisher), (_, subscriber) = networks.world, networks.here, networks.there
    few = subscriber.subscribe("news", "n >= 100")
    world.run_for(3.0)
    publish(world, publisher, [100], 1.0)
    cut = world.partition({"here"}, {"routing-1"})  # shorter than the patience of streams: nobody notices
    more = subscriber.subscribe("news", "n >= 0")
    world.run_for(2.5)
    assert more.confirmed_at is not None, "waiting for origins is bounded"
    publish(world, publisher, [5, 101, 6])  # matched with what the origin knows
    world.run_for(0.6)
    world.heal(cut)
    world.run_for(10.0)
    assert numbers(few) == [100, 101]
    assert numbers(more) == [5, 101, 6]
    receiver = overlay_of(networks.deployment, networks.there[0])
    assert receiver.imports.refused_count, "a range of the old version came, and was refused"
    world.check()
