"""What the paper sets for its experiments (section VI), what it leaves open and we set, and how much of it is done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fieldfare.dmm.axis_codes import DomainAxis
from fieldfare.dmm.leaf_walk import Strategy
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.requests import Patience
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.pastry.options import PastryOptions
from fieldfare.simulation.transit_stub import TransitStubOptions

ATTRIBUTES = tuple(f"a{number}" for number in range(10))
VALUE_MIN, VALUE_MAX = 1, 256

# A way takes 1.2 s on average here and up to 2 s, which is more than Pastry waits for by default.
SLOW_NETWORK = PastryOptions(
    heartbeat_seconds=30.0,  # where nobody crashes, heartbeats only take the simulator's time
    timeout_seconds_first=4.5,
    timeout_seconds_max=4.5,
    acquaintances_max=6_000,
)
CRASHING_NETWORK = replace(SLOW_NETWORK, heartbeat_seconds=4.0, attempts_max=2, detour_attempts=1)
PATIENCE = Patience(first_seconds=16.0, seconds_max=16.0)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to bring events to those who want them. All run on the same peers."""

    name: str
    strategy: Strategy = Strategy.BISECT
    has_cache: bool = True
    schema: tuple[str, ...] | None = None  # of the one space of DMM; none at all: Hermes with one topic
    is_reliable: bool = False  # the publisher delivers until each has taken it; else by multicast
    home_attributes_max: int | None = None  # see TopicScheme

    @property
    def scheme(self) -> TopicScheme:
        """What is declared of the topic."""
        domains = {name: DomainAxis(VALUE_MIN, VALUE_MAX, 1) for name in ATTRIBUTES}
        return TopicScheme(domains, self.schema, self.is_reliable, self.home_attributes_max)

    def options(self, scale: Scale, *, do_crash: bool = False) -> DmmOptions:
        """What its peers are given. Where nobody crashes, nobody keeps copies: they only take the simulator's time."""
        return DmmOptions(
            replicas_each_side=4 if do_crash else 0,
            entries_max=scale.entries_max if self.schema is None else scale.dmm_entries_max,
            entry_seconds=60.0,  # as in the paper; they are placed again every 30 s
            cache_leaves_max=10_000 if self.has_cache else 0,
            cache_seconds=300.0,  # the paper renews it every 15 s; here it lasts, unless it proves wrong
            strategy=self.strategy,
            patience=PATIENCE,
        )


DMM = Algorithm("DMM", Strategy.CLIMB, has_cache=False, schema=ATTRIBUTES)
DMM_CACHE = replace(DMM, name="DMM cache", has_cache=True)
AR = Algorithm("DMM-AR", Strategy.CLIMB, has_cache=False)
AR_CACHE = replace(AR, name="DMM-AR cache", has_cache=True)
BISECTION = Algorithm("bisection", has_cache=False)
BISECTION_CACHE = Algorithm("bisection, cache")
NARROWEST = Algorithm("narrowest attribute", home_attributes_max=1)
RELIABLE = replace(NARROWEST, name="reliable", is_reliable=True)
HERMES = Algorithm("Hermes", schema=())


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do."""

    network: TransitStubOptions = field(default_factory=TransitStubOptions)
    peers: int = 5_000
    compared_peers: int = 32  # for each slot of a prefix table the nearest of so many is taken
    publishers: int = 100
    subscriptions: tuple[int, ...] = (1_000, 3_000, 10_000)
    few_subscriptions: int = 1_000  # for figures that do not vary them
    subscription_spacing_seconds: float = 0.01
    settling_seconds: float = 40.0
    publishing_seconds: float = 60.0  # the paper: 100 s
    period_seconds: float = 10.0  # of each publisher
    tail_seconds: float = 45.0  # until everything under way has arrived,
    climbing_tail_seconds: float = 420.0  # or, by climbing 80 levels of DMM, should have,
    loss_tail_seconds: float = 120.0  # or has been sent again often enough, where more is lost
    dimensions: tuple[int, ...] = (1, 2, 3, 4, 5)
    dimensions_publishers: int = 20  # every publication matches a third of all subscriptions there
    dimensions_publishing_seconds: float = 60.0
    entries_max: int = 500  # of a peer's leaves; the paper does not say
    dmm_entries_max: int = 20_000  # of DMM, where each half would keep nine tenths of the entries: no tree is made
    crash_publications_per_minute: int = 100
    crash_at_seconds: float = 60.0  # after the first publication
    crash_watched_seconds: float = 120.0
    crashed_share: float = 0.2
    losses_per_hop: tuple[float, ...] = (0.001, 0.005)  # 1.1% and 5.6% of all datagrams
    recovery_peers: int = 300  # where what neighbours keep is compared
    recovery_subscriptions: int = 300
    recovery_events_per_second: float = 10.0
    seed: int = 1
    processes: int = 2  # runs at the same time


# A fifth of the peers, publishers, subscriptions and of what a peer keeps, on the same routers: trees are as deep.
FIFTH = Scale(
    peers=1_000,
    publishers=20,
    subscriptions=(200, 600, 2_000),
    few_subscriptions=200,
    entries_max=100,
    dmm_entries_max=4_000,
    dimensions_publishers=10,
)

QUICK = Scale(
    TransitStubOptions(transit_domains=3, transit_routers=2, stub_domains=3, stub_routers=4),
    peers=80,
    publishers=6,
    subscriptions=(40, 120),
    few_subscriptions=40,
    settling_seconds=35.0,
    publishing_seconds=20.0,
    tail_seconds=40.0,
    climbing_tail_seconds=150.0,
    loss_tail_seconds=60.0,
    dimensions=(1, 3),
    entries_max=12,
    dmm_entries_max=200,
    dimensions_publishers=6,
    dimensions_publishing_seconds=20.0,
    crash_at_seconds=15.0,
    crash_watched_seconds=45.0,
    losses_per_hop=(0.001, 0.01),
    recovery_peers=40,
    recovery_subscriptions=40,
    recovery_events_per_second=2.0,
    processes=1,
)
