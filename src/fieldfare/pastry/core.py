"""What all parts of a node share: its tables, what it knows of others, its courier, and where it is in its life."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from fieldfare.messages import Effect, SendDatagram
from fieldfare.pastry.acquaintances import Acquaintances
from fieldfare.pastry.admission import Ids
from fieldfare.pastry.courier import Courier
from fieldfare.pastry.options import PastryOptions
from fieldfare.pastry.pastry_frames import AnyPastryFrame
from fieldfare.pastry.place import Place
from fieldfare.pastry.ports import Card, NodeId


class Phase(Enum):
    """Where a node is in its life."""

    JOINING = "it looks for its place"
    JOINED = "it is on the ring"
    LEFT = "it has said goodbye, and passes on what comes"


@dataclass(slots=True)
class NodeCore:
    """The shared state of one node. Effects that are to be returned gather in `out`."""

    place: Place
    acquaintances: Acquaintances
    courier: Courier
    group: Ids
    options: PastryOptions
    rng: random.Random
    out: list[Effect]
    phase: Phase = Phase.JOINING

    @property
    def card(self) -> Card:
        """The card of this node."""
        return self.place.me.card

    def head(self, now: float) -> tuple[str, int, int]:
        """What every numbered frame begins with."""
        card = self.place.me.card
        return card.name, card.life, self.courier.next_number(now)

    def send_once(self, address: str, frame: AnyPastryFrame) -> None:
        """Send a frame that nobody acknowledges."""
        self.out.append(SendDatagram(address, frame))

    def was_heard(self, node: NodeId, now: float) -> bool:
        """Whether something came from a node within the last period."""
        known = self.acquaintances.get(node)
        return known is not None and now - known.heard_at <= self.options.heartbeat_seconds
