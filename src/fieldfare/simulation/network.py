"""A virtual network: datagrams, which may be lost, doubled and reordered, and streams, which are like TCP.

A stream brings everything in order or breaks. Loss only delays it; a partition stalls it, and if that lasts, each end
gives up in its own time, so that one may have come back while the other still waits. What was under way is then lost.
A partition may be one-way: then packets pass in the other direction, and still both ends of a stream give up, since
nothing that they send is acknowledged. A place may be paused: its sockets stay open, and what comes waits in them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from fieldfare.simulation.clock import Clock, Timer
from fieldfare.simulation.streams import Stream

DATAGRAMS_UNREAD_MAX = 1000  # that wait for a place that is paused; what comes beyond them is lost


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """What the way between two places is like: how long it takes, and what it loses or doubles."""

    latency_seconds: float = 0.01
    jitter_seconds: float = 0.005  # the most that is added to the latency, at random
    loss: float = 0.0  # the probability that a packet is lost; of a stream, it is sent again
    duplication: float = 0.0  # the probability that a datagram arrives twice
    retransmission_seconds: float = 0.2
    patience_seconds: float = 5.0  # about how long an end of a stream waits while nothing passes, before it gives up


LAN = LinkQuality(latency_seconds=0.01, jitter_seconds=0.002)  # a round trip of about 20 ms, as PubSubCoord measured
WAN = LinkQuality(latency_seconds=0.04, jitter_seconds=0.008)  # and of about 80 ms


def lan_and_wan(
    network_of: Callable[[str], str], lan: LinkQuality = LAN, wan: LinkQuality = WAN
) -> Callable[[str, str], LinkQuality]:
    """For `Network.quality_of`: places of one network are near to each other, all others far.

    `network_of` names the network that a place belongs to.
    """
    return lambda one, other: lan if network_of(one) == network_of(other) else wan


@dataclass(frozen=True, eq=False)
class Partition:
    """Two groups of places between which nothing passes; if it is one-way, nothing from the first to the second."""

    one: frozenset[str]
    other: frozenset[str]
    is_one_way: bool = False

    def stops(self, source: str, target: str) -> bool:
        """Whether packets from one place to another do not arrive."""
        return (source in self.one and target in self.other) or (
            not self.is_one_way and source in self.other and target in self.one
        )


@dataclass(slots=True, eq=False)
class _Attempt:
    """A stream that somebody wants to open."""

    source: str
    target: str
    on_open: Callable[[Stream], None]
    on_failure: Callable[[str], None]
    patience: Timer | None = None  # while it waits for an answer that cannot come now
    is_over: bool = False


@dataclass(slots=True, eq=False)
class _Waiting:
    """What waits for a place that is paused, beside what the streams themselves hold up."""

    datagrams: list[tuple[str, Any]] = field(default_factory=list)
    attempts: list[_Attempt] = field(default_factory=list)


class Network:
    """Places by name, what goes between them, and what goes wrong with it.

    `rng` is the only source of chance. `link` is what the way is like between places for which nothing else is said: by
    `set_link_quality` for two of them, or for all by `quality_of`, which needs no table for thousands of places.
    """

    def __init__(self, clock: Clock, rng: random.Random, link: LinkQuality = LinkQuality()) -> None:  # noqa: B008 - it is frozen
        self.clock = clock
        self.rng = rng
        self.datagrams_sent = self.datagrams_lost = 0
        self.on_datagram: Callable[[str, str, Any], object] | None = None  # told of each that is sent, lost or not
        self.stream_bytes: defaultdict[tuple[str, str], int] = defaultdict(int)  # sent over streams, by both places
        self.is_disturbed = False  # there are partitions or paused places, so packets may be held up
        self.quality_of: Callable[[str, str], LinkQuality] | None = None  # from one place to another; None: as `link`
        self._default_quality = link
        self._qualities: dict[tuple[str, str], LinkQuality] = {}  # by both places, in both orders
        self._partitions: list[Partition] = []
        self._paused: dict[str, _Waiting] = {}
        self._receivers: dict[str, Callable[[str, Any], None]] = {}
        self._acceptors: dict[str, Callable[[Stream], None]] = {}
        self._streams: dict[str, dict[Stream, None]] = {}  # the ends of those that are open, by place, the oldest first
        self._opened = 0  # streams so far

    # What the ways between places are like

    def link_quality(self, one: str, other: str) -> LinkQuality:
        """What the way from one place to another is like."""
        if self._qualities and (quality := self._qualities.get((one, other))) is not None:
            return quality
        return self._default_quality if self.quality_of is None else self.quality_of(one, other)

    def set_link_quality(self, one: str, other: str, quality: LinkQuality) -> None:
        """From now on the way between two places is like this, in both directions."""
        self._qualities[one, other] = self._qualities[other, one] = quality

    def reset_link_quality(self, one: str, other: str) -> None:
        """From now on the way between two places is like all others again."""
        for pair in ((one, other), (other, one)):
            self._qualities.pop(pair, None)

    def delay(self, one: str, other: str) -> float:
        """How long the next packet between two places takes."""
        quality = self.link_quality(one, other)
        return quality.latency_seconds + quality.jitter_seconds * self.rng.random()

    # Partitions

    def partition(self, one: Collection[str], other: Collection[str], *, is_one_way: bool = False) -> Partition:
        """Nothing passes between these two groups any more, until `heal`; or nothing from the first to the second."""
        partition = Partition(frozenset(one), frozenset(other), is_one_way)
        self._set_partitions([*self._partitions, partition])
        for stream in self._streams_across([partition]):
            stream.stall()
        return partition

    def heal(self, partition: Partition | None = None) -> None:
        """End a partition, or all of them."""
        ended = [each for each in self._partitions if partition is None or each is partition]
        self._set_partitions([each for each in self._partitions if each not in ended])
        for stream in self._streams_across(ended):
            stream.go_on()

    def is_cut(self, source: str, target: str) -> bool:
        """Whether a partition stops what one place sends to another."""
        return bool(self._partitions) and any(partition.stops(source, target) for partition in self._partitions)

    def is_cut_somehow(self, one: str, other: str) -> bool:
        """Whether a partition lies between two places, in one direction or in both."""
        return self.is_cut(one, other) or self.is_cut(other, one)

    def is_held_up(self, source: str, target: str) -> bool:
        """Whether what comes to a place from another cannot be taken there now."""
        return target in self._paused or self.is_cut(source, target)

    def _set_partitions(self, partitions: list[Partition]) -> None:
        self._partitions = partitions
        self._note_disturbance()

    def _note_disturbance(self) -> None:
        self.is_disturbed = bool(self._partitions or self._paused)

    def _streams_across(self, partitions: Iterable[Partition]) -> list[Stream]:
        """Both ends of the open streams that cross one of these partitions, the oldest first."""
        ends: set[Stream] = set()
        for partition in partitions:
            near, far = sorted((partition.one, partition.other), key=len)
            for place in near:
                ends.update(end for end in self._streams.get(place, ()) if end.there in far)
        # A set has another order in every process; what is done with the streams draws from `rng`, so order matters.
        return sorted(ends | {end.other for end in ends}, key=lambda end: end.number)

    # Paused places

    def pause(self, name: str) -> None:
        """A place takes nothing any more, until `resume`. Its streams stay open, and what comes waits."""
        self._paused.setdefault(name, _Waiting())
        self._note_disturbance()

    def resume(self, name: str) -> None:
        """A place takes what has waited for it, and then what comes."""
        waiting = self._stop_pausing(name)
        for end in self.streams(name):
            end.other.release()
        for source, message in waiting.datagrams:
            self._arrive(source, name, message)
        for attempt in waiting.attempts:
            self._reach(attempt)

    def _stop_pausing(self, name: str) -> _Waiting:
        waiting = self._paused.pop(name, _Waiting())
        self._note_disturbance()
        return waiting

    # Datagrams

    def receive(self, name: str, on_datagram: Callable[[str, Any], None]) -> None:
        """A place takes datagrams from now on: `on_datagram(source, message)`."""
        self._receivers[name] = on_datagram

    def send(self, source: str, target: str, message: Any) -> None:
        """Send a datagram. It arrives, or it does not, or it arrives twice."""
        self.datagrams_sent += 1
        if self.on_datagram is not None:
            self.on_datagram(source, target, message)
        quality, clock, random = self.link_quality(source, target), self.clock, self.rng.random
        for _ in (1, 2) if quality.duplication and random() < quality.duplication else (1,):
            if not (quality.loss and random() < quality.loss):
                arrives_at = clock.now + quality.latency_seconds + quality.jitter_seconds * random()
                clock.call_at(arrives_at, self._arrive, source, target, message)
            else:
                self.datagrams_lost += 1

    def _arrive(self, source: str, target: str, message: Any) -> None:
        if self.is_disturbed:
            if self.is_cut(source, target):
                return
            if (waiting := self._paused.get(target)) is not None:
                if len(waiting.datagrams) < DATAGRAMS_UNREAD_MAX:
                    waiting.datagrams.append((source, message))
                return
        receiver = self._receivers.get(target)
        if receiver is not None:
            receiver(source, message)

    # Streams

    def listen(self, name: str, on_stream: Callable[[Stream], None]) -> None:
        """A place accepts streams from now on; `on_stream` gets its end of each."""
        self._acceptors[name] = on_stream

    def connect(
        self, source: str, target: str, on_open: Callable[[Stream], None], on_failure: Callable[[str], None]
    ) -> None:
        """Open a stream. `on_open` gets this end when the other accepted; or else `on_failure` gets the reason."""
        attempt = _Attempt(source, target, on_open, on_failure)
        self.clock.call_at(self.clock.now + 2 * self.delay(source, target), self._reach, attempt)

    def _reach(self, attempt: _Attempt) -> None:
        """An attempt to open a stream has come to its target, or can go on there."""
        if attempt.is_over:
            return
        source, target = attempt.source, attempt.target
        paused = self._paused.get(target) or self._paused.get(source)
        if self.is_cut_somehow(source, target):
            self._wait(attempt)
        elif paused is not None:
            paused.attempts.append(attempt)
            self._wait(attempt)
        elif (acceptor := self._acceptors.get(target)) is None:
            self._end_attempt(attempt)
            self.clock.call_at(self.clock.now + self.delay(source, target), attempt.on_failure, "refused")
        else:
            self._end_attempt(attempt)
            ours, theirs = self._open(source, target)
            attempt.on_open(ours)
            acceptor(theirs)

    def _wait(self, attempt: _Attempt) -> None:
        """Let an attempt fail when patience has ended, unless it succeeds before."""

        def give_up() -> None:
            attempt.is_over = True
            attempt.on_failure("no answer")

        if attempt.patience is None:
            patience_seconds = self.link_quality(attempt.source, attempt.target).patience_seconds
            attempt.patience = self.clock.after(patience_seconds, give_up)

    def _end_attempt(self, attempt: _Attempt) -> None:
        attempt.is_over = True
        if attempt.patience is not None:
            attempt.patience.cancel()

    def _open(self, source: str, target: str) -> tuple[Stream, Stream]:
        pair = Stream.pair(self, 2 * self._opened, source, target)
        self._opened += 1
        for end in pair:
            self._streams.setdefault(end.here, {})[end] = None
        return pair

    def forget(self, *ends: Stream) -> None:
        """A stream has ended at both ends."""
        for end in ends:
            at_place = self._streams.get(end.here, {})
            at_place.pop(end, None)
            if not at_place:
                self._streams.pop(end.here, None)

    def streams(self, here: str, there: str | None = None) -> list[Stream]:
        """The ends at a place of the streams that are open, of all or of those to one other place."""
        return [end for end in self._streams.get(here, ()) if there in (None, end.there)]

    def crash(self, name: str) -> None:
        """A place stops: its streams break, and what comes for it goes nowhere."""
        self._acceptors.pop(name, None)
        self._receivers.pop(name, None)
        waiting = self._stop_pausing(name)
        for end in self.streams(name):
            end.abandon()
        for attempt in waiting.attempts:
            self._reach(attempt)
