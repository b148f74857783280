"""A deployment with its publisher at the first edge and its subscribers at the others, each a process."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fieldfare.bench.broker.crew import Crew, Run, working
from fieldfare.bench.broker.load import Load
from fieldfare.bench.broker.servers import HOST
from fieldfare.bench.broker.workers import Pace, Publisher, Saturate, Site, Subscribers
from fieldfare.bench.overlay.systems import Deployment, System


@dataclass(frozen=True, slots=True)
class OverlayCrew:
    """Processes around a deployment that wait for orders."""

    deployment: Deployment
    workers: Crew

    def run(self, order: Saturate | Pace, *, is_recording: bool = False) -> tuple[Run, int | None]:
        """Publish, wait until everything has arrived, check it; the bytes that went over the links come second."""
        before = self.deployment.link_bytes()
        run = self.workers.run(order, is_recording=is_recording)
        after = self.deployment.link_bytes()
        return run, None if before is None or after is None else after - before


@contextmanager
def overlay_crew(system: System, edge_count: int, load: Load, subscriber_processes: int) -> Iterator[OverlayCrew]:
    """Start a deployment and its crew, wait until every subscription is known at the first edge, and stop them.

    With one edge, the subscribers are there, too, and nothing needs to travel.
    """
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fieldfare-bench-"))
        deployment = stack.enter_context(system.start(edge_count, Path(folder)))
        ports = tuple(edge.port for edge in deployment.edges)
        counters = context.RawArray("q", subscriber_processes)
        publisher = Publisher(Site(HOST, ports[:1], system.connect, load, counters))
        publishing = stack.enter_context(working(context, publisher))
        site = Site(HOST, ports[1:] or ports, system.connect, load, counters)
        subscribing = [
            stack.enter_context(
                working(context, Subscribers(site, number, subscriber_processes, is_filtering=not system.filters))
            )
            for number in range(subscriber_processes)
        ]
        workers = Crew(system.name, system.filters, deployment, load, publishing, subscribing)
        workers.await_subscriptions()
        yield OverlayCrew(deployment, workers)
