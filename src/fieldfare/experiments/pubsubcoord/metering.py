"""What an input costs a broker, measured in CPU time around the real nodes of a small simulated deployment.

Under the clock are: decoding the frame that came, the node's work, encoding the frames and records that it makes, and,
of what is stored first, the node's work when that is stored. What a host adds for each message, such as TLS, sockets
and the event loop, is measured apart (`live.py`).
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from fieldfare.client import wire
from fieldfare.messages import (
    EDGE_RECORDS,
    Append,
    BrokerFrame,
    BrokerIdentity,
    Closed,
    Effect,
    Input,
    LoggingNode,
    Node,
    Opened,
    Publish,
    Ranges,
    Received,
    Send,
    Stored,
    TimerDue,
)
from fieldfare.messages.broker_codec import BROKER_FRAMES
from fieldfare.messages.lines import EDGE_LINES


class Size(NamedTuple):
    """What the cost of an input depends on."""

    events: int = 0
    receivers: int = 0  # edges that want a publication, or are named by a message


class Cost(NamedTuple):
    """What one input took, and how many messages it made the broker send."""

    seconds: float
    messages: int


def kind_of(message: Input) -> str:
    """Inputs of the same kind cost alike: by the type of the frame, or of the timer."""
    match message:
        case Received(_, frame):
            return type(frame).__name__
        case TimerDue(key):
            return f"TimerDue {getattr(key, 'name', type(key).__name__)}"
    return type(message).__name__


def size_of(message: Input) -> Size:
    """What can be seen of an input's size; how many receivers a publication has, cannot."""
    match message:
        case Received(_, Publish() as frame):
            return Size(len(frame.events))
        case Received(_, Ranges() as frame):
            return Size(len(frame.events), len(frame.shares))
    return Size()


class Meter:
    """Costs by kind and size."""

    def __init__(self) -> None:
        self.is_on = False
        self.receivers = 0  # of the publications that are being made
        self.costs: defaultdict[tuple[str, Size], list[Cost]] = defaultdict(list)

    def note(self, kind: str, size: Size, cost: Cost) -> None:
        """One input was handled."""
        if self.is_on:
            if kind == "Publish":
                size = size._replace(receivers=self.receivers)
            self.costs[kind, size].append(cost)


class _Storing:
    """An input whose records are on their way to the log; it is noted when they are stored."""

    __slots__ = ("cost", "kind", "number", "size")

    def __init__(self, number: int, kind: str, size: Size, cost: Cost) -> None:
        self.number, self.kind, self.size, self.cost = number, kind, size, cost


class MeteredNode:
    """A node that tells a meter what each input costs."""

    def __init__(self, node: Node, meter: Meter) -> None:
        self._node, self._meter = node, meter
        self._brokers: set[str] = set()  # links to other brokers
        self._storing: deque[_Storing] = deque()

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """As the node does."""
        decoding = self._decoding_seconds(message)
        begin = time.process_time()
        effects = self._node.handle(message, now)
        handling = time.process_time() - begin
        match message:
            case Opened(link, BrokerIdentity()):
                self._brokers.add(link)
            case Closed(link):
                self._brokers.discard(link)
        encoding, messages = self._encoding(effects)
        cost = Cost(decoding + handling + encoding, messages)
        if isinstance(message, Stored):
            self._note_stored(message.number, cost)
            return effects
        numbers = [effect.number for effect in effects if isinstance(effect, Append)]
        kind, size = kind_of(message), size_of(message)
        if numbers:
            self._storing.append(_Storing(numbers[-1], kind, size, cost))
        else:
            self._meter.note(kind, size, cost)
        return effects

    def _note_stored(self, number: int, cost: Cost) -> None:
        """Inputs whose records were flushed together share what that costs."""
        stored = []
        while self._storing and self._storing[0].number <= number:
            stored.append(self._storing.popleft())
        for each in stored:
            share = Cost(each.cost.seconds + cost.seconds / len(stored), each.cost.messages + cost.messages)
            self._meter.note(each.kind, each.size, share)

    def _decoding_seconds(self, message: Input) -> float:
        if not isinstance(message, Received):
            return 0.0
        frame: Any = message.frame
        if isinstance(frame, BrokerFrame):
            encoded = b"".join(BROKER_FRAMES.encode([frame]))  # type: ignore[list-item]  # it is one of them
            return _seconds(lambda: BROKER_FRAMES.decode(encoded))
        encoded = b"".join(wire.encode([frame]))
        return _seconds(lambda: EDGE_LINES.decode(encoded))

    def _encoding(self, effects: Sequence[Effect]) -> tuple[float, int]:
        """How long it takes to encode what a round sends and stores, and over how many links it sends."""
        frames: dict[str, list[Any]] = {}
        for effect in effects:
            if isinstance(effect, Send):
                frames.setdefault(effect.link, []).append(effect.frame)
        records = [effect.record for effect in effects if isinstance(effect, Append)]

        def encode() -> None:
            for link, sent in frames.items():
                codec: Any = BROKER_FRAMES if link in self._brokers else EDGE_LINES
                for _ in codec.encode(sent):
                    pass
            for record in records:
                EDGE_RECORDS.encode(record)

        return _seconds(encode), len(frames)


class MeteredLoggingNode(MeteredNode):
    """The same of a node that keeps a log."""

    def __init__(self, node: LoggingNode, meter: Meter) -> None:
        super().__init__(node, meter)
        self._logging = node

    def recover(self, record: msgspec.Struct) -> None:
        """As the node does."""
        self._logging.recover(record)

    def checkpoint(self) -> Sequence[Any]:
        """As the node does."""
        return self._logging.checkpoint()


def metered(node: Node, meter: Meter) -> MeteredNode:
    """A node that does the same, and tells a meter what it costs."""
    return MeteredLoggingNode(node, meter) if isinstance(node, LoggingNode) else MeteredNode(node, meter)


def _seconds(action: Any) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin
