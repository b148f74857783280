"""Conditions are compiled beside other work: what comes meanwhile is handled first."""

from __future__ import annotations

import random

from fieldfare.messages import CompileConditions, ConditionsCompiled
from fieldfare.routing.interest import compile_conditions
from fieldfare.simulation.host import SimulatedHost

COMPILE_SECONDS_MAX = 0.01


def compile_beside(host: SimulatedHost, rng: random.Random) -> None:
    """Perform CompileConditions for a host, half of the time at once and else after a while."""

    def perform(effect: CompileConditions) -> None:
        compiled = ConditionsCompiled(effect.number, compile_conditions(effect.handles, effect.conditions))
        if rng.random() < 0.5:
            host.tell(compiled)
        else:
            host.later(COMPILE_SECONDS_MAX * rng.random(), lambda: host.tell(compiled))

    host.perform_with(CompileConditions, perform)
