"""Conditions are compiled at once where that is quick, and otherwise in a thread, so that nobody waits for them."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from fieldfare.messages import CompileConditions, ConditionsCompiled
from fieldfare.routing.interest import CompiledConditions, compile_conditions, is_quick
from fieldfare.runtime.host import Capability, Host


class Compiling(Capability):
    """Performs CompileConditions."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fieldfare-compile")

    def install(self, host: Host) -> None:
        """Perform CompileConditions."""
        self._host = host
        host.kernel.provide(CompileConditions, self._compile)

    async def stop(self) -> None:
        """Compile no more."""
        self._thread.shutdown(cancel_futures=True)

    def _compile(self, effect: CompileConditions) -> None:
        if is_quick(effect.conditions):
            self._host.tell(ConditionsCompiled(effect.number, compile_conditions(effect.handles, effect.conditions)))
            return

        def done(future: Future[CompiledConditions]) -> None:
            if not future.cancelled():
                self._host.loop.call_soon_threadsafe(
                    lambda: self._host.tell(ConditionsCompiled(effect.number, future.result()))
                )

        self._thread.submit(compile_conditions, effect.handles, effect.conditions).add_done_callback(done)
