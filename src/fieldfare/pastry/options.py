"""What can be set for a Pastry node, with the values that the experiments use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PastryOptions:
    """Sizes, periods and patience. A node that stops is noticed by its neighbours within about 12 s.

    That is `silence_periods` of `heartbeat_seconds`, and then `attempts_max` questions without an answer.
    """

    leaves_each_side: int = 8
    neighbourhood_size: int = 16
    heartbeat_seconds: float = 4.0  # to the neighbour on each side
    silence_periods: float = 2.2  # without a heartbeat: then a neighbour is asked whether it lives
    exchange_periods: int = 8  # leaf sets are compared with a random member of one's own
    upkeep_periods: int = 15  # a random row of the prefix table is compared with that of a node in it
    healing_seconds: float = 15.0  # until a former member is tried again; doubled each time
    healing_seconds_max: float = 240.0
    join_seconds: float = 3.0  # until another seed is asked
    timeout_seconds_first: float = 0.6  # for the acknowledgement of a node whose round trip is not known
    timeout_seconds_min: float = 0.1
    timeout_seconds_max: float = 2.0
    attempts_max: int = 5  # transmissions without an acknowledgement: then a node seems dead
    detour_attempts: int = 2  # transmissions after which a routed message takes another way, if there is one
    arrival_seconds: float = 4.0  # until a message is routed again whose arrival has to be confirmed; doubled each time
    arrival_attempts: int = 5
    hops_max: int = 64
    waiting_max: int = 1000  # messages that wait until the node has joined
    under_way_max: int = 100_000  # frames that are not acknowledged: then the application's messages are given back
    former_members_max: int = 32
    acquaintances_max: int = 2000  # nodes of which round trips are remembered
    assembly_bytes_max: int = 8 << 20  # of messages whose parts have not all come
