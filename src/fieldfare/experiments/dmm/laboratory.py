"""Where the figures are made: runs that they share, on as many cores as there are to be used.

Runs are kept as JSON where a folder is given, so that a figure can be drawn again without running anything.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.sender_replicas import ReplicaContent
from fieldfare.experiments.dmm.experiment import Experiment, PeerRun
from fieldfare.experiments.dmm.outcome import Outcome
from fieldfare.experiments.dmm.settings import Scale
from fieldfare.simulation.peer_recovery import Recovery, RecoveryRun, RecoverySettings


class Laboratory:
    """What the figures share."""

    def __init__(self, scale: Scale, progress: Callable[[str], None], kept: Path | None = None) -> None:
        self.scale, self.progress = scale, progress
        self._kept = kept
        self._outcomes: dict[PeerRun, Outcome] = {}

    def run(self, case: PeerRun) -> Outcome:
        """Run a case, unless that has been done."""
        return self.run_all([case])[0]

    def run_all(self, cases: Sequence[PeerRun]) -> list[Outcome]:
        """Run some cases, those that have not been run yet."""
        for case in cases:
            if case not in self._outcomes and (known := self._read(case)) is not None:
                self._outcomes[case] = known
        missing = [case for case in dict.fromkeys(cases) if case not in self._outcomes]
        if min(self.scale.processes, len(missing)) <= 1:
            for case in missing:
                self.progress(case.name)
                self._keep(case, run_case(case, self.scale))
        else:
            self._run_in_processes(missing)
        return [self._outcomes[case] for case in cases]

    def recover(self, content: ReplicaContent) -> Recovery:
        """A part of all peers crashes, whose neighbours keep this for them; see `RecoveryRun`."""
        file = None if self._kept is None else self._kept / f"recovery-{content.name.lower()}.json"
        if file is not None and file.exists():
            return msgspec.json.decode(file.read_bytes(), type=Recovery)
        self.progress(f"recovery from copies of {content}")
        scale = self.scale
        settings = RecoverySettings(
            scale.recovery_peers,
            scale.recovery_subscriptions,
            scale.crashed_share,
            scale.seed,
            events_per_second=scale.recovery_events_per_second,
            dmm=DmmOptions(replicas_hold=content),
        )
        recovery = RecoveryRun(settings).run()
        _write(file, recovery)
        return recovery

    def _run_in_processes(self, cases: Sequence[PeerRun]) -> None:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.scale.processes, context, max_tasks_per_child=1) as pool:
            running = {case: pool.submit(_run_and_exit, case, self.scale) for case in cases}
            for number, (case, future) in enumerate(running.items()):
                self.progress(f"{case.name}, and {len(running) - number - 1} more")
                self._keep(case, future.result())

    def _keep(self, case: PeerRun, outcome: Outcome) -> None:
        self._outcomes[case] = outcome
        _write(self._file(case), outcome)

    def _read(self, case: PeerRun) -> Outcome | None:
        file = self._file(case)
        return None if file is None or not file.exists() else msgspec.json.decode(file.read_bytes(), type=Outcome)

    def _file(self, case: PeerRun) -> Path | None:
        return None if self._kept is None else self._kept / f"{case.name}.json"


def _write(file: Path | None, found: Outcome | Recovery) -> None:
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(found))


def run_case(case: PeerRun, scale: Scale) -> Outcome:
    """One run, in this process."""
    gc.collect()
    gc.disable()  # what a run makes stays; looking at it again and again would take most of the time
    try:
        return Experiment(case, scale).run()
    finally:
        gc.enable()


def _run_and_exit(case: PeerRun, scale: Scale) -> Outcome:
    """One run, the only one of this process: nothing is cleared away after it."""
    gc.disable()
    outcome = Experiment(case, scale).run()
    gc.freeze()
    return outcome
