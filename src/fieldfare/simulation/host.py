"""A host under a virtual clock: it runs any node as the asyncio host does, and can crash it and bring it back.

The kernel is the same. An input is handled at once, or, where inputs take time, when those before it have been served:
so queues and utilisation appear. A crash ends a *life*: whatever was under way for it, timers, flushes, answers, finds
another life or none, and does nothing. Only the log goes on.

A host can be paused, as a process is by SIGSTOP: its node handles nothing and its log writes nothing, but its sockets
stay open. What comes meanwhile, and timers that were due, are handled when it is resumed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from fieldfare.kernel import Kernel
from fieldfare.messages import (
    EDGE_RECORDS,
    Append,
    Effect,
    Fetch,
    Identity,
    Input,
    LinkIdentity,
    LoggingNode,
    Node,
    NotStored,
    RecordCodec,
    Started,
    Stored,
    Warn,
)
from fieldfare.messages.frame_codec import FrameCodec
from fieldfare.messages.lines import EDGE_LINES, LineCodec
from fieldfare.simulation.clock import Timer
from fieldfare.simulation.disk import DiskSnapshot, SimulatedLog
from fieldfare.simulation.history import TENANT
from fieldfare.simulation.links import LinkOptions, SimulatedLinks
from fieldfare.simulation.machine_clock import MachineClock
from fieldfare.simulation.network import Network
from fieldfare.simulation.service import ServiceQueue, ServiceReport

EVERYTHING = Identity(TENANT, {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})

_SAME_CODEC: Mapping[type[LinkIdentity], FrameCodec[Any, Any]] = {}

_EffectType = TypeVar("_EffectType", bound=Effect)
_Arguments = ParamSpec("_Arguments")


def _anyone(_place: str) -> LinkIdentity:
    return EVERYTHING


class SimulatedHost:
    """A machine with one node on it, by name on a network. `make_node` makes the node anew at each start.

    Effects that reach beyond this machine, such as calls of webhooks, are performed by the functions that were given to
    `perform_with`. `make_rng` is called when the machine first needs chance: most of thousands never do.
    """

    def __init__(
        self, name: str, make_node: Callable[[], Node], network: Network, make_rng: Callable[[], random.Random]
    ) -> None:
        self.name = name
        self.clock = network.clock  # the world's
        self.machine_clock = MachineClock(network.clock)  # what the node is told: it may be off, and drift
        self.records: RecordCodec[Any] = EDGE_RECORDS  # how records are written on the disk; set it before the first
        # These four are looked at when the node starts.
        self.identify: Callable[[str], LinkIdentity] = _anyone  # who is at a place, at the other end of a link
        self.lines: FrameCodec[Any, Any] = EDGE_LINES  # the wire protocol of links,
        self.codecs = _SAME_CODEC  # but for links to these kinds of identities, such as BrokerIdentity
        self.datagram_lines: LineCodec[Any, Any] | None = None  # that of datagrams; None: they pass as objects
        self.checkpoint_records = 1000  # a checkpoint is made after this many records
        self.read_seconds = 0.001
        self.on_round: Callable[[], object] = lambda: None  # called when the node has handled something
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
        self._is_in_round = False
        self._is_paused = False

    @property
    def is_up(self) -> bool:
        """Whether its node lives."""
        return self._kernel is not None

    @property
    def node(self) -> Node | None:
        """The node that lives on it, to be looked at; None while it is down."""
        return None if self._kernel is None else self._kernel.node

    def waits(self) -> list[str]:
        """What its node waits for, for people who look at a failed run: inputs, timers, and what the node says."""
        if self._kernel is None:
            return ["it is down"]
        of_node = getattr(self._kernel.node, "waits", list)
        return [*(["it is paused"] if self._is_paused else []), *self._kernel.waits(), *of_node()]

    @property
    def log_id(self) -> str | None:
        """The id that its node has given to its log, if it is such a node."""
        node = None if self._kernel is None else self._kernel.node
        return getattr(getattr(node, "inner", node), "log_id", None)  # gossip is around a broker

    @property
    def log(self) -> SimulatedLog:
        """Its disk, which is there when something is first stored on it."""
        if self._log is None:
            self._log = SimulatedLog(self.clock, self.rng, self.records)
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
        return self.machine_clock.now

    @property
    def clock_ahead_seconds(self) -> float:
        """How far this machine's clock is off. Set it while the node is down: a node's clock never jumps."""
        return self.machine_clock.ahead_seconds

    @clock_ahead_seconds.setter
    def clock_ahead_seconds(self, seconds: float) -> None:
        self.machine_clock.ahead_seconds = seconds

    def perform_with(self, effect: type[_EffectType], performer: Callable[[_EffectType], None]) -> None:
        """From now on such effects are performed so."""
        self._performers[effect] = performer
        if self._kernel is not None:
            self._kernel.provide(effect, performer)

    def start(self) -> None:
        """Make the node from what the log holds, and let others connect. If the log cannot be read, it stays down."""
        if self._life == 0:
            self.machine_clock.trust()
        node = self._make_node()
        if self._log is not None and isinstance(node, LoggingNode):
            for record in self._log.read():
                node.recover(record)
        self._kernel = kernel = Kernel(node)
        options = LinkOptions(self.identify, self.lines, self.codecs, self.datagram_lines)
        self._links = SimulatedLinks(self.name, self._network, options, self._tell_together)
        self._links.provide(kernel)
        kernel.provide(Append, self._append)
        kernel.provide(Fetch, self._fetch)
        kernel.provide(Warn, lambda _: None)
        for effect, performer in self._performers.items():
            kernel.provide(effect, performer)
        self._links.open()
        self.tell(Started())

    def crash(self) -> None:
        """The machine stops here and now."""
        self._life += 1
        self._kernel = None
        self._is_paused = False
        if self._links is not None:
            self._links.crash()
        if self._log is not None:
            self._log.crash()
        if self._service is not None:
            self._service.clear()
        self.machine_clock.cancel_alarm()

    @property
    def is_paused(self) -> bool:
        """Whether it is up, but handles nothing now."""
        return self._is_paused

    def pause(self) -> None:
        """Handle nothing from now on, until `resume`. The sockets stay open, and what comes waits in them."""
        if self._kernel is None or self._is_paused:
            return
        self._is_paused = True
        self._network.pause(self.name)
        if self._log is not None:
            self._log.pause()
        if self._service is not None:
            self._service.pause()

    def resume(self) -> None:
        """Handle all that came meanwhile, and then the timers that were due, late."""
        if not self._is_paused:
            return
        self._network.resume(self.name)  # it is told what has waited, but handles nothing yet
        self._is_paused = False
        if self._log is not None:
            self._log.resume()
        if self._service is not None:
            self._service.resume()
        self._round()

    # A machine that takes time

    def serve_in(self, service_seconds: Callable[[Input], float]) -> None:
        """From now on each input keeps this machine busy for some time. What the log answers takes none."""
        if self._service is None:
            self._service = ServiceQueue(self.clock, service_seconds, self._handle_served)
        self._service.service_seconds = service_seconds

    @property
    def has_service_time(self) -> bool:
        """Whether inputs keep this machine busy for some time."""
        return self._service is not None

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
        while kernel is not None and not self._is_paused:
            kernel.run_round(self.machine_clock.now, with_timers=self._service is None)
            if kernel is not self._kernel or not kernel.has_inputs:
                break
        self._is_in_round = False
        self._set_alarm()
        self.on_round()

    def _set_alarm(self) -> None:
        """Be woken when the first timer is due. An alarm that comes too early is set again when it rings."""
        at = None if self._kernel is None or self._is_paused else self._kernel.next_timer_at
        if at is not None:
            self.machine_clock.wake_by(at, self._alarm_rang)

    def _alarm_rang(self) -> None:
        if self._service is not None:
            self._service.add(self._take_due_timer)  # the alarm stands until then, so that no second one is set
            return
        self.machine_clock.cancel_alarm()
        at = None if self._kernel is None else self._kernel.next_timer_at
        if at is None or at > self.now:  # the timer was moved
            self._set_alarm()
        else:
            self._round()  # unless it is paused

    def _take_due_timer(self) -> Input | None:
        """The timer that is due, when this machine comes to it; None: the node moved it meanwhile."""
        self.machine_clock.cancel_alarm()
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

    def snapshot_disk(self) -> DiskSnapshot:
        """What its disk would hold if the machine lost its power now; it may be up."""
        return self.log.snapshot()

    def wipe_disk(self) -> None:
        """Its log is empty from now on. It has to be down."""
        self._check_down()
        self.log.wipe()

    def restore_disk(self, snapshot: DiskSnapshot) -> None:
        """Its log is again as it was at an earlier moment. It has to be down."""
        self._check_down()
        self.log.restore(snapshot)

    def _check_down(self) -> None:
        if self.is_up:
            raise RuntimeError(f"{self.name!r} is up: crash it first, then change its disk")

    def _append(self, effect: Append) -> None:
        self.log.on_stored = self._stored
        self.log.on_failure = lambda number, reason: self._tell_first(NotStored(number, reason))
        self.log.append(effect.number, effect.record, is_durable=effect.is_durable)

    def _stored(self, number: int) -> None:
        self._tell_first(Stored(number, self.log.first_position))
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
            fetched = self.log.fetch(effect.reader, effect.stream, effect.after, effect.part)
            self.later(self.read_seconds * self.rng.random(), lambda: self.tell(fetched))

        self.later(self.read_seconds * self.rng.random(), read)
