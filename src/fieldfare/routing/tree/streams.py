"""Events on their way through a broker: each origin's events of a topic are one stream, which comes from one side.

A broker matches what comes with what every other side wants, and passes it on there at once. What a side does not want
is passed over a little later, many ranges in one. Nothing is stored on the way: a broker remembers how far each stream
has come and how far it was passed on to each side. Where a stream does not continue, after a crash or because a window
was full, the next range begins later than the last one ended. Receivers see that, and ask the origin's log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from fieldfare.messages import Delivery, ExportedEvent, LogId, Position, Stream, TopicKey, Version, all_attributes
from fieldfare.placement.placement_frames import SessionTag, TraceId
from fieldfare.routing.tree.advertisements import LOCAL
from fieldfare.routing.tree.wants import TopicWants

_delivery = msgspec.json.Decoder(Delivery)


@dataclass(slots=True)
class Passed:
    """How far a stream was passed on to a side."""

    upto: Position
    version: Version  # of what is not passed on yet, because the side did not want it
    pending: Position  # up to here


@dataclass(slots=True, eq=False)
class OriginStream:
    """The events of one origin, as they pass this broker."""

    origin: LogId
    side: str  # where they come from
    seen: Position | None = None  # None: nothing has come yet, not even where it begins
    passed: dict[str, Passed] = field(default_factory=dict)


Traces: TypeAlias = Mapping[Position, TraceId | SessionTag]  # of events, by their positions


@dataclass(frozen=True, slots=True)
class PassingEvents:
    """Events that a broker passes on."""

    topic: TopicKey
    side: str  # where they come from
    events: Sequence[ExportedEvent]
    rows: Sequence[dict[str, Any]]
    wanted: Mapping[str, Sequence[int]]  # by side, the numbers of those that go there
    traces: Traces  # that they carry


@dataclass(frozen=True, slots=True)
class StreamPorts:
    """What streams need of their broker."""

    send: Callable[[str, Stream], bool]  # to a side; False: its window is full
    may_pass: Callable[[LogId, str], bool]  # whether events of an origin may be passed on to a side yet
    begun: Callable[[OriginStream], None]  # it is known now where a stream is
    traced: Callable[[PassingEvents], Traces]  # which of the events that pass are traced
    passed: Callable[[], None]  # they have been passed on


@dataclass(frozen=True, slots=True)
class _PassedOn:
    """The part of a range that one side wants."""

    events: list[ExportedEvent]
    traces: Traces

    def traced(self) -> tuple[list[tuple[Position, TraceId]], list[tuple[Position, SessionTag]]]:
        """The traces that its events carry."""
        if not self.traces:
            return [], []
        own = [(event.position, self.traces[event.position]) for event in self.events if event.position in self.traces]
        return (
            [(position, tag) for position, tag in own if isinstance(tag, TraceId)],
            [(position, tag) for position, tag in own if isinstance(tag, SessionTag)],
        )


class TopicStreams:
    """The streams of one topic at one broker."""

    def __init__(self, topic: TopicKey, wants: TopicWants, ports: StreamPorts) -> None:
        self._topic, self._wants, self._ports = topic, wants, ports
        self._streams: dict[LogId, OriginStream] = {}
        # Streams, each with a side to which something is to be passed over, or whose window was full; in order.
        self._pending: dict[tuple[LogId, str], None] = {}

    def get(self, origin: LogId) -> OriginStream | None:
        """The stream of an origin, if it is known where it is."""
        stream = self._streams.get(origin)
        return stream if stream is not None and stream.seen is not None else None

    # Where they come from

    def begin(self, origin: LogId, side: str) -> None:
        """The events of an origin come from this side."""
        stream = self._streams.get(origin)
        if stream is None or stream.side != side:
            self._streams[origin] = OriginStream(origin, side)

    def end(self, origin: LogId) -> None:
        """An origin can no longer be reached."""
        self._streams.pop(origin, None)
        self._pending = {item: None for item in self._pending if item[0] != origin}

    def receive(self, side: str, frame: Stream) -> None:
        """A range came."""
        stream = self._streams.get(frame.origin)
        if stream is None or stream.side != side:
            return
        is_new = stream.seen is None
        if stream.seen is None or frame.after > stream.seen:
            stream.seen = frame.after
            self._tell_of_jump(stream, frame)
        if frame.upto > stream.seen or frame.lost_upto >= 0 or frame.expired_upto >= 0:
            self._pass_on(stream, side, frame)
        if is_new:
            self._ports.begun(stream)

    def _tell_of_jump(self, stream: OriginStream, frame: Stream) -> None:
        """A stream goes on later than it came to: sides hear of that even if they want nothing of what follows."""
        for side in self._others(stream):
            if (passed := stream.passed.get(side)) is not None and passed.upto < frame.after:
                self._settle(stream, side)
                if self._pass_over(stream, side, frame.after, frame.after, 0):
                    stream.passed[side] = Passed(frame.after, 0, frame.after)
                else:
                    self._skip(stream, side)

    # Where they go

    def _others(self, stream: OriginStream) -> list[str]:
        return [side for side in self._wants.sides if side != stream.side]

    def _version(self, stream: OriginStream, version: Version, side: str) -> Version:
        """What a side may rely on in a range of this version."""
        if stream.side == LOCAL:
            return self._wants.version_of(side)
        return self._wants.included(stream.side, version, side)

    def _pass_on(self, stream: OriginStream, side: str, frame: Stream) -> None:
        seen = stream.seen if stream.seen is not None else frame.after
        events = [event for event in frame.events if event.position > seen]
        rows = [attributes_of(event) for event in events]
        matched = self._wants.match(rows) if events else {}
        wanted = {
            other: matched.get(other, [])
            for other in self._others(stream)
            if self._ports.may_pass(stream.origin, other)
        }
        traces: Traces = dict([*frame.traces, *frame.sessions])
        if events:
            traces = self._ports.traced(PassingEvents(self._topic, side, events, rows, wanted, traces))
        stream.seen = max(seen, frame.upto)
        for other in self._others(stream):
            if other in wanted:
                self._offer(stream, other, frame, seen, _PassedOn([events[number] for number in wanted[other]], traces))
            else:
                stream.passed.pop(other, None)
        if traces:
            self._ports.passed()

    def _offer(self, stream: OriginStream, side: str, frame: Stream, after: Position, part: _PassedOn) -> None:
        version = self._version(stream, frame.version, side)
        passed = stream.passed.get(side)
        if passed is None:
            passed = stream.passed[side] = Passed(after, version, after)
        elif passed.pending > passed.upto and passed.version != version:
            self._settle(stream, side)
        passed.version = version
        if part.events or frame.lost_upto >= 0 or frame.expired_upto >= 0:
            gone = frame.lost_upto, frame.expired_upto
            range_ = Stream(
                self._topic, stream.origin, passed.upto, frame.upto, version, part.events, *gone, *part.traced()
            )
            is_sent = self._ports.send(side, range_)
            passed.upto = passed.pending = max(passed.upto, frame.upto)
            if not is_sent:
                self._skip(stream, side)
        else:
            passed.pending = max(passed.pending, frame.upto)
            self._pending[stream.origin, side] = None

    def _skip(self, stream: OriginStream, side: str) -> None:
        """The window of a side is full: the next range begins later, by which the side sees that some are missing."""
        stream.passed.pop(side, None)
        self._pending[stream.origin, side] = None

    # Passing over

    def _pass_over(self, stream: OriginStream, side: str, after: Position, upto: Position, version: Version) -> bool:
        return self._ports.send(side, Stream(self._topic, stream.origin, after, upto, version, []))

    def announce(self, side: str) -> None:
        """A side wants to hear of this topic: tell it where all streams are."""
        for stream in self._streams.values():
            if stream.side != side and stream.seen is not None:
                self._announce(stream, side)

    def _announce(self, stream: OriginStream, side: str) -> None:
        if stream.seen is not None and side not in stream.passed and self._ports.may_pass(stream.origin, side):
            stream.passed[side] = Passed(stream.seen, 0, stream.seen)
            if not self._pass_over(stream, side, stream.seen, stream.seen, 0):
                self._skip(stream, side)

    def opened(self, origin: LogId, side: str) -> None:
        """Events of an origin may be passed on to a side from now on."""
        stream = self._streams.get(origin)
        if stream is not None and side in self._wants.sides:
            self._announce(stream, side)

    def announce_stream(self, stream: OriginStream) -> None:
        """It is known now where a stream is: tell all sides."""
        for side in self._others(stream):
            self._announce(stream, side)

    def settle(self, side: str) -> None:
        """Pass over what a side did not want so far."""
        for stream in self._streams.values():
            self._settle(stream, side)

    def _settle(self, stream: OriginStream, side: str) -> None:
        self._pending.pop((stream.origin, side), None)
        passed = stream.passed.get(side)
        if passed is not None and passed.pending > passed.upto:
            if self._pass_over(stream, side, passed.upto, passed.pending, passed.version):
                passed.upto = passed.pending
            else:
                self._skip(stream, side)

    def closed(self, side: str) -> None:
        """Nothing is passed on to a side any more."""
        for stream in self._streams.values():
            stream.passed.pop(side, None)
        self._pending = {item: None for item in self._pending if item[1] != side}

    def tidy(self) -> None:
        """Pass over what was not wanted."""
        for origin, side in list(self._pending):
            if (stream := self._streams.get(origin)) is not None and side in self._wants.sides:
                self._settle(stream, side)
                self._announce(stream, side)


def attributes_of(event: ExportedEvent) -> dict[str, Any]:
    """What an event is matched by."""
    delivery = _delivery.decode(event.delivery)
    return all_attributes(bytes(delivery.event), delivery.envelope, delivery.at)
