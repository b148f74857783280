"""A virtual network: datagrams, which may be lost, doubled and reordered, and streams, which are like TCP.

A stream brings everything in order or breaks. Loss only delays it; a partition stalls it, and if that lasts, each end
gives up in its own time, so that one may have come back while the other still waits. What was under way is then lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from fieldfare.simulation.clock import Clock
from fieldfare.simulation.streams import Stream


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """What the way between two places is like: how long it takes, and what it loses or doubles."""

    latency_seconds: float = 0.01
    jitter_seconds: float = 0.005  # the most that is added to the latency, at random
    loss: float = 0.0  # the probability that a packet is lost; of a stream, it is sent again
    duplication: float = 0.0  # the probability that a datagram arrives twice
    retransmission_seconds: float = 0.2
    patience_seconds: float = 5.0  # about how long an end of a stream waits while nothing passes, before it gives up


@dataclass(frozen=True, eq=False)
class Partition:
    """Two groups of places between which nothing passes."""

    one: frozenset[str]
    other: frozenset[str]

    def lies_between(self, here: str, there: str) -> bool:
        """Whether it separates two places."""
        return (here in self.one and there in self.other) or (here in self.other and there in self.one)


class Network:
    """Places by name, what goes between them, and what goes wrong with it.

    `rng` is the only source of chance. `link` is what the way is like between places for which nothing else is said.
    """

    def __init__(self, clock: Clock, rng: random.Random, link: LinkQuality = LinkQuality()) -> None:  # noqa: B008 - it is frozen
        self.clock = clock
        self.rng = rng
        self.datagrams_sent = 0
        self.has_partitions = False
        self._default_quality = link
        self._qualities: dict[tuple[str, str], LinkQuality] = {}  # by both places, in both orders
        self._partitions: list[Partition] = []
        self._receivers: dict[str, Callable[[str, Any], None]] = {}
        self._acceptors: dict[str, Callable[[Stream], None]] = {}
        self._streams: dict[str, dict[Stream, None]] = {}  # the ends of those that are open, by place, the oldest first
        self._opened = 0  # streams so far

    # What the ways between places are like

    def link_quality(self, one: str, other: str) -> LinkQuality:
        """What the way between two places is like."""
        return self._qualities.get((one, other), self._default_quality) if self._qualities else self._default_quality

    def set_link_quality(self, one: str, other: str, quality: LinkQuality) -> None:
        """From now on the way between two places is like this."""
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

    def partition(self, one: Collection[str], other: Collection[str]) -> Partition:
        """Nothing passes between these two groups any more, until `heal`."""
        partition = Partition(frozenset(one), frozenset(other))
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

    def is_cut(self, one: str, other: str) -> bool:
        """Whether a partition lies between two places."""
        return self.has_partitions and any(partition.lies_between(one, other) for partition in self._partitions)

    def _set_partitions(self, partitions: list[Partition]) -> None:
        self._partitions = partitions
        self.has_partitions = bool(partitions)

    def _streams_across(self, partitions: Iterable[Partition]) -> list[Stream]:
        """Both ends of the open streams that cross one of these partitions, the oldest first."""
        ends: set[Stream] = set()
        for partition in partitions:
            near, far = sorted((partition.one, partition.other), key=len)
            for place in near:
                ends.update(end for end in self._streams.get(place, ()) if end.there in far)
        # A set has another order in every process; what is done with the streams draws from `rng`, so order matters.
        return sorted(ends | {end.other for end in ends}, key=lambda end: end.number)

    # Datagrams

    def receive(self, name: str, on_datagram: Callable[[str, Any], None]) -> None:
        """A place takes datagrams from now on: `on_datagram(source, message)`."""
        self._receivers[name] = on_datagram

    def send(self, source: str, target: str, message: Any) -> None:
        """Send a datagram. It arrives, or it does not, or it arrives twice."""
        self.datagrams_sent += 1
        quality, clock, random = self.link_quality(source, target), self.clock, self.rng.random
        for _ in (1, 2) if quality.duplication and random() < quality.duplication else (1,):
            if not (quality.loss and random() < quality.loss):
                arrives_at = clock.now + quality.latency_seconds + quality.jitter_seconds * random()
                clock.call_at(arrives_at, self._arrive, source, target, message)

    def _arrive(self, source: str, target: str, message: Any) -> None:
        receiver = self._receivers.get(target)
        if receiver is not None and not (self.has_partitions and self.is_cut(source, target)):
            receiver(source, message)

    # Streams

    def listen(self, name: str, on_stream: Callable[[Stream], None]) -> None:
        """A place accepts streams from now on; `on_stream` gets its end of each."""
        self._acceptors[name] = on_stream

    def connect(
        self, source: str, target: str, on_open: Callable[[Stream], None], on_failure: Callable[[str], None]
    ) -> None:
        """Open a stream. `on_open` gets this end when the other accepted; or else `on_failure` gets the reason."""

        def reach() -> None:
            now = self.clock.now
            acceptor = self._acceptors.get(target)
            if self.is_cut(source, target):
                patience_seconds = self.link_quality(source, target).patience_seconds
                self.clock.call_at(now + patience_seconds, on_failure, "no answer")
            elif acceptor is None:
                self.clock.call_at(now + self.delay(source, target), on_failure, "refused")
            else:
                ours, theirs = self._open(source, target)
                on_open(ours)
                acceptor(theirs)

        self.clock.call_at(self.clock.now + 2 * self.delay(source, target), reach)

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
        for end in self.streams(name):
            end.abandon()
