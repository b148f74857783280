"""What can be set of a peer that runs as a process, and how much it lets wait."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.pastry.options import PastryOptions


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """Times and limits. All peers of a ring must declare the same of their topics; the rest may differ."""

    advertise: str | None = None  # where others reach this peer, HOST:PORT, if that is not where it listens
    best_effort: Collection[str] = ()  # topics whose events are sent once, and not repeated when they are lost
    topics: Mapping[str, TopicScheme] = field(default_factory=dict)  # what is declared of topics, if anything is
    join_seconds: float = 20.0  # for a member to let this peer in
    settle_seconds: float = 10.0  # that `publish` waits for all who want an event to have it
    leave_seconds: float = 3.0  # for what is under way when the peer leaves
    lifespan_seconds: float = 60.0  # of events, if their publisher says nothing else
    lifespan_seconds_max: float = 86_400.0
    unsettled_max: int = 10_000  # publications that somebody has not taken yet; then publishing waits,
    unsettled_bytes_max: int = 64 << 20  # or beyond this
    waiting_max: int = 10_000  # events that came for a subscription and were not taken by the program
    pastry: PastryOptions = field(default_factory=PastryOptions)
    dmm: DmmOptions = field(default_factory=DmmOptions)

    @property
    def schemes(self) -> dict[str, TopicScheme]:
        """What is declared of topics, in all."""
        unreliable = {topic: TopicScheme(is_reliable=False) for topic in self.best_effort}
        return {**unreliable, **self.topics}
