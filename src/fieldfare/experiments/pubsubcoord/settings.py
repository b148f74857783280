"""What the paper sets for its experiments (section 3.1), and how much of it is done."""

from __future__ import annotations

from dataclasses import dataclass, field

from fieldfare.qos import Offered, Requested
from fieldfare.simulation.network import LinkQuality

SAMPLE_BYTES = 64
PERIOD_SECONDS = 0.05  # from one sample of a publisher to the next
OFFERED = Offered(reliability="reliable", durability="transient", lifespan_seconds=60.0)
REQUESTED = Requested(reliability="reliable", durability="transient")
LAN = LinkQuality(latency_seconds=0.01, jitter_seconds=0.0)  # one way: a round trip of 20 ms
WAN = LinkQuality(latency_seconds=0.04, jitter_seconds=0.0)  # of 80 ms
EVERYTHING = "v >= 0"  # a condition that every sample fulfils
VALUES = 100  # a sample's `v` is below this


def sample(sent_at: float, value: int) -> bytes:
    """An event: when it was sent, a value to choose by, and as many letters as make it 64 bytes of JSON."""
    head = b'{"t":%.6f,"v":%d,"x":"' % (sent_at, value)
    return head + b"x" * (SAMPLE_BYTES - len(head) - 2) + b'"}'


@dataclass(frozen=True, slots=True)
class LocalityScale:
    """Figure 5."""

    networks: int = 5
    routing_count: int = 5
    topics: tuple[int, ...] = (60, 80, 100)  # in each network
    localities: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    measured_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class BrokerScale:
    """Figures 6a, 6b, 6d and 6e."""

    publishing_networks: int = 20  # with 50 publishers each
    subscribing_networks: int = 100  # with a subscriber for each of their topics
    topics: int = 1000
    topics_per_network: tuple[int, ...] = (20, 40, 60, 80, 100)
    routing_counts: tuple[int, ...] = (5, 10, 20, 40)
    measured_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class JoiningScale:
    """Figures 6c and 6f."""

    endpoints: tuple[int, ...] = (2000, 4000, 6000, 8000, 10_000)
    edges: int = 100
    topics: int = 1000


@dataclass(frozen=True, slots=True)
class BudgetScale:
    """Figure 7."""

    samples: int = 10_000
    delays_seconds: tuple[float, ...] = (0.025, 0.05, 0.075, 0.1, 0.125)  # of each hop of a single path


@dataclass(frozen=True, slots=True)
class LiveScale:
    """Real processes beside the simulator."""

    locality_topics: int = 4  # in each of two networks
    samples: int = 300
    cases: tuple[int, ...] = (1, 2, 8)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do."""

    locality: LocalityScale = field(default_factory=LocalityScale)
    brokers: BrokerScale = field(default_factory=BrokerScale)
    joining: JoiningScale = field(default_factory=JoiningScale)
    budgets: BudgetScale = field(default_factory=BudgetScale)
    live: LiveScale = field(default_factory=LiveScale)
    calibration_rounds: int = 60  # publications of each size


QUICK = Scale(
    LocalityScale(3, 2, (4,), (0.0, 0.5, 1.0), 0.3),
    BrokerScale(2, 6, 24, (4, 12), (1, 3), 0.3),
    JoiningScale((40, 80), 4, 10),
    BudgetScale(100, (0.025, 0.125)),
    LiveScale(2, 40, (1,)),
    calibration_rounds=12,
)
