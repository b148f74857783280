"""Nodes that were on the ring and fell silent. They are asked now and then, so that rings that split merge again."""

from __future__ import annotations

import random

from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.ports import Card, Contact, NodeId

_SOON_SECONDS = 5.0


class _Former:
    __slots__ = ("card", "seconds", "try_at")

    def __init__(self, card: Card, seconds: float, try_at: float) -> None:
        self.card, self.seconds, self.try_at = card, seconds, try_at


class FormerMembers:
    """Some of them, at random if there are many."""

    __slots__ = ("_nodes", "_options", "_rng")

    def __init__(self, options: PastryOptions, rng: random.Random) -> None:
        self._options, self._rng = options, rng
        self._nodes: dict[NodeId, _Former] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._nodes

    def add(self, contact: Contact, now: float) -> None:
        """A node fell silent."""
        if len(self._nodes) >= self._options.former_members_max:
            del self._nodes[self._rng.choice(list(self._nodes))]
        seconds = self._options.healing_seconds
        self._nodes[contact.id] = _Former(contact.card, seconds, now + seconds * (0.5 + self._rng.random()))

    def found(self, node: NodeId, now: float) -> None:
        """A node answers again: then others may do so too."""
        if self._nodes.pop(node, None) is not None:
            for former in self._nodes.values():
                former.seconds = self._options.healing_seconds
                former.try_at = min(former.try_at, now + _SOON_SECONDS * self._rng.random())

    def take_due(self, now: float) -> list[Card]:
        """Those that are to be asked now."""
        due = [former for former in self._nodes.values() if former.try_at <= now]
        for former in due:
            former.seconds = min(2 * former.seconds, self._options.healing_seconds_max)
            former.try_at = now + former.seconds * (0.5 + self._rng.random())
        return [former.card for former in due]
