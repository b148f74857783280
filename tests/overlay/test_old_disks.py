"""Edges that come back with less than others have of them, and edges that come back before anybody saw them go."""

from __future__ import annotations

import pytest
from tests.overlay.trees import Trees, numbers

from fieldfare.coordination.leading import Leading
from fieldfare.messages import BrokerIdentity, Join, Leave, LogId, Member, Opened, Received, Send
from fieldfare.overlay.covering import EVERYTHING
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.qos import Offered, Requested
from fieldfare.simulation.history import TENANT


@pytest.mark.parametrize("crashes", [0, 1])
def test_an_origin_with_an_older_disk_goes_on_beyond_what_others_have_of_it(crashes: int) -> None:
    """It would use positions again that others have dealt with, if it crashed in between."""
    trees = Trees.row(3)
    origin = trees.hosts["b0"]
    trees.clients["b1"].declare("news", Offered())
    trees.world.run_for(1.0)
    reception = trees.subscribe("b2", "n >= 0")
    trees.publish("b0", range(5))
    snapshot = origin.snapshot_disk()
    for _ in range(crashes):
        trees.world.crash(origin)
        trees.world.restart(origin)
        trees.world.run_for(3.0)
    trees.publish("b0", range(5, 20))
    trees.world.run_for(2.0)
    trees.world.crash(origin)
    trees.world.restore_disk(origin, snapshot)
    trees.world.restart(origin)
    trees.world.run_for(5.0)
    living = trees.clients["b2"].subscribe("news", "n >= 0", name="living", qos=Requested(durability="transient"))
    trees.world.run_for(9.0)
    assert living.confirmed_at is not None  # the log is read to its end, which lies before what the edge has
    trees.publish("b0", range(20, 25))
    trees.world.run_for(3.0)
    assert numbers(reception) == list(range(25))
    assert numbers(living)[-5:] == list(range(20, 25))


def test_an_edge_that_joins_again_over_a_new_link_has_left_before() -> None:
    """It may have restarted, and has to be told where to go on: nobody would, as long as nobody saw it leave."""
    topic = (TENANT, "news")
    broker = RoutingBroker(Member("routing", "routing", "routing"), Leading("routing"))

    def join(link: str, edge: LogId) -> list[tuple[str, object]]:
        effects = broker.handle(Received(link, Join(topic, edge, 1, EVERYTHING.encode())), 0.0)
        return [(effect.link, effect.frame) for effect in effects if isinstance(effect, Send)]

    for link in ("one", "other", "one-again"):
        broker.handle(Opened(link, BrokerIdentity(link)), 0.0)
    join("one", "log1")
    join("other", "log2")
    told = [frame for link, frame in join("one-again", "log1") if link == "other"]
    assert told == [Leave(topic, "log1"), Join(topic, "log1", 1, EVERYTHING.encode())]
