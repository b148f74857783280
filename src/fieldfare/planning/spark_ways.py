"""What Spark has to do: micro-batches, whose matchers hold everything or a part of it.

With N matchers in X clusters of R, an event visits H of them, and a matcher holds 1/X of the subscriptions ("Revisiting
CBPS", sections 4.1 and 4.2). Where the paper's event goes from one cluster to the next, ours visits all H at once, so a
batch takes as long as its busiest matcher, and latency does not grow with H by hops, only by what is shuffled.
"""

from __future__ import annotations

import math

from fieldfare.planning.application import Application, Clustering, Destination, Durability
from fieldfare.planning.costs import Costs
from fieldfare.planning.live_ways import edge_bytes, edge_delay, edge_station
from fieldfare.planning.stations import Station
from fieldfare.planning.ways import Way, WayKind
from fieldfare.planning.work import Path, Work

EVENTS_PER_BATCH_MAX = 500_000  # what `fieldfare pipeline run` takes at most, if nobody says otherwise
INTERVAL_SECONDS = 0.2  # from one batch to the next, as the service's pipelines have it
DIMENSIONS = {  # attributes along which the subscriptions of a shape can be divided
    "ranges": 4,
    "quotes": 1,
    "places": 2,
}
SPANNED = 1.3  # copies of a subscription along one dimension: some ranges span a border between segments
_SKEW = {Clustering.UNIFORM: 1.0, Clustering.MULTIMODAL: 1.5, Clustering.POWER_LAW: 2.0}  # where an event has no choice
_CHOICE_SKEW = 1.15  # where it has one: BlueDove's adaptive policy leaves matchers 14% apart


def on_spark(application: Application, way: Way, costs: Costs, interval_seconds: float = INTERVAL_SECONDS) -> Work:
    """The pipeline, and the edge that clients are connected to, if there are any."""
    station, held = _batches(application, way, costs, interval_seconds)
    spark = costs.spark
    pairs = application.matches_per_event * spark.pair_bytes
    stations: tuple[Station, ...] = (station,)
    helpers, helper_bytes, helper_network, delay = 0, 0.0, 0.0, 0.0
    notes = []
    if application.delivery is Destination.CLIENTS:
        edge = edge_station(application, costs, 0)
        stations, delay = (edge, station, edge), edge_delay(application, costs)
        helpers, helper_bytes = 1, edge_bytes(application, costs, 1)
        bytes_each = application.event_bytes + costs.edge.delivery_bytes
        helper_network = bytes_each * max(2.0, 1.0 + application.matches_per_event)
        notes.append("clients are connected to one edge, which hands events to Spark and delivers what comes back")
    if application.durability is Durability.NONE:
        notes.append("the pipeline keeps everything on disk, asked or not")
    return Work(
        paths=(Path(1.0, stations, delay),),
        members=way.nodes,
        helpers=helpers,
        member_bytes=spark.worker_bytes + held,
        helper_bytes=helper_bytes,
        node_bytes=spark.driver_bytes,
        member_network=(application.event_bytes * (1.0 + _visits(application, way)) + pairs) / way.nodes,
        helper_network=helper_network,
        average_hops=float(way.hops),
        notes=tuple(notes),
    )


def _batches(application: Application, way: Way, costs: Costs, interval_seconds: float) -> tuple[Station, float]:
    """The station, and the bytes of subscriptions that a matcher holds."""
    spark, match = costs.spark, costs.match[application.shape]
    wanted, visits = application.matches_per_event, _visits(application, way)
    share, skew, copies = division(application, way)
    stored = application.subscriptions * share
    cores = 1.0 + (way.nodes - 1.0) * spark.core_gain
    tested = match.seconds(stored, wanted / visits) * visits * skew
    is_divided = way.kind is not WayKind.REPLICATED and application.shape in DIMENSIONS
    moved = spark.dispatch_byte_seconds * application.event_bytes
    station = Station(
        name="micro-batch",
        round_seconds=spark.batch_seconds + (spark.shuffle_seconds if is_divided else 0.0),
        costs={
            "reading": (spark.read_seconds + spark.read_byte_seconds * application.event_bytes) / cores,
            "matching": tested / cores,
            "shuffle": is_divided * visits * (spark.dispatch_seconds + moved) / cores,
            "output": (spark.write_seconds + spark.match_seconds * wanted) / cores,
        },
        interval_seconds=interval_seconds,
        events_max=EVENTS_PER_BATCH_MAX,
        tail_seconds=spark.tail_seconds,
        other_share=application.changes_per_second * spark.change_seconds,
    )
    return station, application.subscriptions * share * copies * match.bytes_per_subscription


def division(application: Application, way: Way) -> tuple[float, float, float]:
    """What a visit searches, as a share of all; how much more the busiest matcher has; copies that a matcher holds."""
    if way.kind is WayKind.REPLICATED:
        return 1.0, 1.0, 1.0
    dimensions = DIMENSIONS.get(application.shape, 0)
    if not dimensions:
        return 1.0, 1.0, 1.0  # lists have no axis to divide: every matcher holds everything
    if way.kind is WayKind.MULTI and dimensions > 1:
        return min(1.0, SPANNED / way.nodes), _CHOICE_SKEW, float(dimensions)
    clusters = way.clusters if way.kind is WayKind.CLUSTERS else way.nodes
    skew = _SKEW[application.clustering]
    return min(1.0, SPANNED / clusters), 1.0 + (skew - 1.0) * (1.0 - 1.0 / clusters) / way.hops, 1.0


def _visits(application: Application, way: Way) -> float:
    """Matchers that an event visits. Lists have no axis to divide: one matcher holds everything."""
    return float(way.hops) if way.kind is WayKind.CLUSTERS and application.shape in DIMENSIONS else 1.0


def hops_to_fit(application: Application, costs: Costs, memory_bytes: float) -> int:
    """The paper's H = ⌊subscriptions / M⌋ + 1, where M is how many subscriptions fit a node's memory."""
    room = memory_bytes / costs.match[application.shape].bytes_per_subscription
    return math.floor(application.subscriptions / room) + 1 if room > 0 else application.subscriptions
