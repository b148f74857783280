"""A virtual network: datagrams, which may be lost, doubled and reordered, and streams, which are like TCP.

A stream brings everything in order or breaks. Loss only delays it; a partition stalls it, and if that lasts, each end
gives up in its own time, so that one may have come back while the other still waits. What was under way is then lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass

from fieldfare.simulation.clock import Clock
from fieldfare.simulation.streams import Stream


@dataclass(frozen=True)
class Link:
    """What the way between two places is like."""

    latency_seconds: float = 0.01
    jitter_seconds: float = 0.005  # added at random, up to so much
    loss: float = 0.0  # the probability that a packet is lost; of a stream, it is sent again
    duplication: float = 0.0  # the probability that a datagram arrives twice
    retransmission_seconds: float = 0.2
    patience_seconds: float = 5.0  # an end of a stream gives up when nothing passes for about so long


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

    `rng` is the only source of chance. `link` is the way between places for which nothing else is said.
    """

    def __init__(self, clock: Clock, rng: random.Random, link: Link = Link()) -> None:  # noqa: B008  # it is frozen
        self.clock = clock
        self.rng = rng
        self._link = link
        self._links: dict[frozenset[str], Link] = {}
        self._partitions: list[Partition] = []
        self._receivers: dict[str, Callable[[str, bytes], None]] = {}
        self._acceptors: dict[str, Callable[[Stream], None]] = {}
        self._streams: dict[Stream, None] = {}  # both ends of all that are open, in their order
        self.datagrams_sent = 0

    # The ways

    def link(self, one: str, other: str) -> Link:
        """What the way between two places is like."""
        return self._links.get(frozenset((one, other)), self._link)

    def set_link(self, one: str, other: str, link: Link) -> None:
        """From now on the way between two places is like this."""
        self._links[frozenset((one, other))] = link

    def reset_link(self, one: str, other: str) -> None:
        """From now on the way between two places is like all others again."""
        self._links.pop(frozenset((one, other)), None)

    def partition(self, one: Collection[str], other: Collection[str]) -> Partition:
        """Nothing passes between these two groups any more, until `heal`."""
        partition = Partition(frozenset(one), frozenset(other))
        self._partitions.append(partition)
        for stream in list(self._streams):
            stream.stall()
        return partition

    def heal(self, partition: Partition | None = None) -> None:
        """End a partition, or all of them."""
        self._partitions = [each for each in self._partitions if partition is not None and each is not partition]
        for stream in list(self._streams):
            stream.go_on()

    def is_cut(self, one: str, other: str) -> bool:
        """Whether a partition lies between two places."""
        return any(partition.lies_between(one, other) for partition in self._partitions)

    def delay(self, one: str, other: str) -> float:
        """How long the next packet between two places takes."""
        link = self.link(one, other)
        return link.latency_seconds + link.jitter_seconds * self.rng.random()

    # Datagrams

    def receive(self, name: str, on_datagram: Callable[[str, bytes], None]) -> None:
        """A place takes datagrams from now on: `on_datagram(source, payload)`."""
        self._receivers[name] = on_datagram

    def send(self, source: str, target: str, payload: bytes) -> None:
        """Send a datagram. It arrives, or it does not, or it arrives twice."""
        self.datagrams_sent += 1
        link = self.link(source, target)
        copies = 2 if link.duplication and self.rng.random() < link.duplication else 1
        for _ in range(copies):
            if not (link.loss and self.rng.random() < link.loss):
                self.clock.after(self.delay(source, target), lambda: self._arrive(source, target, payload))

    def _arrive(self, source: str, target: str, payload: bytes) -> None:
        receiver = self._receivers.get(target)
        if receiver is not None and not self.is_cut(source, target):
            receiver(source, payload)

    # Streams

    def listen(self, name: str, on_stream: Callable[[Stream], None]) -> None:
        """A place accepts streams from now on; `on_stream` gets its end of each."""
        self._acceptors[name] = on_stream

    def connect(
        self, source: str, target: str, on_open: Callable[[Stream], None], on_failure: Callable[[str], None]
    ) -> None:
        """Open a stream. `on_open` gets this end when the other accepted; or else `on_failure` gets the reason."""

        def reach() -> None:
            acceptor = self._acceptors.get(target)
            if self.is_cut(source, target):
                self.clock.after(self.link(source, target).patience_seconds, lambda: on_failure("no answer"))
            elif acceptor is None:
                self.clock.after(self.delay(source, target), lambda: on_failure("refused"))
            else:
                ours, theirs = Stream.pair(self, source, target)
                self._streams |= {ours: None, theirs: None}
                on_open(ours)
                acceptor(theirs)

        self.clock.after(2 * self.delay(source, target), reach)

    def forget(self, *ends: Stream) -> None:
        """A stream has ended at both ends."""
        for end in ends:
            self._streams.pop(end, None)

    def streams(self, here: str, there: str | None = None) -> list[Stream]:
        """The ends at a place of the streams that are open, of all or of those to one other place."""
        return [end for end in self._streams if end.here == here and there in (None, end.there)]

    def crash(self, name: str) -> None:
        """A place stops: its streams break, and what comes for it goes nowhere."""
        self._acceptors.pop(name, None)
        self._receivers.pop(name, None)
        for end in self.streams(name):
            end.abandon()
