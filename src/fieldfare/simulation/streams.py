"""The two ends of a stream: in order, or broken.

A broken stream is noticed by each end in its own time, as with TCP: after the time a packet takes, or, while a
partition lies between, when its patience ends. Until then it takes what it is given to send, which goes nowhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfare.simulation.clock import Timer

if TYPE_CHECKING:
    from fieldfare.simulation.network import Network

UNREAD_MAX = 100_000  # messages under way in one direction; a stream with more breaks


@dataclass(frozen=True)
class _Closing:
    reason: str


class Stream:
    """One end of a stream. Its holder sets `on_message` and `on_close`; both are called at most until it is closed."""

    def __init__(self, network: Network, here: str, there: str) -> None:
        self.here = here
        self.there = there
        self.on_message: Callable[[bytes], None] = lambda _: None
        self.on_close: Callable[[str], None] = lambda _: None
        self.is_open = True
        self._network = network
        self._other = self
        self._is_broken = False
        self._under_way: deque[tuple[float, bytes | _Closing]] = deque()  # from here to there, with the time of arrival
        self._arrival: Timer | None = None
        self._patience: Timer | None = None

    @classmethod
    def pair(cls, network: Network, here: str, there: str) -> tuple[Stream, Stream]:
        """Both ends of a new stream."""
        one, other = cls(network, here, there), cls(network, there, here)
        one._other, other._other = other, one
        return one, other

    def send(self, message: bytes) -> None:
        """Send a message after all that were sent before. Nothing tells whether it arrives, as with any stream."""
        if len(self._under_way) >= UNREAD_MAX:
            self.reset("too much is unread")
        elif self.is_open:
            self._put(message)

    def _put(self, message: bytes | _Closing) -> None:
        if self._is_broken:
            return
        link, rng = self._network.link(self.here, self.there), self._network.rng
        arrives_at = self._network.clock.now + self._network.delay(self.here, self.there)
        while link.loss and rng.random() < link.loss:
            arrives_at += link.retransmission_seconds
        if self._under_way:
            arrives_at = max(arrives_at, self._under_way[-1][0])
        self._under_way.append((arrives_at, message))
        self._expect_arrival()

    def close(self, reason: str) -> None:
        """Close it at this end now, and at the other when it has got all that was sent."""
        if self.is_open:
            self._put(_Closing(reason))
            self._end()

    def reset(self, reason: str) -> None:
        """Break it: what is under way is lost, and both ends notice some time later."""
        self._is_broken = self._other._is_broken = True
        for end in (self, self._other):
            end._under_way.clear()
            if not self._network.is_cut(self.here, self.there):
                end._notice_soon(reason)

    def abandon(self) -> None:
        """End it here without a word; the other end notices."""
        self._end()
        self.reset("the other end crashed")

    def stall(self) -> None:
        """If a partition lies between, this end waits as long as its patience lasts."""
        if self._network.is_cut(self.here, self.there) and self._patience is None:
            seconds = self._network.link(self.here, self.there).patience_seconds * (0.5 + self._network.rng.random())
            self._patience = self._network.clock.after(seconds, self._give_up)

    def go_on(self) -> None:
        """If no partition lies between any more, what was held up arrives."""
        if self._network.is_cut(self.here, self.there):
            return
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._is_broken:
            self._notice_soon("reset")
        self._expect_arrival()

    def _expect_arrival(self) -> None:
        if self._arrival is None and self._under_way:
            self._arrival = self._network.clock.at(self._under_way[0][0], self._arrive)

    def _arrive(self) -> None:
        self._arrival = None
        if self._network.is_cut(self.here, self.there):
            return  # `go_on` continues
        while self._under_way and self._under_way[0][0] <= self._network.clock.now:
            _, message = self._under_way.popleft()
            if isinstance(message, _Closing):
                self._other._notice(message.reason)
            elif self._other.is_open:
                self._other.on_message(message)
        self._expect_arrival()

    def _notice_soon(self, reason: str) -> None:
        delay = self._network.delay(self.here, self.there)
        self._network.clock.after(delay, lambda: self._notice(reason))

    def _give_up(self) -> None:
        self._is_broken = self._other._is_broken = True
        self._under_way.clear()
        self._other._under_way.clear()
        self._notice("timed out")

    def _notice(self, reason: str) -> None:
        if self.is_open:
            self._end()
            self.on_close(reason)

    def _end(self) -> None:
        self.is_open = False
        if not self._other.is_open:
            self._network.forget(self, self._other)
