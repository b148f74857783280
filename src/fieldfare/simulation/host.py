"""A host under a virtual clock: it runs any node as the asyncio host does, and can crash it and bring it back.

A step is one message to the node, and the effects that come back. A crash ends a *life*: whatever was under way for it,
timers, flushes, answers, finds another life or none, and does nothing. Only the log goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec

from fieldfare.messages import (
    Append,
    ClientFrame,
    Close,
    Closed,
    Effect,
    Fetch,
    Identity,
    Input,
    Node,
    NotStored,
    Opened,
    Received,
    Send,
    SetTimer,
    Started,
    Stored,
    TimerDue,
    stream_of,
)
from fieldfare.simulation.clock import Clock, Timer
from fieldfare.simulation.disk import SimulatedLog
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream

EVERYTHING = Identity("simulated", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})

_EffectType = TypeVar("_EffectType")
_Arguments = ParamSpec("_Arguments")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ClientFrame).decode_lines


class SimulatedHost:
    """A machine with one node on it, by name on a network. `make_node` makes the node anew at each start.

    Effects that reach beyond this machine are performed by others, who are named with `perform_with`.
    """

    def __init__(self, name: str, make_node: Callable[[], Node], network: Network, rng: random.Random) -> None:
        self.name = name
        self.log = SimulatedLog(network.clock, rng)
        self.identify: Callable[[str], Identity] = lambda _place: EVERYTHING
        self.clock_ahead_seconds = 0.0  # how far this machine's clock is off; a node's clock never jumps while it lives
        self.checkpoint_records = 1000  # so many records make a checkpoint
        self.read_seconds = 0.001
        self._make_node = make_node
        self._network = network
        self._rng = rng
        self._node: Node | None = None
        self._life = 0
        self._opened = 0
        self._streams: dict[str, Stream] = {}
        self._timers: dict[str, Timer] = {}
        self._outgoing: dict[str, list[bytes]] = {}
        self._performers: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Close: self._close,
            Append: lambda effect: self.log.append(effect.number, effect.record, is_durable=effect.is_durable),
            Fetch: self._fetch,
            SetTimer: self._set_timer,
        }

    @property
    def is_up(self) -> bool:
        """Whether its node lives."""
        return self._node is not None

    @property
    def clock(self) -> Clock:
        """The clock of the world, which is not what the node is told: that is `now`."""
        return self._network.clock

    @property
    def now(self) -> float:
        """The time by this machine's own clock."""
        return self.clock.now + self.clock_ahead_seconds

    def perform_with(self, effect: type[_EffectType], performer: Callable[[_EffectType], None]) -> None:
        """From now on such effects are performed so."""
        self._performers[effect] = performer

    def start(self) -> None:
        """Make the node from what the log holds, and let clients connect."""
        self._node = node = self._make_node()
        for record in self.log.read():
            node.recover(record)
        self.log.on_stored = self._stored
        self.log.on_failure = lambda number, reason: self.tell(NotStored(number, reason))
        self._network.listen(self.name, self._accept)
        self.tell(Started())

    def crash(self) -> None:
        """The machine stops here and now."""
        self._life += 1
        self._node = None
        self._network.crash(self.name)
        self.log.crash()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._streams.clear()
        self._outgoing.clear()

    def tell(self, message: Input) -> None:
        """One step: the node handles a message, and what it asks for is done. A node that is down hears nothing."""
        if self._node is None:
            return
        for effect in self._node.handle(message, self.now):
            self._perform(effect)
        outgoing, self._outgoing = self._outgoing, {}
        for connection, frames in outgoing.items():
            if connection in self._streams:
                self._streams[connection].send(b"\n".join(frames))

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

    def _perform(self, effect: Effect) -> None:
        self._performers[type(effect)](effect)

    # Connections

    def _accept(self, stream: Stream) -> None:
        self._opened += 1
        connection = f"{stream.there}-{self._opened}"
        self._streams[connection] = stream
        stream.on_message = lambda frames: self._receive(connection, frames)
        stream.on_close = lambda _reason: self._closed(connection)
        self.tell(Opened(connection, self.identify(stream.there)))

    def _receive(self, connection: str, message: bytes) -> None:
        for frame in _decode(message):
            if connection in self._streams:
                self.tell(Received(connection, frame))

    def _closed(self, connection: str) -> None:
        if self._streams.pop(connection, None) is not None:
            self.tell(Closed(connection))

    def _send(self, effect: Send) -> None:
        self._outgoing.setdefault(effect.connection, []).append(_encode(effect.frame))

    def _close(self, effect: Close) -> None:
        stream = self._streams.pop(effect.connection, None)
        if stream is not None:
            if frames := self._outgoing.pop(effect.connection, None):
                stream.send(b"\n".join(frames))
            stream.close(effect.reason)
            self.later(0.0, lambda: self.tell(Closed(effect.connection)))

    # The log and timers

    def _stored(self, number: int) -> None:
        self.tell(Stored(number))
        if self._node is not None and self.log.appended_since_checkpoint >= self.checkpoint_records:
            self.log.checkpoint(self._node.checkpoint())
            self.log.trim(self.now)

    def _fetch(self, effect: Fetch) -> None:
        def read() -> None:
            fetched = self.log.fetch(effect.reader, stream_of(effect.tenant, effect.topic), effect.after)
            self.later(self.read_seconds * self._rng.random(), lambda: self.tell(fetched))

        self.later(self.read_seconds * self._rng.random(), read)

    def _set_timer(self, effect: SetTimer) -> None:
        def due() -> None:
            del self._timers[effect.key]
            self.tell(TimerDue(effect.key))

        if effect.key in self._timers:
            self._timers[effect.key].cancel()
        self._timers[effect.key] = self.clock.at(effect.at - self.clock_ahead_seconds, due)
