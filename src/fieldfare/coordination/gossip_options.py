"""How a gossip behaves: its pace, its patience and its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fieldfare.qos import LIFESPAN_SECONDS


@dataclass(frozen=True, slots=True)
class GossipOptions:
    """Times are in seconds, and some grow with the logarithm of the number of members."""

    round_seconds: float = 1.0  # each round: news to some members, and a ping to one
    pong_seconds: float = 0.4  # so long a pong may take, before others are asked to ping
    helpers: int = 3  # so many are asked
    suspicion_rounds: float = 1.5  # for each doubling of the members: the time in which a suspected one may object
    rumour_sends: float = 1.5  # for each doubling of the members: how often a member sends on what is new to it
    healing_rounds: int = 10  # every so many rounds one that seems dead, or a seed, is tried
    forget_seconds: float = LIFESPAN_SECONDS  # members that are gone, and that are owed nothing, are forgotten then
    members_max: int = 4096
    topics_max: int = 16_384  # of one edge, and of all offers

    def fanout(self, members: int) -> int:
        """To how many others a member sends in each round."""
        return min(members - 1, max(1, math.ceil(math.log2(max(members, 2)))))

    def sends(self, members: int) -> int:
        """How often a member sends on what is new to it."""
        return 1 + math.ceil(self.rumour_sends * math.log2(max(members, 2)))

    def suspicion_seconds(self, members: int) -> float:
        """How long a member is suspected before it counts as dead."""
        return self.round_seconds * max(3.0, self.suspicion_rounds * math.log2(members + 1))
