"""Conditions are compiled at once where that is quick, and otherwise in a thread, so that nobody waits for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fieldfare.messages import (
    CompileConditions,
    ConditionsCompiled,
    Input,
    InterestMerged,
    InterestSummarised,
    MergeInterest,
    SummariseInterest,
)
from fieldfare.routing.interest import compile_conditions, covering_of, is_quick
from fieldfare.runtime.host import Capability, Host


class Compiling(Capability):
    """Compiles conditions, and puts indexes of them in order."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fieldfare-compile")

    def install(self, host: Host) -> None:
        """Perform CompileConditions, MergeInterest and SummariseInterest."""
        self._host = host
        host.kernel.provide(CompileConditions, self._compile)
        host.kernel.provide(MergeInterest, self._merge)
        host.kernel.provide(SummariseInterest, self._summarise)

    async def stop(self) -> None:
        """Compile no more."""
        self._thread.shutdown(cancel_futures=True)

    def _compile(self, effect: CompileConditions) -> None:
        handles, conditions = effect.handles, effect.conditions
        if is_quick(conditions):
            self._host.tell(ConditionsCompiled(effect.number, compile_conditions(handles, conditions)))
        else:
            self._beside(
                lambda: compile_conditions(handles, conditions),
                lambda compiled: ConditionsCompiled(effect.number, compiled),
            )

    def _merge(self, effect: MergeInterest) -> None:
        self._beside(effect.merge, lambda merged: InterestMerged(effect.number, merged))

    def _summarise(self, effect: SummariseInterest) -> None:
        self._beside(
            lambda: covering_of(effect.conditions, effect.boxes_max),
            lambda covering: InterestSummarised(effect.number, covering),
        )

    def _beside(self, work: Callable[[], Any], answer: Callable[[Any], Input]) -> None:
        def done(future: Future[Any]) -> None:
            if future.cancelled():
                return
            if error := future.exception():  # a fault of ours: whoever waits for it waits in vain
                self._host.fail(f"conditions cannot be compiled, restart the service: {error!r}")
            else:
                self._host.loop.call_soon_threadsafe(self._host.tell, answer(future.result()))

        self._thread.submit(work).add_done_callback(done)
