"""Brokers of a tree that are real processes: killed under load, bridged over, and linked in a ring."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.overlay_live.live_tree import LiveTree, growing, neighbours
from tests.overlay_live.stage import OverlayStage, play
from tests.runtime.processes import run

_BRIDGE_SECONDS = 5.0  # longer than a broker needs to start
_SHORT_SECONDS = 0.3


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveTree]:
    """A row of three, from a file: b2 is between the others, and may be bridged over."""
    tree = LiveTree(tmp_path_factory.mktemp("row"), ("b1", "b2", "b3"), [("b1", "b2"), ("b2", "b3")])
    tree.use_topology_file("b2", _BRIDGE_SECONDS)
    with growing(tree) as started:
        yield started


@pytest.fixture
def row(grown: LiveTree) -> LiveTree:
    """All are up, whatever became of the test before."""
    asyncio.run(grown.start())
    return grown


@pytest.mark.parametrize("name", ["b2", "b3"], ids=["between others", "at an end"])
def test_a_broker_is_killed(row: LiveTree, name: str) -> None:
    async def go_wrong(_: OverlayStage) -> None:
        await row.brokers[name].restart(_SHORT_SECONDS)
        await row.until("b1", lambda view: len(view.brokers) == 3)

    asyncio.run(play(row, f"{name}-killed", go_wrong))


def test_a_broker_that_stays_away_is_bridged_over(row: LiveTree) -> None:
    async def go_wrong(stage: OverlayStage) -> None:
        await row.brokers["b2"].kill()
        bridged = await row.until("b1", lambda view: neighbours(view) == {"b3"})
        assert bridged.away == ["b2"]
        stage.waits["b1"].clear()
        async with asyncio.timeout(60):
            while not stage.waits["b1"]:  # noqa: ASYNC110 - something comes from b3 meanwhile
                await asyncio.sleep(0.01)
        await row.brokers["b2"].start()
        await row.until("b1", lambda view: neighbours(view) == {"b2"})
        await row.until("b2", lambda view: neighbours(view) == {"b1", "b3"})
        await row.until("b3", lambda view: neighbours(view) == {"b2"})

    asyncio.run(play(row, "bridged", go_wrong))


def test_one_broker_is_asked_who_is_there(row: LiveTree) -> None:
    async def subscribed() -> None:
        body = {"topic": "news", "condition": "n >= 0", "name": "mine"}
        async with httpx.AsyncClient(timeout=30) as http:
            assert (await http.post(f"{row.edges['b3'].url}/v1/subscriptions", json=body)).status_code == 201
        await row.until("b1", lambda view: any(topic.owed == ("b3",) for topic in view.topics))

    asyncio.run(subscribed())
    view = row.brokers["b1"].view()
    assert [(each.name, each.hops, each.over) for each in view.brokers] == [
        ("b1", 0, ""),
        ("b2", 1, "b2"),
        ("b3", 2, "b2"),
    ]
    shown = run("brokers", "--url", row.edges["b1"].url, COLUMNS="200")
    assert shown.returncode == 0, shown.stderr
    for text in ("Brokers, seen by b1", row.edges["b3"].url, row.addresses["b3"], "news", "8,388,608"):
        assert text in shown.stdout


def test_a_ring_by_neighbours_loses_one_link_and_goes_on(tmp_path: Path) -> None:
    tree = LiveTree(tmp_path, ("b1", "b2", "b3"), [("b1", "b2"), ("b2", "b3"), ("b3", "b1")])
    tree.use_neighbours()

    async def nothing(_: OverlayStage) -> None:
        await asyncio.sleep(_SHORT_SECONDS)

    with growing(tree):
        asyncio.run(play(tree, "ring", nothing))
        links = {name: neighbours(broker.view()) for name, broker in tree.brokers.items()}
        assert sorted(map(len, links.values())) == [1, 1, 2]
        ends = [name for name, others in links.items() if len(others) == 1]
        for end, other in (ends, ends[::-1]):
            warning = f"WARNING fieldfare.runtime.host: The link to {other} is closed: with it brokers would be linked"
            assert warning in tree.brokers[end].process.log
