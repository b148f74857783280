"""Every scenario on real processes. Scenarios share a service, with topics of their own, where they need no other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.drawing import draw
from tests.scenarios.live import LiveService, LiveStage, running
from tests.scenarios.scenario import DiskFull, Scenario
from tests.scenarios.stage import check_worth, play

SEEDS = range(4)
CRASHING = range(1)  # in which the edge crashes: to start again takes longer than all the rest


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    with running(LiveService(tmp_path_factory.mktemp("live") / "data")) as started:
        yield started


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root and the permission to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607 - wherever it is


async def play_on(service: LiveService, scenario: Scenario) -> None:
    async with LiveStage(service, scenario.name) as stage:
        await play(scenario, stage)
        if scenario in SCENARIOS:
            check_worth(stage)


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if not each.has(DiskFull)], ids=lambda scenario: scenario.name
)
def test_promises_hold(scenario: Scenario, service: LiveService) -> None:
    asyncio.run(play_on(service, scenario))


@pytest.mark.parametrize("seed", SEEDS)
def test_promises_hold_in_random_scenarios(seed: int, service: LiveService) -> None:
    scenario = draw(seed, edge_crashes=int(seed in CRASHING))
    try:
        asyncio.run(play_on(service, scenario))
    except Exception as error:
        error.add_note(str(scenario))
        raise


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.has(DiskFull)], ids=lambda scenario: scenario.name
)
def test_promises_hold_on_a_disk_that_is_filled(scenario: Scenario, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, running(LiveService(disk / "data", disk=disk)) as service:
        asyncio.run(play_on(service, scenario))
