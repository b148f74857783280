"""`fieldfare plan --calibrate`: two minutes on a quiet machine. What cannot run here keeps the reference's costs."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from fieldfare.bench.calibration.batches import spark_cost
from fieldfare.bench.calibration.brokers import edge_cost, link_cost
from fieldfare.bench.calibration.matching import match_costs
from fieldfare.bench.calibration.ring import peer_cost
from fieldfare.bench.calibration.saved import machine, versions
from fieldfare.errors import FieldfareError
from fieldfare.planning.application import Shape
from fieldfare.planning.costs import Costs, Origin, reference_costs

T = TypeVar("T")
Progress = Callable[[float, str], None]
_STEPS = 32  # that are told of: what is being measured


def calibrate(progress: Progress) -> Costs:
    """Measure all costs; `progress` is told the share that is done, and what comes next."""
    reference = reference_costs()
    told, missing = _Steps(progress), list[str]()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0

    def tried(what: str, measure: Callable[[], T], otherwise: T) -> T:
        try:
            return measure()
        except (FieldfareError, ImportError) as error:
            missing.append(f"{what} ({error})")
            return otherwise

    match = match_costs(reference.match, told)
    squares = match[Shape.RANGES]
    edge = tried("edges", lambda: edge_cost(reference.edge, squares, told), reference.edge)
    link = tried("links", lambda: link_cost(reference.link, edge, squares, told), reference.link)
    peers = tried("peers", lambda: peer_cost(reference.peers, told), reference.peers)
    spark = tried("Spark", lambda: spark_cost(reference.spark, squares, told), reference.spark)
    progress(1.0, "done")
    origin = Origin(
        machine=machine(),
        versions=versions(),
        measured_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        load=load,
        not_measured=(*missing, *_REFERENCE_PARTS),
    )
    return Costs(
        origin=origin,
        match=match,
        process_bytes=reference.process_bytes,
        edge=edge,
        link=link,
        spark=spark,
        peers=peers,
    )


_REFERENCE_PARTS = ("memory of processes and connections", "what coverings let pass in vain")


class _Steps:
    """Counts the steps that were reported."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._steps = 0

    def __call__(self, what: str) -> None:
        self._progress(min(0.99, self._steps / _STEPS), what)
        self._steps += 1
