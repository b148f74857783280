"""Conditions are compiled beside other work: what comes meanwhile is handled first."""

from __future__ import annotations

import random

from fieldfare.messages import (
    CompileConditions,
    ConditionsCompiled,
    Input,
    InterestMerged,
    InterestSummarised,
    MergeInterest,
    SummariseInterest,
)
from fieldfare.routing.interest import compile_conditions, covering_of
from fieldfare.simulation.host import SimulatedHost

COMPILE_SECONDS_MAX = 0.01


class SimulatedCompiler:
    """Compiles, merges and summarises conditions for a host, half of the time at once and else after a while."""

    def __init__(self, host: SimulatedHost, rng: random.Random) -> None:
        self.seconds_max = COMPILE_SECONDS_MAX  # how long it takes now, at most
        self._host = host
        self._rng = rng
        host.perform_with(CompileConditions, self._compile)
        host.perform_with(MergeInterest, lambda effect: self._answer(InterestMerged(effect.number, effect.merge())))
        host.perform_with(SummariseInterest, self._summarise)

    def _compile(self, effect: CompileConditions) -> None:
        self._answer(ConditionsCompiled(effect.number, compile_conditions(effect.handles, effect.conditions)))

    def _summarise(self, effect: SummariseInterest) -> None:
        self._answer(InterestSummarised(effect.number, covering_of(effect.conditions, effect.boxes_max)))

    def _answer(self, message: Input) -> None:
        if self._rng.random() < 0.5:
            self._host.tell(message)
        else:
            self._host.later(self.seconds_max * self._rng.random(), lambda: self._host.tell(message))
