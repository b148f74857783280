"""Conditions are compiled beside other work: what comes meanwhile is handled first."""

from __future__ import annotations

import random

from fieldfare.messages import CompileConditions, ConditionsCompiled, Input, InterestMerged, MergeInterest
from fieldfare.routing.interest import compile_conditions
from fieldfare.simulation.host import SimulatedHost

COMPILE_SECONDS_MAX = 0.01


def compile_beside(host: SimulatedHost, rng: random.Random) -> None:
    """Perform CompileConditions and MergeInterest for a host, half of the time at once and else after a while."""

    def answer(message: Input) -> None:
        if rng.random() < 0.5:
            host.tell(message)
        else:
            host.later(COMPILE_SECONDS_MAX * rng.random(), lambda: host.tell(message))

    def compile_them(effect: CompileConditions) -> None:
        answer(ConditionsCompiled(effect.number, compile_conditions(effect.handles, effect.conditions)))

    host.perform_with(CompileConditions, compile_them)
    host.perform_with(MergeInterest, lambda effect: answer(InterestMerged(effect.number, effect.merge())))
