"""Many random deployments, each from a seed: FIELDFARE_SEEDS=5000 tries more, FIELDFARE_SEED=17 replays one."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from tests.overlay.scenario import By, Scenario

from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.zookeeper import SimulatedZooKeeper

SEEDS = int(os.environ.get("FIELDFARE_SEEDS", "10"))  # of each kind
ONLY = os.environ.get("FIELDFARE_SEED")
PARTS = 2  # so that they can run side by side


def run(seeds: Iterable[int], by: By = "directory", **options: bool) -> None:
    """Run some seeds; `options` are those of a Scenario."""
    for seed in seeds:
        scenario = Scenario(seed, by, **options)
        try:
            scenario.run()
        except Exception as error:
            error.add_note(f"seed {seed}; to replay it: FIELDFARE_SEED={seed} pytest {__file__} -k {by}")
            for note in notes(scenario):
                error.add_note(note)
            raise


def notes(scenario: Scenario) -> list[str]:
    """Which faults there were, and what waits for what."""
    planned = [f"  {fault}" for fault in (*scenario.faults, *scenario.zookeeper_faults)]
    waits = [
        f"{name} waits for: {machine.waits()}"
        for name, machine in scenario.world.machines.items()
        if isinstance(machine, SimulatedHost)
    ]
    if isinstance(scenario.coordination, SimulatedZooKeeper):
        waits.append(f"coordination waits for: {scenario.coordination.waits()}")
    return ["faults:", *planned, *waits]


@pytest.mark.parametrize("part", range(PARTS) if ONLY is None else [0])
@pytest.mark.parametrize("is_harsh", [False, True], ids=["usual", "harsh"])
@pytest.mark.parametrize("by", ["directory", "zookeeper", "gossip", "tree"])
def test_promises_hold_across_edges_whatever_goes_wrong(by: By, is_harsh: bool, part: int) -> None:
    run(range(part, SEEDS, PARTS) if ONLY is None else [int(ONLY)], by, is_harsh=is_harsh)


@pytest.mark.parametrize(("by", "is_harsh"), [("directory", True), ("zookeeper", True), ("gossip", False)])
def test_they_hold_while_publishers_move(by: By, is_harsh: bool) -> None:
    seeds = range(200, 200 + SEEDS // 6) if ONLY is None else [int(ONLY)]
    run(seeds, by, is_harsh=is_harsh, moves_publishers=True)


def test_they_hold_while_publishers_of_topics_that_spark_matches_move() -> None:
    run(range(SEEDS // 6) if ONLY is None else [int(ONLY)], has_spark=True, moves_publishers=True)


@pytest.mark.parametrize("part", range(PARTS) if ONLY is None else [0])
@pytest.mark.parametrize("by", ["directory", "tree"])
def test_they_hold_where_spark_matches_as_well(by: By, part: int) -> None:
    run(range(100 + part, 100 + SEEDS, PARTS) if ONLY is None else [int(ONLY)], by, has_spark=True)


@pytest.mark.parametrize("by", ["directory", "zookeeper", "gossip", "tree"])
def test_they_hold_for_what_is_left_where_disks_are_lost(by: By) -> None:
    run(range(SEEDS // 4) if ONLY is None else [int(ONLY)], by, loses_disks=True)


def test_they_hold_in_a_tree_whose_brokers_stay_away_and_are_bridged_over() -> None:
    run(range(SEEDS // 2) if ONLY is None else [int(ONLY)], "tree", has_bridges=True)


@pytest.mark.parametrize(("by", "seed"), [("tree", 11), ("tree", 27), ("tree", 29), ("directory", 27)])
def test_seeds_with_lost_disks_that_once_failed(by: By, seed: int) -> None:
    run([seed], by, loses_disks=True)
