"""Every scenario in the simulator, and many more that are drawn from seeds."""

from __future__ import annotations

import asyncio

import pytest
from tests.scenarios.catalogue import SCENARIOS
from tests.scenarios.drawing import draw
from tests.scenarios.scenario import Scenario
from tests.scenarios.simulated import SimulatedStage
from tests.scenarios.stage import check_worth, play

SEEDS = 60


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_promises_hold(scenario: Scenario) -> None:
    stage = SimulatedStage()
    asyncio.run(play(scenario, stage))
    check_worth(stage)


def test_promises_hold_in_random_scenarios() -> None:
    for seed in range(SEEDS):
        scenario = draw(seed, edge_crashes=3)
        try:
            asyncio.run(play(scenario, SimulatedStage(seed)))
        except Exception as error:
            error.add_note(str(scenario))
            raise
