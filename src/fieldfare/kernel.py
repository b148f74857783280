"""The kernel of every host: rounds, timers, and the order in which effects are performed.

A host queues what happens with `tell` and now and then runs a round. In a round the node handles all that waits, then
the timers that are due; each effect is performed as soon as its input has been handled, in the node's order, by the
capability that was provided for its type. Hooks at the end of a round do what is cheaper for many effects together: a
link writes its frames at once, a log flushes its records as one group. A performer may answer at once with `tell`;
that is handled in the same round.

The kernel has no clock, no sockets and no files: the asyncio host, the simulated host and the tests' harness differ in
what they provide, and in when they run a round.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any, TypeVar

from fieldfare.messages import Effect, Input, Node, SetTimer, TimerDue

E = TypeVar("E", bound=Effect)


class Kernel:
    """Runs one node."""

    __slots__ = ("_inbox", "_numbers", "_performers", "_round_ends", "_set", "_timers", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._inbox: deque[Input] = deque()
        self._performers: dict[type[Effect], Callable[[Any], object]] = {SetTimer: self._set_timer}
        self._round_ends: list[Callable[[], object]] = []
        self._timers: list[tuple[float, int, Hashable]] = []  # a heap; entries that were moved stay until they are due
        self._set: dict[Hashable, tuple[float, int]] = {}  # when each timer is due, and the number of its entry
        self._numbers = count()  # so that timers of one moment are due in the order in which they were set

    def provide(self, effect: type[E], perform: Callable[[E], object]) -> None:
        """From now on effects of this type are performed so."""
        self._performers[effect] = perform

    def at_round_end(self, hook: Callable[[], object]) -> None:
        """Call this at the end of each round, after the hooks that were named before."""
        self._round_ends.append(hook)

    def tell(self, message: Input) -> None:
        """Something happened; the node handles it in the next round, or in this one."""
        self._inbox.append(message)

    def tell_first(self, message: Input) -> None:
        """The same, ahead of all that waits: of the log's answers, since what is handled next may build on them."""
        self._inbox.appendleft(message)

    @property
    def has_inputs(self) -> bool:
        """Whether something waits to be handled."""
        return bool(self._inbox)

    @property
    def next_timer_at(self) -> float | None:
        """When the next round is due at the latest; None: nothing is timed."""
        timers = self._timers
        while timers and self._set.get(timers[0][2]) != timers[0][:2]:
            heapq.heappop(timers)  # it was moved
        return timers[0][0] if timers else None

    def run_round(self, now: float) -> None:
        """Handle all that waits, and the timers that are due."""
        self._handle_all(now)
        timers = self._timers
        while timers and timers[0][0] <= now:
            at, number, key = heapq.heappop(timers)
            if self._set.get(key) == (at, number):
                del self._set[key]
                self._inbox.append(TimerDue(key))
                self._handle_all(now)
        for hook in self._round_ends:
            hook()

    def _handle_all(self, now: float) -> None:
        inbox, handle, performers = self._inbox, self.node.handle, self._performers
        while inbox:
            effects: Sequence[Effect] = handle(inbox.popleft(), now)
            for effect in effects:
                performers[type(effect)](effect)

    def _set_timer(self, effect: SetTimer) -> None:
        known = self._set.get(effect.key)
        if known is None or known[0] != effect.at:
            entry = self._set[effect.key] = effect.at, next(self._numbers)
            heapq.heappush(self._timers, (*entry, effect.key))

    def waits(self) -> list[str]:
        """What the node waits for, for people who look at a run that failed."""
        timers = [f"timer {key!r} at {at:.6f}" for key, (at, _) in self._set.items()]
        return [f"input {message!r}" for message in self._inbox] + timers
