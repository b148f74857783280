"""Who takes events of a subscription whose events are known one by one: several if it is shared, else one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from fieldfare.messages import Position


@dataclass(slots=True)
class Consumer:
    """Somebody who takes events of a subscription."""

    link: str
    window: int
    in_window: int = 0
    sent_upto: Position = -1
    positions: set[Position] = field(default_factory=set)  # that it has

    @property
    def room(self) -> int:
        """How many more may be sent to it."""
        return self.window - self.in_window


class Consumers:
    """Those who take events of one subscription, in turns."""

    def __init__(self) -> None:
        self._consumers: dict[str, Consumer] = {}
        self._turns: deque[Consumer] = deque()

    def __len__(self) -> int:
        return len(self._consumers)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers.values())

    def __contains__(self, link: str) -> bool:
        return link in self._consumers

    def get(self, link: str) -> Consumer | None:
        """The consumer of a link."""
        return self._consumers.get(link)

    def add(self, link: str, window: int) -> Consumer:
        """Somebody comes."""
        consumer = self._consumers[link] = Consumer(link, window)
        self._turns.append(consumer)
        return consumer

    def remove(self, link: str) -> Consumer | None:
        """Somebody goes."""
        consumer = self._consumers.pop(link, None)
        if consumer is not None:
            self._turns.remove(consumer)
        return consumer

    def next(self) -> Consumer | None:
        """Whose turn it is among those that have room."""
        for _ in range(len(self._turns)):
            consumer = self._turns[0]
            self._turns.rotate(-1)
            if consumer.room > 0:
                return consumer
        return None
