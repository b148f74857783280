"""A host under a virtual clock: it runs any node as the asyncio host does, and can crash it and bring it back.

The kernel is the same. An input is handled at once, or, where inputs take time, when those before it have been served:
so queues and utilisation appear. A crash ends a *life*: whatever was under way for it, timers, flushes, answers, finds
another life or none, and does nothing. Only the log goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from fieldfare.kernel import Kernel
from fieldfare.messages import (
    Append,
    Effect,
    Fetch,
    Identity,
    Input,
    LinkIdentity,
    LoggingNode,
    Node,
    NotStored,
    Started,
    Stored,
)
from fieldfare.messages.lines import EDGE_LINES, LineCodec
from fieldfare.simulation.clock import Timer
from fieldfare.simulation.disk import SimulatedLog
from fieldfare.simulation.history import TENANT
from fieldfare.simulation.links import LinkOptions, SimulatedLinks
from fieldfare.simulation.network import Network
from fieldfare.simulation.service import ServiceQueue, ServiceReport

EVERYTHING = Identity(TENANT, {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})

_EffectType = TypeVar("_EffectType", bound=Effect)
_Arguments = ParamSpec("_Arguments")


def _anyone(_place: str) -> LinkIdentity:
    return EVERYTHING


class _Alarm(NamedTuple):
    """When the node's next timer is due, by the machine's own clock, and what wakes the machine then."""

    at: float
    timer: Timer


class SimulatedHost:
    """A machine with one node on it, by name on a network. `make_node` makes the node anew at each start.

    Effects that reach beyond this machine, such as calls of webhooks, are performed by the functions that were given to
    `perform_with`. `make_rng` is called when the machine first needs chance: most of thousands never do.
    """

    def __init__(
        self, name: str, make_node: Callable[[], Node], network: Network, make_rng: Callable[[], random.Random]
    ) -> None:
        self.name = name
        self.clock = network.clock  # the world's; what the node is told is `now`
        # These three are looked at when the node starts.
        self.identify: Callable[[str], LinkIdentity] = _anyone  # who is at a place, at the other end of a link
        self.lines: LineCodec[Any, Any] = EDGE_LINES  # the wire protocol of links
        self.datagram_lines: LineCodec[Any, Any] | None = None  # that of datagrams; None: they pass as objects
        self.clock_ahead_seconds = 0.0  # how far this machine's clock is off; a node's clock never jumps while it lives
        self.checkpoint_records = 1000  # a checkpoint is made after this many records
        self.read_seconds = 0.001
        self._make_node = make_node
        self._make_rng = make_rng
        self._rng: random.Random | None = None
        self._network = network
        self._kernel: Kernel | None = None
        self._log: SimulatedLog | None = None
        self._service: ServiceQueue | None = None
        self._performers: dict[type[Effect], Callable[[Any], object]] = {}
        self._life = 0
        self._links: SimulatedLinks | None = None
        self._alarm: _Alarm | None = None
        self._is_in_round = False

    @property
    def is_up(self) -> bool:
        """Whether its node lives."""
        return self._kernel is not None

    def waits(self) -> list[str]:
        """What its node waits for, for people who look at a failed run: inputs, timers, and what the node says."""
        if self._kernel is None:
            return ["it is down"]
        of_node = getattr(self._kernel.node, "waits", list)
        return [*self._kernel.waits(), *of_node()]

    @property
    def log(self) -> SimulatedLog:
        """Its disk, which is there when something is first stored on it."""
        if self._log is None:
            self._log = SimulatedLog(self.clock, self.rng)
        return self._log

    @property
    def rng(self) -> random.Random:
        """The source of chance of this machine."""
        if self._rng is None:
            self._rng = self._make_rng()
        return self._rng

    @property
    def now(self) -> float:
        """The time by this machine's own clock."""
        return self.clock.now + self.clock_ahead_seconds

    def perform_with(self, effect: type[_EffectType], performer: Callable[[_EffectType], None]) -> None:
        """From now on such effects are performed so."""
        self._performers[effect] = performer
        if self._kernel is not None:
            self._kernel.provide(effect, performer)

    def start(self) -> None:
        """Make the node from what the log holds, and let others connect. If the log cannot be read, it stays down."""
        node = self._make_node()
        if self._log is not None and isinstance(node, LoggingNode):
            for record in self._log.read():
                node.recover(record)
        self._kernel = kernel = Kernel(node)
        options = LinkOptions(self.identify, self.lines, self.datagram_lines)
        self._links = SimulatedLinks(self.name, self._network, options, self._tell_together)
        self._links.provide(kernel)
        kernel.provide(Append, self._append)
        kernel.provide(Fetch, self._fetch)
        for effect, performer in self._performers.items():
            kernel.provide(effect, performer)
        self._links.open()
        self.tell(Started())

    def crash(self) -> None:
        """The machine stops here and now."""
        self._life += 1
        self._kernel = None
        if self._links is not None:
            self._links.crash()
        if self._log is not None:
            self._log.crash()
        if self._service is not None:
            self._service.clear()
        if self._alarm is not None:
            self._alarm.timer.cancel()
            self._alarm = None

    # A machine that takes time

    def serve_in(self, service_seconds: Callable[[Input], float]) -> None:
        """From now on each input keeps this machine busy for some time. What the log answers takes none."""
        if self._service is None:
            self._service = ServiceQueue(self.clock, service_seconds, self._handle_served)
        self._service.service_seconds = service_seconds

    def service_report(self) -> ServiceReport:
        """How busy this machine was, and how much waits; for a machine with a service time."""
        if self._service is None:
            raise RuntimeError(f"{self.name!r} has no service time: set one with serve_in")
        return self._service.report()

    def _handle_served(self, message: Input) -> None:
        if self._kernel is not None:
            self._kernel.tell(message)
            self._round()

    # Rounds

    def tell(self, message: Input) -> None:
        """Something happened. A node that is down hears nothing."""
        self._tell_together([message])

    def _tell_together(self, messages: list[Input]) -> None:
        """Several things happened at once, and are handled in one round."""
        kernel = self._kernel
        if kernel is None:
            return
        if self._service is not None:
            for message in messages:
                self._service.add(message)
            return
        kernel.tell_all(messages)
        if not self._is_in_round:
            self._round()

    def _round(self) -> None:
        """A round, and another one for what was answered at its end."""
        kernel = self._kernel
        self._is_in_round = True
        while kernel is not None:
            kernel.run_round(self.clock.now + self.clock_ahead_seconds, with_timers=self._service is None)
            if kernel is not self._kernel or not kernel.has_inputs:
                break
        self._is_in_round = False
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Be woken when the first timer is due. An alarm that comes too early is set again when it rings."""
        at = None if self._kernel is None else self._kernel.next_timer_at
        if at is None or (self._alarm is not None and self._alarm.at <= at):
            return
        if self._alarm is not None:
            self._alarm.timer.cancel()
        self._alarm = _Alarm(at, self.clock.at(at - self.clock_ahead_seconds, self._alarm_rang))

    def _alarm_rang(self) -> None:
        if self._service is not None:
            self._service.add(self._take_due_timer)  # the alarm stands until then, so that no second one is set
            return
        self._alarm = None
        at = None if self._kernel is None else self._kernel.next_timer_at
        if at is None or at > self.now:  # the timer was moved
            self._set_alarm()
        else:
            self._round()

    def _take_due_timer(self) -> Input | None:
        """The timer that is due, when this machine comes to it; None: the node moved it meanwhile."""
        self._alarm = None
        due = None if self._kernel is None else self._kernel.take_due_timer(self.now)
        self._set_alarm()
        return due

    def later(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Do something after a time, if the node has not crashed by then."""
        return self.clock.after(seconds, self.in_this_life(action))

    def in_this_life(self, action: Callable[_Arguments, object]) -> Callable[_Arguments, None]:
        """The same action, but it does nothing once the node has crashed, even if it came back."""
        life = self._life

        def guarded(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
            if life == self._life:
                action(*args, **kwargs)

        return guarded

    # The log

    def _append(self, effect: Append) -> None:
        self.log.on_stored = self._stored
        self.log.on_failure = lambda number, reason: self._tell_first(NotStored(number, reason))
        self.log.append(effect.number, effect.record, is_durable=effect.is_durable)

    def _stored(self, number: int) -> None:
        self._tell_first(Stored(number))
        node = self._kernel.node if self._kernel is not None else None
        if self.log.appended_since_checkpoint >= self.checkpoint_records and isinstance(node, LoggingNode):
            self.log.checkpoint(node.checkpoint())
            self.log.trim(self.now)

    def _tell_first(self, message: Input) -> None:
        """The log's answers are handled at once: what waits may build on them."""
        if self._kernel is not None:
            self._kernel.tell_first(message)
            self._round()

    def _fetch(self, effect: Fetch) -> None:
        def read() -> None:
            fetched = self.log.fetch(effect.reader, effect.stream, effect.after)
            self.later(self.read_seconds * self.rng.random(), lambda: self.tell(fetched))

        self.later(self.read_seconds * self.rng.random(), read)
