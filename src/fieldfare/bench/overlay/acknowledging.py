"""What it costs to acknowledge a subscription across the overlay: until all edges know what it wants.

One subscriber at the last of some edges of ours subscribes again and again: to something new, which every other edge
has to confirm, and to something that lies inside what they know already, which is acknowledged at once.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from fieldfare.bench.broker.servers import HOST
from fieldfare.bench.overlay.fieldfare_system import BEST_EFFORT
from fieldfare.client.sync import SyncClient, connect_sync

EDGE_COUNTS = (1, 2, 4, 8)
_TOPIC = "bench"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Milliseconds from the request to its answer, with some edges."""

    edges: int
    new_p50_ms: float  # what no edge knows yet
    new_p99_ms: float
    covered_p50_ms: float  # what lies inside of what they know
    covered_p99_ms: float


def run(edge_counts: Sequence[int], repeats: int, tell: Callable[[str], None]) -> list[Acknowledged]:
    """Measure with each number of edges."""
    results = []
    for count in edge_counts:
        tell(f"Subscribing with {count} edges")
        with tempfile.TemporaryDirectory() as folder, BEST_EFFORT.start(count, Path(folder)) as deployment:
            urls = [f"http://{HOST}:{edge.port}" for edge in deployment.edges]
            results.append(_measured(urls, repeats))
    return results


def _measured(urls: Sequence[str], repeats: int) -> Acknowledged:
    for url in urls:
        with connect_sync(url) as client:
            client.publish(_TOPIC, {"n": -1})  # so that every edge is an origin
    with connect_sync(urls[-1]) as client, client.subscribe(_TOPIC, "n < 0"):
        time.sleep(1.0)  # the edges find each other
        new = _times(client, (f"n >= {10 * number} AND n < {10 * number + 10}" for number in range(repeats)))
        covered = _times(client, (f"n >= {10 * number + 2} AND n < {10 * number + 5}" for number in range(repeats)))
    return Acknowledged(len(urls), *_quantiles_ms(new), *_quantiles_ms(covered))


def _times(client: SyncClient, conditions: Iterable[str]) -> list[float]:
    taken = []
    for condition in conditions:
        started = time.perf_counter()
        subscription = client.subscribe(_TOPIC, condition)  # it is in force when this returns
        taken.append(time.perf_counter() - started)
        subscription.unsubscribe()
    return taken


def _quantiles_ms(seconds: Sequence[float]) -> tuple[float, float]:
    return 1000 * statistics.median(seconds), 1000 * sorted(seconds)[int(0.99 * (len(seconds) - 1))]


def render(results: Sequence[Acknowledged]) -> Table:
    """A table for people."""
    table = Table(
        "edges",
        "new: p50 ms",
        "p99 ms",
        "covered: p50 ms",
        "p99 ms",
        title="Acknowledging a subscription",
        caption="new: every other edge confirms it first, over the routing broker; covered: they know enough already",
    )
    for result in results:
        times = (result.new_p50_ms, result.new_p99_ms, result.covered_p50_ms, result.covered_p99_ms)
        table.add_row(str(result.edges), *(f"{milliseconds:.2f}" for milliseconds in times))
    return table


def to_json(results: Sequence[Acknowledged]) -> str:
    """The same for programs."""
    return json.dumps([asdict(result) for result in results])
