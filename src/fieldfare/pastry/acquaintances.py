"""What is known of other nodes: when each was heard, how long it takes to answer, and whether it answers at all.

Round trips give the time after which a frame is sent again (RFC 6298), and say which nodes are near.
"""

from __future__ import annotations

from collections.abc import Callable

from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.ports import Contact, NodeId


class Acquaintance:
    """A node that has answered."""

    __slots__ = ("contact", "heard_at", "round_trip_seconds", "variation_seconds")

    def __init__(self, contact: Contact, now: float) -> None:
        self.contact = contact
        self.heard_at = now
        self.round_trip_seconds: float | None = None
        self.variation_seconds = 0.0

    def measured(self, seconds: float) -> None:
        """It took so long to answer."""
        smooth = self.round_trip_seconds
        if smooth is None:
            self.round_trip_seconds, self.variation_seconds = seconds, seconds / 2
        else:
            self.variation_seconds += (abs(smooth - seconds) - self.variation_seconds) / 4
            self.round_trip_seconds = smooth + (seconds - smooth) / 8


class Acquaintances:
    """All nodes that have answered and have not been given up."""

    __slots__ = ("_nodes", "_options")

    def __init__(self, options: PastryOptions) -> None:
        self._options = options
        self._nodes: dict[NodeId, Acquaintance] = {}

    def get(self, node: NodeId) -> Acquaintance | None:
        """What is known of a node."""
        return self._nodes.get(node)

    def add(self, contact: Contact, now: float) -> Acquaintance:
        """A node has answered at this address, in this life."""
        old = self._nodes.get(contact.id)
        if old is None or old.contact.card.life != contact.card.life:
            known = self._nodes[contact.id] = Acquaintance(contact, now)
            return known
        old.contact, old.heard_at = contact, now
        return old

    def forget(self, node: NodeId) -> Acquaintance | None:
        """A node has been given up."""
        return self._nodes.pop(node, None)

    def round_trip_seconds(self, node: NodeId) -> float | None:
        """How long a node takes to answer, if that was measured."""
        known = self._nodes.get(node)
        return None if known is None else known.round_trip_seconds

    def timeout_seconds(self, node: NodeId) -> float:
        """After how long a frame to a node is sent again."""
        options, known = self._options, self._nodes.get(node)
        if known is None or known.round_trip_seconds is None:
            return options.timeout_seconds_first
        seconds = known.round_trip_seconds + 4 * known.variation_seconds
        return min(max(seconds, options.timeout_seconds_min), options.timeout_seconds_max)

    def forget_strangers(self, is_kept: Callable[[NodeId], bool]) -> None:
        """If there are too many: those that are in no table, the longest unheard first."""
        excess = len(self._nodes) - self._options.acquaintances_max
        if excess > 0:
            strangers = [known for node, known in self._nodes.items() if not is_kept(node)]
            for known in sorted(strangers, key=lambda known: known.heard_at)[:excess]:
                del self._nodes[known.contact.id]
