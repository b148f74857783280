"""The scenarios are worth something only if they find what is broken, on both stages."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.scenarios import bugs
from tests.scenarios.catalogue import AWAY_DURING_A_CRASH, LOST_ANSWERS, SUBSCRIBER_CRASHES, WEBHOOKS
from tests.scenarios.live import LiveService, LiveStage, running
from tests.scenarios.scenario import Scenario
from tests.scenarios.simulated import SimulatedStage
from tests.scenarios.stage import play

from fieldfare.errors import BrokenPromiseError

PATIENCE_SECONDS = 3.0  # what is lost never comes
FOUND_BY = [
    pytest.param("no_repetitions", LOST_ANSWERS, "duplicated", id="no_repetitions"),
    pytest.param("hasty_cursor", SUBSCRIBER_CRASHES, "lost", id="hasty_cursor"),
    pytest.param("forgotten_subscriptions", AWAY_DURING_A_CRASH, "lost", id="forgotten_subscriptions"),
    pytest.param("no_dead_letters", WEBHOOKS, "lost", id="no_dead_letters"),
]


@pytest.mark.parametrize(("bug", "scenario", "kind"), FOUND_BY)
def test_found_in_the_simulator(bug: str, scenario: Scenario, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.BUGS[bug](monkeypatch.setattr)
    with pytest.raises(BrokenPromiseError) as found:
        asyncio.run(play(scenario, SimulatedStage()))
    assert found.value.kind == kind


@pytest.mark.parametrize(("bug", "scenario", "kind"), FOUND_BY[:3])
def test_found_in_a_real_service(bug: str, scenario: Scenario, kind: str, tmp_path: Path) -> None:
    broken = (sys.executable, bugs.__file__, bug)

    async def run(service: LiveService) -> None:
        async with LiveStage(service, scenario.name, PATIENCE_SECONDS) as stage:
            await play(scenario, stage)

    with running(LiveService(tmp_path / "data", prefix=broken)) as service, pytest.raises(BrokenPromiseError) as found:
        asyncio.run(run(service))
    assert found.value.kind == kind
