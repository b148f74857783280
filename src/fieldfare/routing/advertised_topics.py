"""What this edge tells the overlay of the advertisements here, and who waits until it knows.

A star needs no advertisements: every edge of a topic hears of every other. In a tree subscriptions go only where
something matching is advertised; there, all that is advertised in a topic is told as a whole whenever it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from fieldfare.messages import AdvertiseTopic
from fieldfare.overlay.covering import Covering
from fieldfare.routing.ports import Emit
from fieldfare.routing.publisher_advertisements import PublisherAdvertisement
from fieldfare.routing.topic import Topic


@dataclass(frozen=True, slots=True)
class AdvertisedPorts:
    """What telling the overlay needs of its broker."""

    emit: Emit
    covering_of: Callable[[Topic], Covering]  # all that is advertised in a topic
    known: Callable[[PublisherAdvertisement], None]  # the overlay knows of an advertisement


class AdvertisedTopics:
    """What the overlay was told. An advertisement waits for `seconds` at most: nothing is lost if it is known later."""

    def __init__(self, seconds: float, ports: AdvertisedPorts, *, is_told: bool) -> None:
        self.is_told = is_told
        self._seconds, self._ports = seconds, ports
        self._numbers = count(1)
        self._waiting: dict[int, tuple[PublisherAdvertisement, float]] = {}  # and until when

    def tell(self, advertisement: PublisherAdvertisement, now: float) -> None:
        """Have the overlay know of an advertisement."""
        if self.is_told:
            self._waiting[self._tell(advertisement.topic)] = advertisement, now + self._seconds
        else:
            self._ports.known(advertisement)

    def changed(self, topic: Topic) -> None:
        """Something else is advertised in a topic than before; nobody waits."""
        if self.is_told:
            self._tell(topic)

    def _tell(self, topic: Topic) -> int:
        number = next(self._numbers)
        self._ports.emit(AdvertiseTopic(number, topic.key, self._ports.covering_of(topic).encode()))
        return number

    def answered(self, number: int) -> None:
        """The overlay knows."""
        if (waiting := self._waiting.pop(number, None)) is not None:
            self._ports.known(waiting[0])

    def tidy(self, now: float) -> None:
        """Wait no longer than allowed."""
        overdue = [number for number, (_, until) in self._waiting.items() if until <= now]
        for number in overdue:
            self.answered(number)
