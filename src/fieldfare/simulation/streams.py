"""The two ends of a stream: in order, or broken.

A broken stream is noticed by each end in its own time, as with TCP: after the time a packet takes, or, while a
partition lies between, when its patience ends. Until then it takes what it is given to send, which goes nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfare.simulation.clock import Timer

if TYPE_CHECKING:
    from fieldfare.simulation.network import Network

UNREAD_MAX = 100_000  # messages under way in one direction; a stream with more breaks


@dataclass(frozen=True, slots=True)
class _Closing:
    """Travels behind the last message of an end that closed its stream."""

    reason: str


def _ignore(_: object) -> None:
    """What an end does with messages as long as nobody holds it."""


class Stream:
    """One end of a stream. Its holder sets `on_message` and `on_close`; both are called at most until it is closed."""

    __slots__ = (
        "_held_up",
        "_is_broken",
        "_last_arrives_at",
        "_network",
        "_other",
        "_patience",
        "_under_way",
        "here",
        "is_open",
        "number",
        "on_close",
        "on_message",
        "there",
    )

    def __init__(self, network: Network, number: int, here: str, there: str) -> None:
        self.number = number  # streams are numbered in the order in which they were opened
        self.here = here
        self.there = there
        self.on_message: Callable[[bytes], None] = _ignore
        self.on_close: Callable[[str], None] = _ignore
        self.is_open = True
        self._network = network
        self._other = self
        self._is_broken = False
        self._under_way = 0  # messages from here to there
        self._last_arrives_at = 0.0
        self._held_up: list[bytes | _Closing] = []  # of those under way: they are there, but cannot be taken
        self._patience: Timer | None = None

    @classmethod
    def pair(cls, network: Network, number: int, here: str, there: str) -> tuple[Stream, Stream]:
        """Both ends of a new stream; the other end has the next number."""
        one, other = cls(network, number, here, there), cls(network, number + 1, there, here)
        one._other, other._other = other, one
        return one, other

    @property
    def other(self) -> Stream:
        """The other end."""
        return self._other

    def send(self, message: bytes) -> None:
        """Send a message after all that were sent before. Nothing tells whether it arrives, as with any stream."""
        if self._under_way >= UNREAD_MAX:
            self.reset("too much is unread")
        elif self.is_open:
            self._network.stream_bytes[self.here, self.there] += len(message)
            self._put(message)

    def _put(self, message: bytes | _Closing) -> None:
        if self._is_broken:
            return
        network = self._network
        quality, rng = network.link_quality(self.here, self.there), network.rng
        arrives_at = network.clock.now + quality.latency_seconds + quality.jitter_seconds * rng.random()
        while quality.loss and rng.random() < quality.loss:
            arrives_at += quality.retransmission_seconds
        # It overtakes nothing: of two actions at the same time, the clock does first what was scheduled first.
        arrives_at = self._last_arrives_at = max(arrives_at, self._last_arrives_at)
        self._under_way += 1
        network.clock.call_at(arrives_at, self._arrive, message)

    def close(self, reason: str) -> None:
        """Close it at this end now, and at the other when it has got all that was sent."""
        if self.is_open:
            self._put(_Closing(reason))
            self._end()

    def reset(self, reason: str) -> None:
        """Break it: what is under way is lost, and both ends notice some time later."""
        self._break()
        for end in (self, self._other):
            if not self._network.is_cut(end.there, end.here):
                end._notice_soon(reason)

    def abandon(self) -> None:
        """End it here without a word; the other end notices."""
        self._end()
        self.reset("the other end crashed")

    def stall(self) -> None:
        """If a partition lies between, this end waits as long as its patience lasts.

        One that is one-way is enough: either what this end sends does not arrive, or it is never acknowledged.
        """
        if self._network.is_cut_somehow(self.here, self.there) and self._patience is None:
            seconds = self._network.link_quality(self.here, self.there).patience_seconds * (
                0.5 + self._network.rng.random()
            )
            self._patience = self._network.clock.after(seconds, self._give_up)

    def go_on(self) -> None:
        """If no partition lies between any more, this end waits no longer, and what was held up arrives."""
        network = self._network
        if not network.is_cut_somehow(self.here, self.there) and self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._is_broken and not network.is_cut(self.there, self.here):
            self._notice_soon("reset")
        if self._held_up and not network.is_held_up(self.here, self.there):
            network.clock.call_at(network.clock.now, self.release)

    def _arrive(self, message: bytes | _Closing) -> None:
        """A message is at the other end, unless the stream broke; if it cannot be taken now, it is held up."""
        if self._is_broken:
            return
        network = self._network
        if self._held_up or (network.is_disturbed and network.is_held_up(self.here, self.there)):
            self._held_up.append(message)  # `go_on` or `release` continues
        else:
            self._hand_over(message)

    def release(self) -> None:
        """If nothing holds them up any more, hand over the messages that were."""
        if not self._network.is_held_up(self.here, self.there):
            held_up, self._held_up = self._held_up, []
            for message in held_up:
                self._hand_over(message)

    def _hand_over(self, message: bytes | _Closing) -> None:
        self._under_way -= 1
        other = self._other
        if not other.is_open or self._is_broken:
            return
        if isinstance(message, _Closing):
            other._notice(message.reason)
        else:
            other.on_message(message)

    def _break(self) -> None:
        for end in (self, self._other):
            end._is_broken = True
            end._under_way = 0
            end._held_up.clear()

    def _notice_soon(self, reason: str) -> None:
        network = self._network
        network.clock.call_at(network.clock.now + network.delay(self.here, self.there), self._notice, reason)

    def _give_up(self) -> None:
        self._break()
        self._notice("timed out")

    def _notice(self, reason: str) -> None:
        if self.is_open:
            self._end()
            self.on_close(reason)

    def _end(self) -> None:
        self.is_open = False
        if not self._other.is_open:
            self._network.forget(self, self._other)
