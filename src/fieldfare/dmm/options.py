"""What can be set of a peer."""

from __future__ import annotations

from dataclasses import dataclass, field

from fieldfare.dmm.leaf_walk import Strategy
from fieldfare.dmm.requests import Patience
from fieldfare.dmm.sender_replicas import ReplicaContent
from fieldfare.pastry.ports import Assurance


@dataclass(frozen=True, slots=True)
class DmmOptions:
    """Limits and times of one peer. Peers may differ in their limits; times should be the same for all."""

    entries_max: int = 1_000  # entries at the leaves of this peer, beyond which it divides one
    entries_kept_max: int = 200_000  # entries in all, copies for neighbours included; beyond that new ones are refused
    replicas_each_side: int = 4  # neighbours on the ring, on each side, that keep a copy
    replicas_hold: ReplicaContent = ReplicaContent.ENTRIES
    refresh_seconds: float = 30.0  # subscriptions are placed again so often: the last resort against loss
    entry_seconds: float = 75.0  # entries are forgotten after this time, unless they come again
    cache_leaves_max: int = 10_000  # leaves that are remembered; 0: none
    cache_seconds: float = 60.0
    strategy: Strategy = Strategy.BISECT
    retry_seconds: float = 0.5  # before a search goes on where the tree was just changing
    recheck_seconds: float = 2.0  # before a leaf whose table was not complete is asked again
    living_events_max: int = 10_000  # published here and settled, which are kept while they live
    unsettled_events_max: int = 10_000  # published here, and not taken yet by all; beyond that none is accepted
    given_events_max: int = 10_000  # that a program has and is not done with; others wait where they were published
    events_seen_max: int = 10_000  # ids of events by which a second delivery is known
    multicast_assurance: Assurance = Assurance.NONE  # for each hop of an event that is multicast
    patience: Patience = field(default_factory=Patience)

    @property
    def complete_seconds(self) -> float:
        """After this time a table that may have been lost is complete again: all has been placed anew.

        It is one round of refreshing, and the longest time for which a visit that found nobody waits to be repeated.
        """
        return self.refresh_seconds + self.patience.seconds_max
