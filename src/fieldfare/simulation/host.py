"""A host under a virtual clock: it runs any node as the asyncio host does, and can crash it and bring it back.

The kernel is the same. An input is handled at once, or, where inputs take time, when those before it have been served:
so queues and utilisation appear. A crash ends a *life*: whatever was under way for it, timers, flushes, answers, finds
another life or none, and does nothing. Only the log goes on.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from fieldfare.kernel import Kernel
from fieldfare.messages import (
    Append,
    Close,
    Closed,
    DatagramReceived,
    Dial,
    Effect,
    Fetch,
    Identity,
    Input,
    LinkIdentity,
    LoggingNode,
    Node,
    NotStored,
    Opened,
    Received,
    Send,
    SendDatagram,
    Started,
    Stored,
    Unreachable,
)
from fieldfare.messages.lines import EDGE_LINES, LineCodec
from fieldfare.simulation.clock import Clock, Timer
from fieldfare.simulation.disk import SimulatedLog
from fieldfare.simulation.history import TENANT
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream

EVERYTHING = Identity(TENANT, {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})

_EffectType = TypeVar("_EffectType", bound=Effect)
_Arguments = ParamSpec("_Arguments")


class SimulatedHost:
    """A machine with one node on it, by name on a network. `make_node` makes the node anew at each start.

    Effects that reach beyond this machine are performed by others, who are named with `perform_with`.
    """

    def __init__(self, name: str, make_node: Callable[[], Node], network: Network, rng: random.Random) -> None:
        self.name = name
        self.identify: Callable[[str], LinkIdentity] = lambda _place: EVERYTHING
        self.lines: LineCodec[Any, Any] = EDGE_LINES  # the wire protocol of this node's links
        self.clock_ahead_seconds = 0.0  # how far this machine's clock is off; a node's clock never jumps while it lives
        self.checkpoint_records = 1000  # so many records make a checkpoint
        self.read_seconds = 0.001
        self.service_seconds: Callable[[Input], float] | None = None  # how long the machine is busy with an input
        self.busy_seconds = 0.0  # all together
        self._make_node = make_node
        self._network = network
        self._rng = rng
        self._kernel: Kernel | None = None
        self._log: SimulatedLog | None = None
        self._performers: dict[type[Effect], Callable[[Any], object]] = {}
        self._life = 0
        self._opened = 0
        self._streams: dict[str, Stream] = {}
        self._outgoing: dict[str, list[Any]] = {}
        self._queue: deque[Input] | None = None  # those that wait to be served, while one is
        self._alarm: Timer | None = None
        self._alarm_at: float | None = None
        self._is_in_round = False

    @property
    def is_up(self) -> bool:
        """Whether its node lives."""
        return self._kernel is not None

    @property
    def log(self) -> SimulatedLog:
        """Its disk, which is there when something is first stored on it."""
        if self._log is None:
            self._log = SimulatedLog(self.clock, self._rng)
        return self._log

    @property
    def clock(self) -> Clock:
        """The clock of the world, which is not what the node is told: that is `now`."""
        return self._network.clock

    @property
    def now(self) -> float:
        """The time by this machine's own clock."""
        return self.clock.now + self.clock_ahead_seconds

    @property
    def queue_length(self) -> int:
        """How many inputs wait to be served."""
        return len(self._queue) if self._queue is not None else 0

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
        for effect, performer in (*self._own_performers().items(), *self._performers.items()):
            kernel.provide(effect, performer)
        self._network.listen(self.name, self._accept)
        self._network.receive(self.name, self._datagram)
        self.tell(Started())

    def _own_performers(self) -> dict[type[Effect], Callable[[Any], object]]:
        return {
            Send: self._send,
            Close: self._close,
            Dial: self._dial,
            SendDatagram: lambda effect: self._network.send(self.name, effect.address, effect.message),
            Append: self._append,
            Fetch: self._fetch,
        }

    def crash(self) -> None:
        """The machine stops here and now."""
        self._life += 1
        self._kernel = None
        self._network.crash(self.name)
        if self._log is not None:
            self._log.crash()
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._alarm_at = self._queue = None
        self._streams.clear()
        self._outgoing.clear()

    # Rounds

    def tell(self, message: Input) -> None:
        """Something happened. A node that is down hears nothing."""
        if self._kernel is None:
            return
        if self.service_seconds is not None:
            self._serve(message)
            return
        self._kernel.tell(message)
        if not self._is_in_round:
            self._round()

    def _serve(self, message: Input) -> None:
        """One input at a time, each for as long as it takes."""
        if self._queue is not None:
            self._queue.append(message)
            return
        self._queue = deque([message])
        self._serve_next()

    def _serve_next(self) -> None:
        if not self._queue or self.service_seconds is None:
            self._queue = None
            return
        message = self._queue.popleft()
        seconds = self.service_seconds(message)
        self.busy_seconds += seconds

        def served() -> None:
            if self._kernel is not None:
                self._kernel.tell(message)
                self._round()
            self._serve_next()

        self.later(seconds, served)

    def _round(self) -> None:
        """A round, and another one for what was answered at its end."""
        kernel = self._kernel
        self._is_in_round = True
        while kernel is not None and kernel is self._kernel:
            kernel.run_round(self.now)
            outgoing, self._outgoing = self._outgoing, {}
            for link, frames in outgoing.items():
                self._transmit(link, frames)
            if not kernel.has_inputs:
                break
        self._is_in_round = False
        self._set_alarm()

    def _set_alarm(self) -> None:
        at = None if self._kernel is None else self._kernel.next_timer_at
        if at == self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = None if at is None else self.clock.at(at - self.clock_ahead_seconds, self._alarm_rang)

    def _alarm_rang(self) -> None:
        self._alarm = self._alarm_at = None
        self._round()

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

    # Links and datagrams

    def _accept(self, stream: Stream) -> None:
        self._opened += 1
        self._open(f"{stream.there}-{self._opened}", stream)

    def _dial(self, effect: Dial) -> None:
        self._network.connect(
            self.name,
            effect.address,
            self.in_this_life(lambda stream: self._open(effect.link, stream)),
            self.in_this_life(lambda reason: self.tell(Unreachable(effect.link, reason))),
        )

    def _open(self, link: str, stream: Stream) -> None:
        self._streams[link] = stream
        stream.on_message = lambda message: self._receive(link, message)
        stream.on_close = lambda _reason: self._closed(link)
        self.tell(Opened(link, self.identify(stream.there)))

    def _receive(self, link: str, message: bytes) -> None:
        for frame in self.lines.decode(message):
            if link in self._streams:
                self.tell(Received(link, frame))

    def _closed(self, link: str) -> None:
        if self._streams.pop(link, None) is not None:
            self.tell(Closed(link))

    def _send(self, effect: Send) -> None:
        if effect.link in self._streams:
            self._outgoing.setdefault(effect.link, []).append(effect.frame)

    def _transmit(self, link: str, frames: list[Any]) -> None:
        stream = self._streams.get(link)
        if stream is not None:
            for message in self.lines.encode(frames):
                stream.send(message)

    def _close(self, effect: Close) -> None:
        if frames := self._outgoing.pop(effect.link, None):
            self._transmit(effect.link, frames)
        stream = self._streams.pop(effect.link, None)
        if stream is not None:
            stream.close(effect.reason)
            self.tell(Closed(effect.link))

    def _datagram(self, source: str, message: Any) -> None:
        self.tell(DatagramReceived(source, message))

    # The log

    def _append(self, effect: Append) -> None:
        self.log.on_stored = self._stored
        self.log.on_failure = lambda number, reason: self._tell_first(NotStored(number, reason))
        self.log.append(effect.number, effect.record, is_durable=effect.is_durable)

    def _stored(self, number: int) -> None:
        self._tell_first(Stored(number))
        node = self._kernel.node if self._kernel is not None else None
        if isinstance(node, LoggingNode) and self.log.appended_since_checkpoint >= self.checkpoint_records:
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
            self.later(self.read_seconds * self._rng.random(), lambda: self.tell(fetched))

        self.later(self.read_seconds * self._rng.random(), read)
