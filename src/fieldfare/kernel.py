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
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count
from typing import Any, TypeAlias, TypeVar

from fieldfare.messages import Effect, Input, Node, SetTimer, TimerDue

E = TypeVar("E", bound=Effect)
_Timer: TypeAlias = tuple[float, int, Hashable]  # when it is due, its number and its key
_MOVED_MAX = 16  # entries of timers that were moved, beside as many as there are timers


class Kernel:
    """Runs one node."""

    __slots__ = ("_inbox", "_numbers", "_performers", "_round_ends", "_timer_heap", "_timers", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._inbox: deque[Input] = deque()
        self._performers: dict[type[Effect], Callable[[Any], object]] = {SetTimer: self._set_timer}
        self._round_ends: list[Callable[[], object]] = []
        self._timers: dict[Hashable, _Timer] = {}
        self._timer_heap: list[_Timer] = []  # those, and some that were moved since
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

    def tell_all(self, messages: Iterable[Input]) -> None:
        """Several things happened, in this order."""
        self._inbox.extend(messages)

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
        heap = self._timer_heap
        while heap and self._timers.get(heap[0][2]) is not heap[0]:
            heapq.heappop(heap)  # it was moved
        return heap[0][0] if heap else None

    def run_round(self, now: float, *, with_timers: bool = True) -> None:
        """Handle all that waits, and the timers that are due unless the host takes those itself."""
        if self._inbox:
            self._handle_all(now)
        if self._timer_heap and with_timers:
            while (due := self.take_due_timer(now)) is not None:
                self._inbox.append(due)
                self._handle_all(now)
        for hook in self._round_ends:
            hook()

    def take_due_timer(self, now: float) -> TimerDue | None:
        """The first timer that is due, as the input that tells the node so; from now on it is no longer set."""
        at = self.next_timer_at
        if at is None or at > now:
            return None
        _, _, key = heapq.heappop(self._timer_heap)
        del self._timers[key]
        return TimerDue(key)

    def _handle_all(self, now: float) -> None:
        inbox, handle, performers = self._inbox, self.node.handle, self._performers
        while inbox:
            effects: Sequence[Effect] = handle(inbox.popleft(), now)
            for effect in effects:
                performers[type(effect)](effect)

    def _set_timer(self, effect: SetTimer) -> None:
        timers, heap = self._timers, self._timer_heap
        if (timer := timers.get(effect.key)) is not None and timer[0] == effect.at:
            return
        timer = timers[effect.key] = (effect.at, next(self._numbers), effect.key)
        heapq.heappush(heap, timer)
        if len(heap) > 2 * len(timers) + _MOVED_MAX:  # a node may move a timer with every message
            heap[:] = timers.values()
            heapq.heapify(heap)

    def waits(self) -> list[str]:
        """What the node waits for, for people who look at a run that failed."""
        timers = [f"timer {key!r} at {at:.6f}" for at, _, key in self._timers.values()]
        return [f"input {message!r}" for message in self._inbox] + timers
