"""Which edge a client connects to next, where there are several.

A client uses one edge at a time, at first any of them, so that many clients spread. When its connection breaks, it
tries the same edge for a while: there its subscriptions go on without a gap. It is more patient while publications are
in doubt, since only the log of that edge knows what became of them. After that, or where an edge says that it is full,
it goes round among all that it knows. With one edge there is no choice.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from fieldfare.client.options import ClientOptions

KNOWN_MAX = 64  # edges that a client remembers
PATIENT_PAUSE_SECONDS_MAX = 1.0


class EdgeChoice:
    """The edges that a client knows by their URLs. `allows` says whether it may use one that an edge names."""

    def __init__(
        self,
        urls: Sequence[str],
        rng: random.Random,
        options: ClientOptions,
        allows: Callable[[str], bool] = lambda _: True,
    ) -> None:
        shuffled = list(dict.fromkeys(urls))
        rng.shuffle(shuffled)
        self.current = shuffled[0]
        self._order = deque(shuffled)  # in which they are tried
        self._learns = len(shuffled) > 1  # who was given one edge stays there as long as it has room
        self._rng, self._options, self._allows = rng, options, allows
        self._former: str | None = None  # the one that was connected before
        self._last: str | None = None  # the one that was connected last,
        self._lost_at = 0.0  # and when that connection broke
        self._is_open = False
        self._full: set[str] = set()

    def next(self, now: float, *, is_in_doubt: bool) -> str:
        """The edge to try now."""
        is_wanted = is_in_doubt or self._last not in self._full
        if self._last is not None and is_wanted and self._is_patient(now, is_in_doubt=is_in_doubt):
            self.current = self._last
        else:
            self.current = self._another()
        return self.current

    def pause_seconds(self, wanted_seconds: float, now: float, *, is_in_doubt: bool) -> float:
        """How long to wait before the next try: not so long that the time for the last edge passes meanwhile."""
        if len(self._order) > 1 and self._is_patient(now, is_in_doubt=is_in_doubt):
            return min(wanted_seconds, PATIENT_PAUSE_SECONDS_MAX)
        return wanted_seconds

    def _is_patient(self, now: float, *, is_in_doubt: bool) -> bool:
        patience_seconds = self._options.doubt_seconds if is_in_doubt else self._options.patience_seconds
        return self._last is not None and now - self._lost_at < patience_seconds

    def _another(self) -> str:
        if self._full.issuperset(self._order):
            self._full.clear()  # some may have room by now
        while self._order[0] in self._full:
            self._order.rotate(-1)
        self._order.rotate(-1)
        return self._order[-1]

    def opened(self, edges: Iterable[str] = ()) -> None:
        """The current one is connected, and names others of its network."""
        self._is_open, self._former, self._last = True, self._last, self.current
        if self._learns:
            for url in self._unknown(edges):
                self._order.append(url)

    def lost(self, now: float) -> None:
        """The connection broke."""
        if self._is_open:
            self._is_open, self._lost_at = False, now
            self._full.clear()  # who had no room before may have some now

    def full(self, edges: Iterable[str]) -> bool:
        """The current one has no room, and names others. Returns whether one of them can be tried at once."""
        if self._is_open:  # it let the client in only to say so
            self._is_open, self._last = False, self._former
        self._full.add(self.current)
        named = set(edges)
        for url in self._unknown(edges):
            self._order.append(url)
        candidates = [url for url in self._order if url in named and url not in self._full]
        self._rng.shuffle(candidates)  # so that not all that are sent on go to the same one
        others = [url for url in self._order if url not in candidates]
        self._order = deque([*candidates, *others])
        return bool(candidates)

    def denied(self) -> bool:
        """The current one will never let this client in. Returns whether there are others, which are tried instead."""
        if len(self._order) == 1:
            return False
        self._order.remove(self.current)
        if self._last == self.current:
            self._last = None
        return True

    def _unknown(self, edges: Iterable[str]) -> list[str]:
        unknown = [url for url in dict.fromkeys(edges) if url not in self._order and self._allows(url)]
        return unknown[: max(0, KNOWN_MAX - len(self._order))]
