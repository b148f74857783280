"""The smallest edge that keeps its promises, and a connection to it that breaks wherever a test wants.

Every condition matches every event. An event with the attribute `bad` is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw

from fieldfare.client.outputs import Completed, Delivered, Failed, Key, LogChanged, Noticed, Output, Reconnect, Transmit
from fieldfare.client.session import ClientSession
from fieldfare.messages import (
    Accepted,
    Ack,
    AckEach,
    Attach,
    ClientFrame,
    DeclareTopic,
    Deliver,
    Delivery,
    Detach,
    Done,
    EdgeFrame,
    EdgesPinged,
    List,
    Listed,
    Nack,
    Publish,
    Refused,
    SetWindow,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)

BAD = b'{"bad":1}'


@dataclass
class Cursor:
    id: str
    topic: str
    acked: int
    window: int
    is_durable: bool
    sent: int = -1
    in_flight: deque[int] = field(default_factory=deque)


@dataclass
class ModelEdge:
    """One connection at a time."""

    log: list[tuple[str, bytes]] = field(default_factory=list)  # topic and event; the position is the place
    next_numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    attached: set[str] = field(default_factory=set)
    is_busy: bool = False
    log_id: str = ""  # if it has one, it is told to clients that ask for it
    names: Iterable[int] = field(default_factory=count)

    def disconnect(self) -> None:
        self.attached.clear()
        self.cursors = {name: cursor for name, cursor in self.cursors.items() if cursor.is_durable}

    def handle(self, frame: ClientFrame) -> list[EdgeFrame]:
        answer: EdgeFrame | None = None
        match frame:
            case EdgesPinged() | AckEach() | Nack():
                pass
            case Ack() | Detach():
                self._tell(frame)
            case _ if self.is_busy:
                answer = Refused(frame.ref, "busy", "later")
            case Publish():
                answer = self._publish(frame)
            case Subscribe() | Attach():
                answer = self._subscribe(frame)
            case Unsubscribe():
                known = self.cursors.pop(frame.subscription, None)
                self.attached.discard(frame.subscription)
                answer = (
                    Unsubscribed(frame.ref, frame.subscription) if known else Refused(frame.ref, "unknown", "which?")
                )
            case SetWindow():
                if cursor := self.cursors.get(frame.subscription):
                    cursor.window = frame.window
                answer = Done(frame.ref)
            case DeclareTopic():
                answer = Done(frame.ref)
            case List():
                answer = Listed(frame.ref, [{"topic": topic} for topic in sorted({topic for topic, _ in self.log})])
        return ([] if answer is None else [answer]) + self.deliveries()

    def _publish(self, frame: Publish) -> Accepted | Refused:
        assert frame.publisher is not None
        assert frame.sequence is not None
        key = frame.topic, frame.publisher
        expected, events = self.next_numbers.get(key, 0), [bytes(event) for event in frame.events]
        if BAD in events:
            return Refused(frame.ref, "invalid", "bad")
        if frame.sequence > expected:
            return Refused(frame.ref, "sequence", "a gap", expected)
        duplicates = min(len(events), expected - frame.sequence)
        self.log += [(frame.topic, event) for event in events[duplicates:]]
        self.next_numbers[key] = max(expected, frame.sequence + len(events))
        return Accepted(frame.ref, len(events), duplicates)

    def _subscribe(self, frame: Subscribe | Attach) -> Subscribed | Refused:
        last = len(self.log) - 1
        if isinstance(frame, Attach) or frame.name in self.cursors:
            name = frame.subscription if isinstance(frame, Attach) else str(frame.name)
            if name not in self.cursors:
                return Refused(frame.ref, "unknown", "which?")
            is_new = False
        else:
            name, is_new = frame.name or f"model.{next(iter(self.names))}", True
            self.cursors[name] = Cursor(name, frame.topic, last, frame.window, frame.name is not None)
        cursor = self.cursors[name]
        if frame.after is not None and frame.log in (None, "", self.log_id):
            cursor.acked = min(frame.after, last)
        cursor.window, cursor.sent = frame.window, cursor.acked
        cursor.in_flight.clear()
        self.attached.add(name)
        return Subscribed(frame.ref, name, cursor.acked, is_new, "" if frame.log is None else self.log_id)

    def _tell(self, frame: Ack | Detach) -> None:
        cursor = self.cursors.get(frame.subscription)
        if cursor is not None and isinstance(frame, Ack):
            cursor.acked = max(cursor.acked, frame.position)
            while cursor.in_flight and cursor.in_flight[0] <= frame.position:
                cursor.in_flight.popleft()
        elif isinstance(frame, Detach):
            self.attached.discard(frame.subscription)

    def deliveries(self) -> list[EdgeFrame]:
        frames: list[EdgeFrame] = []
        for name in sorted(self.attached):
            cursor = self.cursors[name]
            events = []
            while cursor.sent < len(self.log) - 1 and len(cursor.in_flight) < cursor.window:
                cursor.sent += 1
                topic, event = self.log[cursor.sent]
                if topic == cursor.topic:
                    cursor.in_flight.append(cursor.sent)
                    delivery = Delivery(cursor.sent, f"{self.log_id}e{cursor.sent}", 0.0, Raw(event), None)
                    events.append(Raw(msgspec.json.encode(delivery)))
            if events:
                frames.append(Deliver(name, events))
        return frames


@dataclass
class World:
    """A session, a model edge, and frames on their way between them."""

    session: ClientSession
    edge: ModelEdge = field(default_factory=ModelEdge)
    now: float = 0.0
    is_up: bool = False
    to_edge: deque[ClientFrame] = field(default_factory=deque)
    to_client: deque[EdgeFrame] = field(default_factory=deque)
    completed: dict[Key, Any] = field(default_factory=dict)
    failed: dict[Key | None, Exception] = field(default_factory=dict)
    given: dict[Key, list[Delivery]] = field(default_factory=dict)
    noticed: list[Noticed] = field(default_factory=list)
    logs_changed: list[tuple[Key, str]] = field(default_factory=list)

    def do(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Transmit():
                    assert self.is_up
                    self.to_edge.append(output.frame)
                case Delivered():
                    assert output.events
                    self.given.setdefault(output.subscription, []).extend(output.events)
                case Completed():
                    assert output.key not in self.completed
                    self.completed[output.key] = output.answer
                case Failed():
                    self.failed[output.key] = output.error
                case Noticed():
                    self.noticed.append(output)
                case LogChanged():
                    self.logs_changed.append((output.subscription, output.log))
                case Reconnect():
                    self.drop()

    def connect(self) -> None:
        if not self.is_up:
            self.is_up = True
            self.do(self.session.connected(self.now, self.edge.log_id or None))

    def drop(self) -> None:
        self.is_up = False
        self.to_edge.clear()
        self.to_client.clear()
        self.edge.disconnect()
        self.do(self.session.disconnected(self.now))

    def up(self) -> bool:
        """The next frame reaches the edge."""
        if self.to_edge:
            self.to_client += self.edge.handle(self.to_edge.popleft())
            return True
        return False

    def down(self) -> bool:
        """The next frame reaches the client."""
        if self.to_client:
            self.do(self.session.received(self.to_client.popleft(), self.now))
            return True
        return False

    def wait(self, seconds: float) -> None:
        """Time passes, and timers are called when they are due."""
        until = self.now + seconds
        while (at := self.session.next_timer) is not None and at <= until:
            self.now = max(self.now, at)
            self.do(self.session.timer(self.now))
        self.now = until

    def settle(self) -> None:
        """All that can happen without time happens."""
        self.connect()
        while self.up() or self.down():
            pass
