"""What a bridge that stands by keeps, until it sees that the carrying bridge has dealt with it.

A sample of a local writer is dealt with when its event comes back from the edge; an event from elsewhere, when the
carrying bridge's sample is seen in the domain. What is left when that bridge disappears is what it had not done. Either
of the two may be seen first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from fieldfare.runtime.dds.options import DdsOptions

T = TypeVar("T")


class _Item(NamedTuple, Generic[T]):
    at: float
    size_bytes: int
    value: T


class Held(Generic[T]):
    """Things by their keys, no more than the options allow, and none for too long: the oldest are forgotten."""

    def __init__(self, options: DdsOptions) -> None:
        self._options = options
        self._items: OrderedDict[str, _Item[T]] = OrderedDict()
        self._size_bytes = 0
        self._dealt_with: OrderedDict[str, float] = OrderedDict()  # seen before the thing itself, and when

    def has_any(self, now: float) -> bool:
        """Whether something is not dealt with."""
        self._forget(now)
        return bool(self._items)

    def add(self, key: str, value: T, size_bytes: int, now: float) -> None:
        """Something is to be dealt with."""
        self._forget(now)
        if self._dealt_with.pop(key, None) is None and key not in self._items:
            self._items[key] = _Item(now, size_bytes, value)
            self._size_bytes += size_bytes
            self._forget(now)

    def deal_with(self, key: str, now: float) -> None:
        """It is dealt with."""
        item = self._items.pop(key, None)
        if item is None:
            self._dealt_with[key] = now
        else:
            self._size_bytes -= item.size_bytes
        self._forget(now)

    def take_all(self, now: float) -> list[T]:
        """All that is not dealt with, in the order in which it came; nothing is held any more."""
        self._forget(now)
        values = [item.value for item in self._items.values()]
        self._items.clear()
        self._dealt_with.clear()
        self._size_bytes = 0
        return values

    def _forget(self, now: float) -> None:
        most, oldest_at = self._options.held_max, now - self._options.held_seconds
        while self._items and (
            len(self._items) > most
            or self._size_bytes > self._options.held_bytes_max
            or next(iter(self._items.values())).at < oldest_at
        ):
            self._size_bytes -= self._items.popitem(last=False)[1].size_bytes
        while self._dealt_with and (len(self._dealt_with) > most or next(iter(self._dealt_with.values())) < oldest_at):
            self._dealt_with.popitem(last=False)
