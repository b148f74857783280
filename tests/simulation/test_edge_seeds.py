"""Many random worlds, each from a seed: FIELDFARE_SEEDS=5000 tries more, FIELDFARE_SEED=17 replays one."""

from __future__ import annotations

import os

import pytest
from tests.simulation.scenario import Scenario

SEEDS = int(os.environ.get("FIELDFARE_SEEDS", "300"))
FIRST = int(os.environ.get("FIELDFARE_SEED", "0"))
PARTS = 10  # so that they can run side by side


@pytest.mark.parametrize("part", range(PARTS))
def test_promises_hold_whatever_goes_wrong(part: int) -> None:
    if "FIELDFARE_SEED" in os.environ and part:
        pytest.skip("one seed is replayed")
    seeds = [FIRST] if "FIELDFARE_SEED" in os.environ else range(part, SEEDS, PARTS)
    for seed in seeds:
        scenario = Scenario(seed)
        try:
            scenario.run()
        except Exception as error:
            plan = "\n".join(f"  {fault}" for fault in getattr(scenario, "faults", ()))
            error.add_note(f"seed {seed}; replay it: FIELDFARE_SEED={seed} pytest {__file__}\nfaults:\n{plan}")
            raise
