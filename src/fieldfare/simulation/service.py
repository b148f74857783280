"""A machine that takes time for each input: one input is served, the others wait in the order in which they came.

So queues build up and a machine has a utilisation, which `ServiceReport` tells. With random arrivals and a constant
service time it is the M/D/1 queue of the textbooks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.messages import Input
from fieldfare.simulation.clock import Clock


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """How busy a machine was, and how much waited, since it got its service time or since an earlier report."""

    seconds: float
    inputs_served: int
    busy_seconds: float
    waiting_seconds: float  # the sum of the times that inputs waited before they were served
    queue_length: int  # the inputs that wait now

    @property
    def utilisation(self) -> float:
        """The share of the time in which the machine was busy."""
        return self.busy_seconds / self.seconds if self.seconds else 0.0

    @property
    def queue_length_mean(self) -> float:
        """How many inputs waited on average over the time."""
        return self.waiting_seconds / self.seconds if self.seconds else 0.0

    def since(self, earlier: ServiceReport) -> ServiceReport:
        """What happened between an earlier report of the same machine and this one."""
        return ServiceReport(
            self.seconds - earlier.seconds,
            self.inputs_served - earlier.inputs_served,
            self.busy_seconds - earlier.busy_seconds,
            self.waiting_seconds - earlier.waiting_seconds,
            self.queue_length,
        )


class ServiceQueue:
    """The inputs of one machine. `handle` is called with each when it has been served.

    The queue has no bound: what a node lets wait is what an experiment wants to see.
    """

    def __init__(
        self, clock: Clock, service_seconds: Callable[[Input], float], handle: Callable[[Input], None]
    ) -> None:
        self.service_seconds = service_seconds
        self._clock = clock
        self._handle = handle
        self._waiting: deque[Input | Callable[[], Input | None]] = deque()
        self._life = 0  # a crash or a pause begins another; what was scheduled in an earlier one does nothing
        self._is_busy = False
        self._serving: Input | None = None
        self._is_paused = False
        self._interrupted: tuple[Input, float] | None = (
            None  # what a pause interrupted, and how long it would still take
        )
        self._busy_until = 0.0
        self._began_at = self._noted_at = clock.now
        self._inputs_served = 0
        self._busy_seconds = 0.0
        self._waiting_seconds = 0.0

    def add(self, message: Input | Callable[[], Input | None]) -> None:
        """Let an input wait; or a function that is called when its turn has come, and may then have none."""
        self._note_waiting()
        self._waiting.append(message)
        if not self._is_busy and not self._is_paused:
            self._serve_next()

    def pause(self) -> None:
        """Serve nothing; what is being served is interrupted."""
        if self._serving is not None:
            self._interrupted = self._serving, self._remaining_seconds
        self._stop_serving()
        self._is_paused = True

    def resume(self) -> None:
        """Go on with what was interrupted, and then with what waits."""
        self._is_paused = False
        if self._interrupted is None:
            self._serve_next()
        else:
            self._serve(*self._interrupted)
            self._interrupted = None

    def clear(self) -> None:
        """The machine stops: what waits, and what is being served, is gone."""
        self._note_waiting()
        self._is_paused = False
        self._interrupted = None
        self._waiting.clear()
        self._stop_serving()

    def _stop_serving(self) -> None:
        self._busy_seconds -= self._remaining_seconds
        self._is_busy = False
        self._serving = None
        self._life += 1

    def report(self) -> ServiceReport:
        """How busy the machine was until now."""
        self._note_waiting()
        return ServiceReport(
            self._clock.now - self._began_at,
            self._inputs_served,
            self._busy_seconds - self._remaining_seconds,
            self._waiting_seconds,
            len(self._waiting),
        )

    @property
    def _remaining_seconds(self) -> float:
        """How long the input that is being served will still take."""
        return max(0.0, self._busy_until - self._clock.now) if self._is_busy else 0.0

    def _note_waiting(self) -> None:
        now = self._clock.now
        self._waiting_seconds += len(self._waiting) * (now - self._noted_at)
        self._noted_at = now

    def _serve_next(self) -> None:
        while self._waiting:
            self._note_waiting()
            message = self._waiting.popleft()
            if not isinstance(message, Input):
                if (called := message()) is None:
                    continue
                message = called
            self._serve(message, self.service_seconds(message))
            return

    def _serve(self, message: Input, seconds: float) -> None:
        self._busy_seconds += seconds
        self._busy_until = self._clock.now + seconds
        self._is_busy = True
        self._serving = message
        self._clock.call_at(self._busy_until, self._served, message, self._life)

    def _served(self, message: Input, life: int) -> None:
        if life != self._life:
            return
        self._inputs_served += 1
        self._serving = None
        self._handle(message)
        if life == self._life:
            self._is_busy = False
            self._serve_next()
