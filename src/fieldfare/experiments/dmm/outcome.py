"""What one run of the simulator found: all numbers that the figures are made from, kept as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

import msgspec

from fieldfare.experiments.dmm.metering import PUBLICATION_KINDS

Counts = dict[str, tuple[int, int]]  # by kind: datagrams, links


class EventOutcome(msgspec.Struct, frozen=True):
    """What became of one publication."""

    at_seconds: float  # after the first
    expected: int  # subscriptions that it satisfies, of peers that were up
    delivered: int
    delay_seconds: float | None  # the mean over the deliveries
    direct_seconds: float | None  # the mean of the direct ways from the publisher to those peers
    promised: int = 0  # of those expected: acknowledged to their subscriber before the event was published
    kept: int = 0  # of those promised: delivered
    soon: int = 0  # of those delivered: within half a minute
    is_publisher_gone: bool = False  # it crashed, with the only log that held the event


class Outcome(msgspec.Struct, frozen=True):
    """One run. State is the number of entries of each peer, sorted: as leaf, as hop of multicasts."""

    algorithm: str
    subscriptions: int
    peers: int
    events: list[EventOutcome]
    unexpected: int  # deliveries that nobody asked for
    twice: int
    active: int  # subscriptions that were acknowledged when publishing began
    subscribing: Counts  # until publishing began
    publishing: Counts  # from then on
    floor_links: float  # of the tree of shortest ways, for each match
    overlay_floor_links: float  # of the smallest spanning tree among the peers that want an event, for each match
    unicast_links: float  # of direct ways, for each match
    leaf_state: list[int]
    hop_state: list[int]
    cpu_seconds: float
    crashed_at_seconds: float | None = None  # after the first publication
    datagrams_lost: int = 0  # on the way; those to crashed peers are not among them

    @property
    def matches(self) -> int:
        """Expected deliveries."""
        return sum(event.expected for event in self.events)

    @property
    def delivery_ratio(self) -> float:
        """Deliveries for each that was expected."""
        return sum(event.delivered for event in self.events) / max(1, self.matches)

    @property
    def kept_ratio(self) -> float:
        """The same for subscriptions that had been acknowledged when the event was published."""
        return sum(event.kept for event in self.events) / max(1, sum(event.promised for event in self.events))

    def delays(self, after_seconds: float = 0.0) -> list[float]:
        """Of publications after a time, the mean delay of each."""
        timed = (event for event in self.events if event.at_seconds >= after_seconds)
        return [event.delay_seconds for event in timed if event.delay_seconds is not None]

    @property
    def direct_seconds(self) -> float:
        """The mean of direct ways."""
        return mean(event.direct_seconds for event in self.events if event.direct_seconds is not None)

    def messages(self, *kinds: str) -> tuple[int, int]:
        """Datagrams and links of some kinds, or of all, over the whole run."""
        chosen = kinds or tuple(self.subscribing.keys() | self.publishing.keys())
        return _sum(self.subscribing, chosen, 0) + _sum(self.publishing, chosen, 0), (
            _sum(self.subscribing, chosen, 1) + _sum(self.publishing, chosen, 1)
        )

    @property
    def datagrams_lost_share(self) -> float:
        """Of all datagrams, those that the network lost."""
        return self.datagrams_lost / max(1, self.messages()[0])

    @property
    def publication_links_per_match(self) -> float:
        """Links that publications passed, for each match, acknowledgements and answers apart."""
        return self.messages(*PUBLICATION_KINDS)[1] / max(1, self.matches)

    @property
    def publication_datagrams_per_match(self) -> float:
        """Datagrams with publications, for each match, acknowledgements and answers apart."""
        return self.messages(*PUBLICATION_KINDS)[0] / max(1, self.matches)


def _sum(counts: Mapping[str, tuple[int, int]], kinds: Iterable[str], place: int) -> int:
    return sum(counts[kind][place] for kind in kinds if kind in counts)


def mean(values: Iterable[float]) -> float:
    """The mean; of nothing, 0."""
    collected = list(values)
    return fmean(collected) if collected else 0.0


def quantile(values: Iterable[float], share: float) -> float:
    """The value below which this share lies; of nothing, 0."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
